#!/usr/bin/env python3
"""torchrun: a rank is hurt, the agent ends the others and starts all anew from the last checkpoint.
Prints JSON: seconds from each fault to the next committed step, and to all ranks training again.

    torchrun_recovery.py --data data/mnist --faults 3
"""

import datetime
import os
import random
import subprocess
import sys

import faults

CHECKPOINT_EVERY = 10  # steps, as torch.save by rank 0; what is redone costs less than a hundredth
COLLECTIVE_TIMEOUT = datetime.timedelta(seconds=10)  # which finds a stopped rank; the default is 30 min


# Without it every attempt meets in the same store, where a rank may read the dead one's address before
# the new one has written its own; it then tries that in vain, up to a minute long.
STORE_OF_ITS_OWN = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def rank(options):
    """What torchrun starts twice."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    from training import Trainer, mlp, mnist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=COLLECTIVE_TIMEOUT)
    model = mlp([int(width) for width in faults.LAYERS.split(",")])
    net = DistributedDataParallel(model, gradient_as_bucket_view=True)
    trainer = Trainer(net, mnist(options.data), False, faults.MICRO_BATCHES, dist.get_rank(), faults.RANKS)
    file, log = f"{options.folder}/checkpoint.pt", faults.StepLog(options.folder)
    step = 0
    if os.path.exists(file):
        saved = torch.load(file)
        model.load_state_dict(saved["model"])
        trainer.optimizer.load_state_dict(saved["optimizer"])
        step, trainer.at = saved["step"], saved["at"]
    while True:
        trainer.step()
        step += 1
        log.committed(step, dist.get_world_size(), int(os.environ["TORCHELASTIC_RESTART_COUNT"]))
        if step % CHECKPOINT_EVERY == 0 and dist.get_rank() == 0:
            torch.save({"model": model.state_dict(), "optimizer": trainer.optimizer.state_dict(),
                        "step": step, "at": trainer.at}, file + ".new")
            os.rename(file + ".new", file)


def launch(options):
    with faults.Family() as folder, open(f"{folder}/log", "w+") as log:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone",
                   f"--nproc-per-node={faults.RANKS}", "--max-restarts=1000", "--monitor-interval=0.1",
                   __file__, "--data", options.data, "--folder", folder]
        agent = subprocess.Popen(command, env=faults.environment(**STORE_OF_ITS_OWN), stdout=log, stderr=log)

        def alive(when):
            if agent.poll() is not None:
                log.seek(0)
                sys.exit(f"torchrun ended {when}, with exit code {agent.returncode}:\n{log.read()[-2000:]}")

        world = faults.World(folder, alive)
        found = [faults.hurt(world, options, random.choice) for _ in range(options.faults)]
        faults.report(world, found)


if __name__ == "__main__":
    given = faults.parse(__doc__.splitlines()[0])
    rank(given) if given.folder else launch(given)
