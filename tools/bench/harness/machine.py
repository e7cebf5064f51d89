"""What is measured on, and whether anybody else is at work on it."""

import os
import pathlib
import time


def describe():
    memory = int(pathlib.Path("/proc/meminfo").read_text().split()[1])
    cpu = pathlib.Path("/proc/cpuinfo").read_text()
    wanted = ["avx2", "avx512f", "avx512_bf16", "amx_bf16"]
    flags = next((line for line in cpu.splitlines() if line.startswith("flags")), "").split()
    return {"cores": os.cpu_count(), "memory_gib": round(memory / 2**20),
            "instructions": [name for name in wanted if name in flags],
            "kernel": ".".join(os.uname().release.split(".")[:2]),
            "governor": _governor(), "load_average": os.getloadavg()[0]}


def _governor():
    """How the kernel sets the cores' frequency; a virtual machine often cannot tell."""
    try:
        return pathlib.Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").read_text().strip()
    except OSError:
        return "unknown"


def in_words(found, date):
    """The line that stands above figures."""
    return (f"Taken on {date}: {found['cores']} cores x86-64 ({', '.join(found['instructions'])}), "
            f"{found['memory_gib']} GiB of memory, Linux {found['kernel']}, frequency governor "
            f"{found['governor']}, load average at the start {found['load_average']:.2f}.")


def _busy_and_all():
    times = [int(t) for t in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(times) - times[3] - times[4], sum(times)


def busy_share(seconds=1.0):
    """Share of all cores that is in use, or stolen, while this program sleeps."""
    before = _busy_and_all()
    time.sleep(seconds)
    after = _busy_and_all()
    return (after[0] - before[0]) / max(1, after[1] - before[1])
