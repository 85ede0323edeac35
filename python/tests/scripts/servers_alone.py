"""Trains what servers.py does, in one process that computes the gradients of so many ranks, adds
them up in the tree's order, and gives the mean to the optimizer of the job.

usage: servers_alone.py KIND-RANKS...
"""

import os
import sys

import servers
import torch
import torch.nn.functional as F

import strata.torch as st


class Known(torch.autograd.Function):
    """Gives every parameter a known gradient."""

    @staticmethod
    def forward(ctx, gradients, *params):
        ctx.gradients = gradients
        return torch.zeros(())

    @staticmethod
    def backward(ctx, _):
        return (None, *ctx.gradients)


def add_in_tree_order(parts):
    """Of four: (0 + 1) + (2 + 3)."""
    if len(parts) == 1:
        return parts[0]
    return add_in_tree_order([a + b for a, b in zip(parts[::2], parts[1::2])])


def train(kind, ranks):
    model, optimizer, schedule = servers.make(kind)
    optimizer = st.DistributedOptimizer(optimizer, model, optimizer_on="servers")
    scheduler = schedule(optimizer)
    params = list(model.parameters())
    for step in range(servers.STEPS):
        of_ranks = []
        for rank in range(ranks):
            x, y = servers.batch(rank, step)
            of_ranks.append(torch.autograd.grad(F.cross_entropy(model(x), y), params))
        means = [add_in_tree_order(parts) * (1 / ranks) for parts in zip(*of_ranks)]
        optimizer.zero_grad()
        Known.apply(means, *params).backward()
        optimizer.step()
        scheduler.step()
    st.finish()
    torch.save([p.detach() for p in params], f"{kind}-{ranks}.0")


servers.make("sgd")  # imports what PyTorch's optimizers need once for all
for case in sys.argv[1:]:
    # A process is one rank of one job.
    child = os.fork()
    if child == 0:
        kind, ranks = case.split("-")
        train(kind, int(ranks))
        break
    assert os.waitpid(child, 0)[1] == 0, case
