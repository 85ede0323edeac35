#!/usr/bin/env python3
"""Trains a convolutional network on Fashion-MNIST, and measures its accuracy after each epoch.

  strata run -n 4 cnn.py
  strata run -n 4 --nodes 2 --servers 2 --mode "ssp(3)" cnn.py --epochs 5
  python3 cnn.py                     # one process, no cluster
  strata compare cnn.py -n 4 --modes "sync,ssp(3),ring" --nodes 2 --servers 2 --out comparison

The data is Debian's package dataset-fashion-mnist, or a folder with the four files of MNIST.
"""

import argparse
import gzip
import os
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import strata.torch as st


def read_idx(folder, name):
    """Returns a file of MNIST's format, gzipped or not, as an array of bytes."""
    packed = pathlib.Path(folder, name + ".gz")
    data = (
        gzip.decompress(packed.read_bytes())
        if packed.exists()
        else pathlib.Path(folder, name).read_bytes()
    )
    shape = np.frombuffer(data, ">u4", count=data[3], offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


def read_images(folder, part, limit):
    images = read_idx(folder, f"{part}-images-idx3-ubyte")[:limit]
    labels = read_idx(folder, f"{part}-labels-idx1-ubyte")[:limit]
    pixels = torch.tensor(images, dtype=torch.float32).unsqueeze(1) / 255
    return TensorDataset((pixels - 0.286) / 0.353, torch.tensor(labels, dtype=torch.int64))


def make_model():
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 128), nn.ReLU(),
        nn.Linear(128, 10),
    )  # fmt: skip


@torch.no_grad()
def accuracy(model, data):
    model.eval()
    hits = sum((model(x).argmax(1) == y).sum().item() for x, y in DataLoader(data, 1000))
    model.train()
    return hits / len(data)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist", metavar="DIR")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32, help="samples of each rank in a step")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--limit", type=int, metavar="N", help="the first N images alone")
    parser.add_argument("--save", metavar="FILE", help="where rank 0 saves the model")
    args = parser.parse_args()

    torch.manual_seed(int(os.environ.get("STRATA_SEED", "1")))
    train, test = (read_images(args.data, part, args.limit) for part in ("train", "t10k"))
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=5e-4)

    sampler = st.Sampler(train, shuffle=True)
    loader = DataLoader(train, args.batch, sampler=sampler, drop_last=True)
    steps = args.epochs * len(loader)
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

    st.finish()  # waits for all ranks
    if args.save and sampler.rank == 0:
        torch.save(model.state_dict(), args.save)


if __name__ == "__main__":
    main()
