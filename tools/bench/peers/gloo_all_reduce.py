#!/usr/bin/env python3
"""Gloo's all-reduce between two ranks: one line of JSON for each size.

    gloo_all_reduce.py [BYTES...]        4 KiB to 64 MiB without an argument
    gloo_all_reduce.py --serve           a size a line on standard input, until it ends

With --serve these ranks sleep between two sizes, and the caller measures something else.
"""

import json
import sys

from two_ranks import dist, median, run_two, seconds_of, torch


def reduce_median(rank, size):
    """Median microseconds over several calls, on a buffer that each rank has just written."""
    buffer = torch.empty(size // 4)
    repeats = min(200, max(9, (256 << 20) // size))
    times = []
    for turn in range(2 + repeats):
        buffer.fill_(float(turn % 3 + rank))
        dist.barrier()
        times.append(seconds_of(lambda: dist.all_reduce(buffer)))
    return {"bytes": size, "us": median(times[2:]) * 1e6, "repeats": repeats}


def reduce_all(rank, sizes):
    """Rank 0 has the sizes and tells them to rank 1; 0 is the end."""
    while True:
        size = torch.tensor([int(next(sizes, 0)) if rank == 0 else 0])
        dist.broadcast(size, 0)
        if size.item() == 0:
            return
        figures = reduce_median(rank, size.item())
        if rank == 0:
            print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        sizes = iter(sys.stdin.readline, "")
    else:
        sizes = iter(sys.argv[1:] or [4096 << 2 * i for i in range(8)])
    run_two(reduce_all, sizes)
