#include <schemas/protocol/messages.hpp>

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/array.h>
#include <kj/exception.h>
#include <protocol.capnp.h>

#include <algorithm>
#include <cstring>
#include <schemas/protocol/limits.hpp>
#include <schemas/protocol/wire.hpp>

namespace ftrt::protocol {
namespace {

// Deepest real pointer chain: envelope, message, layout, tensors, shape. A few more cost nothing.
constexpr int nesting_limit = 8;
// encode() writes a few segments, each twice as large as the one before it.
constexpr std::uint32_t max_segments = 64;

using words_view = kj::ArrayPtr<const capnp::word>;

std::string string_of(capnp::Text::Reader text) {
  return {text.begin(), text.size()};
}

void read(wire::ZygoteConfigure::Reader in, zygote_configure& m) {
  m.scenario_toml = string_of(in.getScenarioToml());
  m.check_only = in.getCheckOnly();
}

void read(wire::ForkWorker::Reader in, fork_worker& m) {
  m.rank = rank_id{in.getRank()};
  m.incarnation = incarnation_id{in.getIncarnation()};
  m.spare = in.getSpare();
}

// An enum beyond its range stays beyond it, for violation() to find; beyond a byte it is cut to
// the last value of that.
template <class Ours, class Wire>
Ours enum_of(Wire wire) {
  return static_cast<Ours>(std::min<std::uint16_t>(static_cast<std::uint16_t>(wire), 0xFF));
}

void read(wire::TensorSpec::Reader in, tensor_spec& tensor) {
  tensor.name = string_of(in.getName());
  tensor.type = enum_of<dtype>(in.getDtype());
  const auto shape = in.getShape();
  tensor.shape.reserve(shape.size());
  for (const auto dimension : shape) tensor.shape.push_back(dimension);
  tensor.section = enum_of<tensor_section>(in.getSection());
  tensor.offset_bytes = in.getOffsetBytes();
  tensor.size_bytes = in.getSizeBytes();
}

void read(wire::ZygoteReady::Reader in, zygote_ready& m) {
  const auto layout = in.getLayout();
  const auto tensors = layout.getTensors();
  // Checked before memory is taken: a struct of ours is larger than one on the wire.
  KJ_REQUIRE(tensors.size() <= max_tensors, "too many tensors");
  m.layout.tensors.resize(tensors.size());
  for (unsigned i = 0; i < tensors.size(); ++i) read(tensors[i], m.layout.tensors[i]);
  m.layout.arena_bytes = layout.getArenaBytes();
  m.bucket_bytes = in.getBucketBytes();
  m.sync_block_bytes = in.getSyncBlockBytes();
  m.train_samples = in.getTrainSamples();
  m.test_samples = in.getTestSamples();
  m.iterations_per_epoch = in.getIterationsPerEpoch();
  m.total_iterations = in.getTotalIterations();
  m.digest_every = in.getDigestEvery();
}

void read(wire::ZygoteRefused::Reader in, zygote_refused& m) {
  const auto list = in.getDiagnostics();
  KJ_REQUIRE(list.size() <= max_diagnostics, "too many diagnostics");
  for (const auto d : list) {
    m.diagnostics.push_back({.file = string_of(d.getFile()),
                             .line = d.getLine(),
                             .key = string_of(d.getKey()),
                             .expected = string_of(d.getExpected()),
                             .found = string_of(d.getFound()),
                             .hint = string_of(d.getHint())});
  }
}

void read(wire::WorkerForked::Reader in, worker_forked& m) {
  m.rank = rank_id{in.getRank()};
  m.incarnation = incarnation_id{in.getIncarnation()};
  m.pid = in.getPid();
  m.spare = in.getSpare();
}

void read(wire::ForkFailed::Reader in, fork_failed& m) {
  m.rank = rank_id{in.getRank()};
  m.incarnation = incarnation_id{in.getIncarnation()};
  m.text = string_of(in.getText());
  m.spare = in.getSpare();
}

void read(wire::WorkerExited::Reader in, worker_exited& m) {
  m.rank = rank_id{in.getRank()};
  m.incarnation = incarnation_id{in.getIncarnation()};
  m.pid = in.getPid();
  m.wait_status = in.getWaitStatus();
  m.spare = in.getSpare();
}

void read(wire::AttachControl::Reader, attach_control&) {}

void read(wire::Join::Reader in, join& m) {
  m.generation = generation_id{in.getGeneration()};
  m.branch = branch_id{in.getBranch()};
  m.rank = rank_id{in.getRank()};
  m.world_size = in.getWorldSize();
  m.role = enum_of<state_role>(in.getRole());
  m.iteration = iteration_id{in.getIteration()};
  m.source = rank_id{in.getSource()};
  m.checkpoint_directory = string_of(in.getCheckpointDirectory());
  m.digest_every = in.getDigestEvery();
  const auto left_out = in.getLeftOut();
  KJ_REQUIRE(left_out.size() <= max_left_out, "too many windows left out");
  m.left_out.reserve(left_out.size());
  for (const auto iteration : left_out) m.left_out.emplace_back(iteration);
}

void read(wire::Train::Reader in, train& m) {
  m.generation = generation_id{in.getGeneration()};
}

void read(wire::Revoke::Reader in, revoke& m) {
  m.generation = generation_id{in.getGeneration()};
}

void read(wire::RequestStop::Reader, request_stop&) {}

void read(wire::Query::Reader, query&) {}

void read(wire::ExitWorker::Reader, exit_worker&) {}

void read(wire::Hello::Reader in, hello& m) {
  m.version = in.getVersion();
  m.rank = rank_id{in.getRank()};
  m.incarnation = incarnation_id{in.getIncarnation()};
  m.pid = in.getPid();
  m.generation = generation_id{in.getGeneration()};
  m.committed = iteration_id{in.getCommitted()};
  m.phase = enum_of<worker_phase>(in.getPhase());
  m.has_state = in.getHasState();
}

void read(wire::Parked::Reader in, parked& m) {
  m.generation = generation_id{in.getGeneration()};
  m.committed = iteration_id{in.getCommitted()};
  m.prepared = iteration_id{in.getPrepared()};
  m.decided = in.getDecided();
  m.has_state = in.getHasState();
}

void read(wire::Joined::Reader in, joined& m) {
  m.generation = generation_id{in.getGeneration()};
  m.iteration = iteration_id{in.getIteration()};
  m.state_digest = string_of(in.getStateDigest());
  m.state_ns = in.getStateNs();
}

void read(wire::JoinFailed::Reader in, join_failed& m) {
  m.generation = generation_id{in.getGeneration()};
  m.code = enum_of<error_code>(in.getCode());
  m.text = string_of(in.getText());
}

std::vector<rank_id> ranks_of(capnp::List<std::uint32_t>::Reader in) {
  KJ_REQUIRE(in.size() <= max_world_size, "too many ranks");
  std::vector<rank_id> ranks;
  ranks.reserve(in.size());
  for (const auto rank : in) ranks.emplace_back(rank);
  return ranks;
}

void read(wire::PeerLost::Reader in, peer_lost& m) {
  m.generation = generation_id{in.getGeneration()};
  m.lost = ranks_of(in.getLost());
}

void read(wire::SnapshotReady::Reader in, snapshot_ready& m) {
  m.generation = generation_id{in.getGeneration()};
  m.branch = branch_id{in.getBranch()};
  m.iteration = iteration_id{in.getIteration()};
  m.slot = in.getSlot();
  m.part = in.getPart();
  m.parts = in.getParts();
  m.final = in.getFinal();
}

void read(wire::Finished::Reader in, finished& m) {
  m.generation = generation_id{in.getGeneration()};
  m.iteration = iteration_id{in.getIteration()};
  m.optimizer_steps = in.getOptimizerSteps();
  m.stopped = in.getStopped();
  m.weights_digest = string_of(in.getWeightsDigest());
  m.train_loss = in.getTrainLoss();
  m.test_accuracy = in.getTestAccuracy();
}

void read(wire::ProgramFailed::Reader in, program_failed& m) {
  m.generation = generation_id{in.getGeneration()};
  m.iteration = iteration_id{in.getIteration()};
  m.text = string_of(in.getText());
}

void read(wire::SpareReady::Reader, spare_ready&) {}

void read(wire::ExpectSources::Reader in, expect_sources& m) {
  m.count = in.getCount();
}

void read(wire::Assign::Reader in, assign& m) {
  m.rank = rank_id{in.getRank()};
  m.incarnation = incarnation_id{in.getIncarnation()};
}

void read(wire::Injure::Reader in, injure& m) {
  m.kind = enum_of<injury_kind>(in.getKind());
  m.target = enum_of<injury_target>(in.getTarget());
  m.iteration = iteration_id{in.getIteration()};
  m.seed = in.getSeed();
  m.number = in.getNumber();
  m.phase = enum_of<injury_phase>(in.getPhase());
  m.delay_ns = in.getDelayNs();
  m.iterations = in.getIterations();
}

void read(wire::NotFinite::Reader in, not_finite& m) {
  m.generation = generation_id{in.getGeneration()};
  m.iteration = iteration_id{in.getIteration()};
  m.ranks = ranks_of(in.getRanks());
}

message read_union(wire::Envelope::Reader in) {
  switch (in.which()) {
#define FTRT_CASE(type, schema_name, tag)                                        \
  case wire::Envelope::tag: {                                                    \
    KJ_REQUIRE(in.has##schema_name(), "the message is missing in its envelope"); \
    type m;                                                                      \
    read(in.get##schema_name(), m);                                              \
    return m;                                                                    \
  }
    FTRT_PROTOCOL_MESSAGES(FTRT_CASE)
#undef FTRT_CASE
  }
  KJ_FAIL_REQUIRE("unknown message type");  // decode_words() has refused it already
}

// Reads only the envelope's numbers: is it for us, and how large may it be?
result<std::size_t> check_envelope(words_view words, std::size_t size_bytes) {
  capnp::ReaderOptions options;
  options.traversalLimitInWords = 64;  // the root struct alone
  options.nestingLimit = 2;
  capnp::FlatArrayMessageReader reader{words, options};
  if (reader.getEnd() != words.end()) {
    return fail(error_code::corrupt, "the message ends before its bytes do");
  }
  const auto envelope = reader.getRoot<wire::Envelope>();
  if (envelope.getVersion() != protocol_version) {
    return fail(error_code::unsupported,
                "protocol version " + std::to_string(envelope.getVersion()) + ", expected " +
                    std::to_string(protocol_version) + ": both ends must be of one build");
  }
  const auto index = static_cast<std::size_t>(envelope.which());
  if (index >= std::variant_size_v<message>) {
    return fail(error_code::unsupported, "message type " + std::to_string(index) +
                                             " is unknown: both ends must be of one build");
  }
  const auto limit = max_encoded_bytes(index);
  if (size_bytes <= limit) return index;
  return fail(error_code::refused, "message type " + std::to_string(index) + " has " +
                                       std::to_string(size_bytes) + " bytes, at most " +
                                       std::to_string(limit) + " are allowed");
}

result<message> decode_words(words_view words, std::size_t size_bytes) {
  const auto index = check_envelope(words, size_bytes);
  if (!index) return tl::unexpected(index.error());
  capnp::ReaderOptions options;
  // Each pointer is read once, so an honest message is traversed once; pointers that share their
  // target (amplification) are not honest. A reader, and so a limit, for each message (C43).
  options.traversalLimitInWords = words.size() + 1;
  options.nestingLimit = nesting_limit;
  capnp::FlatArrayMessageReader reader{words, options};
  auto m = read_union(reader.getRoot<wire::Envelope>());
  if (const auto wrong = violation(m); !wrong.empty()) {
    return fail(error_code::corrupt, std::string{name_of(m)} + ": " + wrong);
  }
  return m;
}

result<void> check_size(std::span<const std::byte> bytes) {
  if (bytes.size() > max_message_bytes) {
    return fail(error_code::refused, std::to_string(bytes.size()) + " bytes, at most " +
                                         std::to_string(max_message_bytes) +
                                         " are allowed for any message");
  }
  if (bytes.empty() || bytes.size() % sizeof(capnp::word) != 0) {
    return fail(error_code::corrupt,
                std::to_string(bytes.size()) + " bytes, expected a positive multiple of 8");
  }
  std::uint32_t last_segment = 0;
  std::memcpy(&last_segment, bytes.data(), sizeof last_segment);
  if (last_segment >= max_segments) {
    return fail(error_code::corrupt,
                "a message of " + std::to_string(last_segment) + " segments and one more");
  }
  return {};
}

}  // namespace

result<message> decode(std::span<const std::byte> bytes) {
  const auto in_context = [](error e) {
    return tl::unexpected(std::move(e).with_context("decode"));
  };
  if (auto ok = check_size(bytes); !ok) return in_context(ok.error());
  const auto count = bytes.size() / sizeof(capnp::word);
  kj::Array<capnp::word> copy;
  words_view words{reinterpret_cast<const capnp::word*>(bytes.data()), count};
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(std::uint64_t) != 0) {
    copy = kj::heapArray<capnp::word>(count);
    std::memcpy(copy.begin(), bytes.data(), bytes.size());
    words = copy;
  }
  try {
    auto m = decode_words(words, bytes.size());
    if (!m) return in_context(m.error());
    return m;
  } catch (const kj::Exception& e) {
    return in_context({error_code::corrupt, e.getDescription().cStr(), {}});
  }
}

}  // namespace ftrt::protocol
