#include <schemas/protocol/messages.hpp>

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>
#include <protocol.capnp.h>

#include <cstring>
#include <schemas/protocol/limits.hpp>
#include <schemas/protocol/wire.hpp>

namespace ftrt::protocol {
namespace {

// The tags of the union and of the enums are the places in the variant and the values of ours.
#define FTRT_SAME_TAG(type, schema_name, tag)          \
  static_assert(index_of<type> == wire::Envelope::tag, \
                "protocol.capnp and message list " #type " in other places");
FTRT_PROTOCOL_MESSAGES(FTRT_SAME_TAG)
#undef FTRT_SAME_TAG

template <class Wire, class Ours>
constexpr bool same(Wire wire, Ours ours) {
  return static_cast<std::uint16_t>(wire) == static_cast<std::uint16_t>(ours);
}
static_assert(same(wire::Dtype::BOOLEAN, dtype::boolean) && same(wire::Dtype::I64, dtype::i64));
static_assert(same(wire::TensorSection::SCALAR, tensor_section::scalar));
static_assert(same(wire::StateRole::INITIAL, state_role::initial) &&
              same(wire::StateRole::RECEIVE, state_role::receive));
static_assert(same(wire::WorkerPhase::FINISHED, worker_phase::finished) &&
              same(wire::WorkerPhase::PARKED, worker_phase::parked));
static_assert(same(wire::InjuryKind::STOP, injury_kind::stop) &&
              same(wire::InjuryPhase::STOP, injury_phase::stop) &&
              same(wire::InjuryTarget::PARAMETER, injury_target::parameter));
static_assert(same(wire::ErrorCode::INTERNAL, error_code::internal) &&
              same(wire::ErrorCode::INVALID_ARGUMENT, error_code::invalid_argument) &&
              same(wire::ErrorCode::REFUSED, error_code::refused));

capnp::Text::Reader text(const std::string& s) {
  return {s.c_str(), s.size()};
}

void write(const zygote_configure& m, wire::ZygoteConfigure::Builder out) {
  out.setScenarioToml(text(m.scenario_toml));
  out.setCheckOnly(m.check_only);
}

void write(const fork_worker& m, wire::ForkWorker::Builder out) {
  out.setRank(m.rank.value());
  out.setIncarnation(m.incarnation.value());
  out.setSpare(m.spare);
}

void write(const tensor_spec& tensor, wire::TensorSpec::Builder out) {
  out.setName(text(tensor.name));
  out.setDtype(static_cast<wire::Dtype>(tensor.type));
  auto shape = out.initShape(static_cast<unsigned>(tensor.shape.size()));
  for (unsigned i = 0; i < shape.size(); ++i) shape.set(i, tensor.shape[i]);
  out.setSection(static_cast<wire::TensorSection>(tensor.section));
  out.setOffsetBytes(tensor.offset_bytes);
  out.setSizeBytes(tensor.size_bytes);
}

void write(const zygote_ready& m, wire::ZygoteReady::Builder out) {
  auto layout = out.initLayout();
  auto tensors = layout.initTensors(static_cast<unsigned>(m.layout.tensors.size()));
  for (unsigned i = 0; i < tensors.size(); ++i) write(m.layout.tensors[i], tensors[i]);
  layout.setArenaBytes(m.layout.arena_bytes);
  out.setBucketBytes(m.bucket_bytes);
  out.setSyncBlockBytes(m.sync_block_bytes);
  out.setTrainSamples(m.train_samples);
  out.setTestSamples(m.test_samples);
  out.setIterationsPerEpoch(m.iterations_per_epoch);
  out.setTotalIterations(m.total_iterations);
  out.setDigestEvery(m.digest_every);
}

void write(const zygote_refused& m, wire::ZygoteRefused::Builder out) {
  auto list = out.initDiagnostics(static_cast<unsigned>(m.diagnostics.size()));
  for (unsigned i = 0; i < list.size(); ++i) {
    const auto& d = m.diagnostics[i];
    list[i].setFile(text(d.file));
    list[i].setLine(d.line);
    list[i].setKey(text(d.key));
    list[i].setExpected(text(d.expected));
    list[i].setFound(text(d.found));
    list[i].setHint(text(d.hint));
  }
}

void write(const worker_forked& m, wire::WorkerForked::Builder out) {
  out.setRank(m.rank.value());
  out.setIncarnation(m.incarnation.value());
  out.setPid(m.pid);
  out.setSpare(m.spare);
}

void write(const fork_failed& m, wire::ForkFailed::Builder out) {
  out.setRank(m.rank.value());
  out.setIncarnation(m.incarnation.value());
  out.setText(text(m.text));
  out.setSpare(m.spare);
}

void write(const worker_exited& m, wire::WorkerExited::Builder out) {
  out.setRank(m.rank.value());
  out.setIncarnation(m.incarnation.value());
  out.setPid(m.pid);
  out.setWaitStatus(m.wait_status);
  out.setSpare(m.spare);
}

void write(const attach_control&, wire::AttachControl::Builder) {}

void write(const join& m, wire::Join::Builder out) {
  out.setGeneration(m.generation.value());
  out.setBranch(m.branch.value());
  out.setRank(m.rank.value());
  out.setWorldSize(m.world_size);
  out.setRole(static_cast<wire::StateRole>(m.role));
  out.setIteration(m.iteration.value());
  out.setSource(m.source.value());
  out.setCheckpointDirectory(text(m.checkpoint_directory));
  out.setDigestEvery(m.digest_every);
  auto left_out = out.initLeftOut(static_cast<unsigned>(m.left_out.size()));
  for (unsigned i = 0; i < left_out.size(); ++i) left_out.set(i, m.left_out[i].value());
}

void write(const train& m, wire::Train::Builder out) {
  out.setGeneration(m.generation.value());
}

void write(const revoke& m, wire::Revoke::Builder out) {
  out.setGeneration(m.generation.value());
}

void write(const request_stop&, wire::RequestStop::Builder) {}

void write(const query&, wire::Query::Builder) {}

void write(const exit_worker&, wire::ExitWorker::Builder) {}

void write(const hello& m, wire::Hello::Builder out) {
  out.setVersion(m.version);
  out.setRank(m.rank.value());
  out.setIncarnation(m.incarnation.value());
  out.setPid(m.pid);
  out.setGeneration(m.generation.value());
  out.setCommitted(m.committed.value());
  out.setPhase(static_cast<wire::WorkerPhase>(m.phase));
  out.setHasState(m.has_state);
}

void write(const parked& m, wire::Parked::Builder out) {
  out.setGeneration(m.generation.value());
  out.setCommitted(m.committed.value());
  out.setPrepared(m.prepared.value());
  out.setDecided(m.decided);
  out.setHasState(m.has_state);
}

void write(const joined& m, wire::Joined::Builder out) {
  out.setGeneration(m.generation.value());
  out.setIteration(m.iteration.value());
  out.setStateDigest(text(m.state_digest));
  out.setStateNs(m.state_ns);
}

void write(const join_failed& m, wire::JoinFailed::Builder out) {
  out.setGeneration(m.generation.value());
  out.setCode(static_cast<wire::ErrorCode>(m.code));
  out.setText(text(m.text));
}

void write(const peer_lost& m, wire::PeerLost::Builder out) {
  out.setGeneration(m.generation.value());
  auto lost = out.initLost(static_cast<unsigned>(m.lost.size()));
  for (unsigned i = 0; i < lost.size(); ++i) lost.set(i, m.lost[i].value());
}

void write(const snapshot_ready& m, wire::SnapshotReady::Builder out) {
  out.setGeneration(m.generation.value());
  out.setBranch(m.branch.value());
  out.setIteration(m.iteration.value());
  out.setSlot(m.slot);
  out.setPart(m.part);
  out.setParts(m.parts);
  out.setFinal(m.final);
}

void write(const finished& m, wire::Finished::Builder out) {
  out.setGeneration(m.generation.value());
  out.setIteration(m.iteration.value());
  out.setOptimizerSteps(m.optimizer_steps);
  out.setStopped(m.stopped);
  out.setWeightsDigest(text(m.weights_digest));
  out.setTrainLoss(m.train_loss);
  out.setTestAccuracy(m.test_accuracy);
}

void write(const program_failed& m, wire::ProgramFailed::Builder out) {
  out.setGeneration(m.generation.value());
  out.setIteration(m.iteration.value());
  out.setText(text(m.text));
}

void write(const spare_ready&, wire::SpareReady::Builder) {}

void write(const expect_sources& m, wire::ExpectSources::Builder out) {
  out.setCount(m.count);
}

void write(const assign& m, wire::Assign::Builder out) {
  out.setRank(m.rank.value());
  out.setIncarnation(m.incarnation.value());
}

void write(const injure& m, wire::Injure::Builder out) {
  out.setKind(static_cast<wire::InjuryKind>(m.kind));
  out.setTarget(static_cast<wire::InjuryTarget>(m.target));
  out.setIteration(m.iteration.value());
  out.setSeed(m.seed);
  out.setNumber(m.number);
  out.setPhase(static_cast<wire::InjuryPhase>(m.phase));
  out.setDelayNs(m.delay_ns);
  out.setIterations(m.iterations);
}

void write(const not_finite& m, wire::NotFinite::Builder out) {
  out.setGeneration(m.generation.value());
  out.setIteration(m.iteration.value());
  auto ranks = out.initRanks(static_cast<unsigned>(m.ranks.size()));
  for (unsigned i = 0; i < ranks.size(); ++i) ranks.set(i, m.ranks[i].value());
}

#define FTRT_INIT(type, schema_name, tag)                 \
  void fill(const type& m, wire::Envelope::Builder out) { \
    write(m, out.init##schema_name());                    \
  }
FTRT_PROTOCOL_MESSAGES(FTRT_INIT)
#undef FTRT_INIT

std::vector<std::byte> build(const message& m) {
  capnp::MallocMessageBuilder builder;
  auto envelope = builder.initRoot<wire::Envelope>();
  envelope.setVersion(protocol_version);
  std::visit([&envelope](const auto& one) { fill(one, envelope); }, m);
  const auto words = capnp::messageToFlatArray(builder);
  const auto bytes = words.asBytes();
  std::vector<std::byte> out(bytes.size());
  std::memcpy(out.data(), bytes.begin(), bytes.size());
  return out;
}

result<std::vector<std::byte>> encode_trimmed(const message& m) {
  const std::string name{name_of(m)};
  if (const auto wrong = violation(m); !wrong.empty()) {
    return fail(error_code::invalid_argument, name + ": " + wrong, "encode");
  }
  try {
    auto bytes = build(m);
    const auto limit = max_encoded_bytes(m.index());
    if (bytes.size() <= limit) return bytes;
    return fail(error_code::invalid_argument,
                name + ": expected at most " + std::to_string(limit) + " bytes encoded, found " +
                    std::to_string(bytes.size()),
                "encode");
  } catch (const kj::Exception& e) {
    return fail(error_code::internal, name + ": " + e.getDescription().cStr(), "encode");
  }
}

}  // namespace

result<std::vector<std::byte>> encode(const message& m) {
  return std::visit(
      [&m](const auto& one) {
        using type = std::remove_cvref_t<decltype(one)>;
        if constexpr (has_free_text<type>) {
          auto copy = one;
          trim(copy);
          return encode_trimmed(message{std::move(copy)});
        } else {
          return encode_trimmed(m);
        }
      },
      m);
}

}  // namespace ftrt::protocol
