"""Calls the recovery scripts of tools/bench/peers, each in the environment that `setup` made for it.
A peer that cannot be installed or does not run costs its rows, never the run: the reason is kept."""

import collections
import dataclasses
import json
import os
import signal
import subprocess


@dataclasses.dataclass
class Peer:
    name: str  # as tables say it
    script: str
    environment: str = ""  # below .venv-peers; "": torch's own
    options: tuple = ()
    several: bool = True  # faults in one run


PEERS = [
    Peer("torchrun", "torchrun_recovery.py"),
    Peer("torchft", "torchft_recovery.py", "torchft"),
    # Three of its own heartbeats of 100 ms: with less, a replica that lives is given up.
    Peer("torchft, tuned", "torchft_recovery.py", "torchft", ("--heartbeat-timeout-ms", "300")),
    Peer("NVRx in-process", "nvrx_recovery.py", "nvrx", several=False),
    Peer("NVRx in-process, tuned", "nvrx_recovery.py", "nvrx", ("--tuned",), several=False),
]


class PeerFaults:
    def __init__(self, root):
        self.root, self.scripts = root, root / "tools/bench/peers"
        self.trouble, self.missing, self.failures = {}, set(), collections.Counter()
        for environment in ("", "torchft", "nvrx"):
            self._set_up(environment)

    def _set_up(self, environment):
        done = subprocess.run([self.scripts / "setup", *([environment] if environment else [])],
                              stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            self._give_up(environment, "could not be installed: " + done.stderr.strip()[-300:])

    def _give_up(self, environment, why):
        for peer in PEERS:
            if environment in ("", peer.environment):
                self.trouble.setdefault(peer.name, why)
                self.missing.add(peer.name)

    def measure(self, peer, fault, faults, patience_s):
        """Its faults, {"next_s", "whole_s"} each; none if it does not run here."""
        if peer.name in self.missing:
            return []
        python = self.root / ".venv-peers" / peer.environment / "bin/python"
        command = [python, self.scripts / peer.script, "--data", self.root / "data/mnist", "--fault", fault,
                   "--faults", str(faults if peer.several else 1), "--patience", str(patience_s), *peer.options]
        limit_s = 60 + (faults + 1) * 3 * patience_s
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              start_new_session=True) as process:
            try:
                said, complaint = process.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                said, complaint = "", f"no answer within {limit_s:.0f} s"
                process.send_signal(signal.SIGINT)  # it ends what it has started
            except BaseException:
                os.kill(process.pid, signal.SIGINT)
                raise
        if process.returncode != 0:
            self.failures[peer.name] += 1
            self.trouble[peer.name] = (f"did not run {self.failures[peer.name]} times, the last time: "
                                       + complaint.strip()[-300:])
            return []
        return json.loads(said.splitlines()[-1])["faults"]
