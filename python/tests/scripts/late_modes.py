"""Two ranks in a mode whose means come late, against its formula computed here for both.

usage: late_modes.py MODE
"""

import os
import sys

import torch

import strata
import strata.torch as st

torch.set_num_threads(1)
torch.set_default_dtype(torch.float32)
mode, rank = sys.argv[1], int(os.environ["RANK"])
RATE, STEPS = 0.1, 12


def make():
    return torch.nn.Parameter(torch.arange(5.0))


def gradient(w, who, step):
    return w.detach() * (who + 1) - step * 0.1


w = make()
model = torch.nn.Module()
model.w = w
opt = st.DistributedOptimizer(torch.optim.SGD([w], RATE, momentum=0.5), model)
for step in range(STEPS):
    opt.zero_grad()
    (w * gradient(w, rank, step)).sum().backward()
    opt.step()
strata.finish()


def delayed():
    ref = make()
    own = torch.optim.SGD([ref], RATE, momentum=0.5)
    before = None
    for step in range(STEPS):
        mean = (gradient(ref, 0, step) + gradient(ref, 1, step)) / 2
        if before is not None:
            ref.grad = before
            own.step()
        before = mean
    return ref


def local(every, outer_lr, outer_momentum):
    refs = [make(), make()]
    own = [torch.optim.SGD([ref], RATE, momentum=0.5) for ref in refs]
    velocity = torch.zeros(5)
    start = refs[0].detach().clone()
    for step in range(STEPS):
        for who in range(2):
            refs[who].grad = gradient(refs[who], who, step)
            own[who].step()
        if (step + 1) % every == 0:
            change = ((start - refs[0].detach()) + (start - refs[1].detach())) / 2
            velocity = outer_momentum * velocity + change
            move = change + outer_momentum * velocity if outer_momentum else change
            start = start - outer_lr * move
            for ref in refs:
                ref.data = start.clone()
    return refs[0]


expected = {
    "delay1": delayed,
    "local(3)": lambda: local(3, 1.0, 0.0),
    "diloco(2)": lambda: local(2, 0.7, 0.9),
}[mode]()
difference = float((w - expected).abs().max())
assert difference < 1e-5, (w, expected)
print("as the formula")
