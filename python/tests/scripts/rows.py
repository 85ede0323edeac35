"""Tables whose rows are on servers.

usage: rows.py alone|async|sync|shared NAME [WORD...]|sampled NAME [die]
       rows.py counts NODES RANKS_OF_NODE MODE [die]|misused
       rows.py WHAT
  alone, async, sync: trains a small factorization; leaves its rows in rows.ROLE.npz
  shared: trains it with a dense layer on a batch of which each rank has a part; leaves rows and
    weights in rows.NAME.npz; with the word prefetch each batch's rows are fetched before its turn
  with the word die the last rank kills itself once, in the middle, when there is a checkpoint
  counts: each rank's updates of each row count once
  misused: what is no step is an error
  WHAT: something that is refused
"""

import glob
import os
import pathlib
import signal
import sys
import time

import numpy as np
import torch

import strata.torch as st
from strata import errors

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


def train(model, place):
    own = torch.optim.SGD(model.parameters(), 0.1)
    optimizer = st.DistributedOptimizer(own, model, optimizer_on=place)
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
    loss = train(model, None if role == "alone" else "servers")
    ids = np.arange(IDS)
    found = {
        "users": model.users.table.lookup(ids),
        "items": model.items.table.lookup(ids[::-1] * 10**15),  # in any order
        "bias": model.bias.table.lookup(np.concatenate([ids, ids]) * 10**15),  # and repeated
    }
    np.savez(f"rows.{role}.npz", **found)
    print(f"loss {loss:.4f}")


PARTS = 4  # of a batch


def die_once(step):
    """Ends the last rank in the middle of the first run that has a checkpoint."""
    mark = pathlib.Path("died")
    if "die" not in sys.argv or step != STEPS - 7 or mark.exists():
        return
    if int(os.environ["RANK"]) + 1 < int(os.environ["WORLD_SIZE"]):
        return
    while not glob.glob("checkpoints/*/manifest.json"):
        time.sleep(0.02)
    mark.touch()
    os.kill(os.getpid(), signal.SIGKILL)


def shared(name, does_prefetch):
    """Each rank's part of the same batches. One process has them all."""
    rank, ranks = (int(os.environ.get(key, default)) for key, default in RANK_OF_RANKS)
    torch.manual_seed(3)
    factors = Factors(st.RowwiseAdagrad(0.1))
    model = torch.nn.ModuleList([factors, torch.nn.Linear(1, 1)])
    optimizer = st.DistributedOptimizer(torch.optim.Adam(model.parameters(), 0.1), model)
    draw = torch.Generator().manual_seed(7)
    size = 8 * PARTS // ranks
    own = slice(rank * size, (rank + 1) * size)
    batches = []
    for step in range(STEPS):
        # Few ids: some rows have gradients of one rank, others of several.
        users = torch.randint(0, IDS, (8 * PARTS, 2), generator=draw)
        items = torch.randint(0, IDS, (8 * PARTS,), generator=draw) * 10**15
        batches.append((users[own], items[own]))
    ids_of = lambda batch: {"users": batch[0], "items": batch[1], "bias": batch[1]}  # noqa: E731
    first = optimizer.first_step
    left = batches[first:]
    for step, (users, items) in enumerate(st.prefetch(left, ids_of) if does_prefetch else left):
        die_once(first + step)
        loss = (model[1](factors(users, items)[:, None]) - 1.0).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if rank == 0:
        ids = np.arange(IDS)
        users, items = factors.users.table.lookup(ids), factors.items.table.lookup(ids * 10**15)
        weight = model[1].weight.detach().numpy()
        np.savez(f"rows.{name}.npz", users=users, items=items, weight=weight)


