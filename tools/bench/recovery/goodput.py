"""Goodput: iterations done against a run without faults, as many iterations of each, by turns."""

import statistics

from harness.ftrt_faults import fault
from harness.tables import figure

AIMS = {15: 0.995, 1: 0.95}  # mean seconds between faults, least goodput


def _chaos(mtbf_s, turn):
    """Either rank is hurt, at random: two entries of twice the time."""
    return [fault("kill", rank=rank, mtbf=f"{2 * mtbf_s}s", seed=100 * turn + rank + 1) for rank in (0, 1)]


def _verdict(by_iterations, by_milliseconds):
    """Both count: equal runs differ by more than a fault costs, where the machine is not quiet."""
    if by_iterations == by_milliseconds:
        return by_iterations
    return "unclear: the two figures disagree"


def measure(bench):
    size = bench.size
    probe = bench.ftrt.run(500, {})
    iterations = int(size.goodput_s * probe.rate / 128)
    run = lambda mtbf: lambda turn: bench.ftrt.run(iterations, {}, chaos=_chaos(mtbf, turn) if mtbf else [])
    found = bench.by_turns(size.goodput_rounds, {"none": run(None), **{mtbf: run(mtbf) for mtbf in AIMS}})
    rows = []
    for mtbf, least in AIMS.items():
        faulted = found[mtbf]
        shares = [hurt.rate / calm.rate for hurt, calm in zip(faulted, found["none"])]
        lost = [r.resumed_ms - run.step_ms + r.lost_iterations * run.step_ms
                for run in faulted for r in run.recoveries]
        share = statistics.median(shares)
        told = 1 - statistics.mean(lost) / (mtbf * 1e3) if lost else None
        rows.append([f"{mtbf} s", str(len(lost)), f"{share:.2%}",
                     f"{min(shares):.2%} - {max(shares):.2%}", f"{told:.2%}" if told else "no fault"])
        bench.report.aim(f"goodput, a fault every {mtbf} s on average: {least:.1%}",
                         f"{share:.2%} of the iterations of a run without faults, {len(lost)} faults"
                         + (f"; {told:.2%} by the milliseconds that each fault cost" if told else ""),
                         _verdict(share >= least, told >= least) if lost else "not measured: no fault came")
    calm = [run.rate for run in found["none"]]
    bench.report.table(
        "Goodput", ["mean time between faults", "faults", "goodput", "lowest - highest round",
                    "by what each fault cost"], rows,
        f"Runs of {iterations} iterations ({figure(size.goodput_s)} s). Runs without faults differed by "
        f"{max(calm) / min(calm) - 1:.2%} among themselves.")
    return {"iterations": iterations, "rounds": found}
