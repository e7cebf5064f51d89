#include <poll.h>
#include <unistd.h>

#include <array>
#include <limits>
#include <runtime/worker/log.hpp>
#include <runtime/worker/membership.hpp>
#include <runtime/worker/rank_worker.hpp>
#include <string>
#include <utility>
#include <variant>

namespace ftrt::worker {
namespace {

using protocol::worker_phase;

constexpr generation_id every_generation{std::numeric_limits<std::uint64_t>::max()};

// Of a control socket that is replaced: far more than an actor ever leaves unread.
constexpr int max_last_reads = 64;

// A packet has a beginning and an end: after a bad one, the next may be good.
bool ends_with_its_packet(error_code code) {
  return code == error_code::corrupt || code == error_code::unsupported ||
         code == error_code::refused;
}

std::string text_of(generation_id generation) {
  return "generation " + std::to_string(generation.value());
}

}  // namespace

rank_worker::rank_worker(training_program& program, worker_setup setup)
    : program_(program),
      rank_(setup.rank),
      incarnation_(setup.incarnation),
      lifeline_(std::move(setup.lifeline)),
      link_(std::move(setup.control)),
      memory_(std::move(setup.memory)),
      sources_(std::move(setup.sources)) {}

rank_worker::~rank_worker() = default;

int rank_worker::run() try {
  if (auto begun = begin(); !begun) {
    say(begun.error().describe());
    return 1;
  }
  say_hello();
  while (!leaving_) wait_for_news();
  return wait_for_training_to_end();
} catch (...) {
  // Out of memory, or our own bug. Unwinding would wait for the training thread, which waits for
  // its peers: dying at once is what they can recover from.
  say("the control thread failed: " + describe_current_exception());
  ::_exit(70);
}

result<void> rank_worker::begin() {
  // A mapping of our own, since hello must be truthful while the training thread is at work.
  auto fd = memory_.progress.fd().duplicate();
  if (!fd) return tl::unexpected(fd.error());
  auto mapped = storage::shared_memory::map(std::move(*fd), storage::progress_memory_bytes(),
                                            storage::shared_memory::access::read_only);
  if (!mapped) return tl::unexpected(mapped.error());
  progress_memory_ = std::move(*mapped);
  progress_ = std::make_unique<storage::progress_reader>(progress_memory_);

  auto outbox = training_outbox::create();
  if (!outbox) return tl::unexpected(outbox.error());
  outbox_ = std::move(*outbox);
  training_ = std::make_unique<training_thread>(
      program_, std::move(memory_), training_loop::identity{rank_, incarnation_}, gate_, *outbox_);
  return training_->start();
}

void rank_worker::wait_for_news() {
  const short link_events = static_cast<short>(POLLIN | (link_.has_pending() ? POLLOUT : 0));
  std::array<pollfd, 3> fds{pollfd{lifeline_.get(), POLLIN, 0}, pollfd{outbox_->fd(), POLLIN, 0},
                            pollfd{link_.fd(), link_events, 0}};  // -1 is skipped
  if (::poll(fds.data(), fds.size(), -1) <= 0) return;
  // The outbox first: what training said happened before the command that comes now. The lifeline
  // before the control socket, even where only the latter woke us: what control said on the one
  // before it used the other is known then.
  if (fds[1].revents != 0) on_training_events();
  if (fds[0].revents != 0 || fds[2].revents != 0) on_lifeline();
  if (leaving_ || !link_.up() || link_.fd() != fds[2].fd) return;
  if ((fds[2].revents & POLLOUT) != 0) link_.on_writable();
  if ((fds[2].revents & ~POLLOUT) != 0 && link_.up()) {
    static_cast<void>(read_link());
  }
}

bool rank_worker::read_link() {
  return link_.on_readable([this](const protocol::message& m) { on_message(m); });
}

// ---- leaving -----------------------------------------------------------------------------------

void rank_worker::leave(const std::string& why) {
  if (leaving_) return;
  if (!why.empty()) say(why);
  leaving_ = true;
  leave_deadline_ = clock::now() + program_.values().supervision.grace_period;
  gate_.revoke(every_generation);
  training_->close();
}

int rank_worker::wait_for_training_to_end() {
  while (!training_ended_) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(leave_deadline_ - clock::now()).count();
    if (left <= 0) {
      say("the training thread did not end within the grace period; leaving it behind");
      ::_exit(0);
    }
    pollfd fd{outbox_->fd(), POLLIN, 0};
    if (::poll(&fd, 1, static_cast<int>(left)) > 0) on_training_events();
  }
  training_.reset();
  return 0;
}

