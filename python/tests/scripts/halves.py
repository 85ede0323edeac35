"""Models of bfloat16 and of float16 parameters, with the optimizer on the ranks; and one of float32
under autocast, wherever it runs.

usage: halves.py ranks|servers
"""

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
x = torch.randn(64, 10)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
losses = []
for _ in range(40):
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        of_parts = [F.cross_entropy(mixed(x).float(), y)]
    of_parts += [F.cross_entropy(part(x), y) for part in model[1:]]
    sum(of_parts).backward()
    for part, dtype in zip(model[1:], types):
        assert part.first.weight.grad.dtype == dtype
    opt.step()
    losses.append([float(loss) for loss in of_parts])
if all(last < 0.8 * first for first, last in zip(losses[0], losses[-1])):
    print("the losses fall")
