"""What the peers train: the model, the data and the step of scenarios/mnist.toml, in PyTorch's own
words. ftrt's scenario for the same is made by tools/bench/harness/ftrt_runs.py."""

import contextlib
import pathlib

import torch

MICRO_BATCH = 32


def mnist(folder):
    """Images, one row of bytes each, and labels. A batch makes floats of its own, as ftrt's does."""
    def idx(name, header):
        content = bytearray((pathlib.Path(folder) / name).read_bytes())
        return torch.frombuffer(content, dtype=torch.uint8, offset=header)

    return idx("train-images.idx3-ubyte", 16).reshape(-1, 784), idx("train-labels.idx1-ubyte", 8)


def mlp(widths):
    torch.manual_seed(1)
    layers = []
    for fan_in, fan_out in zip(widths, widths[1:]):
        layers += [torch.nn.ReLU()] if layers else []
        layers.append(torch.nn.Linear(fan_in, fan_out))
    return torch.nn.Sequential(*layers)


class Trainer:
    """One rank: `micro_batches` of 32 samples a step, summed up before the optimizer steps."""

    def __init__(self, net, data, amp, micro_batches, rank, world_size):
        self.net, (self.images, self.labels) = net, data
        self.amp, self.micro_batches = amp, micro_batches
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
        order = torch.randperm(len(self.labels), generator=torch.Generator().manual_seed(1))
        self.order = order[rank::world_size]
        self.at = 0

    def next_batch(self):
        if self.at + MICRO_BATCH > len(self.order):
            self.at = 0
        picked = self.order[self.at:self.at + MICRO_BATCH]
        self.at += MICRO_BATCH
        return self.images[picked].float().div_(255), self.labels[picked].long()

    def step(self):
        self.optimizer.zero_grad()
        for micro_batch in range(self.micro_batches):
            last = micro_batch + 1 == self.micro_batches
            quiet = hasattr(self.net, "no_sync") and not last
            with self.net.no_sync() if quiet else contextlib.nullcontext():
                images, labels = self.next_batch()
                with torch.autocast("cpu", torch.bfloat16, enabled=self.amp):
                    logits = self.net(images)
                loss = torch.nn.functional.cross_entropy(logits.float(), labels)
                (loss / self.micro_batches).backward()
        self.optimizer.step()
        return loss
