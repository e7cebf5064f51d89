# What control and its worker processes say to each other.
#
# "Control" is the process of `ftrt`, or the service that embeds it. "Zygote" is
# `ftrt-worker --zygote`, the process that workers are forked from. "Worker" is one incarnation of
# one rank. The C++ face of this file is messages.hpp; the limits named here stand in limits.hpp.
#
# Channels, all of them socketpairs that control made; nobody listens anywhere:
#   zygote channel   SOCK_SEQPACKET, control <-> zygote; one Envelope a packet, descriptors beside it
#   lifeline         SOCK_SEQPACKET, control -> worker; carries what needs descriptors, and what a
#                    spare and control say to each other before it has a rank
#   control socket   SOCK_STREAM, control <-> worker; frames of a 4-byte little-endian length, then
#                    one Envelope of that many bytes
# Bytes are Cap'n Proto's standard stream framing, not packed. A packet may hold a reference instead
# of the bytes: see channel.hpp.
#
# What everybody owes everybody:
#   - Each side checks every field against the limits below, when it sends and when it receives. A
#     message that breaks one is an error of its channel: the receiver closes it.
#   - A receiver reads each pointer once, so that a message's traversal limit is its own size.
#   - Everything that names a generation is refused and counted by a receiver that has seen a newer
#     one. Orders are idempotent: doing one twice is doing it once.
#   - The end of a channel is a message too: it says that the other process is gone.
#
# Evolution: version counts incompatible revisions, and both ends must have the same. Within one
# version, fields and union members are only ever added at the end.
@0xe044a99199afcb4f;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("ftrt::protocol::wire");

struct Envelope {
  version @0 :UInt16;
  # 1. Another one is refused before anything else is read.

  union {
    # Zygote channel, control -> zygote.
    zygoteConfigure @1 :ZygoteConfigure;
    forkWorker @2 :ForkWorker;

    # Zygote channel, zygote -> control.
    zygoteReady @3 :ZygoteReady;
    zygoteRefused @4 :ZygoteRefused;
    workerForked @5 :WorkerForked;
    forkFailed @6 :ForkFailed;
    workerExited @7 :WorkerExited;

    # Lifeline, control -> worker.
    attachControl @8 :AttachControl;
    join @9 :Join;

    # Control socket, control -> worker.
    train @10 :Train;
    revoke @11 :Revoke;
    requestStop @12 :RequestStop;
    query @13 :Query;
    exitWorker @14 :ExitWorker;

    # Control socket, worker -> control.
    hello @15 :Hello;
    parked @16 :Parked;
    joined @17 :Joined;
    joinFailed @18 :JoinFailed;
    peerLost @19 :PeerLost;
    snapshotReady @20 :SnapshotReady;
    finished @21 :Finished;
    programFailed @22 :ProgramFailed;

    # Lifeline of a spare, worker -> control, then control -> worker.
    spareReady @23 :SpareReady;
    assign @24 :Assign;

    # Control socket, control -> worker.
    injure @25 :Injure;

    # Control socket, worker -> control.
    notFinite @26 :NotFinite;

    # Lifeline of a spare, control -> worker.
    expectSources @27 :ExpectSources;
  }
}

# ---- Zygote channel, control -> zygote -----------------------------------------------------------

struct ZygoteConfigure {
  # The first packet, once. The zygote loads model and data, warms up as far as its device allows,
  # and answers with ZygoteReady or ZygoteRefused. At most 1 MiB + 4 KiB.

  scenarioToml @0 :Text;
  # The resolved scenario, at most 1 MiB.

  checkOnly @1 :Bool;
  # Answer, then exit with code 0: nothing will be forked.
}

struct ForkWorker {
  # Only after ZygoteReady. Descriptors, in this order: control socket, lifeline, progress memory,
  # snapshot memory, bucket memory, state memory, standard error. The zygote forks, gives the
  # descriptors to the child, closes its own copies, and answers with WorkerForked or ForkFailed.

  rank @0 :UInt32;
  # Below 65536, here and everywhere.

  incarnation @1 :UInt32;

