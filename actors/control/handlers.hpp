#pragma once

#include <actors/host/log.hpp>
#include <caf/scheduled_actor.hpp>
#include <string>

namespace ftrt::actors {

// The handlers that every actor needs, for CAF's own defaults end it: an error that bounced back or
// a message that nobody expects is logged and dropped; an exit message ends it only when it was
// meant (user_shutdown, kill).
inline void install_default_handlers(caf::scheduled_actor* self, std::string name) {
  self->set_error_handler([name](caf::scheduled_actor*, caf::error& why) {
    host::log().debug("{}: a message bounced: code {}", name, static_cast<int>(why.code()));
  });
  self->set_default_handler(
      [name](caf::scheduled_actor*, const caf::message_view&) -> caf::result<caf::message> {
        host::log().debug("{}: an unexpected message was dropped", name);
        return caf::sec::unexpected_message;
      });
  self->set_exit_handler([](caf::scheduled_actor* me, caf::exit_msg& message) {
    if (message.reason) me->quit(std::move(message.reason));
  });
  self->set_exception_handler(
      [name](caf::scheduled_actor*, std::exception_ptr& thrown) -> caf::error {
        try {
          std::rethrow_exception(thrown);
        } catch (const std::exception& e) {
          host::log().error("{}: {}", name, e.what());
        } catch (...) {
          host::log().error("{}: unknown exception", name);
        }
        return caf::sec::runtime_error;
      });
}

}  // namespace ftrt::actors
