"""Steps in which nobody uses a parameter, or a rank has no samples, on two ranks, each compared
with one process that leaves alone what has no gradient.

usage: absent.py WHAT KIND [ranks|servers [LATE]]
WHAT: unused (two heads by turns, and a factor of rank 1's alone), nothing (steps without any
backward pass), without (one rank has none), skip, dummy, zero (a rank has no samples: no backward
pass, one of zeros, one that counts nothing), empty (so has every rank), assigned (the script writes
gradients), rest (steps whose passes are all under no_sync)
LATE: means come one step later
"""

import contextlib
import copy
import os
import sys

import torch

import strata
import strata.torch as st

torch.set_num_threads(1)
what, kind = sys.argv[1:3]
place = sys.argv[3] if len(sys.argv) > 3 else "ranks"
late = len(sys.argv) > 4
rank, RANKS, STEPS = int(os.environ["RANK"]), 2, 9


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.one, self.two = (torch.nn.Linear(n, m) for n, m in ((3, 4), (4, 1), (4, 1)))
        self.factor = torch.nn.Parameter(torch.ones(1))

    def forward(self, x, who, step):
        x = torch.tanh(self.body(x))
        y = self.one(x) if step < 4 else self.two(x)
        return y * self.factor if who == 1 and step % 2 == 0 else y


def make(params):
    return {
        "momentum": lambda: torch.optim.SGD(params, 0.1, momentum=0.9),
        "decay": lambda: torch.optim.SGD(params, 0.1, weight_decay=0.1),
        "adamw": lambda: torch.optim.AdamW(params, 0.02, weight_decay=0.1),
    }[kind]()


def samples_of(step):
    if what in ("skip", "dummy", "zero"):
        return [5, 0 if step % 2 else 3]
    if what == "empty":
        return [0, 0] if step % 4 in (1, 2) else [2, 4]
    if what == "nothing":
        return [0, 0] if step in (0, 5) else [1, 1]
    return [1, 0 if what == "without" and step % 2 else 1]


def loss(model, who, step):
    data = torch.Generator().manual_seed(10 * step + who)
    x = torch.randn(4, 3, generator=data)
    return (model(x, who, step) - x.sum(1, keepdim=True)).square().mean()


torch.manual_seed(2)
net = Net()
one = copy.deepcopy(net)
opt = st.DistributedOptimizer(make(net.parameters()), net, optimizer_on=place)
for step in range(STEPS):
    opt.zero_grad(set_to_none=True)
    samples = samples_of(step)[rank]
    if what in ("zero", "empty") or (what in ("skip", "dummy") and samples):
        opt.samples = samples
    if what == "assigned":
        params = list(net.parameters())
        given = torch.autograd.grad(loss(net, rank, step), params, allow_unused=True)
        for param, gradient in zip(params, given):
            param.grad = gradient
    elif samples or what in ("zero", "empty"):
        with opt.no_sync() if what == "rest" and step % 3 == 2 else contextlib.nullcontext():
            loss(net, rank, step).backward()
    elif what == "dummy":
        (sum(param.sum() for param in net.parameters()) * 0).backward()
    opt.step()
strata.finish()

own, before = make(one.parameters()), None
for step in range(STEPS):
    total = [None] * len(list(one.parameters()))
    weights = samples_of(step)
    for who in range(RANKS):
        if weights[who]:
            own.zero_grad(set_to_none=True)
            loss(one, who, step).backward()
            for place_of, param in enumerate(one.parameters()):
                if param.grad is not None:
                    share = param.grad * weights[who] / sum(weights)
                    had = total[place_of]
                    total[place_of] = share if had is None else had + share
    for param, gradient in zip(one.parameters(), before if late and before else total):
        param.grad = gradient
    if not late or before is not None:
        own.step()
    before = total
for (name, mine), its in zip(net.named_parameters(), one.parameters()):
    worst = float((mine - its).detach().abs().max())
    assert worst < 1e-5, (name, worst)
print("as one process")
