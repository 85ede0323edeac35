"""A rank that trains one array of PyTorch by gradients of its own weights, in numbers whose sums
are exact: a GPU has the bits of a CPU. Rank 0 prints the final weights.

usage: arrays.py cpu|cuda [own_gpu]
  own_gpu: each rank has the GPU of its number on this host
"""

import hashlib
import os
import sys

import torch

import strata

ELEMENTS, STEPS, BATCH = 20_000, 50, 8
where = torch.device(sys.argv[1])
if "own_gpu" in sys.argv:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
place = torch.arange(ELEMENTS, device=where)
weights = torch.full((ELEMENTS,), 0.25, device=where)
with strata.Session({"w": weights}, optimizer=strata.SGD(lr=0.125)) as session:
    for step in range(STEPS):
        w = session.weights()["w"]
        assert w.device.type == where.type, w.device
        wave = (place * 37 + session.rank * 7 + step * 13) % 1024 - 512
        gradient = torch.round(0.25 * w * 1024 + wave) / 1024
        session.step({"w": gradient}, samples=BATCH)
w = session.weights()["w"]
if session.rank == 0:
    print("weights", hashlib.sha256(w.cpu().numpy().tobytes()).hexdigest())
