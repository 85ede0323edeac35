"""Trains a model that DDP wraps for 20 steps with a job's comm hook, and beside it with DDP's own
exchange.

The model has a convolution in channels_last, batch normalisation, a frozen parameter and, in
buckets of 10 kB, several of them.

usage: hooked.py OUT [unused] [static] [view] [accumulate] [bfloat16] [delayed] [gloo] [nan] [apart]
"""

import contextlib
import os
import sys

import strata.torch as st
import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
STEPS, BATCH = 20, 4


class Net(torch.nn.Module):
    def __init__(self, wants_unused):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 16, 3).to(memory_format=torch.channels_last)
        self.norm = torch.nn.BatchNorm2d(16)
        self.layers = torch.nn.Sequential(
            *(torch.nn.Linear(16 if i == 0 else 48, 48) for i in range(5))
        )
        self.last = torch.nn.Linear(48, 5)
        self.frozen = torch.nn.Parameter(torch.ones(5), requires_grad=False)
        self.never = torch.nn.Parameter(torch.ones(7)) if wants_unused else None
        self.sometimes = torch.nn.Parameter(torch.ones(5)) if wants_unused else None

    def forward(self, x, uses_all):
        x = self.norm(self.conv(x)).relu().mean((2, 3))
        for layer in self.layers:
            x = torch.tanh(layer(x))
        x = self.last(x) * self.frozen
        return x * self.sometimes if self.sometimes is not None and uses_all else x


def passes(step, rank, count):
    data = torch.Generator().manual_seed(100 * step + rank)
    for _ in range(count):
        yield torch.randn(BATCH, 3, 8, 8, generator=data), torch.randint(
            0, 5, (BATCH,), generator=data
        )


def make(how, wants, rank):
    """Returns the wrapped model; each rank begins with weights of its own."""
    torch.manual_seed(1 + rank)
    net = Net("unused" in wants)
    if "bfloat16" in wants:
        net = net.bfloat16()
    ddp = DistributedDataParallel(
        net,
        bucket_cap_mb=0.01,
        find_unused_parameters="unused" in wants and "static" not in wants,
        static_graph="static" in wants,
        gradient_as_bucket_view="view" in wants,
        broadcast_buffers="gloo" not in wants and "nan" not in wants,
    )
    if how == "hook":
        ddp.register_comm_hook(st.state(ddp.module), st.comm_hook)
    return ddp


def train(how, wants, rank):
    ddp = make(how, wants, rank)
    opt = torch.optim.SGD(ddp.parameters(), 0.05, momentum=0.9)
    count = 2 if "accumulate" in wants else 1
    dtype = torch.bfloat16 if "bfloat16" in wants else torch.float32
    late = None
    for step in range(STEPS):
        if "nan" in wants and step == 3 and rank == 1:
            ddp.module.last.bias.register_hook(lambda g: g * float("nan"))
        opt.zero_grad()
        for number, (x, y) in enumerate(passes(step, rank, count)):
            with ddp.no_sync() if number < count - 1 else contextlib.nullcontext():
                # A static graph uses the same parameters in each pass.
                F.cross_entropy(
                    ddp(x.to(dtype), "static" in wants or (step + rank) % 2 == 0).float(), y
                ).backward()
        if "delayed" in wants and how == "ddp":
            # The result of mode delay1, computed from DDP's own means.
            now = [p.grad.clone() for p in ddp.parameters() if p.grad is not None]
            for p, old in zip((p for p in ddp.parameters() if p.grad is not None), late or now):
                p.grad.copy_(old if late else torch.zeros_like(old))
            late = now
        opt.step()
        if "apart" in wants and step == 3 and rank == 1:
            with torch.no_grad():
                ddp.module.last.bias.add_(1.0)
    return {name: value.float() for name, value in ddp.module.state_dict().items()}


def main(out, *wants):
    st.init_process_group()
    rank = int(os.environ["RANK"])
    if "gloo" in wants:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            train("hook", wants, rank)
        counts = {e.key: e.count for e in profile.key_averages() if e.key.startswith("gloo:")}
        print("through Gloo:", counts)
        return
    torch.save([train(how, wants, rank) for how in ("hook", "ddp")], f"{out}.{rank}")


if __name__ == "__main__":
    main(*sys.argv[1:])
