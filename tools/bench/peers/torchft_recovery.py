#!/usr/bin/env python3
"""torchft: two replicas of one rank under a lighthouse. One is hurt; the other goes on alone, and the
lost one is started again at once, as its launcher would. Prints JSON: seconds from each fault to the
survivor's next committed step, and to both training together again.

    torchft_recovery.py --data data/mnist --faults 3 --heartbeat-timeout-ms 300
"""

import datetime
import os
import random
import subprocess
import sys

import faults

os.environ["RUST_LOG"] = "error"  # several lines a step otherwise
GLOO_TIMEOUT = datetime.timedelta(seconds=10)


def add_options(parser):
    parser.add_argument("--heartbeat-timeout-ms", type=int, default=5000, help="torchft's own default")
    parser.add_argument("--quorum-tick-ms", type=int, default=100, help="torchft's own default")
    parser.add_argument("--lighthouse", help="for replicas: its address")
    parser.add_argument("--replica", type=int)


def replica(options):
    import torch
    import torch.distributed as dist
    from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo

    from training import Trainer, mlp, mnist

    torch.set_num_threads(1)
    model = mlp([int(width) for width in faults.LAYERS.split(",")])
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    optimizer = None

    def load(state):
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    manager = Manager(
        pg=ProcessGroupGloo(timeout=GLOO_TIMEOUT), load_state_dict=load, min_replica_size=1,
        state_dict=lambda: {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
        replica_id=f"replica_{options.replica}", rank=0, world_size=1, store_addr="127.0.0.1",
        store_port=store.port, lighthouse_addr=options.lighthouse, hostname="127.0.0.1")
    net = DistributedDataParallel(manager, model)
    trainer = Trainer(net, mnist(options.data), False, faults.MICRO_BATCHES, options.replica, faults.RANKS)
    trainer.optimizer = optimizer = Optimizer(manager, trainer.optimizer)
    log = faults.StepLog(options.folder)
    while True:
        before = manager.current_step()
        trainer.step()
        if manager.current_step() > before:
            # The number of the quorum has no public name.
            log.committed(manager.current_step(), manager.num_participants(), manager._quorum_id)


def launch(options):
    from torchft.coordination import LighthouseServer

    with faults.Family() as folder, open(f"{folder}/log", "w+") as log:
        lighthouse = LighthouseServer(bind="127.0.0.1:0", min_replicas=1,
                                      heartbeat_timeout_ms=options.heartbeat_timeout_ms,
                                      quorum_tick_ms=options.quorum_tick_ms)
        # It says the machine's name, which not every machine can resolve.
        address = "http://127.0.0.1:" + lighthouse.address().rsplit(":", 1)[1]

        def start(number):
            command = [sys.executable, __file__, "--data", options.data, "--folder", folder,
                       "--replica", str(number), "--lighthouse", address]
            return subprocess.Popen(command, env=faults.environment(), stdout=log, stderr=log)

        replicas = {number: start(number) for number in range(faults.RANKS)}
        hurt_one = []

        def alive(when):
            for number, process in replicas.items():
                if process.poll() is None:
                    continue
                if process.pid not in hurt_one:
                    log.seek(0)
                    sys.exit(f"replica {number} ended {when}, with exit code {process.returncode}:\n"
                             f"{log.read()[-2000:]}")
                replicas[number] = start(number)

        def choose(pids):
            hurt_one.append(random.choice(pids))
            return hurt_one[-1]

        world = faults.World(folder, alive)
        found = [faults.hurt(world, options, choose) for _ in range(options.faults)]
        faults.report(world, found)


if __name__ == "__main__":
    given = faults.parse(__doc__.splitlines()[0], add_options)
    replica(given) if given.folder else launch(given)
