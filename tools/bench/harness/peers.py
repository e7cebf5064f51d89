"""Calls the scripts of tools/bench/peers in the environment that their `setup` made."""

import json
import subprocess


class Peers:
    def __init__(self, root):
        self.scripts = root / "tools/bench/peers"
        self.python = root / ".venv-peers/bin/python"
        self.data = root / "data/mnist"

    def set_up(self):
        subprocess.run([self.scripts / "setup"], check=True)

    def _figures(self, script, *arguments):
        done = subprocess.run([self.python, self.scripts / script, *arguments], check=True,
                              timeout=600, stdout=subprocess.PIPE, text=True)
        return json.loads(done.stdout.splitlines()[-1])

    def ddp_step(self, model):
        amp = ["--amp"] if model["amp"] else []
        return self._figures("ddp_step.py", "--data", self.data, "--layers", model["layers"],
                             "--steps", str(model["steps"]), *amp)

    def torchrun_first_step(self):
        return self._figures("torchrun_first_step.py", "--data", self.data)

    def gloo(self):
        return Gloo([self.python, self.scripts / "gloo_all_reduce.py", "--serve"])


class Gloo:
    """Two ranks that sleep until they are asked for a size."""

    def __init__(self, command):
        self.ranks = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def all_reduce_us(self, size):
        print(size, file=self.ranks.stdin, flush=True)
        return json.loads(self.ranks.stdout.readline())["us"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ranks.stdin.close()
        self.ranks.wait(60)
