"""Goes on from what an earlier run has saved, which some ranks load before they wrap.

usage: first_state.py all|0|1 momentum|adam
"""

import copy
import os
import pathlib
import sys

import torch

import strata.torch as st

torch.set_num_threads(1)
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
who, kind = sys.argv[1:]


def make():
    torch.manual_seed(1)
    model = torch.nn.Linear(3, 1)
    if kind == "adam":
        return model, torch.optim.Adam(model.parameters(), 0.01)
    return model, torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)


def loss_of(model, rank, step):
    data = torch.Generator().manual_seed(100 * step + rank)
    return model(torch.randn(4, 3, generator=data)).square().mean()


def train_here(model, optimizer, steps):
    for step in steps:
        optimizer.zero_grad()
        for r in range(ranks):
            (loss_of(model, r, step) / ranks).backward()
        optimizer.step()


one, its_optimizer = make()
train_here(one, its_optimizer, range(5))
saved = copy.deepcopy((one.state_dict(), its_optimizer.state_dict()))
model, optimizer = make()
if who in ("all", str(rank)):
    model.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
if who == "1":
    # Rank 0 has neither weights of the earlier run nor state, which counts.
    one, its_optimizer = make()
optimizer = st.DistributedOptimizer(optimizer, model)
for step in range(5, 10):
    optimizer.zero_grad()
    loss_of(model, rank, step).backward()
    optimizer.step()
st.finish()
train_here(one, its_optimizer, range(5, 10))
worst = max(float((a - b).abs().max()) for a, b in zip(model.parameters(), one.parameters()))
assert worst < 1e-6, worst
assert not list(pathlib.Path.cwd().rglob("optimizer-state*")), "it stays in the run directory"
print("as one process goes on")
