"""How much of an exchange of rows prefetching hides: one rank and one server, on two hosts of
../netlab.sh with a shaped link between them.

usage: rows_prefetch.py STRATA [--rate 1gbit] [--lookahead 2] [--rows 10763] [--dim 16]
                        [--ids 100000] [--steps 30] [--rounds 8] [--no-goals] [--json]

A step looks up the rows of a batch, computes, and pushes a gradient for each row; the mode is
async. Three ways take turns: `local`, with a table in the rank's own process; `plain`, which looks
rows up when it needs them; `prefetch`, where they come with the answers to earlier gradients.
Computation takes as long as plain's exchange. What an exchange costs is a plain step less a local
one; what is left of it, a step with prefetch less a local one. Goal: at least 80 % is hidden.
Verified: at the end rows have the sums of all steps. Exits 1 where the goal is missed, 77 without
network namespaces.
This program's own Python has torch. STRATA_CLIENT_LIBRARY names the client library.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.dirname(HERE))
from cluster import fail  # noqa: E402
from host_cluster import HostCluster, in_lab  # noqa: E402

GOAL = 0.8
RATE = 0.5
MARK = "rows_prefetch: "  # before the rank's result


class Rank:
    def __init__(self, options):
        sys.path.append(os.path.join(os.path.dirname(os.path.dirname(HERE)), "python"))
        import torch

        import strata.torch as st

        self.torch, self.st, self.options = torch, st, options
        how = {"capacity": options.ids, "optimizer": st.RowSGD(RATE), "init": st.Constant(1.0)}
        self.served = st.Embedding("rows", options.dim, **how)
        self.local = st.Embedding("local", options.dim, **how)
        self.local._is_claimed = True  # it makes its steps below, and is no part of the job
        own = torch.optim.SGD(self.served.parameters(), RATE)
        self.optimizer = st.DistributedOptimizer(own, self.served)
        self.optimizer.samples = 1
        self.made = {"served": {}, "local": {}}  # by id: the steps that have pushed it
        self.drawn = 0

    def batches(self):
        draw = range(self.drawn, self.drawn + self.options.steps)
        self.drawn += self.options.steps
        ids = range(self.options.ids)
        return [self.torch.tensor(sorted(random.Random(seed).sample(ids, self.options.rows)))
                for seed in draw]

    def compute(self, seconds):
        end = time.thread_time() + seconds  # of a core: others' work on it does not count
        values = self.torch.ones(64, 64)
        while time.thread_time() < end:
            values @ values

    def steps(self, way, seconds):
        """Returns the seconds of a step."""
        batches = self.batches()
        model = self.local if way == "local" else self.served
        source = batches
        if way == "prefetch":
            source = self.st.prefetch(batches, lambda batch: {"rows": batch})
        begin = time.perf_counter()
        for ids in source:
            total = model(ids).sum()
            self.compute(seconds)
            total.backward()
            if way == "local":
                model.table.step(RATE)
                model.rows.grad = None
            else:
                self.optimizer.step()
        model.table.lookup(batches[-1][:1].numpy())  # the last push has been answered
        took = (time.perf_counter() - begin) / len(batches)
        for ids in batches:
            made = self.made["local" if way == "local" else "served"]
            for one in ids.tolist():
                made[one] = made.get(one, 0) + 1
        return took

    def check(self):
        for model, made in ((self.local, self.made["local"]), (self.served, self.made["served"])):
            ids = list(made)[:1000]
            for one, row in zip(ids, model.table.lookup(ids)):
                if row[0] != 1.0 - RATE * made[one]:
                    fail(f"row {one} is {row[0]} after {made[one]} steps")

    def measure(self):
        for way in ("local", "plain", "prefetch"):
            self.steps(way, 0)
        seconds = self.steps("plain", 0) - self.steps("local", 0)
        rounds = []
        for _ in range(self.options.rounds):
            rounds.append({way: self.steps(way, max(seconds, 0))
                           for way in ("local", "plain", "prefetch")})
        self.check()
        of = {way: statistics.median(one[way] for one in rounds) for way in rounds[0]}
        exchange, left = of["plain"] - of["local"], of["prefetch"] - of["local"]
        self.st.finish()
        return {"compute_ms": seconds * 1e3, **{f"{way}_ms": of[way] * 1e3 for way in of},
                "exchange_ms": exchange * 1e3, "left_ms": left * 1e3,
                "hidden": 1 - left / exchange}


def run_job(options):
    """Returns what the rank has measured on the lab's hosts."""
    package = os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")
    path = [package, os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(one for one in path if one)
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as scratch, \
            HostCluster(options.strata, scratch, options.inside) as cluster:
        cluster.add_coordinator()
        cluster.add_server("s0", 0)
        cluster.add_worker("w0", 1, "--slots", "1")
        command = [options.strata, "run", "-n", "1", "--coordinator", cluster.address,
                   *cluster.keys, "--python", sys.executable, "--mode", "async", "--set",
                   f"rows.lookahead={options.lookahead}", "--set",
                   "rows.bytes_per_step=268435456", os.path.abspath(__file__), options.strata,
                   "--rank"]
        for field in ("rows", "dim", "ids", "steps", "rounds"):
            command += [f"--{field}", str(getattr(options, field))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        for line in done.stdout.splitlines():
            if MARK in line:
                return json.loads(line[line.index(MARK) + len(MARK):])
        fail(f"{done.stdout}\n{done.stderr}")


def show(options, result):
    print(f"{options.rows} rows x {options.dim}, {options.rate}, lookahead {options.lookahead}: "
          f"compute {result['compute_ms']:.2f} ms; a step local {result['local_ms']:.2f}, plain "
          f"{result['plain_ms']:.2f}, prefetch {result['prefetch_ms']:.2f} ms; of an exchange of "
          f"{result['exchange_ms']:.2f} ms {100 * result['hidden']:.0f} % is hidden")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata", type=os.path.abspath)
    parser.add_argument("--rate", default="1gbit")
    for field, default in (("lookahead", 2), ("rows", 10763), ("dim", 16), ("ids", 100000),
                           ("steps", 30), ("rounds", 8)):
        parser.add_argument(f"--{field}", type=int, default=default)
    parser.add_argument("--no-goals", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        print(MARK + json.dumps(Rank(options).measure()), flush=True)
        return 0
    if not options.inside:
        return in_lab(2, options.rate, sys.argv[1:])
    result = run_job(options)
    print(json.dumps(result)) if options.json else show(options, result)
    return int(not options.no_goals and result["hidden"] < GOAL)


if __name__ == "__main__":
    sys.exit(main())