  spare @2 :UInt32;
  # Not 0: a spare of this number, which has neither rank nor incarnation yet (both are 0 here). It
  # warms up, says SpareReady and waits for Assign. All that the zygote says of it later names it by
  # this number.
}

# ---- Zygote channel, zygote -> control -----------------------------------------------------------

struct ZygoteReady {
  # Answer to ZygoteConfigure: what the run will need. Control sizes all shared memory from it; no
  # memory may have more than 16 TiB, so that sums of sizes cannot overflow. At most 8 MiB.

  layout @0 :StateLayout;
  bucketBytes @1 :UInt64;         # of one rank's bucket memory
  syncBlockBytes @2 :UInt64;      # of one generation's sync block
  trainSamples @3 :UInt64;        # after data.limit
  testSamples @4 :UInt64;
  iterationsPerEpoch @5 :UInt64;
  totalIterations @6 :UInt64;
  digestEvery @7 :UInt64;         # iterations between two digests that cost under 1 %; 0: never
}

struct ZygoteRefused {
  # Answer to ZygoteConfigure: model or data cannot be used. Nothing was started; the zygote exits.

  diagnostics @0 :List(Diagnostic);
  # At most 256; a sender with more says in the last one how many it left out.
}

struct WorkerForked {
  # One descriptor beside it: the pidfd. Control owns it; the zygote keeps none.

  rank @0 :UInt32;
  incarnation @1 :UInt32;
  pid @2 :Int32;
  # At least 1.

  spare @3 :UInt32;
  # As it was ordered, here and in the two below.
}

struct ForkFailed {
  rank @0 :UInt32;
  incarnation @1 :UInt32;
  text @2 :Text;
  # For people, at most 64 KiB; a sender cuts it and says so.

  spare @3 :UInt32;
}

struct WorkerExited {
  # A child was reaped. Follows every WorkerForked in the end, whatever killed the child.

  rank @0 :UInt32;
  incarnation @1 :UInt32;
  pid @2 :Int32;
  # At least 1.

  waitStatus @3 :Int32;
  # As waitpid() gives it.

  spare @4 :UInt32;
}

# ---- Lifeline, control -> worker -----------------------------------------------------------------

struct AttachControl {
  # One descriptor beside it: a fresh control socket, which replaces the one before. The worker
  # answers with Hello on the fresh one. Sent by a trainer actor that took over from a dead one.
}

enum StateRole {
  keep @0;            # a survivor: its state is right as it is
  applyPrepared @1;   # a survivor: first apply the prepared iteration with the decided word
  receive @2;         # stateless: copy the state memory of rank `source`
  loadCheckpoint @3;  # stateless: read `checkpointDirectory`
  initial @4;         # stateless: the initial weights of the seed
  loadSnapshot @5;    # stateless: copy the state that control put together from snapshots
}

struct Join {
  # Become a rank of a generation. Descriptors: the sync block, then the bucket memory of every rank
  # in rank order, then, for receive, the state memory of `source`, or for loadSnapshot the memory
  # that holds the whole state. The worker answers with Joined or JoinFailed on the control socket;
  # it may be revoked while it joins.

  generation @0 :UInt64;
  branch @1 :UInt32;
  rank @2 :UInt32;
  # Below worldSize.

  worldSize @3 :UInt32;
  # 1 .. 65536.

  role @4 :StateRole;
  iteration @5 :UInt64;
  # Where training will stand once all have joined.

  source @6 :UInt32;
  # Of receive: below worldSize, and another rank than this one.

  checkpointDirectory @7 :Text;
  # Of loadCheckpoint: absolute. At most 4096 bytes, no NUL.

  digestEvery @8 :UInt64;
  # Iterations from one digest record in the progress ring to the next, the same for all ranks.
  # 0: none.

  leftOut @9 :List(UInt64);
  # Iterations whose window of data all ranks leave out: committed without being computed and without
  # an optimizer step. Ascending, each after `iteration`, at most 1024.
}

struct SpareReady {
  # Lifeline, worker -> control, once, from a spare alone: it has touched all memory that it will
  # need and made a step; it waits for Assign.
}

