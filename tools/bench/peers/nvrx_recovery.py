#!/usr/bin/env python3
"""NVRx's in-process restart: two active ranks and a reserve. One is hurt; the survivor and the reserve
restart the training function in their processes, and the survivor gives its state to the other.
Prints JSON: seconds from the fault to the next committed step, and to two ranks training again. One
fault a run, since it uses the reserve up.

    nvrx_recovery.py --data data/mnist --tuned
"""

import datetime
import os
import socket
import subprocess
import sys

import faults

GLOO_TIMEOUT = datetime.timedelta(seconds=10)
TUNED = datetime.timedelta(milliseconds=50)
INTERVALS = ("monitor_thread_interval", "monitor_process_interval", "heartbeat_interval",
             "progress_watchdog_interval", "last_call_wait")


def add_options(parser):
    parser.add_argument("--tuned", action="store_true", help="all its intervals 50 ms, not 1 s")


class State:
    """What a rank keeps over restarts: model, optimizer, and how many steps are in them."""

    def __init__(self, data):
        from training import Trainer, mlp

        model = mlp([int(width) for width in faults.LAYERS.split(",")])
        self.model, self.step = model, 0
        self.trainer = Trainer(model, data, False, faults.MICRO_BATCHES, 0, faults.RANKS)

    def tensors(self):
        """In one order on every rank; the momentum exists from the beginning."""
        import torch

        momentum = self.trainer.optimizer.state
        for parameter in self.model.parameters():
            momentum[parameter].setdefault("momentum_buffer", torch.zeros_like(parameter))
        return [*self.model.parameters(), *(momentum[p]["momentum_buffer"] for p in self.model.parameters())]

    def settle(self, dist, torch):
        """The rank that has come furthest gives its state to all."""
        mine = torch.tensor([self.step])
        all_steps = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(all_steps, mine)
        steps = [step.item() for step in all_steps]
        source = steps.index(max(steps))
        with torch.no_grad():
            for tensor in self.tensors():
                dist.broadcast(tensor, source)
        self.step = max(steps)


def rank(options):
    import nvidia_resiliency_ext.inprocess as inprocess
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    from training import mnist

    torch.set_num_threads(1)
    state, log = State(mnist(options.data)), faults.StepLog(options.folder)
    first_port = int(os.environ["MASTER_PORT"])
    store = dist.TCPStore("127.0.0.1", first_port + 1, is_master=os.environ["RANK"] == "0",
                          wait_for_workers=False)

    def train(wrapper: inprocess.CallWrapper = None):
        number, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        own = dist.PrefixStore(f"training_{wrapper.iteration}", store)
        dist.init_process_group("gloo", store=own, rank=number, world_size=world_size, timeout=GLOO_TIMEOUT)
        state.settle(dist, torch)
        trainer = state.trainer
        trainer.net = DistributedDataParallel(state.model, gradient_as_bucket_view=True)
        optimizer_step = trainer.optimizer.step

        def step():
            with wrapper.atomic():  # never half of one
                optimizer_step()
                state.step += 1

        trainer.optimizer.step = step
        try:
            while True:
                trainer.step()
                log.committed(state.step, world_size, wrapper.iteration)
        finally:
            trainer.optimizer.step = optimizer_step

    intervals = dict.fromkeys(INTERVALS, TUNED) if options.tuned else {}
    active = inprocess.Compose(inprocess.rank_assignment.MaxActiveWorldSize(faults.RANKS),
                               inprocess.rank_assignment.ShiftRanks())
    inprocess.Wrapper(rank_assignment=active, **intervals)(train)()


def free_ports():
    """Two in a row: NVRx's store and the training's."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            try:
                second.bind(("127.0.0.1", first.getsockname()[1] + 1))
                return first.getsockname()[1]
            except (OSError, OverflowError):
                pass


def launch(options):
    with faults.Family() as folder, open(f"{folder}/log", "w+") as log:
        command = [sys.executable, __file__, "--data", options.data, "--folder", folder,
                   *(["--tuned"] if options.tuned else [])]
        port, reserves = free_ports(), 1
        ranks = [subprocess.Popen(command, stdout=log, stderr=log, env=faults.environment(
            RANK=str(number), WORLD_SIZE=str(faults.RANKS + reserves), MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(port))) for number in range(faults.RANKS + reserves)]
        lost = ranks[1]  # rank 0 holds the stores

        def alive(when):
            for number, process in enumerate(ranks):
                if process.poll() is not None and process is not lost:
                    log.seek(0)
                    sys.exit(f"rank {number} ended {when}, with exit code {process.returncode}:\n"
                             f"{log.read()[-2000:]}")

        world = faults.World(folder, alive)
        faults.report(world, [faults.hurt(world, options, lambda pids: lost.pid)])


if __name__ == "__main__":
    given = faults.parse(__doc__.splitlines()[0], add_options)
    if given.faults != 1:
        sys.exit("one fault a run: it uses the reserve up")
    rank(given) if given.folder else launch(given)
