"""What the peers' scripts share: two processes that meet over Gloo on this host, one thread each."""

import datetime
import multiprocessing
import os
import socket
import statistics
import sys
import time

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")

import torch
import torch.distributed as dist


def _free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _be(rank, port, work, args):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2,
                            timeout=datetime.timedelta(seconds=120))
    work(rank, *args)
    dist.barrier()
    dist.destroy_process_group()


def run_two(work, *args):
    """Calls work(rank, *args) in this process, as rank 0, and in a fork of it, as rank 1."""
    port = _free_port()
    fork = multiprocessing.get_context("fork")
    peer = fork.Process(target=_be, args=(1, port, work, args), daemon=True)
    peer.start()
    _be(0, port, work, args)
    peer.join(60)
    if peer.exitcode != 0:
        sys.exit(f"rank 1: expected to end with exit code 0, found {peer.exitcode}")


def seconds_of(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def median(values):
    return statistics.median(values)