struct ExpectSources {
  # To a spare that is ready, any number of times before Assign: the state memories of the ranks that
  # it may have to copy from, as descriptors beside it, sealed against shrinking and as large as the
  # state. The spare maps them and touches their pages in the background; a Join that names one of
  # them is done faster then. Replaces what was said before. No answer: a spare that cannot use it
  # says so in its log and waits on.

  count @0 :UInt32;
  # Of descriptors: 1 or 2.
}

struct Assign {
  # To a spare, once: be this incarnation of this rank, from now on a worker like any other. Answered
  # by Hello on the control socket. Everything but ExpectSources that comes before it is refused.

  rank @0 :UInt32;
  incarnation @1 :UInt32;
}

# ---- Control socket, control -> worker -----------------------------------------------------------

struct Train {
  # All ranks of the generation joined with one digest: train on. No answer but progress.

  generation @0 :UInt64;
}

struct Revoke {
  # Abort the communicator of this generation and of every older one. Answered by Parked once the
  # training thread has left the collective; control kills whoever misses its deadline.

  generation @0 :UInt64;
}

struct RequestStop {
  # Set the stop bit in the next decision word. All ranks then stop at one iteration, and each sends
  # Finished.
}

struct Query {
  # Who are you? Answered by Hello.
}

struct ExitWorker {
  # Leave with exit code 0.
}

enum InjuryKind {
  nan @0;
  flipBit @1;
  slow @2;       # the training thread pauses before each micro-batch
  kill @3;       # SIGKILL to itself, in `phase`
  stop @4;       # SIGSTOP to itself, in `phase`
}

enum InjuryTarget {
  gradient @0;   # nan: before the reduction; flipBit: of the reduced ones, before they are applied
  parameter @1;  # after the commit
}

enum InjuryPhase {
  # Where kill and stop strike.

  none @0;       # the other kinds know their moment
  allReduce @1;
  optimizer @2;  # weights are new, the iteration is not committed
  snapshot @3;
  join @4;       # the others have been met, state is being copied
  evaluate @5;
  start @6;      # at once; after the first Join it means nothing
  stop @7;       # training is over, the final snapshot is not written
}

struct Injure {
  # Chaos: do this to yourself at an iteration, or at the first one after it that can have it. Sent
  # ahead of time; no answer, but the number is put on the progress page before it is obeyed. A
  # worker keeps 64 of them, then forgets the oldest.

  kind @0 :InjuryKind;
  target @1 :InjuryTarget;
  iteration @2 :UInt64;
  seed @3 :UInt64;
  # Which number and which bit: a function of seed and iteration.

  number @4 :UInt64;
  # Of this order in its run: said twice, it is obeyed once. 0: it has none.

  phase @5 :InjuryPhase;
  # kill, stop: not none.

  delayNs @6 :UInt64;
  # slow: at most an hour.

  iterations @7 :UInt64;
  # slow: 0: as long as the worker lives.
}

# ---- Control socket, worker -> control -----------------------------------------------------------

enum WorkerPhase {
  starting @0;  # has no state yet
  joining @1;
  joined @2;    # waits for Train
  training @3;
  parked @4;
  finished @5;  # done or stopped; the final snapshot is taken
}

struct Hello {
  # The first message on every control socket, and the answer to Query.

  version @0 :UInt16;
  # The worker's own protocol version, for the log.

  rank @1 :UInt32;
  incarnation @2 :UInt32;
  pid @3 :Int32;
  # Not negative.

  generation @4 :UInt64;
  # 0: never joined.

  committed @5 :UInt64;
  phase @6 :WorkerPhase;
  hasState @7 :Bool;
}

struct Parked {
  # Answer to Revoke: out of the collective, buffers restored, state intact.

  generation @0 :UInt64;
  # The revoked one.

  committed @1 :UInt64;
  prepared @2 :UInt64;
  # 0, or the iteration after `committed` whose reduced gradients are held.

  decided @3 :Bool;
  # This rank saw the decision word of `prepared`.

  hasState @4 :Bool;
}

struct Joined {
  # Answer to Join: in the generation, with its state. Waits for Train.

  generation @0 :UInt64;
  iteration @1 :UInt64;
  stateDigest @2 :Text;
  # xxh3-128 of the state arena, 32 hex digits; at most 64 bytes.
  stateNs @3 :UInt64;
  # What copying or loading that state took; 0 where it kept its own.
}

