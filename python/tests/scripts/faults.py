"""A short training in which something befalls rank 1.

usage: faults.py WHAT
"""

import os
import pathlib
import signal
import sys
import threading
import time

import torch
from befalls import befall, befall_before

import strata.torch as st

torch.set_num_threads(1)
STEPS, WHEN = 20, 5


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, i):
        return torch.full((20,), i / 400)


def make(what, rank):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    if what == "tensors" and rank == 1:
        model[2] = torch.nn.Linear(64, 11)
    if what == "more-tensors" and rank == 1:
        model.append(torch.nn.Linear(10, 10))
    if what == "frozen":
        torch.manual_seed(rank)
        model[0] = torch.nn.Linear(20, 64).requires_grad_(False)
    return model


def kill_with_workers():
    loader = torch.utils.data.DataLoader(Data(), 4, num_workers=2, persistent_workers=True)
    print("workers", [w.pid for w in iter(loader)._workers])
    os.kill(os.getpid(), signal.SIGKILL)


def main(what):
    rank = int(os.environ["RANK"])
    if rank == 1:
        befall_before(what)
    model = make(what, rank)
    opt = st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model)
    if what.startswith("workers-"):
        sampler = st.Sampler(Data())
        loader = torch.utils.data.DataLoader(
            Data(), 10, sampler=sampler, num_workers=2, multiprocessing_context=what.split("-")[1]
        )
        batches = iter(loader)
    else:
        batches = iter([torch.ones(10, 20)] * STEPS)
    for step in range(10 if what == "unequal" and rank == 1 else STEPS):
        x = next(batches)
        if rank == 1 and step == WHEN:
            befall(what)
            if what == "kill-with-workers":
                kill_with_workers()
            if what == "thread":
                raise ValueError("no such thing")
            if what == "nan":
                x = x * float("nan")
        if what == "sys-exit-alone" and step == WHEN:
            time.sleep(100)
        if step == WHEN and what in ("slow", "waits"):
            pathlib.Path(f"trains-{rank}").write_text(str(os.getpid()))
            if what == "waits" and rank == 1:
                time.sleep(100)  # rank 0 is in this step
        if what == "slow":
            time.sleep(0.3)
        opt.zero_grad()
        model(x).square().mean().backward()
        opt.step()
    print("came to the end")


if __name__ == "__main__":
    if sys.argv[1] == "thread":
        trains = threading.Thread(target=main, args=sys.argv[1:])
        trains.start()
        trains.join()
        print("the main thread comes to its end")
    else:
        main(sys.argv[1])
