"""Runs the ftrt command on a scenario of its own and reads from the run's records how fast it was."""

import concurrent.futures
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

from harness.event_file import read_points

SCENARIO = """\
[run]
name = "bench"
directory = "{folder}"
[cluster]
ranks = {ranks}
[model]
kind = "mlp"
layers = [{layers}]
[data]
kind = "mnist"
path = "{data}"
[train]
epochs = 1000
max_iterations = {iterations}
global_batch = {global_batch}
micro_batch = 32
lr = 0.1
momentum = 0.9
weight_decay = 1e-4
amp = "{amp}"
evaluate_every_epochs = 0
[checkpoint]
every_iterations = 0
[metrics]
every_iterations = {every}
"""


class Ftrt:
    """The built command. `work` is a folder for scenarios and runs, on the disk that people use."""

    def __init__(self, root, work):
        self.command, self.data, self.work = root / "build/bin/ftrt", root / "data/mnist", work

    def _run(self, model, ranks, iterations, every):
        """Returns (time of the start, the run's points, its summary)."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.work))
        scenario = folder / "scenario.toml"
        scenario.write_text(SCENARIO.format(
            folder=folder / "runs", ranks=ranks, layers=model["layers"], data=self.data,
            iterations=iterations, global_batch=64 * ranks, amp="bf16" if model["amp"] else "off",
            every=every))
        command = [self.command, "--scenario", scenario, "--quiet", "--summary",
                   folder / "summary.json"]
        start = time.time()
        subprocess.run(command, check=True, timeout=300)
        summary = json.loads((folder / "summary.json").read_text())
        return start, read_points(next((folder / "runs").glob("*/tensorboard"))), summary

    def step_ms(self, model, ranks):
        """Median of time/step_ms once the run is warm, and the mean of all steps."""
        iterations = model["steps"]
        _, points, summary = self._run(model, ranks, iterations, max(1, iterations // 200))
        steps = [p.value for p in points if p.tag == "time/step_ms" and p.step > iterations // 4]
        return {"ms": statistics.median(steps),
                "mean_ms": 64 * ranks / summary["samples_per_second"] * 1e3}

    def two_lone_ranks_ms(self, model):
        """Two runs of one rank at the same time: what the ranks do to each other without a word."""
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            runs = [pool.submit(self.step_ms, model, 1) for _ in range(2)]
            return statistics.mean(run.result()["ms"] for run in runs)

    def first_iteration_s(self, model):
        """From before the command is started to the commit of iteration 1, at most.

        The run writes its points down several times a second, so a point's time is that of writing.
        Iteration 1 was committed before the others of the same batch had run, so their step times
        come off."""
        start, points, summary = self._run(model, 2, 500, 1)
        steps = [p for p in points if p.tag == "time/step_ms"]
        if not steps or steps[0].step != 1:
            raise ValueError(f"expected iteration 1 as the first of {len(steps)} points, found "
                             f"{steps[0].step if steps else 'none'}")
        batch = [p for p in steps if p.wall_time - steps[0].wall_time < 0.005]
        later_s = sum(p.value for p in batch[1:]) / 1e3
        return {"s": steps[0].wall_time - later_s - start, "wall_s": summary["wall_seconds"]}
