#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <runtime/worker/log.hpp>
#include <runtime/worker/process_setup.hpp>
#include <runtime/worker/spare.hpp>
#include <schemas/protocol/channel.hpp>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>

namespace ftrt::worker {
namespace {

constexpr int lowest_priority = 19;

[[noreturn]] void leave() {
  ::_exit(0);
}

// What went wrong; empty: nothing did.
std::string warm_up(training_program& program, const worker_memory& memory) {
  // Of the calling thread alone, on Linux.
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), lowest_priority);
  try {
    program.warm_up(memory);
    return {};
  } catch (...) {
    return describe_current_exception();
  }
}

// Until `done` is readable.
void wait_for(const unique_fd& done, int lifeline) {
  while (true) {
    std::array fds{pollfd{done.get(), POLLIN, 0}, pollfd{lifeline, 0, 0}};  // 0: its end alone
    if (::poll(fds.data(), fds.size(), -1) <= 0) continue;
    if (fds[1].revents != 0) leave();
    if (fds[0].revents != 0) return;
  }
}

result<void> warm_up_beside(training_program& program, int lifeline, const worker_memory& memory) {
  const unique_fd done{::eventfd(0, EFD_CLOEXEC)};
  if (!done.valid()) return fail_errno("eventfd", errno);
  std::string failure;
  std::thread thread;
  try {
    thread = std::thread{[&] {
      failure = warm_up(program, memory);
      const std::uint64_t one = 1;
      [[maybe_unused]] const auto written = ::write(done.get(), &one, sizeof one);
    }};
  } catch (const std::system_error& e) {
    return fail_errno("cannot start the warm-up of a spare", e.code().value());
  }
  wait_for(done, lifeline);
  thread.join();
  if (failure.empty()) return {};
  return fail(error_code::program_error, "a spare cannot warm up: " + failure);
}

bool is_bad_packet(error_code code) {
  return code == error_code::corrupt || code == error_code::unsupported ||
         code == error_code::refused;
}

void expect_sources(const protocol::expect_sources& request, std::vector<unique_fd> descriptors,
                    source_memories& sources) {
  const auto refuse = [](const std::string& why) { say("refused: expect_sources: " + why); };
  if (descriptors.size() != request.count) {
    return refuse("expected " + std::to_string(request.count) + " descriptors, found " +
                  std::to_string(descriptors.size()));
  }
  if (auto done = sources.expect(std::move(descriptors)); !done) refuse(done.error().describe());
}

protocol::assign wait_for_identity(int lifeline, source_memories& sources) {
  while (true) {
    pollfd fd{lifeline, POLLIN, 0};
    if (::poll(&fd, 1, -1) <= 0) continue;
    auto packet = protocol::receive_packet(lifeline);
    if (packet) {
      if (const auto* identity = std::get_if<protocol::assign>(&packet->body)) return *identity;
      if (const auto* request = std::get_if<protocol::expect_sources>(&packet->body)) {
        expect_sources(*request, std::move(packet->descriptors), sources);
        continue;
      }
      say("refused: " + std::string{protocol::name_of(packet->body)} + " before it has a rank");
    } else if (is_bad_packet(packet.error().code)) {
      say("refused: " + packet.error().describe());
    } else if (packet.error().code != error_code::busy) {
      leave();
    }
  }
}

}  // namespace

result<protocol::assign> wait_as_spare(training_program& program, int lifeline,
                                       const worker_memory& memory, source_memories& sources) {
  if (auto warm = warm_up_beside(program, lifeline, memory); !warm) {
    return tl::unexpected(std::move(warm.error()));
  }
  set_process_title("ftrt-spare (ready)");
  if (auto said = protocol::send_packet(lifeline, protocol::spare_ready{}); !said) {
    if (said.error().code == protocol::end_of_channel) leave();
    return tl::unexpected(std::move(said.error()));
  }
  const auto identity = wait_for_identity(lifeline, sources);
  sources.stop_touching();
  return identity;
}

}  // namespace ftrt::worker
