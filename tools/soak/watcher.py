"""Watches the processes of one ftrt command from outside: what they hold, and whether all of them go."""

import collections
import os
import pathlib
import statistics
import time

INTERVAL_S = 0.5
# Growth is told from start-up and from noise: between the second and the last quarter of a process's
# life, where it lived for this long.
SHORTEST_LIFE_S = 45.0
# A worker has eight, and those that died a moment ago still have them: three or four more, or fewer,
# at any look. What leaks one with each tenth fault shows in ten minutes all the same.
DESCRIPTORS_MAY_GROW = 32
MEMORY_MAY_GROW_MIB = 24.0
LEAVING_S = 30.0

Sample = collections.namedtuple("Sample", "at descriptors memory_mib")


def _read(path):
    try:
        return pathlib.Path(path).read_bytes()
    except OSError:
        return b""


def _private_mib(pid):
    for line in _read(f"/proc/{pid}/status").decode(errors="replace").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return None


def _descriptors(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None


class Watcher:
    def __init__(self, process, folder):
        self.process, self.folder = process, folder
        self.kept = {}  # (pid, name) -> samples; the processes that live for long
        self.seen = set()  # (pid, when it began), of all that belonged to the command

    def _family(self):
        """The processes that work in the run's folder: it is handed down from the command."""
        found = []
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit():
                continue
            try:
                if os.readlink(f"/proc/{entry.name}/cwd") == str(self.folder):
                    found.append(int(entry.name))
            except OSError:
                pass
        return found

    def _began(self, pid):
        fields = _read(f"/proc/{pid}/stat").decode(errors="replace").rpartition(")")[2].split()
        return fields[19] if len(fields) > 19 and fields[0] != "Z" else None

    def _look(self):
        for pid in self._family():
            began = self._began(pid)
            if began is None:
                continue
            self.seen.add((pid, began))
            name = _read(f"/proc/{pid}/comm").decode(errors="replace").strip()
            if name not in ("ftrt", "ftrt-worker"):
                continue  # ranks and spares come and go
            sample = Sample(time.monotonic(), _descriptors(pid), _private_mib(pid))
            if None not in sample:
                self.kept.setdefault((pid, began, name), []).append(sample)

    def until_the_end(self, patience_s):
        """The exit code; None: it had to be killed."""
        deadline = time.monotonic() + patience_s
        while self.process.poll() is None:
            self._look()
            if time.monotonic() > deadline:
                self.process.kill()
                self.process.wait()
                return None
            time.sleep(INTERVAL_S)
        return self.process.returncode

    def _left(self):
        return sorted(pid for pid, began in self.seen if self._began(pid) == began)

    def verdicts(self):
        """(what, expected, found, whether it holds)"""
        deadline = time.monotonic() + LEAVING_S
        while self._left() and time.monotonic() < deadline:
            time.sleep(INTERVAL_S)
        left = self._left()
        yield "processes left", "none", left or "none", not left
        for (pid, _, name), samples in self.kept.items():
            if samples[-1].at - samples[0].at < SHORTEST_LIFE_S:
                continue
            quarter = len(samples) // 4
            early, late = samples[quarter:2 * quarter], samples[-quarter:]
            for what, most, unit, of in (
                    ("descriptors", DESCRIPTORS_MAY_GROW, "", lambda s: s.descriptors),
                    ("private memory", MEMORY_MAY_GROW_MIB, " MiB", lambda s: s.memory_mib)):
                before = statistics.median(of(s) for s in early)
                after = statistics.median(of(s) for s in late)
                yield (f"{what} of {name} (pid {pid})", f"at most {before + most:.0f}{unit}",
                       f"{after:.0f}{unit} (early {before:.0f}{unit})", after - before <= most)