// ---- the lifeline ------------------------------------------------------------------------------

void rank_worker::on_lifeline() {
  while (!leaving_) {
    auto packet = protocol::receive_packet(lifeline_.get());
    if (!packet && packet.error().code == error_code::busy) return;
    if (packet) {
      on_packet(std::move(*packet));
    } else if (ends_with_its_packet(packet.error().code)) {
      refuse("lifeline: " + packet.error().describe());
    } else {
      leave("the lifeline ended (" + packet.error().describe() + "); leaving");
    }
  }
}

void rank_worker::on_packet(protocol::packet packet) {
  if (std::holds_alternative<protocol::attach_control>(packet.body)) {
    if (packet.descriptors.size() != 1) return refuse("attach_control without its one socket");
    return attach(std::move(packet.descriptors.front()));
  }
  if (const auto* request = std::get_if<protocol::join>(&packet.body)) {
    return on_join(*request, std::move(packet.descriptors));
  }
  refuse("lifeline: " + std::string{protocol::name_of(packet.body)} + " does not belong here");
}

void rank_worker::attach(unique_fd socket) {
  // What the actor before said in time still holds.
  for (int reads = 0; reads < max_last_reads && read_link(); ++reads) {
  }
  if (leaving_) return;
  link_ = control_link{std::move(socket)};
  say_hello();
}

void rank_worker::on_join(const protocol::join& request, std::vector<unique_fd> descriptors) {
  const auto generation = request.generation;
  if (generation == generation_ && !gate_.is_revoked(generation)) {
    // Said twice. The answer has been given, or it comes.
    if (reports_.latest()) link_.send(*reports_.latest());
    return;
  }
  if (generation <= generation_ || gate_.is_revoked(generation)) {
    return refuse_join(request,
                       {error_code::stale_generation,
                        text_of(generation) + " is over; this worker is at " + text_of(generation_),
                        {}});
  }
  auto command = prepare_join(request, std::move(descriptors), program_, rank_, sources_.get());
  if (!command) return refuse_join(request, std::move(command.error()));
  // A newer generation revokes the older ones, whether we were told so or not.
  if (generation_.value() > 0 && !gate_.is_revoked(generation_)) on_revoke(generation_);
  generation_ = generation;
  phase_ = worker_phase::joining;
  reports_.forget_reports();
  post(std::move(*command));
}

void rank_worker::refuse_join(const protocol::join& request, error why) {
  refuse("join refused: " + why.describe());
  link_.send(protocol::join_failed{request.generation, why.code, why.describe()});
}

// ---- the control socket ------------------------------------------------------------------------

void rank_worker::on_message(const protocol::message& m) {
  if (const auto* train = std::get_if<protocol::train>(&m)) return on_train(train->generation);
  if (const auto* revoke = std::get_if<protocol::revoke>(&m)) return on_revoke(revoke->generation);
  if (std::holds_alternative<protocol::request_stop>(m)) return training_->request_stop();
  if (const auto* injure = std::get_if<protocol::injure>(&m)) return training_->injure(*injure);
  if (std::holds_alternative<protocol::query>(m)) return say_hello();
  if (std::holds_alternative<protocol::exit_worker>(m)) return leave({});
  refuse("control socket: " + std::string{protocol::name_of(m)} + " does not belong here");
}

