"""Buffers of ranks with 3 and 5 samples: what is equal on both stays as it is, to the bit, and the
rest is the mean.

usage: averaged.py stay|mask|nan [ranks|servers]
"""

import os
import sys

import torch

import strata.torch as st

torch.set_num_threads(1)
rank = int(os.environ["RANK"])
what, place = sys.argv[1], (sys.argv[2:] or ["ranks"])[0]
STEPS, SAMPLES, LOWEST = 12, (3, 5), torch.finfo(torch.float32).min


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)
        self.register_buffer("third", torch.full((7,), 1 / 3))
        self.register_buffer("tenth", torch.tensor(0.1))
        self.register_buffer("mask", torch.tensor([[0.0, -float("inf")], [0.0, 0.0]]))
        self.register_buffer("lowest", torch.full((2, 2), LOWEST))
        self.register_buffer("count", torch.tensor(0.0))
        self.register_buffer("decays", torch.linspace(1, 2, 9))
        self.register_buffer("own", torch.zeros(6))
        self.register_buffer("nothing", torch.zeros(0, 3))
        self.empty = torch.nn.Parameter(torch.zeros(0))

    def forward(self, x, of_rank):
        self.count += 1
        self.decays *= 0.97
        self.own.mul_(0.9).add_(0.1 * (of_rank + 1) * torch.arange(6))
        return self.layer(x)


torch.manual_seed(1)
net, alone = Net(), Net()
optimizer = torch.optim.SGD(net.parameters(), 0.01)
optimizer = st.DistributedOptimizer(optimizer, net, buffers="mean", optimizer_on=place)
first = {name: buffer.clone() for name, buffer in net.named_buffers()}
mean = torch.zeros(6)
for step in range(STEPS):
    if what == "mask" and step == 2 and rank == 1:
        net.mask[1, 1] = 1
    if what == "nan" and step == 2 and rank == 1:
        net.own[3] = float("nan")
    optimizer.zero_grad()
    optimizer.samples = SAMPLES[rank]
    net(torch.ones(4, 3), rank).mean().backward()
    optimizer.step()
    alone(torch.ones(4, 3), 0)
    parts = [mean * 0.9 + 0.1 * (r + 1) * torch.arange(6) for r in range(2)]
    mean = (parts[0] * SAMPLES[0] + parts[1] * SAMPLES[1]) / sum(SAMPLES)
for name in ("third", "tenth", "mask", "lowest", "nothing"):
    assert torch.equal(getattr(net, name), first[name]), (name, getattr(net, name))
for name in ("count", "decays"):
    assert torch.equal(getattr(net, name), getattr(alone, name)), (name, getattr(net, name))
assert float((net.own - mean).abs().max()) < 1e-6, (net.own, mean)
torch.save(net.own, f"own.{rank}")
print("what is equal stays")
