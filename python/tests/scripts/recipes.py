"""Trains a model of parts, each with an optimizer of its own, for 50 steps: in a job, or with DDP
beside it.

usage: recipes.py strata|ddp|alone|plain OUT
"""

import os
import sys

import torch
import torch.nn.functional as F

torch.set_num_threads(1)
BATCH = 8


class Parts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
            for _ in range(5)
        )

    def forward(self, x):
        return [part(x) for part in self.parts]


def optimizers(model):
    parts = model.parts
    decayed = [p for n, p in parts[4].named_parameters() if n.endswith("weight")]
    plain = [p for n, p in parts[4].named_parameters() if n.endswith("bias")]
    return [
        torch.optim.SGD(parts[0].parameters(), 0.1),
        torch.optim.SGD(
            parts[1].parameters(), 0.05, momentum=0.9, nesterov=True, weight_decay=1e-3
        ),
        torch.optim.Adam(parts[2].parameters(), 1e-2, amsgrad=True),
        torch.optim.RMSprop(parts[3].parameters(), 1e-3),
        torch.optim.AdamW(
            [
                {"params": decayed, "weight_decay": 0.1},
                {"params": plain, "weight_decay": 0.0, "lr": 3e-3},
            ],
            1e-2,
        ),
    ]


def train(model, inner, opts, rank, ranks, steps=50):
    schedulers = [torch.optim.lr_scheduler.StepLR(o, 10, 0.7) for o in opts]
    data = torch.Generator().manual_seed(7)
    for _ in range(steps):
        x = torch.randn(ranks * BATCH, 6, generator=data)[rank * BATCH : (rank + 1) * BATCH]
        y = torch.randint(0, 3, (ranks * BATCH,), generator=data)[rank * BATCH : (rank + 1) * BATCH]
        for o in opts:
            o.zero_grad()
        loss = sum(F.cross_entropy(out, y) for out in model(x))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(inner.parts[1].parameters(), 0.3)
        for o, s in zip(opts, schedulers):
            o.step()
            s.step()


def main(how, out):
    torch.manual_seed(1 + int(os.environ["RANK"]) if how == "strata" else 1)
    model = Parts()
    opts = optimizers(model)
    if how == "strata":
        import strata.torch as st

        opts = st.DistributedOptimizer(opts, model)
        rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        train(model, model, opts, rank, ranks)
    elif how == "alone":
        import strata.torch as st

        opts = st.DistributedOptimizer(opts, model)
        train(model, model, opts, 0, 1)
        rank = 0
    elif how == "plain":
        train(model, model, opts, 0, 1)
        rank = 0
    else:
        import torch.distributed as dist

        dist.init_process_group("gloo")
        rank, ranks = dist.get_rank(), dist.get_world_size()
        train(torch.nn.parallel.DistributedDataParallel(model), model, opts, rank, ranks)
    torch.save([p.detach().clone() for p in model.parameters()], f"{out}.{rank}")


if __name__ == "__main__":
    main(*sys.argv[1:])
