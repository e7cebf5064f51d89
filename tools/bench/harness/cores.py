"""Gives each rank of bench_all_reduce a core of its own.

On a busy machine the kernel may keep both ranks on one core, where each waits for the other's time
slice: that is a figure of the scheduler's, 90 us at any size, not of the all-reduce."""

import os
import pathlib
import time

# Both buffers touched: the communicator is up by then. A rank that is confined before it has joined
# counts one core and does not spin.
READY_BYTES = 120 << 20


def _resident_bytes(pid):
    pages = pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _children(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def spread(process, patience_s=20):
    """Pins the process and its children, once they are ready; fewer cores than ranks: as they are."""
    deadline = time.monotonic() + patience_s
    while process.poll() is None and time.monotonic() < deadline:
        ranks = [process.pid, *_children(process.pid)]
        if len(ranks) > 1 and all(_resident_bytes(rank) > READY_BYTES for rank in ranks):
            cores = sorted(os.sched_getaffinity(0))
            for rank, core in zip(ranks, cores if len(cores) >= len(ranks) else []):
                os.sched_setaffinity(rank, {core})
            return
        time.sleep(0.002)
