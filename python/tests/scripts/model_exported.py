"""A model that two ranks train is compiled once, and is scripted and saved as any other; copies of
its optimizer train alone.

usage: exported.py
"""

import copy
import os
import pickle

import torch

import strata.torch as st

torch.set_num_threads(1)
torch.manual_seed(1)
rank = int(os.environ["RANK"])
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
optimizer = st.DistributedOptimizer(optimizer, model)
assert not any(m._forward_pre_hooks or m._forward_hooks for m in model.modules())

compiled = []


def backend(graph, inputs):
    compiled.append(1)
    return graph.forward


run = torch.compile(model, backend=backend, fullgraph=True) if hasattr(torch, "compile") else model
x = torch.randn(4, 3, generator=torch.Generator().manual_seed(rank))
for _ in range(12):
    optimizer.zero_grad()
    run(x).square().mean().backward()
    optimizer.step()
assert len(compiled) == (run is not model), compiled

# Before the end of the job: what is exported is of the step in hand.
assert torch.equal(torch.jit.script(model)(x), model(x))
torch.save(model, f"model.{rank}")
for how in (copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):
    copied, other = how((model, optimizer))
    assert type(other) is torch.optim.SGD, type(other)
    before = [p.detach().clone() for p in model.parameters()]
    (buffer,) = {float(s["momentum_buffer"].sum()) for s in list(other.state.values())[:1]}
    assert buffer == float(optimizer.state[model[0].weight]["momentum_buffer"].sum())
    copied(x).sum().backward()
    other.step()
    assert not torch.equal(copied[0].weight, before[0])
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters()))
torch.save(pickle.dumps(optimizer), f"optimizer.{rank}")
print("exported as any other")
