"""What is measured on, and whether anybody else is at work on it."""

import os
import pathlib
import time


def describe():
    memory = int(pathlib.Path("/proc/meminfo").read_text().split()[1])
    cpu = pathlib.Path("/proc/cpuinfo").read_text()
    wanted = ["avx2", "avx512f", "avx512_bf16", "amx_bf16"]
    flags = next((l for l in cpu.splitlines() if l.startswith("flags")), "").split()
    return {"cores": os.cpu_count(), "memory_gib": round(memory / 2**20),
            "instructions": [name for name in wanted if name in flags],
            "kernel": ".".join(os.uname().release.split(".")[:2])}


def _busy_and_all():
    times = [int(t) for t in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(times) - times[3] - times[4], sum(times)


def busy_share(seconds=1.0):
    """Share of all cores that is in use, or stolen, while this program sleeps."""
    before = _busy_and_all()
    time.sleep(seconds)
    after = _busy_and_all()
    return (after[0] - before[0]) / max(1, after[1] - before[1])
