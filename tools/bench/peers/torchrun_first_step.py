#!/usr/bin/env python3
"""From starting torchrun with two ranks to the first optimizer step of the slower one. Prints JSON.

    torchrun_first_step.py --data data/mnist
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time


def rank(options):
    """What torchrun starts twice."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    from training import Trainer, mlp, mnist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    net = DistributedDataParallel(mlp([784, 128, 10]), gradient_as_bucket_view=True)
    Trainer(net, mnist(options.data), True, 2, dist.get_rank(), 2).step()
    done = pathlib.Path(options.times) / f"{dist.get_rank()}"
    done.write_text(str(time.time()))
    dist.destroy_process_group()


def launch(options):
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone",
                   "--nproc-per-node=2", __file__, "--data", options.data, "--times", folder]
        quiet = dict(os.environ, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
        start = time.time()
        subprocess.run(command, check=True, env=quiet, timeout=120, stdout=subprocess.DEVNULL)
        ends = [float(file.read_text()) for file in pathlib.Path(folder).iterdir()]
        exit_s = time.time() - start
    if len(ends) != 2:
        sys.exit(f"torchrun: expected the times of 2 ranks, found {len(ends)}")
    print(json.dumps({"first_step_s": max(ends) - start, "exit_s": exit_s}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="data/mnist")
    parser.add_argument("--times", help="for torchrun: where each rank leaves its time")
    options = parser.parse_args()
    rank(options) if options.times else launch(options)


if __name__ == "__main__":
    main()
