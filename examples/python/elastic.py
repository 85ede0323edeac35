#!/usr/bin/env python3
"""Trains a network while nodes join and leave the job: each sample is used once in each epoch.

  strata run -n 4 elastic.py         # ranks that stay
  strata run -n 4 --coordinator head:7070 --set ranks_per_node=2 \\
      --set ranks_min=2 --set ranks_max=8 elastic.py
  python3 elastic.py                 # one process, no cluster

The data is made up: points of two spirals. What such a script has besides: an ElasticSampler,
statistics of BatchNorm that are averaged, and a learning rate that follows from the samples that
all ranks have used, as nobody knows the number of steps.
"""

import argparse
import math
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import strata.torch as st


def spirals(count, seed):
    """Returns points of two spirals, and of which one each is: the same on every rank."""
    random = torch.Generator().manual_seed(seed)
    label = torch.randint(2, (count,), generator=random)
    turn = torch.rand(count, generator=random) * 2 * math.pi + 0.5
    angle = turn + math.pi * label
    points = torch.stack([angle.cos(), angle.sin()], 1) * turn[:, None] / 4
    return TensorDataset(points + 0.02 * torch.randn(count, 2, generator=random), label)


def make_model():
    return nn.Sequential(
        nn.Linear(2, 64), nn.BatchNorm1d(64), nn.ReLU(),
        nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(),
        nn.Linear(64, 2),
    )  # fmt: skip


@torch.no_grad()
def accuracy(model, data):
    model.eval()
    points, labels = data.tensors
    reached = (model(points).argmax(1) == labels).float().mean().item()
    model.train()
    return reached


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=20000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=32, help="samples of each rank in a step")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--save", metavar="FILE", help="where the model is saved")
    args = parser.parse_args()

    torch.manual_seed(int(os.environ.get("STRATA_SEED", "1")))
    train, test = spirals(args.samples, seed=1), spirals(2000, seed=2)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), args.lr)
    optimizer = st.DistributedOptimizer(
        optimizer, model, optimizer_on="servers", buffers="mean", samples_per_epoch=len(train)
    )
    sampler = st.ElasticSampler(train, args.batch)
    loader = DataLoader(train, batch_sampler=sampler)
    total = args.epochs * len(train)
    # Also of a rank that joins in the middle.
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda _: max(0.01, 1 - sampler.samples_before / total)
    )

    for epoch in st.epochs(args.epochs):
        sampler.set_epoch(epoch)
        if len(sampler) == 0:
            continue  # it was over when this rank joined
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step()
            st.report(loss=loss.item())
        if sampler.has_left:
            break  # the job goes on without this rank
        reached = accuracy(model, test)
        st.report(test_accuracy=reached)
        if sampler.rank == 0:
            print(f"epoch {epoch + 1}: test accuracy {reached:.4f}, {sampler.ranks} ranks")

    st.finish()  # waits for all ranks, unless this one has left
    if args.save and sampler.rank == 0:
        torch.save(model.state_dict(), args.save)


if __name__ == "__main__":
    main()
