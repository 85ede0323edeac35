"""Saves a rank's own gradients, taken under no_sync(), and what param.grad is after backward()."""

import os

import torch

import strata.torch as st

torch.set_num_threads(1)
rank = int(os.environ["RANK"])
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(100, 300), torch.nn.Tanh(), torch.nn.Linear(300, 7))
opt = st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model)
x = torch.randn(16, 100, generator=torch.Generator().manual_seed(rank))


def gradients():
    model(x).square().mean().backward()
    return [p.grad.clone() for p in model.parameters()]


with opt.no_sync():
    torch.save(gradients(), f"local.{rank}")
opt.zero_grad()
torch.save(gradients(), f"mean.{rank}")
opt.step()
