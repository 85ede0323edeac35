"""Models of bfloat16 and of float16 parameters, with the optimizer on the ranks; and one of float32
under autocast, wherever it runs.

usage: halves.py ranks|servers
"""

import os
import sys

import torch
import torch.nn.functional as F

import strata.torch as st

torch.set_num_threads(1)
torch.manual_seed(0)
place = sys.argv[1]


class Layers(torch.nn.Module):
    """Layers of one type, whose products are of fp32: on a host not each PyTorch has others."""

    def __init__(self, dtype):
        super().__init__()
        self.first, self.second = torch.nn.Linear(10, 32), torch.nn.Linear(32, 3)
        self.to(dtype)

    def forward(self, x):
        x = F.linear(x, self.first.weight.float(), self.first.bias.float()).relu()
        return F.linear(x, self.second.weight.float(), self.second.bias.float())


mixed = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
types = [torch.bfloat16, torch.float16] if place == "ranks" else []
model = torch.nn.ModuleList([mixed, *map(Layers, types)])
opt = st.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), 0.1), model, optimizer_on=place
)
rank = int(os.environ["RANK"])


def batch(who):
    x = torch.randn(64, 10, generator=torch.Generator().manual_seed(who))
    return x, (x[:, 0] > 0).long() + (x[:, 1] > 0).long()


def check_means(part, dtype):
    """The gradients are the mean of both ranks', as well as their type can tell it."""
    params = list(part.parameters())
    both = [torch.autograd.grad(F.cross_entropy(part(x), y), params) for x, y in map(batch, (0, 1))]
    for p, *of_ranks in zip(params, *both):
        mean = sum(gradient.float() for gradient in of_ranks) / 2
        assert p.grad.dtype == dtype
        assert torch.allclose(p.grad.float(), mean, rtol=2e-2, atol=1e-3), (dtype, p.grad, mean)


x, y = batch(rank)
losses = []
for step in range(40):
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        of_parts = [F.cross_entropy(mixed(x).float(), y)]
    of_parts += [F.cross_entropy(part(x), y) for part in model[1:]]
    sum(of_parts).backward()
    if step == 0:
        for part, dtype in zip(model[1:], types):
            check_means(part, dtype)
    opt.step()
    losses.append([float(loss.detach()) for loss in of_parts])
if all(last < 0.8 * first for first, last in zip(losses[0], losses[-1])):
    print("the losses fall")
