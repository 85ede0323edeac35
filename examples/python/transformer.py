#!/usr/bin/env python3
"""Trains a transformer that writes text, character by character: 10.7 million parameters.

  strata run -n 4 transformer.py
  strata run -n 4 --nodes 2 --servers 2 --mode "ssp(3)" transformer.py --layers 2 --width 128

The text is the licences of /usr/share/common-licenses, which every Debian has, or --data FILES.
"""

import argparse
import contextlib
import glob
import itertools
import math
import os
import pathlib

import torch
import torch.nn.functional as F
from torch import nn

import strata.torch as st

LICENCES = "/usr/share/common-licenses/*"


class Transformer(nn.Module):
    """A decoder of layers with causal attention; the output shares the embedding's weights."""

    def __init__(self, characters, layers, width, heads, context):
        super().__init__()
        self.embedding = nn.Embedding(characters, width)
        self.position = nn.Parameter(0.02 * torch.randn(context, width))
        style = {"batch_first": True, "norm_first": True}
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", **style)
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, characters, bias=False)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.output.weight = self.embedding.weight
        self.register_buffer(
            "mask", torch.full((context, context), -math.inf).triu(1), persistent=False
        )

    def forward(self, x):
        length = x.shape[1]
        x = self.embedding(x) + self.position[:length]
        for layer in self.layers:
            x = layer(x, src_mask=self.mask[:length, :length])
        return self.output(self.norm(x))


def loss_of(model, text, starts, context):
    """Returns the mean loss of guessing each next character of the windows that begin there."""
    windows = torch.stack([text[start : start + context + 1] for start in starts])
    guesses = model(windows[:, :-1])
    return F.cross_entropy(guesses.flatten(0, 1), windows[:, 1:].flatten())


@torch.no_grad()
def perplexity(model, text, context, batches=8, batch=8):
    model.eval()
    starts = torch.linspace(0, len(text) - context - 1, batches * batch).long().view(batches, batch)
    mean = sum(loss_of(model, text, some, context).item() for some in starts) / batches
    model.train()
    return math.exp(mean)


def endless(sampler):
    for epoch in itertools.count():
        sampler.set_epoch(epoch)
        yield from sampler


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=sorted(glob.glob(LICENCES)), metavar="FILE")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--context", type=int, default=128, help="characters that a guess sees")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=8, help="texts of each rank in a pass")
    parser.add_argument("--accumulate", type=int, default=2, help="backward passes in a step")
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()

    # Links would repeat a licence.
    paths = [path for path in map(pathlib.Path, args.data) if not path.is_symlink()]
    text = "".join(path.read_text(errors="replace") for path in paths)
    characters = {c: i for i, c in enumerate(sorted(set(text)))}
    data = torch.tensor([characters[c] for c in text])
    train, test = data[: -len(data) // 10], data[-len(data) // 10 :]

    torch.manual_seed(int(os.environ.get("STRATA_SEED", "1")))
    model = Transformer(len(characters), args.layers, args.width, args.heads, args.context)
    optimizer = torch.optim.AdamW(model.parameters(), args.lr, betas=(0.9, 0.95), weight_decay=0.1)
    optimizer = st.DistributedOptimizer(optimizer, model, clip_norm=1.0, total_steps=args.steps)
    warm_up = max(1, args.steps // 10)

    def share_of_lr(step):
        return min((step + 1) / warm_up, 0.55 + 0.45 * math.cos(math.pi * step / args.steps))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, share_of_lr)

    sampler = st.Sampler(len(train) - args.context - 1, shuffle=True)  # of where texts begin
    starts = endless(sampler)
    every = max(1, args.steps // 5)
    for step in range(1, args.steps + 1):
        optimizer.zero_grad()
        mean = 0.0
        for turn in range(args.accumulate):
            is_last = turn == args.accumulate - 1
            with contextlib.nullcontext() if is_last else optimizer.no_sync():
                batch = list(itertools.islice(starts, args.batch))
                loss = loss_of(model, train, batch, args.context)
                (loss / args.accumulate).backward()
            mean += loss.item() / args.accumulate
        optimizer.step()
        scheduler.step()
        st.report(loss=mean)
        if step % every == 0:
            reached = perplexity(model, test, args.context)
            st.report(perplexity=reached)
            if sampler.rank == 0:
                print(f"step {step}: perplexity {reached:.2f}")


if __name__ == "__main__":
    main()
