"""Two optimizers of one model, whose gradients one exchange brings; compared with one process that
sees both ranks' data.

usage: optimizers_at_once.py HOW
HOW: together (both step after one backward pass), turns (a pass each), assigned (a pass each, whose
gradients the script writes itself), clipped (together, after exchange() of both)
"""

import os
import sys

import torch

import strata.torch as st

torch.set_num_threads(1)
rank, how = int(os.environ["RANK"]), sys.argv[1]
STEPS = 6


def make():
    torch.manual_seed(3)
    model = torch.nn.ModuleList([torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)])
    return model, [torch.optim.Adam(part.parameters(), 1e-2) for part in model]


def loss(model, who, step):
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(100 * step + who))
    return model[1](model[0](x).tanh()).square().mean()


def backward(model, part, loss):
    """Leaves gradients as a backward pass does, or by assignment, which no hook sees."""
    if how != "assigned":
        loss.backward()
        return
    params = list(model[part].parameters())
    for param, gradient in zip(params, torch.autograd.grad(loss, params)):
        param.grad = gradient


def train(model, optimizers, loss):
    for step in range(STEPS):
        if how in ("together", "clipped"):
            model.zero_grad()
            loss(model, step).backward()
            if how == "clipped":
                for optimizer in optimizers:
                    if isinstance(optimizer, st.Distributed):
                        optimizer.exchange()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            for optimizer in optimizers:
                optimizer.step()
        else:
            for part, optimizer in enumerate(optimizers):
                model.zero_grad()
                backward(model, part, loss(model, step))
                optimizer.step()


model, optimizers = make()
optimizers = st.DistributedOptimizer(optimizers, model, publish="step")
train(model, optimizers, lambda model, step: loss(model, rank, step))
one, own = make()
train(one, own, lambda one, step: (loss(one, 0, step) + loss(one, 1, step)) / 2)
worst = max(float((a - b).abs().max()) for a, b in zip(model.parameters(), one.parameters()))
assert worst < 1e-6, worst
exchanges = optimizers[0]._strata_trainer.exchange.passes
assert exchanges == (STEPS if how in ("together", "clipped") else 2 * STEPS), exchanges
print("as one process")
