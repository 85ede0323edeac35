"""Two optimizers by turns, as a GAN has them; compared with one process that sees both ranks'
data."""

import os

import torch

import strata.torch as st

torch.set_num_threads(1)
rank = int(os.environ["RANK"])


def make():
    torch.manual_seed(3)
    model = torch.nn.ModuleDict({"g": torch.nn.Linear(4, 4), "d": torch.nn.Linear(4, 1)})
    return (
        model,
        torch.optim.Adam(model["g"].parameters(), 1e-2),
        torch.optim.Adam(model["d"].parameters(), 1e-2),
    )


def noise(who, step):
    return torch.randn(8, 4, generator=torch.Generator().manual_seed(100 * step + who))


def d_loss(model, z):
    return (model["d"](model["g"](z).detach()) - model["d"](z)).tanh().mean()


def g_loss(model, z):
    return -model["d"](model["g"](z)).tanh().mean()


model, g, d = make()
g, d = st.DistributedOptimizer([g, d], model)
for step in range(10):
    d.zero_grad()
    d_loss(model, noise(rank, step)).backward()
    d.step()
    g.zero_grad()
    g_loss(model, noise(rank, step)).backward()
    g.step()

one, g1, d1 = make()
for step in range(10):
    d1.zero_grad()
    ((d_loss(one, noise(0, step)) + d_loss(one, noise(1, step))) / 2).backward()
    d1.step()
    g1.zero_grad()
    ((g_loss(one, noise(0, step)) + g_loss(one, noise(1, step))) / 2).backward()
    g1.step()
worst = max(float((a - b).abs().max()) for a, b in zip(model.parameters(), one.parameters()))
assert worst < 1e-6, worst
print("as one process")
