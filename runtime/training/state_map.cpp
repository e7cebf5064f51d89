#include <array>
#include <cmath>
#include <ftrt/types.hpp>
#include <limits>
#include <runtime/training/state_map.hpp>
#include <string_view>

namespace ftrt::training {
namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(whole::count_)> whole_names{
    "train.iteration",           "train.optimizer_step",  "train.epoch", "train.global_sample",
    "train.evaluated_iteration", "scaler.growth_tracker", "train.seed",  "train.global_batch",
    "train.micro_batch",         "optim.nesterov"};
constexpr std::array<std::string_view, static_cast<std::size_t>(real::count_)> real_names{
    "train.last_loss", "train.test_accuracy", "train.test_loss", "scaler.scale", "optim.lr",
    "optim.momentum",  "optim.weight_decay",  "optim.beta1",     "optim.beta2",  "optim.eps"};

// Appends tensors one after the other, each on its boundary.
struct layout_builder {
  state_layout layout;
  std::uint64_t end = 0;

  std::uint64_t add(std::string name, const std::vector<std::int64_t>& shape, dtype type,
                    tensor_section section) {
    tensor_spec spec{std::move(name), type, shape, section, end, size_of(type)};
    for (const auto extent : shape) spec.size_bytes *= static_cast<std::uint64_t>(extent);
    end = align_up(end + spec.size_bytes, tensor_alignment_bytes);
    layout.tensors.push_back(std::move(spec));
    return layout.tensors.back().offset_bytes;
  }
};

std::vector<std::string_view> optimizer_tensors(optimizer_kind kind) {
  if (kind == optimizer_kind::adamw) return {"exp_avg", "exp_avg_sq"};
  return {"momentum_buffer"};
}

// Gives each buffer of one kind its place in the bucket memory, as one region.
bucket_region place_region(std::vector<buffer_place>& buffers, buffer_kind kind, dtype type,
                           std::uint64_t& end) {
  bucket_region region{end, 0, type};
  for (auto& buffer : buffers) {
    if (buffer.kind != kind) continue;
    buffer.bucket_bytes = end;
    end = align_up(end + buffer.size_bytes, tensor_alignment_bytes);
  }
  region.count = (end - region.offset_bytes) / size_of(type);
  return region;
}

struct option_value {
  std::string_view name;
  double expected;
  double found;
  bool equal;  // in the option's own type: a seed has more digits than a double
};

std::array<option_value, 10> options_of(const state_view& state, const scenario& values) {
  const auto& train = values.train;
  const auto row = [&](auto name, auto expected) {
    std::string_view text;
    if constexpr (std::is_same_v<decltype(name), whole>) {
      text = whole_names[static_cast<std::size_t>(name)];
    } else {
      text = real_names[static_cast<std::size_t>(name)];
    }
    auto found = state.at(name);
    return option_value{text, static_cast<double>(expected), static_cast<double>(found),
                        found == static_cast<decltype(found)>(expected)};
  };
  return {row(whole::seed, static_cast<std::int64_t>(values.run.seed)),
          row(whole::global_batch, train.global_batch),
          row(whole::micro_batch, train.micro_batch),
          row(whole::nesterov, train.nesterov ? 1 : 0),
          row(real::lr, train.lr),
          row(real::momentum, train.momentum),
          row(real::weight_decay, train.weight_decay),
          row(real::beta1, train.beta1),
          row(real::beta2, train.beta2),
          row(real::eps, train.eps)};
}

}  // namespace

state_map map_state(const std::vector<tensor_shape>& parameters,
                    const std::vector<tensor_shape>& buffers, optimizer_kind optimizer) {
  state_map map;
  layout_builder builder;
  for (const auto& p : parameters) {
    map.parameters.push_back(
        builder.add("model." + p.name, p.shape, p.type, tensor_section::parameter));
  }
  map.parameter_bytes = builder.end;
  map.buffers_begin = builder.end;
  for (const auto& b : buffers) {
    const auto at = builder.add("model." + b.name, b.shape, b.type, tensor_section::buffer);
    const auto bytes = builder.layout.tensors.back().size_bytes;
    map.buffers.push_back({at, 0, bytes / size_of(b.type), bytes, b.kind});
  }
  map.buffers_end = builder.end;
  for (const auto kind : optimizer_tensors(optimizer)) {
    map.optimizer.push_back(builder.end);
    for (const auto& p : parameters) {
      builder.add("optim." + p.name + "." + std::string{kind}, p.shape, p.type,
                  tensor_section::optimizer);
    }
  }
  for (const auto name : whole_names) {
    map.wholes.push_back(builder.add(std::string{name}, {}, dtype::i64, tensor_section::scalar));
  }
  for (const auto name : real_names) {
    map.reals.push_back(builder.add(std::string{name}, {}, dtype::f64, tensor_section::scalar));
  }
  map.layout = std::move(builder.layout);
  map.layout.arena_bytes = builder.end;
  map.bucket_bytes = map.parameter_bytes;
  map.means = place_region(map.buffers, buffer_kind::mean, dtype::f32, map.bucket_bytes);
  map.counters = place_region(map.buffers, buffer_kind::max, dtype::i64, map.bucket_bytes);
  return map;
}

void write_initial_scalars(const state_view& state, const scenario& values) {
  const auto& train = values.train;
  state.at(whole::seed) = static_cast<std::int64_t>(values.run.seed);
  state.at(whole::global_batch) = static_cast<std::int64_t>(train.global_batch);
  state.at(whole::micro_batch) = static_cast<std::int64_t>(train.micro_batch);
  state.at(whole::nesterov) = train.nesterov ? 1 : 0;
  state.at(real::last_loss) = std::numeric_limits<double>::quiet_NaN();
  state.at(real::test_accuracy) = std::numeric_limits<double>::quiet_NaN();
  state.at(real::test_loss) = std::numeric_limits<double>::quiet_NaN();
  state.at(real::loss_scale) = train.amp == amp_mode::fp16 ? train.init_scale : 1.0;
  state.at(real::lr) = train.lr;
  state.at(real::momentum) = train.momentum;
  state.at(real::weight_decay) = train.weight_decay;
  state.at(real::beta1) = train.beta1;
  state.at(real::beta2) = train.beta2;
  state.at(real::eps) = train.eps;
}

result<void> check_options(const state_view& state, const scenario& values) {
  for (const auto& option : options_of(state, values)) {
    if (option.equal) continue;
    return fail(error_code::invalid_argument,
                std::string{option.name} + ": the scenario says " +
                    std::to_string(option.expected) + ", the saved state " +
                    std::to_string(option.found) +
                    "; resume with the scenario of the run, or start a new run");
  }
  return {};
}

}  // namespace ftrt::training
