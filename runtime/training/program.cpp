#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <mutex>
#include <runtime/models/models.hpp>
#include <runtime/training/autocast.hpp>
#include <runtime/training/flat_math.hpp>
#include <runtime/training/program_impl.hpp>
#include <stdexcept>
#include <storage/digest.hpp>
#include <utility>

namespace ftrt {
namespace {

diagnostic model_fault(const scenario& values, std::string found) {
  return {{},
          0,
          "model",
          "a model that can be trained on " + values.data.kind + " data",
          std::move(found),
          {}};
}

// What can be said before a forward pass is made.
std::vector<diagnostic> check_model(const training_program::impl& p) {
  std::vector<diagnostic> faults;
  const auto& layers = p.values.model.layers;
  if (p.values.model.kind == "mlp") {
    if (layers.front() != p.format.elements()) {
      faults.push_back(
          {{},
           0,
           "model.layers",
           "a first width of " + std::to_string(p.format.elements()) + ", the values of one sample",
           std::to_string(layers.front()),
           {}});
    }
    if (layers.back() < p.format.classes) {
      faults.push_back({{},
                        0,
                        "model.layers",
                        "a last width of at least " + std::to_string(p.format.classes) +
                            ", the classes of the data",
                        std::to_string(layers.back()),
                        {}});
    }
  }
  if (p.values.train.optimizer == optimizer_kind::adamw && !(p.values.train.eps > 0)) {
    faults.push_back(
        {{}, 0, "train.eps", "a number greater than 0", std::to_string(p.values.train.eps), {}});
  }
  return faults;
}

void plan_iterations(training_program::impl& p) {
  const auto& train = p.values.train;
  p.schedule.emplace(p.data.train->size(), train.global_batch, train.micro_batch,
                     p.values.data.last);
  p.total_iterations = train.epochs * p.schedule->iterations_per_epoch();
  if (train.max_iterations > 0) {
    p.total_iterations = std::min(p.total_iterations, train.max_iterations);
  }
}

void build_model(training_program::impl& p) {
  p.net = models::make_model(p.values);
  p.tensors = training::tensors_of(*p.net);
  p.map = training::map_state(training::parameter_shapes(p.tensors),
                              training::buffer_shapes(p.tensors), p.values.train.optimizer);
  p.initial = aligned_memory{p.map.layout.arena_bytes};
  training::copy_values(p.tensors, p.map, p.initial.data());
  training::write_initial_scalars({p.map, p.initial.data()}, p.values);
  p.bind(p.initial.data(), nullptr);
}

// Puts the default generator back as it was.
class generator_guard {
 public:
  generator_guard() : generator_(at::detail::getDefaultCPUGenerator()) {
    const std::lock_guard lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  ~generator_guard() {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(state_);
  }
  generator_guard(const generator_guard&) = delete;
  generator_guard& operator=(const generator_guard&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
};

// The shortest of a few runs: what is measured is the work, not what else the machine did.
template <class Work>
std::int64_t shortest_ns(Work&& work) {
  constexpr std::int64_t patience_ns = 20'000'000;
  constexpr int most = 5;
  const auto begun = monotonic_ns();
  auto shortest = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < most; ++i) {
    const auto before = monotonic_ns();
    work();
    const auto after = monotonic_ns();
    shortest = std::min(shortest, after - before);
    if (after - begun > patience_ns) break;
  }
  return std::max<std::int64_t>(shortest, 1);
}

// A micro-batch is the least that a rank does in an iteration, so that counting one of them errs on
// the side of fewer digests.
template <class Step>
std::uint64_t measure_digest_every(Step&& step, const training::state_view& state) {
  constexpr std::uint64_t share = 100;  // at most one part in so many of the time
  const auto step_ns = static_cast<std::uint64_t>(shortest_ns(step));
  const auto digest_ns = static_cast<std::uint64_t>(shortest_ns(
      [&] { static_cast<void>(storage::state_digest_words(state.map().layout, state.bytes())); }));
  return std::max<std::uint64_t>((digest_ns * share + step_ns - 1) / step_ns, 1);
}

// One sample through the model, so that what does not fit is said before any rank starts. Not for a
// CUDA zygote, which must not run a forward pass before it forks.
void probe_model(training_program::impl& p) {
  if (p.values.cluster.device != device_kind::cpu) return;
  const generator_guard generator;
  const std::uint32_t first = 0;
  const auto samples = training::load_batch(*p.data.test, p.format, {&first, 1});
  const training::autocast_scope precision{p.values.train.amp};
  if (p.net->evaluate(samples).samples != 1) {
    throw std::invalid_argument("evaluate() of one sample does not count one sample");
  }
}

// All pages present and writable in this process, with the content that they have.
void touch(const storage::shared_memory& memory) {
#ifdef MADV_POPULATE_WRITE
  if (::madvise(memory.data(), memory.size(), MADV_POPULATE_WRITE) == 0) return;
#endif
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  for (std::size_t at = 0; at < memory.size(); at += page) {
    auto* byte = reinterpret_cast<volatile std::uint8_t*>(memory.data() + at);
    *byte = *byte;
  }
}

// Calls `use(step, state)` with the model on `arena` and `bucket`, where step() is one forward,
// backward and optimizer step; the model is bound to its initial weights afterwards.
template <class Use>
void use_warm_up_step(training_program::impl& p, std::byte* arena, std::byte* bucket, Use&& use) {
  use_one_thread();
  const generator_guard generator;
  std::memcpy(arena, p.initial.data(), p.initial.size());
  std::memset(bucket, 0, p.map.bucket_bytes);
  p.bind(arena, bucket);
  const auto restore = [&p](void*) { p.bind(p.initial.data(), nullptr); };
  const std::unique_ptr<void, decltype(restore)> rebind(arena, restore);

  const auto window = p.schedule->window_of(iteration_id{1});
  const auto count = p.schedule->micro_batch(window, 0).size();
  std::vector<std::uint32_t> ids(count);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::uint32_t>(i);
  training::seed_generator(p.values.run.seed, 0, 0, training::random_purpose::warm_up);
  const auto samples = training::load_batch(*p.data.train, p.format, ids);
  const training::state_view state{p.map, arena};
  const auto step = [&] {
    training::forward_backward(*p.net, samples, p.values.train.amp,
                               1.0 / static_cast<double>(count));
    training::sgd_step(state.parameters(),
                       {reinterpret_cast<const float*>(bucket), state.parameters().size()},
                       state.optimizer(0), 1.0F, {0.1F, 0.9F, 0.0F, false});
  };
  use(step, state);
}

}  // namespace

void use_one_thread() {
  at::set_num_threads(1);
  at::init_num_threads();
}

aligned_memory::aligned_memory(std::size_t size_bytes)
    : memory_(static_cast<std::byte*>(std::aligned_alloc(
          tensor_alignment_bytes,
          align_up(std::max<std::size_t>(size_bytes, 1), tensor_alignment_bytes)))),
      size_(size_bytes) {
  if (!memory_) throw std::bad_alloc{};
  std::memset(memory_.get(), 0, size_bytes);
}

void training_program::impl::bind(std::byte* arena, std::byte* bucket) {
  training::bind_values(tensors, map, arena);
  training::bind_gradients(tensors, map, bucket);
}

training_program::training_program(std::unique_ptr<impl> parts) : impl_(std::move(parts)) {}
training_program::~training_program() = default;

checked<std::unique_ptr<training_program>> training_program::create(const scenario& values) {
  if (values.cluster.device == device_kind::cuda) {
    return tl::unexpected(
        std::vector{diagnostic{{},
                               0,
                               "cluster.device",
                               "\"cpu\", as this build has no CUDA module",
                               "\"cuda\"",
                               "train on CPU ranks: device = \"cpu\", communicator = \"shm\""}});
  }
  use_one_thread();
  auto p = std::make_unique<impl>();
  p->values = values;
  p->format = data::format_of(values);
  auto opened = data::open_data(values);
  if (!opened) return tl::unexpected(std::move(opened.error()));
  p->data = std::move(*opened);
  plan_iterations(*p);
  try {
    build_model(*p);
    if (auto faults = check_model(*p); !faults.empty()) return tl::unexpected(std::move(faults));
    probe_model(*p);
  } catch (const c10::Error& e) {
    return tl::unexpected(std::vector{model_fault(values, e.what_without_backtrace())});
  } catch (const std::exception& e) {
    return tl::unexpected(std::vector{model_fault(values, e.what())});
  }
  return std::unique_ptr<training_program>(new training_program(std::move(p)));
}

const scenario& training_program::values() const {
  return impl_->values;
}
const state_layout& training_program::layout() const {
  return impl_->map.layout;
}
std::uint64_t training_program::bucket_bytes() const {
  return impl_->map.bucket_bytes;
}
std::uint64_t training_program::train_samples() const {
  return impl_->data.train->size();
}
std::uint64_t training_program::test_samples() const {
  return impl_->data.test->size();
}
std::uint64_t training_program::iterations_per_epoch() const {
  return impl_->schedule->iterations_per_epoch();
}
std::uint64_t training_program::total_iterations() const {
  return impl_->total_iterations;
}

std::uint64_t training_program::digest_every() const {
  const auto wanted = impl_->values.supervision.digest_every_iterations;
  return wanted > 0 ? wanted : impl_->digest_every;
}

void training_program::warm_up() {
  const aligned_memory arena{impl_->map.layout.arena_bytes};
  const aligned_memory bucket{impl_->map.bucket_bytes};
  use_warm_up_step(*impl_, arena.data(), bucket.data(), [this](const auto& step, auto state) {
    step();
    if (impl_->values.supervision.digest_every_iterations > 0) return;
    impl_->digest_every = measure_digest_every(step, state);
  });
}

void training_program::warm_up(const worker_memory& memory) {
  for (const auto* each : {&memory.progress, &memory.snapshots, &memory.bucket, &memory.state}) {
    touch(*each);
  }
  use_warm_up_step(*impl_, memory.state.data(), memory.bucket.data(),
                   [](const auto& step, const auto&) { step(); });
}

}  // namespace ftrt
