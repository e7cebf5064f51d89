@0xd2b7a3f0c5e19846;

# The manifest of a checkpoint: what makes a folder of shard files one checkpoint.
#
# Written by: the storage thread of the control process, last of all, once every shard is durable.
#   Its rename to `manifest.bin` commits the checkpoint; without it the folder is waste.
# Read by:    whoever loads, verifies, prunes, or rebuilds the catalog. Readers trust nothing: they
#   check the digest in the file's head, every bound below, then each shard's length and digest.
#
# File: 8 bytes "FTRTMAN1", 16 bytes xxh3-128 (canonical) of all that follows, then one message in
# the standard stream framing. `tail -c +25 manifest.bin | capnp decode manifest.capnp Manifest`
# shows it. Another magic number is another format: readers refuse it as unsupported.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("ftrt::schemas");

struct Manifest {
  runId @0 :Text;
  # The run that it belongs to; a folder copied into another run is not taken for that run's.
  branch @1 :UInt32;
  # The stretch of history, from 1. Together with `iteration` it names the checkpoint.
  generation @2 :UInt64;
  # The membership that committed the iteration.
  iteration @3 :UInt64;
  # The last iteration whose update the state contains; 0 is the initial state.
  worldSize @4 :UInt32;
  # Ranks of that generation.
  createdMs @5 :Int64;
  # Unix time in milliseconds, for people only.

  arenaBytes @6 :UInt64;
  # Size of the state arena that the tensors' offsets refer to.
  tensors @7 :List(Tensor);
  # All of the state, in the order of offsets, without overlap.
  shards @8 :List(Shard);
  # Each tensor is in exactly one of them.
}

struct Tensor {
  name @0 :Text;
  # Unique and not empty.
  type @1 :Text;
  # As safetensors spells it: "F32", "BF16", "I64", ...
  shape @2 :List(Int64);
  # No negative extent; empty for a scalar.
  section @3 :Section;
  offsetBytes @4 :UInt64;
  # In the arena, a multiple of 64. The shard file is dense: its own header has its offsets.
  sizeBytes @5 :UInt64;
  # Product of `shape` times the size of `type`.
}

enum Section {
  parameter @0;
  buffer @1;
  optimizer @2;
  scalar @3;
}

struct Shard {
  file @0 :Text;
  # A plain name in the manifest's own folder: no separator, unique.
  bytes @1 :UInt64;
  # Length of the file.
  digest @2 :Text;
  # xxh3-128 of the whole file, 32 lower-case hex digits.
  part @3 :UInt32;
  # Which part of the arena, from 0, unique.
  rank @4 :UInt32;
  # Whose snapshot the bytes came from ...
  incarnation @5 :UInt32;
  # ... and which life of it.
  tensors @6 :List(UInt32);
  # Indices into Manifest.tensors.
}
