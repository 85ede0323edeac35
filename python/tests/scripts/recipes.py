"""Trains a model of parts, each with an optimizer of its own, for 50 steps: in a job, with DDP, or
in one process, which with `tree` computes the gradients of so many ranks and adds them up in the
tree's order.

usage: recipes.py strata|ddp|alone|plain|tree OUT [RANKS]
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
            for _ in range(9)
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
        torch.optim.SGD(groups(parts[5], weight_decay=0.0), 0.05, momentum=0.9, weight_decay=1e-2),
        torch.optim.Adam(groups(parts[6], betas=(0.8, 0.95)), 1e-2, weight_decay=1e-2),
        torch.optim.SGD(parts[7].parameters(), 1e-3, momentum=0.9, dampening=0.1, maximize=True),
        torch.optim.Adagrad(parts[8].parameters(), 1e-2, lr_decay=1e-2),
    ]


def groups(part, **second):
    """Two groups: the first layer, and the second with options of its own."""
    return [{"params": part[0].parameters()}, {"params": part[2].parameters(), **second}]


def add_in_tree_order(parts):
    """Of four: (0 + 1) + (2 + 3)."""
    if len(parts) == 1:
        return parts[0]
    return add_in_tree_order([a + b for a, b in zip(parts[::2], parts[1::2])])


def backward_of_all(model, x, y, ranks):
    """Makes each gradient the mean of those that so many ranks would have."""
    params = list(model.parameters())
    of_ranks = []
    for rank in range(ranks):
        model.zero_grad(set_to_none=True)
        share = slice(rank * BATCH, (rank + 1) * BATCH)
        sum(F.cross_entropy(out, y[share]) for out in model(x[share])).backward()
        of_ranks.append([p.grad for p in params])
    for p, gradients in zip(params, zip(*of_ranks)):
        p.grad = add_in_tree_order(gradients) * (1 / ranks)


def train(model, inner, opts, rank, ranks, steps=50, is_tree=False):
    schedulers = [torch.optim.lr_scheduler.StepLR(o, 10, 0.7) for o in opts]
    data = torch.Generator().manual_seed(7)
    clipped = 0
    for _ in range(steps):
        x = torch.randn(ranks * BATCH, 6, generator=data)
        y = torch.randint(0, 3, (ranks * BATCH,), generator=data)
        for o in opts:
            o.zero_grad()
        if is_tree:
            backward_of_all(model, x, y, ranks)
        else:
            share = slice(rank * BATCH, (rank + 1) * BATCH)
            sum(F.cross_entropy(out, y[share]) for out in model(x[share])).backward()
        for part in (1, 4, 5, 6):
            norm = torch.nn.utils.clip_grad_norm_(inner.parts[part].parameters(), 0.3)
            clipped += bool(norm > 0.3)
        for o, s in zip(opts, schedulers):
            o.step()
            s.step()
    assert clipped > steps, f"gradients were clipped {clipped} times in {steps} steps"


def main(how, out, *of):
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
    elif how == "tree":
        train(model, model, opts, 0, int(of[0]), is_tree=True)
        rank = 0
    else:
        import torch.distributed as dist

        dist.init_process_group("gloo")
        rank, ranks = dist.get_rank(), dist.get_world_size()
        train(torch.nn.parallel.DistributedDataParallel(model), model, opts, rank, ranks)
    torch.save([p.detach().clone() for p in model.parameters()], f"{out}.{rank}")


if __name__ == "__main__":
    main(*sys.argv[1:])
