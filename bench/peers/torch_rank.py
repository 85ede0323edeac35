"""A rank of bench/python_against_ddp.py: trains one model for some steps, by Strata, by DDP over
Gloo or by itself.

usage: torch_rank.py strata|ddp|plain MODEL [--steps N] [--warmup N] [--batch N] [--mib N] [--hook
fp16]

Rank 0 prints one line of JSON: seconds of each step, and a number that all ranks' parameters add up
to, which must be the same for all contenders that see the same data.
"""

import argparse
import json
import os
import time

import torch
import torch.nn.functional as F

torch.set_num_threads(1)


class Given(torch.autograd.Function):
    """A backward pass without computation: each parameter's gradient is memory that is there."""

    @staticmethod
    def forward(ctx, gradients, *params):
        ctx.gradients = gradients
        return torch.zeros(())

    @staticmethod
    def backward(ctx, _):
        return (None, *ctx.gradients)


class Exchange(torch.nn.Module):
    """Nothing but parameters, of 4 MiB each."""

    def __init__(self, mib):
        super().__init__()
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(torch.zeros(1 << 20)) for _ in range(mib // 4)
        )
        self.gradients = None

    def forward(self, x, y):
        if self.gradients is None:
            self.gradients = [
                torch.full((1 << 20,), float(int(os.environ.get("RANK", 0)) + 1))
                for _ in self.weights
            ]
        return Given.apply(self.gradients, *self.weights)


class Many(torch.nn.Module):
    """Many small parameters: what a parameter costs in Python."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(400)))

    def forward(self, x, y):
        return self.layers(x).square().mean()


class Classifier(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x, y):
        return F.cross_entropy(self.inner(x), y)


class Lenet(torch.nn.Sequential):
    def __init__(self):
        super().__init__(
            torch.nn.Conv2d(1, 6, 5, padding=2),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(6, 16, 5),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Flatten(),
            torch.nn.Linear(400, 120),
            torch.nn.ReLU(),
            torch.nn.Linear(120, 84),
            torch.nn.ReLU(),
            torch.nn.Linear(84, 10),
        )


class Transformer(torch.nn.Module):
    """10.7 M parameters: six layers of width 384."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(128, 384)
        layer = torch.nn.TransformerEncoderLayer(384, 6, 1536, dropout=0.0, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        self.head = torch.nn.Linear(384, 128)

    def forward(self, x, y):
        return F.cross_entropy(self.head(self.layers(self.embedding(x))).flatten(0, 1), y.flatten())


def model_and_batch(options, rank):
    data = torch.Generator().manual_seed(rank)
    batch = options.batch

    def images(channels, size):
        x = torch.randn(batch, channels, size, size, generator=data)
        return x, torch.randint(0, 10, (batch,), generator=data)

    if options.model == "exchange":
        return Exchange(options.mib), (torch.zeros(1), torch.zeros(1))
    if options.model == "many":
        return Many(), (torch.ones(1, 4), torch.zeros(1))
    if options.model == "lenet":
        return Classifier(Lenet()), images(1, 28)
    if options.model == "resnet18":
        import torchvision

        return Classifier(torchvision.models.resnet18(num_classes=10)), images(3, 32)
    text = torch.randint(0, 128, (batch, 65), generator=data)
    return Transformer(), (text[:, :-1], text[:, 1:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("how", choices=("strata", "ddp", "plain"))
    parser.add_argument("model", choices=("exchange", "many", "lenet", "resnet18", "transformer"))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--mib", type=int, default=100)
    options = parser.parse_args()
    rank = int(os.environ.get("RANK", 0))
    torch.manual_seed(1)
    inner, (x, y) = model_and_batch(options, rank)
    optimizer = torch.optim.SGD(inner.parameters(), 1e-3, momentum=0.9)
    if options.model == "exchange":
        optimizer = torch.optim.SGD(inner.parameters(), 1e-3)
    model = inner
    if options.how == "strata":
        import strata.torch

        optimizer = strata.torch.DistributedOptimizer(optimizer, inner)
    elif options.how == "ddp":
        torch.distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(inner)
    seconds = []
    for step in range(options.warmup + options.steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        model(x, y).backward()
        if options.model != "exchange" or step == 0:
            # Without computation the exchange alone is timed: the step once, for the values.
            optimizer.step()
        elif options.how == "strata":
            optimizer._strata_trainer.exchange.has_passed = False
        seconds.append(time.perf_counter() - begin)
    total = sum(p.detach().double().sum().item() for p in inner.parameters())
    if rank == 0:
        print(json.dumps({"seconds": seconds[options.warmup :], "sum": total}), flush=True)


if __name__ == "__main__":
    main()
