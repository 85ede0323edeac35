#!/usr/bin/env python3
"""Trains torchvision's ResNet-18 on images of CIFAR-10's shape.

  strata run -n 4 resnet18.py
  strata run -n 4 --nodes 2 --servers 2 --mode "diloco(8)" resnet18.py --data cifar-10-batches-bin

Without --data it makes up images: a pattern for each of ten classes, under noise. With --data it
reads CIFAR-10's binary version (data_batch_1.bin ... test_batch.bin).
"""

import argparse
import os
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
import torchvision
from torch.utils.data import DataLoader, TensorDataset

import strata.torch as st

CLASSES, SHAPE = 10, (3, 32, 32)


def read_cifar(folder, pattern, limit):
    """Returns the images of files: of each a byte for its class and 3072 for its pixels."""
    files = sorted(pathlib.Path(folder).glob(pattern))
    if not files:
        raise SystemExit(f"{folder}: there is no {pattern}")
    rows = np.concatenate([np.fromfile(file, np.uint8).reshape(-1, 3073) for file in files])[:limit]
    pixels = torch.tensor(rows[:, 1:].reshape(-1, *SHAPE), dtype=torch.float32)
    return TensorDataset((pixels - 120) / 64, torch.tensor(rows[:, 0], dtype=torch.int64))


def make_up(count, seed):
    """Returns the same images on every rank: they follow from the seed."""
    patterns = torch.randn(CLASSES, *SHAPE, generator=torch.Generator().manual_seed(1))
    data = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=data)
    noise = torch.randn(count, *SHAPE, generator=data)
    return TensorDataset(patterns[labels] + noise, labels)


def with_and_without_decay(model, decay):
    """Returns two parameter groups: biases and batch normalisation do not decay."""
    params = list(model.parameters())
    return [
        {"params": [p for p in params if p.dim() > 1], "weight_decay": decay},
        {"params": [p for p in params if p.dim() == 1], "weight_decay": 0.0},
    ]


@torch.no_grad()
def accuracy(model, data):
    model.eval()
    hits = sum((model(x).argmax(1) == y).sum().item() for x, y in DataLoader(data, 50))
    model.train()
    return hits / len(data)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", metavar="DIR", help="CIFAR-10's binary files")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32, help="samples of each rank in a step")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--limit", type=int, default=10000, metavar="N", help="images to train on")
    args = parser.parse_args()

    if args.data:
        train = read_cifar(args.data, "data_batch_*.bin", args.limit)
        test = read_cifar(args.data, "test_batch.bin", args.limit)
    else:
        train, test = make_up(args.limit, seed=2), make_up(max(50, args.limit // 10), seed=3)

    torch.manual_seed(int(os.environ.get("STRATA_SEED", "1")))
    model = torchvision.models.resnet18(weights=None, num_classes=CLASSES)
    optimizer = torch.optim.SGD(with_and_without_decay(model, 5e-4), args.lr, momentum=0.9)

    sampler = st.Sampler(train, shuffle=True)
    loader = DataLoader(train, args.batch, sampler=sampler, drop_last=True)
    steps = args.epochs * len(loader)
    # Each rank keeps its own statistics of batch normalisation; buffers="mean" averages them.
    optimizer = st.DistributedOptimizer(
        optimizer, model, samples_per_epoch=len(train), total_steps=steps
    )
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)

    for epoch in st.epochs(args.epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step()
            st.report(loss=loss.item())
        reached = accuracy(model, test)
        st.report(test_accuracy=reached)
        if sampler.rank == 0:
            print(f"epoch {epoch + 1}: test accuracy {reached:.4f}")


if __name__ == "__main__":
    main()
