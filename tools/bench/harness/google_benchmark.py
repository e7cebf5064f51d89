"""Runs a Google Benchmark program and returns what it measured."""

import json
import pathlib
import subprocess
import tempfile


def run(program, *arguments, started=None):
    """One dict for each benchmark: name, real_time, time_unit and its counters. `started` is called
    with the process."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.json"
        command = [program, f"--benchmark_out={out}", "--benchmark_out_format=json", *arguments]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            try:
                if started:
                    started(process)
                _, said = process.communicate(timeout=600)
            except BaseException:
                process.kill()
                raise
        if process.returncode != 0:
            raise subprocess.CalledProcessError(process.returncode, command, stderr=said)
        return json.loads(out.read_text())["benchmarks"]
