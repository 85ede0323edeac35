"""Rank 1's gradient overflows in the second optimizer's part of the model; no optimizer of any rank
steps.

usage: overflow.py backward|step
"""

import os
import sys

import torch

import strata.torch as st

torch.set_num_threads(1)
rank, publish = int(os.environ["RANK"]), sys.argv[1]
torch.manual_seed(0)
model = torch.nn.ModuleList([torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)])
scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=100)
optimizers = [torch.optim.SGD(part.parameters(), 0.1, momentum=0.9) for part in model]
optimizers = st.DistributedOptimizer(optimizers, model, scaler=scaler, publish=publish)
for step in range(4):
    x = torch.ones(2, 3)
    for optimizer in optimizers:
        optimizer.zero_grad()
    before = [p.detach().clone() for p in model.parameters()]
    bad = torch.full((2, 3), float("inf")) if step == 2 and rank == 1 else x
    scaler.scale((model[0](x) + model[1](bad)).mean()).backward()
    for optimizer in optimizers:
        if publish == "step":
            optimizer.exchange()
        scaler.step(optimizer)
    scaler.update()
    moved = [not torch.equal(a, b) for a, b in zip(before, model.parameters())]
    assert all(moved) if step != 2 else not any(moved), (step, moved)
assert scaler.get_scale() == 32.0
assert optimizers[0]._strata_trainer.exchange.passes == 4
try:
    scaler.scale((model[0](x) + model[1](x)).mean()).backward()
    scaler.step(optimizers[0])
except st.OutOfOrder as error:
    assert publish == "step" and "exchange() before scaler.step()" in str(error)
else:
    assert publish == "backward"
    scaler.step(optimizers[1])
print("no optimizer stepped")
