"""One model with its optimizer on the servers, beside the same in plain PyTorch, here, on all
ranks' data.

usage: servers.py KIND [NAME=VALUE of DistributedOptimizer]
"""

import os
import sys
import time

import torch
import torch.nn.functional as F

import strata
import strata.torch as st

torch.set_num_threads(1)
STEPS, BATCH = 50, 8


def make(kind):
    torch.manual_seed(4)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
    first, second = model[0].parameters(), model[2].parameters()
    groups = [{"params": first}, {"params": second, "lr": 0.02, "weight_decay": 0.0}]
    optimizer = {
        "sgd": lambda: torch.optim.SGD(groups, 0.1, weight_decay=0.01),
        "momentum": lambda: torch.optim.SGD(groups, 0.05, momentum=0.9, weight_decay=0.01),
        "nesterov": lambda: torch.optim.SGD(
            groups, 0.05, momentum=0.9, nesterov=True, weight_decay=0.01
        ),
        "adam": lambda: torch.optim.Adam(groups, 0.01, weight_decay=0.01),
        "adagrad": lambda: torch.optim.Adagrad(
            groups, 0.01, weight_decay=0.01, initial_accumulator_value=0.1
        ),
        "adamw": lambda: torch.optim.AdamW(groups, 0.01, weight_decay=0.1),
    }[kind]()
    # Warm-up, then decay.
    return (
        model,
        optimizer,
        lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda t: min((t + 1) / 5, 10 / (t + 5))),
    )


def batch(rank, step):
    data = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(BATCH, 6, generator=data), torch.randint(0, 3, (BATCH,), generator=data)


def main(kind, options):
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    model, optimizer, schedule = make(kind)
    optimizer = st.DistributedOptimizer(optimizer, model, optimizer_on="servers", **options)
    scheduler = schedule(optimizer)
    for step in range(STEPS):
        x, y = batch(rank, step)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        scheduler.step()
    strata.finish()

    one, optimizer, schedule = make(kind)
    scheduler = schedule(optimizer)
    clipped = 0
    for step in range(STEPS):
        optimizer.zero_grad()
        for r in range(ranks):
            x, y = batch(r, step)
            (F.cross_entropy(one(x), y) / ranks).backward()
        if "clip_norm" in options:
            norm = torch.nn.utils.clip_grad_norm_(one.parameters(), options["clip_norm"])
            clipped += bool(norm > options["clip_norm"])
        optimizer.step()
        scheduler.step()
    assert clipped > STEPS // 2 or "clip_norm" not in options, clipped
    worst = max(float((a - b).abs().max()) for a, b in zip(model.parameters(), one.parameters()))
    assert worst < 1e-6, worst
    torch.save([p.detach() for p in model.parameters()], f"trained.{rank}")
    # After the end the weights are this process's own, where they lay.
    final = [p.detach().clone() for p in model.parameters()]
    with torch.no_grad():
        for p in model.parameters():
            p.add_(rank + 1)
    time.sleep(0.5)
    for p, was in zip(model.parameters(), final):
        assert torch.equal(p, was + (rank + 1)), "another rank wrote to it"
    print("as PyTorch's own formula")


if __name__ == "__main__":
    given = dict(word.split("=") for word in sys.argv[2:])
    main(sys.argv[1], {name: float(v) if name == "clip_norm" else v for name, v in given.items()})
