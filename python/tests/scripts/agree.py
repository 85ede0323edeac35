"""Trains six steps on two ranks with the optimizer on them, of which one does something else.

usage: agree.py WHAT [EVERY]
WHAT: alike, load (rank 0 has other weights), skip (rank 1 leaves a step out), clip, decay,
momentum, rate (rank 1 has other options; the rate is that of group 1), buffer (rank 1 begins with
another number)
"""

import os
import sys

import torch

import strata
import strata.torch as st

torch.set_num_threads(1)
what, every = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100
rank = int(os.environ["RANK"])
torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
net.register_buffer("scale", torch.tensor(1.0 + (rank if what == "buffer" else 0)))
groups = [{"params": net[0].parameters()}, {"params": net[2].parameters()}]
opt = torch.optim.SGD(groups, 0.1, momentum=0.5)
opt = st.DistributedOptimizer(opt, net, check_every=every)
if what == "load" and rank == 0:
    net.load_state_dict({k: v + (k != "scale") for k, v in net.state_dict().items()})
for step in range(6):
    opt.zero_grad()
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(10 * step + rank))
    net(x).square().mean().backward()
    if what == "clip":
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1 * (1 + rank))
    if what == "skip" and rank == 1 and step == 2:
        continue
    opt.step()
    if rank == 1 and step == 3:
        if what == "decay":
            opt.param_groups[0]["weight_decay"] = 0.25
        if what == "momentum":
            opt.param_groups[0]["momentum"] = 0.25
        if what == "rate":
            opt.param_groups[1]["lr"] = 0.01
strata.finish()
print("has finished")
