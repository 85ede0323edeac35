"""A rank of against_ddp.py: trains one model for some steps, by Strata, by DDP over Gloo or by
itself.

usage: rank.py strata|ddp|plain MODEL [--steps N] [--warmup N] [--batch N] [--mib N] [--adamw] ...
               [--optimizer-on servers] [--hook fp16] [--views]
               [--mark FILE]

Rank 0 prints one line of JSON: the seconds of each step, how many tensors are trained, and a sketch
of how the training changed them, which all sides that see the same data must agree in.
"""

import argparse
import json
import os
import pathlib
import time

import torch
from models import MODELS, model_and_batch

torch.set_num_threads(1)
# Rounding of fp16, in which gradients may have travelled.
GRADIENT_TOLERANCE = 2e-3


def read_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("how", choices=("strata", "ddp", "plain"))
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--mib", type=float, default=100)
    parser.add_argument("--adamw", action="store_true")
    parser.add_argument("--optimizer-on", help="of Strata's DistributedOptimizer")
    parser.add_argument("--hook", choices=("fp16",), help="of DDP: how gradients travel")
    parser.add_argument("--views", action="store_true", help="DDP's gradients lie in its buckets")
    parser.add_argument("--sketch-after", type=int, help="so many steps, in place of all")
    parser.add_argument("--mark", help="a file that is there while rank 0 makes the timed steps")
    return parser.parse_args()


def sketch(model):
    """A number per tensor: its elements added up, each with a sign that chance has given it."""
    chance = torch.Generator().manual_seed(7)
    return [
        torch.where(torch.rand(one.shape, generator=chance) < 0.5, one, -one)
        .sum(dtype=torch.double)
        .item()
        for one in (param.detach() for param in model.parameters())
    ]


def check_mean(model, mean):
    """Ends the process unless all gradients of a model of known ones are their mean."""
    for param in model.parameters():
        error = (param.grad - mean).abs().max().item()
        if not error <= GRADIENT_TOLERANCE * mean:
            raise SystemExit(f"rank: a gradient is off by {error}: it must be {mean}")


def main():
    options = read_options()
    rank, ranks = (int(os.environ.get(name, 0)) for name in ("RANK", "WORLD_SIZE"))
    torch.manual_seed(1)
    inner, (x, y) = model_and_batch(options.model, options.batch, options.mib, rank)
    before = sketch(inner) if rank == 0 else []
    is_exchange = options.model == "exchange"
    if options.adamw:
        optimizer = torch.optim.AdamW(inner.parameters(), 1e-4)
    else:
        momentum = 0.0 if is_exchange else 0.9
        optimizer = torch.optim.SGD(inner.parameters(), 1e-3, momentum=momentum)
    model = inner
    if options.how == "strata":
        import strata.torch

        optimizer = strata.torch.DistributedOptimizer(
            optimizer, inner, optimizer_on=options.optimizer_on
        )
    elif options.how == "ddp":
        torch.distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(
            inner, gradient_as_bucket_view=options.views
        )
        if options.hook:
            from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

            model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    seconds = []
    mark = pathlib.Path(options.mark) if options.mark and rank == 0 else None
    for step in range(options.warmup + options.steps):
        if mark and step == options.warmup:
            mark.touch()
        begin = time.perf_counter()
        optimizer.zero_grad()
        model(x, y).backward()
        if not is_exchange or step == 0:
            # Without computation the exchange alone is timed: the step once, for the values.
            optimizer.step()
        elif options.how == "strata":
            optimizer._strata_trainer.exchange.has_passed = False
        seconds.append(time.perf_counter() - begin)
        if step + 1 == (options.sketch_after or options.warmup + options.steps) and rank == 0:
            after = sketch(inner)
        if is_exchange:
            check_mean(inner, (ranks + 1) / 2)
    if mark:
        mark.unlink()
    if rank == 0:
        of_rank = {
            "seconds": seconds[options.warmup :],
            "tensors": len(before),
            "sketch": [new - old for new, old in zip(after, before)],
        }
        print(json.dumps(of_rank), flush=True)
    if options.how == "ddp":
        # A rank that is gone breaks what the others still have open.
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
