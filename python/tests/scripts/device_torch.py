"""Trains a small network, on the host or as if on a GPU; prints a checksum of all weights on the
way. A part of it is used by one rank at a time, so ranks complete gradients in different orders.

usage: device_torch.py host|device|own_device HOW
  own_device: each rank has one of two GPUs
  HOW   ranks, servers: where the optimizer is; on the ranks: buffers: with BatchNorm's averaged;
        scaler: with a GradScaler, and a batch whose gradients are infinite on rank 1
"""

import contextlib
import hashlib
import os
import sys

import torch

import strata.torch as st

where, how = sys.argv[1:]
order = contextlib.nullcontext()
if where != "host":
    import fake_device

    if where == "own_device":
        fake_device.use(int(os.environ["LOCAL_RANK"]), "devices=2")
    order = fake_device.use_for_torch()


def train():
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten()
    )
    model.append(torch.nn.Linear(4 * 36, 10))
    model = torch.nn.ModuleList([model, torch.nn.Linear(64, 10)])
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0) if how == "scaler" else None
    averages = how == "buffers"
    optimizer = st.DistributedOptimizer(
        optimizer,
        model,
        scaler=scaler,
        optimizer_on="servers" if how == "servers" else None,
        buffers="mean" if averages else None,
    )
    rank = int(os.environ["RANK"])
    random = torch.Generator().manual_seed(7 + rank)
    seen = hashlib.sha256()
    for step in range(6):
        x = torch.randn(8, 1, 8, 8, generator=random)
        y = torch.randint(10, (8,), generator=random)
        optimizer.zero_grad()
        optimizer.samples = 2 + rank
        scores = model[0](x)
        if (step + rank) % 2:
            scores = scores + model[1](x.flatten(1))
        loss = torch.nn.functional.cross_entropy(scores, y)
        if how == "scaler":
            if step == 2 and rank == 1:
                loss = loss * float("inf")
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
        note(seen, model, averages)
    st.finish()
    note(seen, model, averages)
    print("rank", rank, "weights", seen.hexdigest())


def note(seen, model, averages):
    for param in list(model.parameters()) + [b for b in model.buffers() if averages and b.dim()]:
        seen.update(param.detach().clone().contiguous().numpy().tobytes())


with order:
    train()
