"""Runs a Google Benchmark program and returns what it measured."""

import json
import pathlib
import subprocess
import tempfile


def run(program, *arguments):
    """One dict for each benchmark: name, real_time, time_unit and its counters."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.json"
        subprocess.run([program, f"--benchmark_out={out}", "--benchmark_out_format=json", *arguments],
                       check=True, timeout=600, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return json.loads(out.read_text())["benchmarks"]
