#pragma once

#include <ftrt/scenario.hpp>

namespace ftrt::training {

// Mixed precision for the forward pass of one micro-batch on the CPU: eligible operators run in
// bfloat16 or float16 while this lives. amp_mode::off: does nothing. Nests; the outermost one drops
// the cast cache, whose weights the optimizer is about to change. Thread-local, not movable.
class autocast_scope {
 public:
  explicit autocast_scope(amp_mode mode);
  ~autocast_scope();
  autocast_scope(const autocast_scope&) = delete;
  autocast_scope& operator=(const autocast_scope&) = delete;

 private:
  bool active_ = false;
  bool was_enabled_ = false;
  int old_type_ = 0;
};

}  // namespace ftrt::training
