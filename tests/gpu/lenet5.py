"""A rank that trains LeNet-5 in PyTorch on images that it learns in a few steps; rank 0 prints the
accuracy on others of their kind.

usage: lenet5.py cpu|cuda ranks|servers
  where it computes, and where the optimizer is
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import strata.torch as st

CLASSES, STEPS, BATCH = 10, 60, 16
where = torch.device(sys.argv[1])
torch.manual_seed(1)
patterns = torch.randn(CLASSES, 1, 28, 28)
model = nn.Sequential(
    nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
    nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, CLASSES),
).to(where)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9)
optimizer = st.DistributedOptimizer(optimizer, model, optimizer_on=sys.argv[2])
rank = st.Sampler(range(CLASSES)).rank
random = torch.Generator().manual_seed(2 + rank)


def batch(size):
    y = torch.randint(CLASSES, (size,), generator=random)
    x = patterns[y] + torch.randn(size, 1, 28, 28, generator=random)
    return x.to(where), y.to(where)


for _ in range(STEPS):
    x, y = batch(BATCH)
    optimizer.zero_grad()
    functional.cross_entropy(model(x), y).backward()
    optimizer.step()
st.finish()
if rank == 0:
    x, y = batch(256)
    with torch.no_grad():
        print("accuracy", (model(x).argmax(1) == y).float().mean().item())
