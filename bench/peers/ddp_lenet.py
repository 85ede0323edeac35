"""PyTorch DDP over Gloo: LeNet-5 on Fashion-MNIST, one process per rank, one thread each.

usage: ddp_lenet.py --rank R --nodes N --store FILE [--batch 64] [--epochs 3] [--limit SAMPLES]
                    [--data DIR]

Takes the samples of each epoch in an order of its own, every rank its share. Prints one line of
JSON: images/s of all ranks over the epochs after the first step, accuracy on the test data, and
whether all ranks ended with the same weights. N = 1 trains without DDP.
"""

import argparse
import gzip
import json
import os
import sys
import time

import numpy
import torch
import torch.distributed
from torch import nn

LR, MOMENTUM = 0.05, 0.9


def read_idx(path, header):
    with gzip.open(path) as file:
        return numpy.frombuffer(file.read(), numpy.uint8, offset=header)


def load(folder, part):
    images = read_idx(os.path.join(folder, f"{part}-images-idx3-ubyte.gz"), 16)
    labels = read_idx(os.path.join(folder, f"{part}-labels-idx1-ubyte.gz"), 8)
    pixels = torch.from_numpy(images.reshape(-1, 1, 28, 28).astype(numpy.float32) / 255)
    return pixels, torch.from_numpy(labels.astype(numpy.int64))


def lenet5():
    """As training/nn has it: 5 x 5 convolutions of 6 and 16 channels, then 120, 84, 10."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def train(model, images, labels, options):
    """Returns images/s of this rank, the first step left out."""
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)
    criterion = nn.CrossEntropyLoss()
    per_rank = len(images) // options.nodes // options.batch * options.batch
    start, done = None, 0
    for epoch in range(options.epochs):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        mine = order[options.rank::options.nodes][:per_rank]
        for first in range(0, per_rank, options.batch):
            picked = mine[first:first + options.batch]
            optimizer.zero_grad(set_to_none=True)
            criterion(model(images[picked]), labels[picked]).backward()
            optimizer.step()
            if start is None:
                start = time.monotonic()
            else:
                done += options.batch
    return done / (time.monotonic() - start)


def same_everywhere(model, nodes):
    """Whether all ranks hold the same weights, bit for bit."""
    own = torch.cat([weights.detach().flatten() for weights in model.parameters()])
    if nodes == 1:
        return True
    every = [torch.empty_like(own) for _ in range(nodes)]
    torch.distributed.all_gather(every, own)
    return all(torch.equal(other, own) for other in every)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    images, labels = load(options.data, "train")
    if options.limit:
        images, labels = images[:options.limit], labels[:options.limit]
    model = lenet5()
    if options.nodes > 1:
        torch.distributed.init_process_group("gloo", init_method=f"file://{options.store}",
                                             rank=options.rank, world_size=options.nodes)
        model = nn.parallel.DistributedDataParallel(model)
    rate = train(model, images, labels, options)
    verified = same_everywhere(model, options.nodes)
    model.eval()
    with torch.no_grad():
        test_images, test_labels = load(options.data, "t10k")
        right = (model(test_images).argmax(1) == test_labels).float().mean().item()
    print(json.dumps({"peer": "ddp", "rank": options.rank, "images_per_s": rate * options.nodes,
                      "accuracy": right, "verified": verified}), flush=True)
    sys.exit(0 if verified else 1)


if __name__ == "__main__":
    main()
