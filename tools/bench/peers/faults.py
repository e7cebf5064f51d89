"""What the peers' recovery scripts share. Each rank writes down every step that it commits; the
script that started them hurts one of them and reads how long the others, and then all, took."""

import argparse
import collections
import ctypes
import json
import os
import pathlib
import random
import signal
import struct
import sys
import tempfile
import time

LAYERS = "784,1024,512,10"  # 1.3M parameters
RANKS = 2
MICRO_BATCHES = 2
WARM_STEPS = 20  # of each rank in the same membership, before it is hurt
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}

Step = collections.namedtuple("Step", "at step members epoch pid")
RECORD = struct.Struct("<dqqqq")


class StepLog:
    """A rank's committed steps. `epoch` is what its peer calls a membership: it grows with each."""

    def __init__(self, folder):
        self.file = os.open(f"{folder}/{os.getpid()}.steps", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def committed(self, step, members, epoch):
        os.write(self.file, RECORD.pack(time.monotonic(), step, members, epoch, os.getpid()))


class World:
    """Both ranks' logs, read by the script that started them."""

    def __init__(self, folder, alive):
        self.folder, self.alive = pathlib.Path(folder), alive

    def steps(self):
        found = []
        for file in self.folder.glob("*.steps"):
            data = file.read_bytes()
            whole = len(data) // RECORD.size * RECORD.size
            found += [Step(*record) for record in RECORD.iter_unpack(data[:whole])]
        return sorted(found)

    def wait(self, what, wanted, patience_s):
        """The first answer of `wanted(steps)` that is not None; None when the time is over."""
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            answer = wanted(self.steps())
            if answer is not None:
                return answer
            self.alive(what)
            time.sleep(0.05)
        return None


def warm(steps):
    """The newest membership's pids, once all its ranks have trained in it for a while."""
    epoch = max((s.epoch for s in steps), default=None)
    count = collections.Counter(s.pid for s in steps if s.epoch == epoch and s.members == RANKS)
    return sorted(count) if len(count) == RANKS and min(count.values()) >= WARM_STEPS else None


def next_step(steps, fault):
    """When the first step was committed that the lost rank had no part in."""
    old = max(s.epoch for s in steps if s.at <= fault)
    later = [s.at for s in steps if s.epoch > old]
    return min(later) if later else None


def whole_again(steps, fault):
    """When the last of all ranks had committed its first step in a whole membership."""
    old = max(s.epoch for s in steps if s.at <= fault)
    first = {}
    for s in steps:
        if s.epoch > old and s.members == RANKS:
            first.setdefault((s.epoch, s.pid), s.at)
    ends = collections.defaultdict(list)
    for (epoch, _), at in first.items():
        ends[epoch].append(at)
    complete = [max(times) for times in ends.values() if len(times) == RANKS]
    return min(complete) if complete else None


def hurt(world, options, choose):
    """One fault: seconds to the next committed step and to a whole world, null for what never came."""
    pids = world.wait("before the fault", warm, options.patience)
    if pids is None:
        sys.exit(f"expected {RANKS} ranks that train, found none within {options.patience} s")
    time.sleep(random.uniform(0, 0.2))  # anywhere in a step
    victim = choose(pids)
    fault = time.monotonic()
    os.kill(victim, SIGNALS[options.fault])
    whole = world.wait("after the fault", lambda s: whole_again(s, fault), options.patience)
    since = lambda at: None if at is None else at - fault
    return {"next_s": since(next_step(world.steps(), fault)), "whole_s": since(whole)}


def step_ms(steps):
    """Median time from one committed step to the next of the same rank and membership."""
    gaps, before = [], {}
    for s in steps:
        key = (s.pid, s.epoch)
        if key in before:
            gaps.append(s.at - before[key])
        before[key] = s.at
    return sorted(gaps)[len(gaps) // 2] * 1e3


def parse(description, add=lambda parser: None):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", default="data/mnist")
    parser.add_argument("--fault", choices=SIGNALS, default="kill")
    parser.add_argument("--faults", type=int, default=1, help="one after the other")
    parser.add_argument("--patience", type=float, default=120, help="seconds, of each wait")
    parser.add_argument("--folder", help="for ranks: where they leave their steps")
    add(parser)
    return parser.parse_args()


def environment(**more):
    return dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo", **more)


def report(world, faults):
    print(json.dumps({"step_ms": step_ms(world.steps()), "faults": faults}))


class Family:
    """Adopts every process that is started below this one, and ends them all when it is left."""

    def __enter__(self):
        PR_SET_CHILD_SUBREAPER = 36
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.folder = tempfile.TemporaryDirectory(prefix="ftrt-peer-")
        return self.folder.name

    def __exit__(self, *_):
        deadline = time.monotonic() + 20
        while (children := descendants(os.getpid())) and time.monotonic() < deadline:
            for pid in children:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            reap()
            time.sleep(0.02)
        self.folder.cleanup()


def descendants(pid):
    try:
        tasks = list(pathlib.Path(f"/proc/{pid}/task").iterdir())
        own = [int(c) for task in tasks for c in (task / "children").read_text().split()]
    except OSError:  # it has just gone
        return []
    return own + [below for child in own for below in descendants(child)]


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0] > 0:
            pass
    except ChildProcessError:
        pass
