"""A hook of the script's own that clips each gradient, registered after the optimizer was wrapped,
on two ranks; compared with one process.

usage: hooks.py tensor|post|node [ranks|servers]
"""

import copy
import os
import sys

import torch

import strata
import strata.torch as st

torch.set_num_threads(1)
what, place = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "ranks"
rank, RANKS, STEPS = int(os.environ["RANK"]), 2, 5
torch.manual_seed(1)
net = torch.nn.Linear(3, 1)
one = copy.deepcopy(net)


def make(model):
    return torch.optim.SGD(model.parameters(), 0.1)


def loss(model, who, step):
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(10 * step + who))
    return (model(x) - x.sum(1, keepdim=True)).square().mean()


def clip(param):
    param.grad.clamp_(-0.05, 0.05)


opt = st.DistributedOptimizer(make(net), net, optimizer_on=place)
nodes = []
for param in net.parameters():
    if what == "tensor":
        param.register_hook(lambda gradient: gradient.clamp(-0.05, 0.05))
    elif what == "post":
        param.register_post_accumulate_grad_hook(clip)
    else:
        node = param.expand_as(param).grad_fn.next_functions[0][0]
        node.register_hook(lambda *_, param=param: clip(param))
        nodes.append(node)
for step in range(STEPS):
    opt.zero_grad()
    loss(net, rank, step).backward()
    opt.step()
strata.finish()
own = make(one)
for step in range(STEPS):
    total = [torch.zeros_like(param) for param in one.parameters()]
    for who in range(RANKS):
        own.zero_grad()
        loss(one, who, step).backward()
        for part, param in zip(total, one.parameters()):
            part += param.grad.clamp(-0.05, 0.05) / RANKS
    for part, param in zip(total, one.parameters()):
        param.grad = part
    own.step()
for mine, its in zip(net.parameters(), one.parameters()):
    assert float((mine - its).detach().abs().max()) < 1e-6
print("as one process")
