"""A model whose buffers share memory: one, its transpose, and one of its columns, all averaged.

usage: shared_memory.py ranks|servers|weight|parameter
ranks, servers: where the optimizer runs; weight: a buffer is a view of a weight; parameter: two
parameters are
"""

import os
import sys

import torch

import strata.torch as st

torch.set_num_threads(1)
rank, what = int(os.environ["RANK"]), sys.argv[1]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        base = torch.zeros(4, 4)
        self.register_buffer("base", base)
        self.register_buffer("turned", base.t())
        self.register_buffer("column", base[:, 1])
        if what == "weight":
            self.register_buffer("view", self.layer.weight.data[1:])
        if what == "parameter":
            self.other = torch.nn.Parameter(self.layer.weight.data.t())

    def forward(self, x):
        if self.training:
            self.base += x.mean()
            self.column += 1.0
        return self.layer(x + self.turned.sum())


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.SGD(model.parameters(), 0.01)
place = what if what == "ranks" else "servers"
optimizer = st.DistributedOptimizer(optimizer, model, buffers="mean", optimizer_on=place)
expected = torch.zeros(4, 4)
for step in range(3):
    optimizer.zero_grad()
    model(torch.full((2, 4), float(rank))).square().mean().backward()
    optimizer.step()
    # The mean of both ranks' 0 and 1.
    expected += 0.5
    expected[:, 1] += 1.0
    assert torch.equal(model.base, expected), model.base
    assert torch.equal(model.turned, expected.t())
    assert model.turned.data_ptr() == model.base.data_ptr()
    assert model.column.data_ptr() == model.base[:, 1].data_ptr()
print("still share memory")
