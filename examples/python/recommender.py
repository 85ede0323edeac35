#!/usr/bin/env python3
"""Trains a DLRM, which guesses clicks: 26 tables of embeddings, and 13 numbers.

  strata run -n 4 recommender.py
  strata run -n 4 --nodes 2 --servers 2 --set rows.consistency.preset=async recommender.py
  strata compare recommender.py -n 4 --nodes 2 --servers 2 --seeds 3 --metric auc \\
      --modes sync,sync+rows.consistency.preset=async,async

Clicks are made up by a hidden model, which has a few hidden numbers for each id. Ids follow Zipf's
law: some are in every batch, and most of the largest table's never come. How well clicks are told
from others is reported as `auc`: 0.5 by guessing; what the hidden model itself reaches is printed.
"""

import argparse
import os

import numpy as np
import torch
import torch.nn.functional as F

import strata.torch as st

NUMBERS = 13


class Clicks:
    """Batches that the hidden model makes, each a function of its number."""

    def __init__(self, sizes):
        self.sizes = sizes
        self.of_numbers = np.random.default_rng(0).normal(size=NUMBERS) * 0.3

    def draw(self, number, count):
        """Returns numbers, ids [count, tables], clicks, and the hidden model's logits."""
        random = np.random.default_rng([7, number])
        numbers = random.normal(size=(count, NUMBERS))
        places = random.random((count, len(self.sizes)))
        ranks = ((self.sizes**-0.05 - 1) * places + 1) ** -20.0  # Zipf's law, exponent 1.05
        ids = np.minimum(ranks.astype(np.int64), self.sizes) - 1
        tastes = np.stack([self.tastes(ids[:, table], table) for table in range(len(self.sizes))])
        alone = tastes[..., 0].sum(0) * 0.7
        pairs = (tastes.sum(0) ** 2 - (tastes**2).sum(0)).sum(1) * 0.15
        logits = numbers @ self.of_numbers + alone + pairs - 1
        clicks = random.random(count) < 1 / (1 + np.exp(-logits))
        return numbers.astype("f4"), ids, clicks.astype("f4"), logits

    def tastes(self, ids, table):
        """Returns what each id of a table is like: [ids, 4], from -1 to 1."""
        bits = (ids[:, None] * 4 + np.arange(4) + (table << 40)).astype(np.uint64)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # at random
            bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
        return (bits >> np.uint64(11)).astype("f8") * 2**-52 - 1


def layers(inside, outside):
    return torch.nn.Sequential(
        torch.nn.Linear(inside, 64), torch.nn.ReLU(), torch.nn.Linear(64, outside)
    )


class Dlrm(torch.nn.Module):
    def __init__(self, sizes, dim):
        super().__init__()
        self.tables = torch.nn.ModuleList(
            st.Embedding(f"table{number}", dim, capacity=size, init=st.Uniform(0.05),
                         optimizer=st.RowwiseAdagrad(0.05))
            for number, size in enumerate(sizes)
        )
        self.bottom = layers(NUMBERS, dim)
        self.top = layers(dim + (len(sizes) + 1) * len(sizes) // 2, 1)
        self.register_buffer("pair", torch.tril_indices(len(sizes) + 1, len(sizes) + 1, -1))

    def forward(self, numbers, ids):
        low = self.bottom(numbers)
        rows = [table(ids[:, number]) for number, table in enumerate(self.tables)]
        all_ = torch.stack([low, *rows], dim=1)
        products = all_ @ all_.transpose(1, 2)
        return self.top(torch.cat([low, products[:, self.pair[0], self.pair[1]]], 1)).squeeze(1)


def auc(scores, clicks):
    """Returns how often a click has a higher score than another sample."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores)] = np.arange(1, len(scores) + 1)
    hits = clicks.sum()
    return (ranks[clicks > 0].sum() - hits * (hits + 1) / 2) / (hits * (len(clicks) - hits))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default, what in (
        ("tables", 26, "from 1,000 ids to --largest"), ("largest", 10_000_000, "ids of a table"),
        ("dim", 16, "numbers in an embedding"), ("batch", 256, "samples of each rank in a step"),
        ("steps", 1000, ""), ("test", 20000, "samples of a measurement"),
        ("every", 100, "steps from one measurement to the next"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=what)
    args = parser.parse_args()

    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.manual_seed(seed := int(os.environ.get("STRATA_SEED", "1")))
    clicks = Clicks(np.geomspace(1000, args.largest, args.tables).astype(int))
    model = Dlrm(clicks.sizes.tolist(), args.dim)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    optimizer = st.DistributedOptimizer(optimizer, model, total_steps=args.steps)

    def batches():
        for step in range(optimizer.first_step, args.steps):
            drawn = clicks.draw((seed * args.steps + step) * ranks + rank + 1, args.batch)
            yield step, *(torch.from_numpy(part) for part in drawn[:3])

    test = clicks.draw(0, args.test)
    if rank == 0:
        print(f"the hidden model's auc is {auc(test[3], test[2]):.4f}", flush=True)
    named = lambda batch: {f"table{n}": ids for n, ids in enumerate(batch[2].T.contiguous())}
    for step, numbers, ids, labels in st.prefetch(batches(), named):
        loss = F.binary_cross_entropy_with_logits(model(numbers, ids), labels)
        optimizer.zero_grad()
        optimizer.samples = len(labels)
        loss.backward()
        optimizer.step()
        st.report(loss=loss.item())
        if (step + 1) % args.every == 0 and rank == 0:
            with torch.no_grad():
                scores = model(torch.from_numpy(test[0]), torch.from_numpy(test[1])).numpy()
            reached = auc(scores, test[2])
            st.report(auc=reached)
            print(f"step {step + 1}: loss {loss.item():.4f}, auc {reached:.4f}", flush=True)
    st.finish()


if __name__ == "__main__":
    main()
