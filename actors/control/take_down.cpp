#include <actors/control/take_down.hpp>
#include <caf/actor.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/system_messages.hpp>

namespace ftrt::actors {

bool take_down(caf::scoped_actor& self, const caf::actor& actor,
               std::chrono::milliseconds patience) {
  if (!actor) return true;
  self->monitor(actor);
  self->send_exit(actor, caf::exit_reason::user_shutdown);
  bool gone = false;
  bool late = false;
  // The DOWN of one before it, which was late, is not this one's.
  self->do_receive([&](const caf::down_msg& down) { gone = down.source == actor.address(); },
                   caf::after(patience) >> [&] { late = true; })
      .until([&] { return gone || late; });
  if (gone) return true;
  self->send_exit(actor, caf::exit_reason::kill);
  return false;
}

}  // namespace ftrt::actors
