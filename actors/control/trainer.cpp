#include <actors/control/handlers.hpp>
#include <actors/control/mailbox_credit.hpp>
#include <actors/control/trainer.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/io/middleman.hpp>
#include <caf/io/scribe.hpp>
#include <caf/io/typed_broker.hpp>
#include <caf/send.hpp>
#include <span>
#include <utility>

namespace ftrt::actors {
namespace {

using trainer_broker = trainer_actor::extend<caf::reacts_to<caf::io::new_data_msg>,
                                             caf::reacts_to<caf::io::connection_closed_msg>>;

constexpr std::size_t read_at_most = 64u << 10;
// Of one worker's messages, so many may wait in mailboxes before no more are read.
constexpr std::size_t most_unheard = 1024;
constexpr std::chrono::milliseconds until_heard{2};
// How long a worker may live on without its socket: it is most likely dying.
constexpr std::chrono::milliseconds look_again{250};

struct trainer_state {
  trainer_broker::broker_base* self = nullptr;
  const run_context* context = nullptr;
  rank_id rank;
  incarnation_id incarnation;
  caf::io::connection_handle connection;
  protocol::frame_reader frames;
  mailbox_credit credit;
  bool reading = true;
  bool open = true;
  bool leaving = false;  // was told to exit, so it may close its socket

  static constexpr const char* name = "trainer";

  [[nodiscard]] std::string subject() const { return "trainer:" + std::to_string(rank.value()); }

  void tell(const protocol::message& message) {
    if (!open) return;
    const auto frame = protocol::encode_frame(message);
    if (!frame)
      return give_up("could not encode " + std::string{protocol::name_of(message)} + ": " +
                     frame.error().describe());
    self->write(connection, frame->size(), frame->data());
    self->flush(connection);
    leaving = leaving || std::holds_alternative<protocol::exit_worker>(message);
  }

  // Of one that was given up nothing counts any more.
  void read(const std::vector<char>& bytes) {
    if (!open) return;
    frames.feed(std::as_bytes(std::span{bytes}));
    while (auto next = frames.next()) {
      if (!*next) {
        context->record(event::kind::message_refused, subject(), next->error().describe(), rank);
        return give_up("broke the protocol");
      }
      forward(std::move(**next));
    }
    if (reading && credit.outstanding() > most_unheard) pause();
  }

  // Who talks faster than anybody listens has to wait.
  void pause() {
    reading = false;
    self->halt(connection);
    wake_up(until_heard, read_on{});
  }
  void hear_more() {
    if (reading || !open) return;
    if (credit.outstanding() > most_unheard / 2) return wake_up(until_heard, read_on{});
    reading = true;
    self->trigger(connection);
  }

  void forward(protocol::message message) {
    worker_message said{rank, incarnation, std::move(message), credit.take()};
    if (std::holds_alternative<protocol::snapshot_ready>(said.message)) {
      context->post<checkpoint_actor>(std::move(said));
    } else {
      context->post<run_supervisor_actor>(std::move(said));
    }
  }

  // A worker that breaks the protocol is of no use: it is killed, and its death is waited for.
  void give_up(const std::string& cause) {
    open = false;
    context->host->kill_worker(rank, incarnation, cause);
    look();
  }

  // Most likely it is dying, which the host table will confirm.
  void closed() {
    open = false;
    look();
  }

  void look() {
    const auto worker = context->host->worker(rank, incarnation);
    if (!worker || worker->dead) {
      self->quit(make_error(trainer_exit::worker_lost));
    } else if (!open) {
      wake_up(look_again, tick{});
    }
  }

  // With no sender: CAF 0.17 leaves the mailbox of a broker that quit open, and a message there
  // whose sender is the broker itself would keep both for ever.
  template <class Alarm>
  void wake_up(std::chrono::milliseconds after, Alarm alarm) {
    caf::delayed_anon_send(caf::actor_cast<trainer_actor>(self), after, alarm);
  }

  // Still alive without its socket, and nobody told it to leave.
  void look_again_later() {
    if (!open && !leaving) {
      context->host->kill_worker(rank, incarnation, "closed its control socket");
    }
    look();
  }
};

using trainer_self = trainer_broker::stateful_broker_pointer<trainer_state>;

trainer_broker::behavior_type trainer_behavior(trainer_self self, const run_context* context,
                                               rank_id rank, incarnation_id incarnation,
                                               caf::io::scribe_ptr socket) {
  install_default_handlers(self, "trainer");
  auto& state = self->state;
  state.self = self;
  state.context = context;
  state.rank = rank;
  state.incarnation = incarnation;
  state.connection = socket->hdl();
  self->add_scribe(std::move(socket));
  self->configure_read(state.connection, caf::io::receive_policy::at_most(read_at_most));
  return {
      [self](tell_worker& what) { self->state.tell(what.message); },
      [self](worker_exited&) { self->state.look(); },
      [self](tick) { self->state.look_again_later(); },
      [self](read_on) { self->state.hear_more(); },
      [self](caf::io::new_data_msg& data) { self->state.read(data.buf); },
      [self](caf::io::connection_closed_msg&) { self->state.closed(); },
  };
}

}  // namespace

void configure_for_trainers(caf::actor_system_config& config) {
  config.load<caf::io::middleman>();
  config.set("middleman.max-consecutive-reads", std::size_t{1});
}

trainer_actor spawn_trainer(caf::actor_system& system, const run_context& context, rank_id rank,
                            incarnation_id incarnation, unique_fd control_socket) {
  auto socket = system.middleman().backend().new_scribe(control_socket.release());
  return system.middleman().spawn_broker(trainer_behavior, &context, rank, incarnation,
                                         std::move(socket));
}

}  // namespace ftrt::actors
