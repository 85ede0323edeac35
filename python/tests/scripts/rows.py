"""Tables whose rows are on servers, in async.

usage: rows.py alone|matches|counts|WHAT
  alone, matches: trains a small factorization; leaves its rows in rows.ROLE
  counts: each rank's updates of each row count once
  WHAT: something that is refused
"""

import os
import sys
import time

import numpy as np
import torch

import strata.torch as st

STEPS = 20
IDS = 50


class Factors(torch.nn.Module):
    """The product of a user's row and an item's, and a bias of each item; no other weights."""

    def __init__(self, users):
        super().__init__()
        self.users = st.EmbeddingBag(
            "users", 8, mode="sum", capacity=1000, optimizer=users, init=st.Normal(0.1)
        )
        self.items = st.Embedding("items", 8, capacity=1000, optimizer=st.RowAdagrad(0.1))
        self.bias = st.Embedding("bias", 1, capacity=1000, optimizer=st.RowAdam(0.01))

    def forward(self, users, items):
        product = (self.users(users) * self.items(items)).sum(1)
        return product + self.bias(items).squeeze(1)


def train(model):
    optimizer = st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model)
    draw = torch.Generator().manual_seed(7)
    for step in range(STEPS):
        users = torch.randint(0, IDS, (16, 3), generator=draw)
        items = torch.randint(0, IDS, (16,), generator=draw) * 10**15
        loss = (model(users, items) - 1.0).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def matches(role):
    """The same rows, bit for bit, whether they are here or on servers."""
    model = Factors(st.RowwiseAdagrad(0.1))
    loss = train(model)
    ids = np.arange(IDS)
    found = {
        "users": model.users.table.lookup(ids),
        "items": model.items.table.lookup(ids[::-1] * 10**15),  # in any order
        "bias": model.bias.table.lookup(np.concatenate([ids, ids]) * 10**15),  # and repeated
    }
    np.savez(f"rows.{role}.npz", **found)
    print(f"loss {loss:.4f}")


def counts():
    """Gradients of 1 at rate 1: rows end with the number of their pushes."""
    rank = int(os.environ["RANK"])
    model = st.Embedding("items", 2, capacity=100, optimizer=st.RowSGD(1.0), init=st.Constant(0.0))
    optimizer = st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 1.0), model)
    for step in range(STEPS):
        optimizer.zero_grad()
        ids = torch.tensor([0, 0, step, 2**62 + rank])
        (-model(ids).sum()).backward()
        optimizer.step()
        # What this rank has pushed it sees.
        assert model.table.lookup([2**62 + rank])[0, 0] >= (step + 1) / RANKS_OF_NODE
    # Ranks of a node push their sum, over as many samples.
    expected = {0: NODES * (2 * STEPS + 1), 5: NODES, STEPS - 1: NODES}
    deadline = time.monotonic() + 60
    while True:
        found = {id: float(model.table.lookup([id])[0, 1]) for id in expected}
        if found == expected or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    assert found == expected, (found, expected)
    print("each push counts once")


def refused(what):
    own = 1 + int(os.environ["RANK"])
    capacity = 100 * own if what == "capacity" else 100
    model = st.Embedding("items", 4, capacity=capacity, optimizer=st.RowSGD(0.1))
    if what == "stored":
        model.table.store([1], np.ones((1, 4)))
    optimizer = st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model)
    if what == "save":
        model.state_dict()
    model(torch.tensor([1])).sum().backward()
    optimizer.step()


what = sys.argv[1]
NODES, RANKS_OF_NODE = (int(word) for word in (sys.argv[2:] or [1, 1]))
if what in ("alone", "matches"):
    matches(what)
elif what == "counts":
    counts()
else:
    refused(what)
st.finish()
