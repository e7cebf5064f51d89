"""What supervision, progress words, digests and a spare cost a run without faults.

What can be switched off is measured against runs in which it is off, by turns. Progress words cannot:
their nanoseconds come from bench_micro, in the same run, and are added."""

import statistics

from harness import google_benchmark
from harness.ftrt_faults import percentile

NEVER = 1_000_000_000
OFF = {"supervision.hang_detection": "false", "supervision.spares": 0,
       "supervision.digest_every_iterations": NEVER}


def measure(bench):
    size, ftrt = bench.size, bench.ftrt
    off = ftrt.only_known(OFF)
    iterations = int(size.cost_s * ftrt.run(500, {}).rate / 128)
    found = bench.by_turns(2 * size.cost_pairs, {
        "as it is": lambda turn: ftrt.run(iterations, {}), "off": lambda turn: ftrt.run(iterations, off)})
    pairs = list(zip(found["as it is"], found["off"]))
    by_rate = [calm.rate / own.rate - 1 for own, calm in pairs]
    by_step = [own.step_ms / calm.step_ms - 1 for own, calm in pairs]
    progress, why = _progress_share(bench, found["as it is"])
    # Neighbours of the same kind: what two equal runs differ by on this machine.
    noise = statistics.median(abs(a.rate / b.rate - 1)
                              for runs in found.values() for a, b in zip(runs, runs[1:]))
    total = statistics.median(by_rate) + progress
    bench.report.table(
        "Cost of supervision, digests, a spare and progress words, fault-free",
        ["by", "median", "quarter - three quarters"],
        [["throughput", f"{statistics.median(by_rate):.2%}", _quarters(by_rate)],
         ["median iteration", f"{statistics.median(by_step):.2%}", _quarters(by_step)],
         ["progress words", f"{progress:.4%}" if not why else why, ""]],
        f"{len(pairs)} pairs of {iterations} iterations, default settings against "
        f"{', '.join(f'{key} = {value}' for key, value in off.items())}. "
        f"Two equal runs differed by {noise:.2%} (median)."
        + "".join(f" This build does not know {key}." for key in OFF if key not in off))
    unknown = [key for key in OFF if key not in off]
    measured = f"{total:.2%} of throughput; equal runs differ by {noise:.2%}"
    bench.report.aim("cost of supervision, progress, digests and a spare: 1 %", measured,
                     f"not all measured: no {', '.join(unknown)} in this build" if unknown else total <= 0.01)
    return {"iterations": iterations, "off": off, "rounds": found, "progress_share": progress}


def _quarters(values):
    return f"{percentile(values, 0.25):.2%} - {percentile(values, 0.75):.2%}"


def _progress_share(bench, runs):
    if not bench.micro.exists():
        return 0.0, "bench_micro is not built"
    found = google_benchmark.run(bench.micro, "--benchmark_filter=^progress_of_an_iteration$")[0]
    nanoseconds = found["real_time"] * {"ns": 1, "us": 1e3, "ms": 1e6}[found["time_unit"]]
    return nanoseconds / (statistics.median(run.step_ms for run in runs) * 1e6), ""
