#include <algorithm>
#include <chrono>
#include <cstring>
#include <runtime/training/trainer_impl.hpp>
#include <span>
#include <storage/checkpoint.hpp>
#include <storage/digest.hpp>
#include <utility>

namespace ftrt {

using protocol::state_role;
using training::control_word;
using training::join_word;
using training::whole;

namespace {

using clock = std::chrono::steady_clock;

// The words of an exchange that this rank contributed to, if every rank did.
template <class Word, class Contribution>
std::vector<Word> words_of(const Contribution& from, std::uint64_t key) {
  std::vector<Word> words(from.world_size);
  if (!from.comm->exchanged(key, std::as_writable_bytes(std::span{words}))) words.clear();
  return words;
}

}  // namespace

// Undoes what an uncommitted iteration touched: the buffers. Gradients are zeroed when the next one
// begins, weights and scalars change in apply() alone.
void trainer::impl::give_up_iteration() {
  if (iteration_open) std::ranges::copy(buffers_aside, state.buffers().begin());
  iteration_open = false;
  prepared.reset();
}

protocol::parked trainer::impl::park() {
  reducer->disarm();
  progress.set_phase(storage::train_phase::parked);
  protocol::parked parked{generation, committed(), iteration_id{0}, false, has_state};
  if (!prepared) {
    give_up_iteration();
    return parked;
  }
  const auto words = words_of<control_word>(*prepared, training::decision_key(prepared->iteration));
  if (!words.empty() && gives_up(training::decide(words))) {
    give_up_iteration();
    return parked;
  }
  // The buffers stay as backward left them: they are written anew when the iteration is applied,
  // and from the copy when it is given up.
  parked.prepared = prepared->iteration;
  parked.decided = !words.empty();
  return parked;
}

result<protocol::joined> trainer::impl::join(const protocol::join& request,
                                             std::shared_ptr<communicator> next,
                                             const storage::shared_memory* source_state) {
  FTRT_ASSERT(next && request.world_size == next->world_size());
  FTRT_ASSERT(request.rank == next->rank());
  reducer->disarm();
  progress.set_generation(request.generation);
  progress.set_phase(storage::train_phase::joining);
  generation = request.generation;
  branch = request.branch;
  digest_every = request.digest_every;
  left_out = request.left_out;
  const bool kept = request.role == state_role::keep || request.role == state_role::apply_prepared;
  auto begun = clock::now();
  if (auto ok = take_role(request, source_state); !ok) return tl::unexpected(std::move(ok.error()));
  std::chrono::nanoseconds took = clock::now() - begun;

  auto last = std::exchange(comm, std::move(next));
  comm->on_wait([this] { progress.wait_on(); });
  rank = request.rank;
  world_size = request.world_size;
  // Sources stand still from here until the digests have been exchanged.
  if (auto ok = comm->barrier(); !ok) return tl::unexpected(std::move(ok.error()));
  hurt(training::injury_moment::join, request.iteration);
  // Unmapping the buckets of a large model takes as long as a good part of its copy: the newcomers
  // copy meanwhile.
  last.reset();
  if (request.role == state_role::receive) {
    begun = clock::now();
    if (auto ok = receive_state(request, source_state); !ok) {
      return tl::unexpected(std::move(ok.error()));
    }
    took += clock::now() - begun;
  }
  // A survivor that read its state for the digest now would take memory from the copies, for which
  // all wait.
  if (auto ok = comm->barrier(); !ok) return tl::unexpected(std::move(ok.error()));
  auto joined = compare_digests(request, kept);
  if (joined && !kept) joined->state_ns = static_cast<std::uint64_t>(took.count());
  return joined;
}

// What this rank can do for its state on its own, before it meets the others.
result<void> trainer::impl::take_role(const protocol::join& request,
                                      const storage::shared_memory* source_state) {
  switch (request.role) {
    case state_role::keep:
      return keep_state(request);
    case state_role::apply_prepared:
      return apply_prepared(request);
    default:
      break;
  }
  // Whatever was in there is of a history that is over.
  iteration_open = false;
  prepared.reset();
  evaluation.reset();
  has_state = false;
  if (request.role == state_role::load_checkpoint) return load_state(request);
  if (request.role == state_role::load_snapshot) return load_snapshot(request, source_state);
  if (request.role == state_role::initial) {
    std::memcpy(state.base(), program.initial.data(), program.initial.size());
  }
  return {};
}

result<void> trainer::impl::keep_state(const protocol::join& request) {
  if (!has_state) return fail(error_code::refused, "this rank has no state to keep");
  if (committed() != request.iteration) {
    return fail(error_code::refused,
                "asked to stand at iteration " + std::to_string(request.iteration.value()) +
                    ", this rank's state is of " + std::to_string(committed().value()));
  }
  give_up_iteration();
  settle_evaluation();
  return {};
}

// The decision is computed again from the old communicator's words: whoever can read them decides
// as those did that saw them in time. An iteration that was applied in an earlier, failed join is
// not applied twice.
result<void> trainer::impl::apply_prepared(const protocol::join& request) {
  if (!has_state) return fail(error_code::refused, "this rank has no state to apply to");
  if (committed() == request.iteration) return keep_state(request);
  if (!prepared || prepared->iteration != request.iteration) {
    return fail(error_code::refused, "this rank is not prepared for iteration " +
                                         std::to_string(request.iteration.value()));
  }
  const auto words = words_of<control_word>(*prepared, training::decision_key(prepared->iteration));
  if (words.empty()) {
    return fail(error_code::refused, "iteration " + std::to_string(request.iteration.value()) +
                                         " was not decided: a rank's word is missing");
  }
  const auto decided = training::decide(words);
  if (gives_up(decided)) {
    return fail(error_code::corrupt, "iteration " + std::to_string(request.iteration.value()) +
                                         " was given up: its gradients differ or are not finite");
  }
  evaluation.reset();
  apply(program.schedule->window_of(request.iteration), decided);
  return {};
}

// An evaluation is in the state of all or of none: if its words were all there, somebody may have
// taken it over.
void trainer::impl::settle_evaluation() {
  if (!evaluation) return;
  if (evaluation->iteration == committed()) {
    const auto words = words_of<training::evaluation_word>(
        *evaluation, training::evaluation_key(evaluation->iteration));
    if (!words.empty()) apply_evaluation(words);
  }
  evaluation.reset();
}

result<void> trainer::impl::load_state(const protocol::join& request) {
  auto loaded =
      storage::load_checkpoint(request.checkpoint_directory, program.map.layout, state.bytes());
  if (!loaded) return tl::unexpected(std::move(loaded.error()));
  if (loaded->iteration != request.iteration || committed() != request.iteration) {
    return fail(error_code::corrupt, request.checkpoint_directory + ": expected iteration " +
                                         std::to_string(request.iteration.value()) +
                                         ", the manifest says " +
                                         std::to_string(loaded->iteration.value()) +
                                         " and its state " + std::to_string(committed().value()));
  }
  return training::check_options(state, program.values);
}

// Nobody writes there any more, so this need not wait for the others.
result<void> trainer::impl::load_snapshot(const protocol::join& request,
                                          const storage::shared_memory* source_state) {
  if (auto ok = receive_state(request, source_state); !ok) return ok;
  if (committed() != request.iteration) {
    return fail(error_code::corrupt, "the snapshot in memory is of iteration " +
                                         std::to_string(committed().value()) + ", expected " +
                                         std::to_string(request.iteration.value()));
  }
  return training::check_options(state, program.values);
}

result<void> trainer::impl::receive_state(const protocol::join& request,
                                          const storage::shared_memory* source_state) {
  if (source_state == nullptr || source_state->size() < program.map.layout.arena_bytes) {
    return fail(error_code::invalid_argument,
                request.role == state_role::receive
                    ? "the state memory of rank " + std::to_string(request.source.value()) +
                          " is missing or too small"
                    : "the memory of the snapshot is missing or too small");
  }
  return source_state->copy_to(state.bytes());
}

result<protocol::joined> trainer::impl::compare_digests(const protocol::join& request, bool kept) {
  const auto digest = storage::state_digest(program.map.layout, state.bytes());
  join_word mine{committed().value(), kept ? 1U : 0U, {}};
  FTRT_ASSERT(digest.size() == sizeof mine.digest);
  std::ranges::copy(digest, mine.digest);
  std::vector<join_word> words(world_size);
  auto status = comm->exchange(training::join_key(), std::as_bytes(std::span{&mine, 1}),
                               std::as_writable_bytes(std::span{words}));
  if (!status) return tl::unexpected(std::move(status.error()));

  const auto odd = training::odd_ranks(words);
  if (std::ranges::find(odd, rank) != odd.end()) has_state = false;
  if (!odd.empty()) {
    return fail(error_code::corrupt,
                "the state of rank " + training::to_list(odd) +
                    " is not that of the other ranks (digests differ)",
                training::to_list(odd));
  }
  if (committed() != request.iteration) {
    has_state = has_state && kept;
    return fail(error_code::corrupt, "the state is of iteration " +
                                         std::to_string(committed().value()) + ", expected " +
                                         std::to_string(request.iteration.value()));
  }
  has_state = true;
  buffers_aside.assign(state.buffers().begin(), state.buffers().end());
  progress.reset_committed(committed());
  return protocol::joined{generation, committed(), digest};
}

}  // namespace ftrt
