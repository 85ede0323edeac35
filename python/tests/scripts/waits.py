"""Reads every weight right after step(), or within the next forward pass, while rank 1 is slow with
one gradient.

Rank 1 gives the gradient of one tensor 200 ms later than all others, so that rank 0 gets that
tensor's answer so much later. Each weight that is read must have the bits of the new step; with a
staleness, of a step that is no older.

usage: waits.py step|forward|recurrent [ranks|servers [STALENESS]]
"""

import os
import sys
import time

import torch

import strata.torch as st

torch.set_num_threads(1)
rank = int(os.environ["RANK"])
place = sys.argv[2] if len(sys.argv) > 2 else "servers"
staleness = int(sys.argv[3]) if len(sys.argv) > 3 else 0
overlap = None if sys.argv[1] == "step" else "forward"
# Small weights, as recurrent layers saturate; a power of two, so that sums are exact.
UNIT = 2.0**-6 if sys.argv[1] == "recurrent" else 1.0


class Model(torch.nn.Module):
    """Weights within leaf modules, of the root, and of a leaf that is used without its
    forward()."""

    def __init__(self):
        super().__init__()
        self.leaf = torch.nn.Linear(40, 40)
        self.own = torch.nn.Parameter(torch.zeros(40, 40))
        self.indirect = torch.nn.Linear(40, 40)
        self.many = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(400)) for _ in range(2)])

    def forward(self, x):
        x = self.leaf(x) @ self.own + torch.nn.functional.linear(x, self.indirect.weight)
        return x + self.indirect.bias + self.many[0][:40] + self.many[1][:40]


class Recurrent(torch.nn.Module):
    """Layers that older versions of PyTorch let read their weights by references of their own."""

    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(40, 20)
        self.gru = torch.nn.GRU(20, 10, bidirectional=True)

    def forward(self, x):
        return self.gru(self.lstm(x.expand(3, -1, -1))[0])[0]


def filled(value):
    """Returns a model, all of whose weights have one value."""
    model = Recurrent() if sys.argv[1] == "recurrent" else Model()
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(value)
    return model


class Known(torch.autograd.Function):
    """Gives every parameter a known gradient, in the order of backward."""

    @staticmethod
    def forward(ctx, value, *params):
        ctx.value = value
        ctx.shapes = [p.shape for p in params]
        return torch.zeros(())

    @staticmethod
    def backward(ctx, _):
        return (None, *[torch.full(shape, ctx.value) for shape in ctx.shapes])


model = filled(0.0)
held = list(model.named_parameters())
opt = st.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), 1.0), model, optimizer_on=place, overlap=overlap
)


def value_after(steps):
    """Each step takes off the mean of (step) and (1 + step)."""
    return -UNIT * sum(s + 0.5 for s in range(steps))


for step in range(len(held)):
    late = held[step][0]
    opt.zero_grad()
    params = [p for _, p in held]
    handles = []
    if rank == 1:
        # Before the exchange's own hook, which comes once the gradient has been added up.
        handles = [p.register_hook(lambda g: (time.sleep(0.2), g)[1]) for n, p in held if n == late]
    Known.apply(UNIT * (rank + step), *params).backward()
    if place == "ranks":
        for name, p in held:
            mean = torch.full(p.shape, UNIT * (step + 0.5))
            assert torch.equal(p.grad, mean), (late, name)
    opt.step()
    for handle in handles:
        handle.remove()
    expected = value_after(step + 1)
    if overlap:
        x = torch.linspace(-1, 1, 40).reshape(1, 40)
        out, want = model(x), filled(expected)(x)
        assert torch.equal(out, want), (late, out, want)
        held_now = dict(model.named_parameters())
    else:
        held_now = dict(held)
    allowed = {value_after(step + 1 - stale) for stale in range(min(staleness, step + 1) + 1)}
    for name, p in held_now.items():
        found = set(p.detach().flatten().tolist())
        assert found <= allowed, (late, name, found, allowed)
print("every weight was new")
