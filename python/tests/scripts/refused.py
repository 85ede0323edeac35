"""Does what an optimizer on the servers cannot.

usage: refused.py WHAT
"""

import sys

import torch

import strata.torch as st

what = sys.argv[1]
model = torch.nn.Linear(4, 2)
if what == "bfloat16":
    model = model.bfloat16()
if what == "unfrozen":
    model.bias.requires_grad_(False)
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.1)
if what == "rmsprop":
    optimizer = torch.optim.RMSprop(model.parameters())
options = {}
if what in ("state", "load"):
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    saved = optimizer.state_dict()
    if what == "load":
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
if what == "scaler":
    options["scaler"] = object()
if what == "ranks":
    options["optimizer_on"] = "ranks"
if what == "two":
    optimizer = [torch.optim.SGD([model.weight], 0.1), torch.optim.SGD([model.bias], 0.1)]
optimizer = st.DistributedOptimizer(optimizer, model, **options)
if what == "load":
    assert optimizer.state_dict()["state"] == {}
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.load_state_dict(saved)
if what == "double":
    model.double()


def backward():
    model(torch.ones(3, 4, dtype=model.weight.dtype)).square().mean().backward()


for step in range(3):
    optimizer.zero_grad()
    backward()
    if what == "clip":
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    if what == "rate":
        optimizer.param_groups[0]["lr"] = 0.2
    if what == "again":
        backward()
    if what == "rebound":
        model.weight.data = model.weight.data.clamp(-0.1, 0.1)
    if what == "no step":
        continue
    if what == "unfrozen":
        model.bias.requires_grad_(True)
    if what == "group":
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(2))]})
    optimizer.step((lambda: 0.0) if what == "closure" else None)
    if what == "write":
        with torch.no_grad():
            model.weight.zero_()