enum ErrorCode {
  # error_code of include/ftrt/error.hpp, with the same numbers.
  none @0;
  # Never sent.

  invalidArgument @1;
  notFound @2;
  corrupt @3;
  unsupported @4;
  staleGeneration @5;
  timeout @6;
  aborted @7;
  peerLost @8;
  refused @9;
  busy @10;
  io @11;
  noSpace @12;
  programError @13;
  budgetExhausted @14;
  internal @15;
}

struct JoinFailed {
  # Answer to Join. The worker stands as it stood before, without a communicator.

  generation @0 :UInt64;
  code @1 :ErrorCode;
  text @2 :Text;
  # For people, at most 64 KiB; a sender cuts it and says so.
}

struct PeerLost {
  # Not asked for: the communicator saw these ranks' training threads die.

  generation @0 :UInt64;
  lost @1 :List(UInt32);
  # At most 65536.
}

struct SnapshotReady {
  # Not asked for: a snapshot slot of this rank is complete; read it from the snapshot memory.

  generation @0 :UInt64;
  branch @1 :UInt32;
  iteration @2 :UInt64;
  slot @3 :UInt32;
  # Below 256; storage knows how many there are.

  part @4 :UInt32;
  # Below `parts`.

  parts @5 :UInt32;
  # 1 .. 65536.

  final @6 :Bool;
  # The end of the run waits for this one.
}

struct Finished {
  # Not asked for: the last iteration is committed. The worker stays until ExitWorker.

  generation @0 :UInt64;
  iteration @1 :UInt64;
  optimizerSteps @2 :UInt64;
  stopped @3 :Bool;
  # By RequestStop, before the last iteration.

  weightsDigest @4 :Text;
  # Over parameters and buffers, 32 hex digits; at most 64 bytes.

  trainLoss @5 :Float64;
  # Mean of the last iteration. Floats pass bit by bit.

  testAccuracy @6 :Float64;
  # NaN: never evaluated.
}

struct ProgramFailed {
  # Not asked for: the user's model or data threw. Not a crash: this rank still stands and waits.

  generation @0 :UInt64;
  iteration @1 :UInt64;
  text @2 :Text;
  # For people, at most 64 KiB; a sender cuts it and says so.
}

struct NotFinite {
  # Not asked for, and only where train.on_non_finite is not "skip": the decision word of this
  # iteration said that a loss or a gradient is not finite. Every rank left the iteration as it was
  # and waits for Revoke.

  generation @0 :UInt64;
  iteration @1 :UInt64;
  ranks @2 :List(UInt32);
  # Whose own share it was. At most 65536.
}

# ---- Parts of messages ---------------------------------------------------------------------------

enum Dtype { f32 @0; f64 @1; f16 @2; bf16 @3; i64 @4; i32 @5; u8 @6; boolean @7; }

enum TensorSection { parameter @0; buffer @1; optimizer @2; scalar @3; }

struct StateLayout {
  # schemas/state_layout.hpp says what makes one valid; a receiver checks all of it.

  tensors @0 :List(TensorSpec);
  # At most 100000, in the order of their offsets, without overlap.

  arenaBytes @1 :UInt64;
}

struct TensorSpec {
  name @0 :Text;
  # Unique; 1 .. 1024 bytes, no NUL.

  dtype @1 :Dtype;
  shape @2 :List(Int64);
  # At most 32 dimensions, none negative; empty: a scalar.

  section @3 :TensorSection;
  offsetBytes @4 :UInt64;
  # A multiple of 64.

  sizeBytes @5 :UInt64;
  # Product of shape and element size.
}

struct Diagnostic {
  # One thing wrong with a scenario or its data. Free text: a sender cuts what is too long and says
  # so.

  file @0 :Text;      # at most 4096 bytes
  line @1 :UInt32;    # 0: no line applies
  key @2 :Text;       # at most 1024 bytes
  expected @3 :Text;  # at most 2048 bytes
  found @4 :Text;     # at most 2048 bytes
  hint @5 :Text;      # at most 2048 bytes
}
