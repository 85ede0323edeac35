"""A small classifier in the job's mode; says whether its loss has fallen as it does in one
process."""

import os

import torch
import torch.nn.functional as F

import strata.torch as st

torch.set_num_threads(1)
torch.manual_seed(int(os.environ["RANK"]))
model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
optimizer = st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1, momentum=0.5), model)
data = torch.Generator().manual_seed(0)
x = torch.randn(2048, 20, generator=data)
y = (x @ torch.randn(20, 10, generator=data)).argmax(1)
losses = []
for epoch in range(3):
    sampler = st.Sampler(x)
    sampler.set_epoch(epoch)
    for some in torch.utils.data.BatchSampler(sampler, 32, True):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[some]), y[some])
        loss.backward()
        optimizer.step()
        st.report(loss=loss.item())
        losses.append(loss.item())
st.finish()
last = F.cross_entropy(model(x), y).item()
assert last < 1.2 and last < 0.5 * losses[0], (losses[0], last)
torch.save(model.state_dict(), f"final.{os.environ['RANK']}")
print("the loss falls")
