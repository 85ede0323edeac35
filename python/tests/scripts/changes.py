"""What happens to a model after it was wrapped: layers that freeze, ends, copies.

usage: changes.py ranks|servers
"""

import copy
import pickle
import sys

import torch

import strata.torch as st

torch.set_num_threads(1)
place = sys.argv[1]
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
optimizer = st.DistributedOptimizer(optimizer, model, optimizer_on=place)


def step():
    optimizer.zero_grad(set_to_none=True)
    model(torch.ones(2, 4)).square().mean().backward()
    optimizer.step()


for _ in range(2):
    step()
copied = copy.deepcopy(model)
assert torch.equal(pickle.loads(pickle.dumps(copied))(torch.ones(1, 4)), model(torch.ones(1, 4)))
model[0].requires_grad_(False)
frozen = model[0].weight.detach().clone()
for _ in range(2):
    step()
assert torch.equal(frozen, model[0].weight), "a frozen layer moves"
views = model.state_dict()
assert list(views) == ["0.weight", "0.bias", "1.weight", "1.bias"], "names as of one process"
st.finish()
assert all(torch.isfinite(view).all() for view in views.values())
with torch.no_grad():
    model[0].weight.zero_()  # the script's own again
print("as one process")
