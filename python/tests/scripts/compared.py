"""A short training that reports checksums of the weights that it began with and of its data."""

import os
import zlib

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

import strata.torch as st

torch.set_num_threads(1)
seed, rank = int(os.environ["STRATA_SEED"]), int(os.environ["RANK"])
torch.manual_seed(seed)
points = torch.rand(400, 2) * 2 - 1
data = TensorDataset(points, (points.square().sum(1) < 0.6).long())
# Only rank 0's first weights are to count.
torch.manual_seed(seed + rank)
model = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
optimizer = st.DistributedOptimizer(optimizer, model)


def checksum(tensors):
    """24 bits, which a value keeps."""
    found = 0
    for tensor in tensors:
        found = zlib.crc32(tensor.detach().contiguous().numpy().tobytes(), found)
    return found & 0xFFFFFF


def accuracy():
    with torch.no_grad():
        return (model(points).argmax(1) == data.tensors[1]).float().mean().item()


first = checksum(model.parameters())
sampler = st.Sampler(data)
seen = []
for epoch in range(2):
    sampler.set_epoch(epoch)
    for x, y in DataLoader(data, 20, sampler=sampler):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        seen.append(x)
    st.report(test_accuracy=accuracy(), weights=first, order=checksum(seen))
