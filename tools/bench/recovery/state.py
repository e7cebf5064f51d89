"""1 GB of training state from the survivor to a new rank, against memcpy's rate.

ftrt tells how long each new rank took to copy its state (`times.state_ms`). The memcpy is the C
library's, of as many bytes, from memory to memory that has been touched, on one thread, before and
after the run. Only recoveries for which a spare waited count: a process that was forked for its rank
has no warm memory to copy into, and while all cores train a spare of such a model needs tens of
seconds to be ready."""

import ctypes
import statistics
import time

from harness.ftrt_faults import fault, percentile
from harness.tables import figure

WIDTHS = [784, 11000, 10600, 10]  # 125M parameters; with their momentum 1.0 GB
GAP = 60  # iterations between two faults: time for the next spare to be ready
DATA = 'kind = "synthetic"\nsamples = 1024\ntest_samples = 2'


def _state_bytes():
    parameters = sum(a * b + b for a, b in zip(WIDTHS, WIDTHS[1:]))
    return 2 * 4 * parameters  # weights and momentum, float32


def memcpy_seconds(size, repeats=5):
    source, target = ctypes.create_string_buffer(size), ctypes.create_string_buffer(size)
    times = []
    for _ in range(repeats + 1):
        ctypes.memset(source, 1, size)
        start = time.perf_counter()
        ctypes.memmove(target, source, size)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def measure(bench):
    size, count = _state_bytes(), bench.size.state_faults
    every = {"metrics.every_iterations": 1, "checkpoint.every_iterations": 0}
    copy_s = [memcpy_seconds(size)]
    run = bench.ftrt.run(GAP * (count + 1), every, layers=",".join(map(str, WIDTHS)), data=DATA,
                         global_batch=2, micro_batch=1, chaos=[fault("kill", GAP, count, rank=1)])
    copy_s.append(memcpy_seconds(size))
    return _tell(bench, size, statistics.mean(copy_s), run)


def _tell(bench, size, memcpy_s, run):
    what = "1 GB of state, survivor to new rank: 80 % of memcpy's rate"
    warm = [r for r in run.recoveries if r.replacement == "spare"]
    found = {"bytes": size, "memcpy_s": memcpy_s, "run": run, "with_spare": len(warm)}
    if not warm or any("state_ms" not in r.times for r in warm):
        bench.report.aim(what, f"{len(warm)} of {len(run.recoveries)} recoveries had a spare, or this "
                         "build does not say how long the copy took", "not measured")
        return found
    median_s = lambda name: percentile([r.times[name] for r in warm], 0.5) / 1e3
    row = lambda name, seconds: [name, seconds * 1e3, size / seconds / 1e9, memcpy_s / seconds]
    bench.report.table(
        "1 GB of training state to a new rank", ["what", "ms", "GB/s", "of memcpy's rate"],
        [row("memcpy", memcpy_s), row("the new rank's copy", median_s("state_ms")),
         row("whole join: communicator, copy, digest", median_s("join_ms"))],
        f"{size / 1e9:.2f} GB, medians of the {len(warm)} of {len(run.recoveries)} faults that found a "
        f"spare ready; from a fault to the next iteration "
        f"{figure(percentile([r.resumed_ms for r in warm], 0.5))} ms, of which an iteration is "
        f"{figure(run.step_ms)} ms.")
    share = memcpy_s / median_s("state_ms")
    bench.report.aim(what, f"{share:.0%}", share >= 0.8)
    return found
