"""A model with all that a backward pass can meet, for a few steps, on two ranks or, as reference,
on one.

Its tensors: a convolution in channels_last, batch normalisation, tied weights, a frozen layer, a
parameter that is not used, and one that only rank 1 uses. Images are of other sizes in each step.
Each step accumulates two passes; ranks weigh by samples. With `step`, tied weights are used within
a reentrant checkpoint and outside of it. With `servers` a part is compiled, where PyTorch compiles.

usage: features.py strata|reference OUT [backward|step [ranks|servers]]
"""

import contextlib
import os
import sys

import torch
import torch.utils.checkpoint

torch.set_num_threads(1)
STEPS, SAMPLES = 6, (3, 5)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.is_reentrant = False
        self.tail = lambda x: self.second(x)
        self.conv = torch.nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
        self.norm = torch.nn.BatchNorm2d(8)
        self.frozen = torch.nn.Linear(8, 8).requires_grad_(False)
        self.first = torch.nn.Linear(8, 8)
        self.second = torch.nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.unused = torch.nn.Parameter(torch.ones(3))
        self.sometimes = torch.nn.Parameter(torch.ones(8))

    def forward(self, x, uses_all):
        x = self.norm(self.conv(x)).relu().mean((2, 3))
        if self.is_reentrant:
            x = torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=True)
        else:
            x = self.inner(x)
        x = self.tail(x)
        return x * self.sometimes if uses_all else x

    def inner(self, x):
        return torch.tanh(self.first(self.frozen(x)))


def batch(step, part, rank, samples):
    data = torch.Generator().manual_seed(1000 * step + 10 * part + rank)
    return torch.randn(samples, 3, 8 + step % 3, 8, generator=data)


def make():
    torch.manual_seed(5)
    model = Model()
    return model, torch.optim.SGD(
        [p for p in model.parameters() if p.requires_grad], 0.2, momentum=0.9
    )


def strata(out, publish, place):
    import strata.torch as st

    model, opt = make()
    model.is_reentrant = publish == "step"
    if hasattr(torch, "compile") and place == "servers":
        model.tail = torch.compile(model.tail, backend="aot_eager")
    opt = st.DistributedOptimizer(
        opt, model, buffers="mean", publish=publish, optimizer_on=place
    )
    rank = int(os.environ["RANK"])
    for step in range(STEPS):
        opt.zero_grad()
        opt.samples = SAMPLES[rank]
        for part in range(2):
            with opt.no_sync() if part == 0 else contextlib.nullcontext():
                (
                    model(batch(step, part, rank, SAMPLES[rank]), rank == 1).square().mean() / 2
                ).backward()
        opt.step()
    return model, rank


def reference(out):
    model, opt = make()
    for step in range(STEPS):
        means, buffers = None, []
        for rank, samples in enumerate(SAMPLES):
            saved = {n: b.clone() for n, b in model.named_buffers()}
            opt.zero_grad()
            for part in range(2):
                (model(batch(step, part, rank, samples), rank == 1).square().mean() / 2).backward()
            buffers.append({n: b.clone() for n, b in model.named_buffers()})
            for n, b in model.named_buffers():
                b.copy_(saved[n])
            share = samples / sum(SAMPLES)
            own = [
                torch.zeros_like(p) if p.grad is None else p.grad * share
                for p in model.parameters()
                if p.requires_grad
            ]
            means = own if means is None else [a + b for a, b in zip(means, own)]
        for p, mean in zip([p for p in model.parameters() if p.requires_grad], means):
            p.grad = mean
        for n, b in model.named_buffers():
            if b.dtype == torch.float32:
                b.copy_(sum(s * each[n] for s, each in zip(SAMPLES, buffers)) / sum(SAMPLES))
        opt.step()
    return model, 0


if __name__ == "__main__":
    how, out = sys.argv[1:3]
    trained, number = strata(out, *sys.argv[3:]) if how == "strata" else reference(out)
    floats = {k: v for k, v in trained.state_dict().items() if v.dtype == torch.float32}
    torch.save(floats, f"{out}.{number}")
