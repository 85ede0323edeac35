"""Rank 1's third gradient is infinite; every rank's GradScaler skips that step, and no weight
moves.

usage: scaler.py ""|fused|float64
"""

import os
import sys

import torch

import strata.torch as st

torch.set_num_threads(1)
rank = int(os.environ["RANK"])
torch.manual_seed(0)
model = torch.nn.Linear(4, 3)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=100)
if sys.argv[1] == "float64":
    torch.set_default_dtype(torch.float64)
options = {"fused": True} if sys.argv[1] == "fused" else {}
opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, **options)
opt = st.DistributedOptimizer(opt, model, scaler=scaler)
scales = []
for step in range(4):
    x = torch.ones(2, 4, dtype=torch.float32)
    if step == 2 and rank == 1:
        x[0, 0] = float("inf")
    model.zero_grad()
    before = [p.detach().clone() for p in model.parameters()]
    scaler.scale(model(x).square().mean()).backward()
    scaler.unscale_(opt)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scales.append(scaler.get_scale())
    scaler.step(opt)
    scaler.update()
    moved = any(not torch.equal(a, b) for a, b in zip(before, model.parameters()))
    assert moved == (step != 2), step
    scales[-1] = scaler.get_scale()
assert all(torch.isfinite(p).all() for p in model.parameters())
client = opt._strata_trainer.exchange.client
assert client.steps == 4, client.steps
print("scales", scales)
torch.save([p.detach() for p in model.parameters()], f"scaled.{rank}")
