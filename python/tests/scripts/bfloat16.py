"""A model of bfloat16 parameters, and one of float32 under autocast."""

import torch
import torch.nn.functional as F

import strata.torch as st

torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.ModuleList(
    [
        torch.nn.Sequential(
            torch.nn.Linear(10, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3)
        ).bfloat16(),
        torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3)),
    ]
)
opt = st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model)
x = torch.randn(64, 10)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
losses = []
for _ in range(40):
    opt.zero_grad()
    half = F.cross_entropy(model[0](x.bfloat16()).float(), y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = F.cross_entropy(model[1](x), y)
    (half + mixed).backward()
    assert model[0][0].weight.grad.dtype == torch.bfloat16
    opt.step()
    losses.append((float(half), float(mixed)))
if all(last < 0.8 * first for first, last in zip(losses[0], losses[-1])):
    print("the losses fall")
