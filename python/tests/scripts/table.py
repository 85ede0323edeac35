"""What docs/python.md's table says of the optimizer on the ranks, in one job: what is refused is
refused by name, and training goes on after it; what a script writes to weights stays."""

import contextlib
import copy
import os

import torch

import strata
import strata.torch as st

torch.set_num_threads(1)
rank, RANKS = int(os.environ["RANK"]), 2


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(4, 4)
        self.frozen = torch.nn.Linear(4, 4).requires_grad_(False)
        self.register_buffer("view", self.layer.weight.data[1:])

    def forward(self, x):
        return self.layer(self.frozen(x)).square().mean()


def make():
    model = Model()
    return model, torch.optim.SGD(model.layer.parameters(), 0.1, momentum=0.9)


def batch(rank, step):
    return torch.randn(8, 4, generator=torch.Generator().manual_seed(10 * step + rank))


model, optimizer = make()
optimizer = st.DistributedOptimizer(optimizer, model)
one, reference = make()
steps = 0


def make_step():
    """A step of the job, and the same in plain PyTorch with both ranks' data."""
    global steps
    optimizer.zero_grad()
    model(batch(rank, steps)).backward()
    optimizer.step()
    reference.zero_grad()
    for who in range(RANKS):
        (one(batch(who, steps)) / RANKS).backward()
    reference.step()
    steps += 1
    for mine, its in zip(model.layer.parameters(), one.layer.parameters()):
        assert float((mine - its).detach().abs().max()) < 1e-6, steps


@contextlib.contextmanager
def refused(kind, text):
    make_step()
    try:
        yield
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"not refused: {text}")
    optimizer.zero_grad()
    make_step()


with refused(strata.InvalidArgument, "closures are not taken"):
    optimizer.step(lambda: model(batch(rank, 0)))
with refused(strata.OutOfOrder, 'parameter "layer.'):
    model(batch(rank, 0)).backward()
    model(batch(rank, 0)).backward()
with refused(strata.InvalidArgument, "add_param_group: group 1 comes after"):
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(2))]})
with refused(strata.InvalidArgument, 'parameter "frozen.weight": was frozen when'):
    model.frozen.requires_grad_(True)
    model(batch(rank, 0)).backward()
    try:
        optimizer.step()
    finally:
        model.frozen.requires_grad_(False)
saved = [copy.deepcopy(each.state_dict()) for each in (optimizer, reference)]
make_step()
for each, state in zip((optimizer, reference), saved):
    each.load_state_dict(state)
make_step()
assert list(model.state_dict()) == list(one.state_dict()), "names as of one process"
with torch.no_grad():
    for some in (model, one):
        some.layer.weight.clamp_(-0.1, 0.1)
        some.layer.bias.data = torch.full((4,), 0.5)
make_step()
make_step()
assert steps == 12
assert model.view.data_ptr() == model.layer.weight[1:].data_ptr(), "a view of a parameter"
assert torch.equal(model.view, model.layer.weight[1:])
print("as the table says")