def sampled(name):
    """Batches of a Sampler, which are fetched ahead."""
    torch.manual_seed(3)
    factors = Factors(st.RowwiseAdagrad(0.1))
    optimizer = st.DistributedOptimizer(torch.optim.Adam(factors.parameters(), 0.1), factors)
    draw = torch.Generator().manual_seed(7)
    users = torch.randint(0, IDS, (160, 2), generator=draw)
    items = torch.randint(0, IDS, (160,), generator=draw) * 10**15
    data = torch.utils.data.TensorDataset(users, items)
    sampler = st.Sampler(data, shuffle=True)
    loader = torch.utils.data.DataLoader(data, 8, sampler=sampler)
    ids_of = lambda batch: {"users": batch[0], "items": batch[1], "bias": batch[1]}  # noqa: E731
    others = st.Sampler(40, shuffle=True)
    made, used = 0, []
    for epoch in st.epochs(2):
        sampler.set_epoch(epoch)
        others.set_epoch(epoch)
        other = iter(others)
        for users, items in st.prefetch(loader, ids_of):
            die_once(made)
            # Another sampler, which nothing draws ahead, and another prefetch in the loop.
            weight = float(next(other))
            assert len(list(st.prefetch([(users, items)] * 3, ids_of))) == 3
            loss = (factors(users, items) - weight).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            made += 1
            used.append((int(items.sum()), weight))
    if os.environ["RANK"] == "0":
        ids = np.arange(IDS)
        np.savez(f"rows.{name}.npz", users=factors.users.table.lookup(ids), used=used)


def look(*_):
    """A signal handler, which may run while the table waits for servers."""
    try:
        watched.lookup([0])
    except errors.OutOfOrder:
        pass


def counts():
    """Gradients of 1 at rate 1: rows end with the number of their pushes, or of their clocks."""
    global watched
    rank = int(os.environ["RANK"])
    is_async = MODE == "async"
    model = st.Embedding("items", 2, capacity=100, optimizer=st.RowSGD(1.0), init=st.Constant(0.0))
    optimizer = st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 1.0), model)
    watched = model.table
    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 0.003, 0.003)
    for step in range(optimizer.first_step, STEPS):
        die_once(step)
        optimizer.zero_grad()
        ids = torch.tensor([0, 0, step, 2**62 + rank])
        (-model(ids).sum()).backward()
        optimizer.step()
        # A rank sees what it has pushed.
        own = model.table.lookup([2**62 + rank])[0, 0]
        assert own >= (step + 1) / RANKS_OF_NODE or not is_async
    signal.setitimer(signal.ITIMER_REAL, 0)
    # Ranks of a node push their sum, over as many samples; those of a clock are one.
    pushes = NODES if is_async else 1
    expected = {0: pushes * (2 * STEPS + 1), 5: pushes, STEPS - 1: pushes}
    deadline = time.monotonic() + 60
    while True:
        found = {id: float(model.table.lookup([id])[0, 1]) for id in expected}
        if found == expected or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    assert found == expected, (found, expected)
    print("each push counts once")


def misused():
    """On the ranks a pass gives rows' gradients away; what cannot follow is an error."""
    rows = st.Embedding("items", 4, capacity=100, optimizer=st.RowSGD(1.0), init=st.Constant(0.0))
    model = torch.nn.ModuleList([rows, torch.nn.Linear(4, 1)])
    optimizer = st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 1.0), model)
    ids = torch.tensor([1])

    def expect(text, call):
        try:
            call()
        except errors.OutOfOrder as error:
            assert text in str(error), error
        else:
            raise AssertionError(f"no error: {text}")

    model[1](rows(ids)).sum().backward()
    expect('table "items": the last backward() gave its gradients', optimizer.zero_grad)
    optimizer.step()
    optimizer.zero_grad()
    model[1](rows(ids)).sum().backward()
    rows(ids).sum().backward()
    expect('table "items": got gradients after those of the step', optimizer.step)
    rows.table.forget()
    rows.rows.grad = None
    optimizer.step()
    print("misuse is an error")


def refused(what):
    own = 1 + int(os.environ["RANK"])
    capacity = 100 * own if what == "capacity" else 100
    model = st.Embedding("items", 4, capacity=capacity, optimizer=st.RowSGD(0.1))
    if what == "stored":
        model.table.store([1], np.ones((1, 4)))
    own = torch.optim.SGD(model.parameters(), 0.1)
    others = [own, torch.optim.SGD(model.parameters(), 0.1)] if what == "optimizers" else own
    optimizer = st.DistributedOptimizer(others, model)
    if what == "save":
        model.state_dict()
    model(torch.tensor([1])).sum().backward()
    optimizer.step()


RANK_OF_RANKS = (("RANK", 0), ("WORLD_SIZE", 1))
what = sys.argv[1]
if what == "counts":
    NODES, RANKS_OF_NODE, MODE = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
if what in ("alone", "async", "sync"):
    matches(what)
elif what == "shared":
    shared(sys.argv[2], "prefetch" in sys.argv)
elif what == "sampled":
    sampled(sys.argv[2])
elif what == "counts":
    counts()
elif what == "misused":
    misused()
else:
    refused(what)
st.finish()
