"""Trains each of two ranks with 40 samples, by a DataLoader with a sampler of PyTorch's or by a
Sampler alone, and evaluates between.

usage: counted.py loader|sampler
"""

import os
import sys

import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import strata.torch as st

torch.set_num_threads(1)
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
data = TensorDataset(torch.arange(80.0).reshape(80, 1) / 80)
model = torch.nn.Linear(1, 1)
optimizer = st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model)


def batches():
    if sys.argv[1] == "loader":
        for (x,) in DataLoader(data, 8, sampler=DistributedSampler(data, ranks, rank)):
            yield x
    else:
        taken = []
        for i in st.Sampler(data):
            taken.append(data[i][0])
            if len(taken) == 8:
                yield torch.stack(taken)
                taken = []


for x in batches():
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
    with torch.no_grad():
        for (every,) in DataLoader(data, 20):
            model(every)