void rank_worker::on_train(generation_id generation) {
  if (generation != generation_ || gate_.is_revoked(generation)) {
    return refuse("train for " + text_of(generation) + " refused: this worker is at " +
                  text_of(generation_));
  }
  if (phase_ == worker_phase::training || phase_ == worker_phase::finished) return;  // said twice
  if (phase_ != worker_phase::joined) {
    return refuse("train for " + text_of(generation) + " refused: it is not joined");
  }
  phase_ = worker_phase::training;
  reports_.forget_reports();
  post(train_command{generation});
  if (sources_) sources_->give_back_later();
}

void rank_worker::on_revoke(generation_id generation) {
  if (generation < generation_) {
    return refuse("revoke of " + text_of(generation) + " refused: this worker is at " +
                  text_of(generation_));
  }
  gate_.revoke(generation);
  reports_.forget_reports();
  post(park_command{generation});
}

void rank_worker::refuse(std::string_view text) {
  ++refused_;
  say(std::string{text} + " (refused so far: " + std::to_string(refused_) + ")");
}

void rank_worker::post(training_command command) {
  if (!training_->post(std::move(command))) refuse("the training thread is too far behind");
}

// ---- the training thread -----------------------------------------------------------------------

void rank_worker::on_training_events() {
  for (const auto& event : outbox_->drain()) on_event(event);
}

void rank_worker::on_event(const training_event& event) {
  if (const auto* left = std::get_if<interrupted>(&event)) {
    on_interrupted(*left);
  } else if (const auto* died = std::get_if<peers_died>(&event)) {
    report(protocol::peer_lost{died->generation, died->lost});
  } else if (const auto* refusal = std::get_if<command_refused>(&event)) {
    refuse(refusal->text);
  } else if (std::holds_alternative<thread_ended>(event)) {
    training_ended_ = true;
  } else if (const auto* joined = std::get_if<protocol::joined>(&event)) {
    enter_phase(joined->generation, worker_phase::joined);
    report(*joined);
  } else if (const auto* join_failed = std::get_if<protocol::join_failed>(&event)) {
    enter_phase(join_failed->generation, worker_phase::parked);
    report(*join_failed);
  } else if (const auto* parked = std::get_if<protocol::parked>(&event)) {
    if (parked->generation >= generation_) phase_ = worker_phase::parked;
    report(*parked);
  } else if (const auto* finished = std::get_if<protocol::finished>(&event)) {
    enter_phase(finished->generation, worker_phase::finished);
    report(*finished);
  } else if (const auto* failed = std::get_if<protocol::program_failed>(&event)) {
    enter_phase(failed->generation, worker_phase::parked);
    report(*failed);
  } else if (const auto* bad = std::get_if<protocol::not_finite>(&event)) {
    enter_phase(bad->generation, worker_phase::parked);
    report(*bad);
  } else {
    report(std::get<protocol::snapshot_ready>(event));
  }
}

void rank_worker::on_interrupted(const interrupted& event) {
  enter_phase(event.generation, worker_phase::parked);
  // Our own abort is no news. Anything else ends the generation, so control must hear of it even
  // where no rank can be named.
  if (event.lost.empty() && event.why.code == error_code::aborted) return;
  say(text_of(event.generation) + " was interrupted: " + event.why.describe());
  report(protocol::peer_lost{event.generation, event.lost});
}

// News of a generation that is over do not say where this worker stands now.
void rank_worker::enter_phase(generation_id generation, worker_phase phase) {
  if (generation == generation_ && !gate_.is_revoked(generation)) phase_ = phase;
}

void rank_worker::report(const protocol::message& m) {
  reports_.note(m, link_.up());
  link_.send(m);
}

void rank_worker::say_hello() {
  link_.send(hello());
  for (const auto& m : reports_.after_hello()) link_.send(m);
}

protocol::hello rank_worker::hello() const {
  protocol::hello mine;
  mine.rank = rank_;
  mine.incarnation = incarnation_;
  mine.pid = ::getpid();
  mine.generation = generation_;
  mine.phase = phase_;
  mine.has_state = training_->has_state();
  if (mine.has_state) mine.committed = progress_->view().committed;
  return mine;
}

}  // namespace ftrt::worker
