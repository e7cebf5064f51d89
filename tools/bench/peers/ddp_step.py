#!/usr/bin/env python3
"""Step time of torch DDP over Gloo, two ranks of one thread, and of the same step on one rank without
DDP while the other sleeps, by turns. Prints JSON.

    ddp_step.py --layers 784,128,10 --amp --steps 300 --data data/mnist
"""

import argparse
import json

from training import Trainer, mlp, mnist
from two_ranks import dist, median, run_two, seconds_of

BLOCKS = 5  # of DDP steps and of steps without it, by turns


def times_of(trainer, steps):
    return [seconds_of(trainer.step) for _ in range(steps)]


def measure(rank, options):
    from torch.nn.parallel import DistributedDataParallel

    data = mnist(options.data)
    widths = [int(width) for width in options.layers.split(",")]
    # The faster of DDP's ways: buckets without a copy of the gradients.
    ddp = DistributedDataParallel(mlp(widths), gradient_as_bucket_view=True)
    shared = Trainer(ddp, data, options.amp, options.micro_batches, rank, 2)
    alone = Trainer(mlp(widths), data, options.amp, options.micro_batches, 0, 1)
    each = max(1, options.steps // BLOCKS)
    times_of(shared, min(20, each))
    with_ddp, without = [], []
    for _ in range(BLOCKS):
        dist.barrier()
        with_ddp += times_of(shared, each)
        dist.barrier()
        if rank == 0:
            without += times_of(alone, each)
    if rank == 0:
        print(json.dumps({"ddp_ms": median(with_ddp) * 1e3, "alone_ms": median(without) * 1e3,
                          "ddp_mean_ms": sum(with_ddp) / len(with_ddp) * 1e3,
                          "steps": len(with_ddp)}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", default="784,128,10")
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--micro-batches", type=int, default=2, help="of 32 samples, for each rank")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--data", default="data/mnist")
    run_two(measure, parser.parse_args())


if __name__ == "__main__":
    main()
