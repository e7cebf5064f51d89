#include <fcntl.h>
#include <sys/socket.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <ftrt/worker.hpp>
#include <optional>
#include <runtime/worker/log.hpp>
#include <runtime/worker/process_setup.hpp>
#include <runtime/worker/zygote.hpp>
#include <string_view>

namespace ftrt {
namespace {

constexpr const char* usage =
    "ftrt-worker: the training half of ftrt; ftrt starts it, people do not.\n"
    "\n"
    "  ftrt-worker --zygote --channel FD    serve control on the SOCK_SEQPACKET socket FD\n"
    "  ftrt-worker --help\n";

struct arguments {
  bool zygote = false;
  bool help = false;
  int channel = -1;
};

std::optional<arguments> parse(int argc, char** argv) {
  arguments parsed;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--zygote") {
      parsed.zygote = true;
    } else if (word == "--help" || word == "-h") {
      parsed.help = true;
    } else if (word == "--channel" && i + 1 < argc) {
      const std::string_view number = argv[++i];
      const auto end = number.data() + number.size();
      const auto read = std::from_chars(number.data(), end, parsed.channel);
      if (read.ec != std::errc{} || read.ptr != end) return std::nullopt;
    } else {
      return std::nullopt;
    }
  }
  return parsed;
}

bool is_packet_socket(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  return fd >= 0 && ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
         type == SOCK_SEQPACKET;
}

int serve(int channel, char** argv) {
  worker::close_inherited_descriptors(channel);
  if (auto ready = worker::ensure_one_thread_environment(argv); !ready) {
    worker::say(ready.error().describe());
    return 1;
  }
  ::fcntl(channel, F_SETFD, FD_CLOEXEC);
  return worker::zygote{unique_fd{channel}}.run();
}

}  // namespace

int worker_main(int argc, char** argv) {
  worker::remember_arguments(argc, argv);
  const auto parsed = parse(argc, argv);
  if (parsed && parsed->help) {
    std::fputs(usage, stdout);
    return 0;
  }
  if (!parsed || !parsed->zygote || !is_packet_socket(parsed->channel)) {
    std::fputs(usage, stderr);
    return 2;
  }
  return serve(parsed->channel, argv);
}

}  // namespace ftrt
