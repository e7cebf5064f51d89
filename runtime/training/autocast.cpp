#include <ATen/autocast_mode.h>

#include <runtime/training/autocast.hpp>

namespace ftrt::training {

autocast_scope::autocast_scope(amp_mode mode) : active_(mode != amp_mode::off) {
  if (!active_) return;
  was_enabled_ = at::autocast::is_autocast_enabled(at::kCPU);
  old_type_ = static_cast<int>(at::autocast::get_autocast_dtype(at::kCPU));
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, mode == amp_mode::bf16 ? at::kBFloat16 : at::kHalf);
  at::autocast::increment_nesting();
}

autocast_scope::~autocast_scope() {
  if (!active_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_dtype(at::kCPU, static_cast<at::ScalarType>(old_type_));
  at::autocast::set_autocast_enabled(at::kCPU, was_enabled_);
}

}  // namespace ftrt::training
