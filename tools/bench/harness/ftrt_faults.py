"""Runs the ftrt command with faults and reads from its summary what each of them cost."""

import dataclasses
import json
import math
import pathlib
import shutil
import statistics
import subprocess
import tempfile

from harness.event_file import read_points

MLP = "784,1024,512,10"  # 1.3M parameters, as in tools/bench/peers/faults.py
SCENARIO = """\
[run]
name = "bench"
directory = "{folder}/runs"
[cluster]
ranks = 2
[model]
kind = "mlp"
layers = [{layers}]
[data]
{data}
[train]
epochs = 100000
max_iterations = {iterations}
global_batch = {global_batch}
micro_batch = {micro_batch}
lr = 0.1
momentum = 0.9
weight_decay = 1e-4
evaluate_every_epochs = 0
"""


@dataclasses.dataclass
class Recovery:
    """One fault and all that it cost. Where several ranks died at once, the last of them counts."""

    detected_ms: float
    resumed_ms: float
    lost_iterations: int
    source: str
    replacement: str  # "spare", "fork"; empty where the build does not say
    times: dict  # what resumed_ms went into; empty likewise


@dataclasses.dataclass
class Run:
    summary: dict
    step_ms: float  # an iteration's own time: the median of those that were written down
    recoveries: list

    @property
    def rate(self):
        """Iterations a second, recoveries included."""
        return self.summary["samples_per_second"]


def percentile(values, share):
    """By nearest rank: a value that was measured, never one in between."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _recoveries(entries):
    found = {}
    for entry in entries:
        own = Recovery(entry["detected_ms"], entry["resumed_ms"], entry["lost_iterations"],
                       entry["source"], entry.get("replacement", ""), entry.get("times", {}))
        before = found.get(entry["generation"])
        if before is None or own.resumed_ms > before.resumed_ms:
            found[entry["generation"]] = own
    return list(found.values())


def fault(kind, every=0, count=0, **more):
    """A [[chaos]] entry. `more` replaces `every`: mtbf, seed, rank or ranks."""
    values = {"kind": kind, **({"every_iterations": every} if every else {}),
              **({"max_count": count} if count else {}), **more}
    return "[[chaos]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())


class FaultRuns:
    def __init__(self, command, mnist, work):
        self.command, self.mnist, self.work = command, mnist, work
        self.known = {}

    def _write(self, folder, iterations, layers=MLP, data=None, global_batch=128, micro_batch=32, chaos=()):
        file = folder / "scenario.toml"
        data = data or f'kind = "mnist"\npath = "{self.mnist}"'
        file.write_text(SCENARIO.format(folder=folder, layers=layers, data=data, iterations=iterations,
                                        global_batch=global_batch, micro_batch=micro_batch)
                        + "".join(chaos))
        return file

    def knows(self, key, value):
        """Whether the build has that key. What this benchmark asks for is then left out or told."""
        if key not in self.known:
            folder = pathlib.Path(tempfile.mkdtemp(dir=self.work))
            command = [self.command, "check", self._write(folder, 10)]
            subprocess.run(command, check=True, timeout=60, stdout=subprocess.DEVNULL)
            asked = subprocess.run([*command, "--set", f"{key}={value}"], timeout=60,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.known[key] = asked.returncode == 0
        return self.known[key]

    def only_known(self, settings):
        return {key: value for key, value in settings.items() if self.knows(key, value)}

    def run(self, iterations, settings, **scenario):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.work))
        try:
            command = [self.command, "--scenario", self._write(folder, iterations, **scenario), "--quiet",
                       "--summary", folder / "summary.json"]
            for key, value in settings.items():
                command += ["--set", f"{key}={value}"]
            done = subprocess.run(command, timeout=900, stderr=subprocess.PIPE, text=True)
            if done.returncode != 0:
                raise RuntimeError(f"ftrt: expected exit code 0, found {done.returncode}: {done.stderr[-600:]}")
            summary = json.loads((folder / "summary.json").read_text())
            points = read_points(next((folder / "runs").glob("*/tensorboard")))
        finally:
            shutil.rmtree(folder)  # a checkpoint may have a gigabyte
        steps = [p.value for p in points if p.tag == "time/step_ms" and p.step > iterations // 10]
        return Run(summary, statistics.median(steps), _recoveries(summary["recoveries"]))
