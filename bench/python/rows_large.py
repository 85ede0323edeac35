"""A table that no server could hold: its memory beside the formula, and what a checkpoint of it
costs.

usage: rows_large.py STRATA [--gib 2] [--dim 16] [--servers 2] [--batch 100000] [--rows 10763]
                     [--steps 1000] [--every 500] [--json]

Servers of one shard each, and one rank, on this machine; async, row-wise Adagrad. The rank trains
each row of the table once, --batch at a time, and then makes --steps steps of --rows rows at
random: in one job without checkpoints, in another with one every --every steps. Weights of the
table are --gib. Prints what the fullest server holds at most, by its own count and as resident
memory, beside the formula of `strata status`; and what a checkpoint adds, in seconds and as a share
of --every steps. Verified: rows have what was pushed, and the last checkpoint is
whole. Exits 1 where a server is above its formula. This program's own Python has torch.
STRATA_CLIENT_LIBRARY names the client library.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.dirname(HERE))
from cluster import Cluster, fail, resident  # noqa: E402

GIB = 1 << 30
MARK = "rows_large: "  # before the rank's result
SEEN = 1000  # rows that are looked at
# Allowed above the bound: the server's own memory, page tables, and heap that is not returned.
TOLERANCE_BYTES = 64 << 20
TOLERANCE_SHARE = 0.02


def rows_of(options):
    return int(options.gib * GIB) // (4 * options.dim)


def train(options):
    """The rank. Prints the seconds of each step once the table is full."""
    sys.path.append(os.path.join(os.path.dirname(os.path.dirname(HERE)), "python"))
    import numpy as np
    import torch

    import strata.torch as st

    rows = rows_of(options)
    model = st.Embedding("rows", options.dim, capacity=rows, init=st.Constant(1.0),
                         optimizer=st.RowwiseAdagrad(0.5))
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    optimizer = st.DistributedOptimizer(optimizer, model)
    fill = -(-rows // options.batch)
    seen = np.linspace(0, rows - 1, SEEN).astype(np.int64)
    times = np.ones(SEEN, int)  # that a seen row has been trained
    draw, made = np.random.default_rng(1), []
    for step in range(optimizer.first_step, fill + options.steps):
        if step < fill:
            ids = np.arange(step * options.batch, min(rows, (step + 1) * options.batch))
        else:
            ids = np.unique(draw.integers(rows, size=options.rows))
            times += np.isin(seen, ids)
        begin = time.perf_counter()
        optimizer.samples = 1
        model(torch.from_numpy(ids)).sum().backward()
        optimizer.step()
        if step >= fill:
            made.append(time.perf_counter() - begin)
    # A step of rate 0.5 along a gradient of 1 whose squares have the sum n moves by 0.5 / sqrt(n).
    paths = 1.0 - 0.5 * np.cumsum(1 / np.sqrt(np.arange(1, 1 + times.max())))
    values = model.table.lookup(seen)[:, 0]
    differ = seen[~np.isclose(values, paths[times - 1], rtol=1e-5)]
    if len(differ):
        raise SystemExit(f"rows {differ[:5]} are not what was pushed")
    print(MARK + json.dumps(made), flush=True)
    st.finish()


class Watch(threading.Thread):
    """Looks at the servers while a job runs."""

    def __init__(self, cluster, servers):
        super().__init__(daemon=True)
        self.cluster, self.servers = cluster, servers
        self.resident, self.held, self.limit = [0] * len(servers), 0, 0
        self.is_over = False

    def run(self):
        while not self.is_over:
            for number, server in enumerate(self.servers):
                self.resident[number] = max(self.resident[number], resident(server.pid, "Rss"))
            jobs = json.loads(self.cluster.call("status", "--json"))["jobs"]
            shards = self.cluster.status("1").get("shards", []) if jobs else []
            for shard in shards:
                self.held = max(self.held, shard["memory_bytes"])
                limit = sum(part["limit_bytes"] for part in shard["memory_parts"])
                self.limit = max(self.limit, limit)
            time.sleep(0.2)


def run_job(options, every):
    """Returns the seconds of each step, and what the servers held."""
    package = os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")
    path = [package, os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(one for one in path if one)
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as scratch, Cluster(options.strata, scratch) as cluster:
        cluster.address, cluster.keys = f"unix:{scratch}/c", []
        cluster.start("coordinator", "--listen", cluster.address, "--state",
                      os.path.join(scratch, "state"), "--log-level", "error")
        way = ("--coordinator", cluster.address, "--log-level", "error")
        servers = [cluster.start("server", *way, "--name", f"s{number}")[0]
                   for number in range(options.servers)]
        cluster.start("worker", *way, "--name", "w0", "--slots", "1", "--gpus", "none", "--runs",
                      cluster.runs)
        command = [options.strata, "run", "-n", "1", "--coordinator", cluster.address, "--python",
                   sys.executable, "--mode", "async", "--set", "rows.bytes_per_step=268435456"]
        folder = os.path.join(scratch, "checkpoints")
        if every:
            command += ["--set", f'checkpoint={{dir: "{folder}" every_steps: {every} keep: 1}}']
        command += [os.path.abspath(__file__), options.strata, "--rank"]
        for field in ("gib", "dim", "batch", "rows", "steps"):
            command += [f"--{field}", str(getattr(options, field))]
        watch = Watch(cluster, servers)
        watch.start()
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
        watch.is_over = True
        watch.join()
        written = 0
        if every:
            deadline = time.monotonic() + 120
            while cluster.status("1")["checkpoints"].get("writing_step"):
                if time.monotonic() > deadline:
                    fail("the last checkpoint is not written after two minutes")
                time.sleep(0.2)
            shown = cluster.status("1")["checkpoints"]
            if shown["failed"]:
                fail(f"{shown['failed']} checkpoints failed: {shown['problem']}")
            cluster.call_alone("checkpoint", "verify", folder)
            fill = -(-rows_of(options) // options.batch)
            written = (fill + options.steps) // every - fill // every
        for line in done.stdout.splitlines():
            if MARK in line:
                return json.loads(line[line.index(MARK) + len(MARK):]), watch, written
        fail(f"{done.stdout}\n{done.stderr}")


def measure(options):
    quiet, watch, _ = run_job(options, 0)
    busy, kept, written = run_job(options, options.every)
    added = sum(busy) - sum(quiet)
    return {"rows": rows_of(options), "gib": options.gib, "servers": options.servers,
            "held": watch.held, "resident": max(watch.resident), "limit": watch.limit,
            "held_with_checkpoints": kept.held, "resident_with_checkpoints": max(kept.resident),
            "limit_with_checkpoints": kept.limit, "step_ms": 1e3 * statistics.median(quiet),
            "checkpoints": written, "added_s": added / max(1, written),
            "share": added / max(1, written) / (options.every * statistics.mean(quiet))}


def show(result):
    gib = {key: value / GIB for key, value in result.items() if isinstance(value, int)}
    print(f"{result['rows']} rows, {result['gib']:g} GiB of weights, on {result['servers']} "
          "servers; the fullest of them, GiB:")
    print("| | formula: at most | held | resident |")
    print("| --- | --- | --- | --- |")
    for name, end in (("without checkpoints", ""), ("with them", "_with_checkpoints")):
        print(f"| {name} | {gib['limit' + end]:.2f} | {gib['held' + end]:.2f} | "
              f"{gib['resident' + end]:.2f} |")
    print(f"a step of {result['step_ms']:.2f} ms; {result['checkpoints']} checkpoints, each of "
          f"which adds {result['added_s']:.2f} s, {100 * result['share']:.1f} % of its steps")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata", type=os.path.abspath)
    parser.add_argument("--gib", type=float, default=2)
    for field, default in (("dim", 16), ("servers", 2), ("batch", 100000), ("rows", 10763),
                           ("steps", 1000), ("every", 500)):
        parser.add_argument(f"--{field}", type=int, default=default)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        train(options)
        return
    result = measure(options)
    print(json.dumps(result)) if options.json else show(result)
    for end in ("", "_with_checkpoints"):
        most = result["limit" + end] * (1 + TOLERANCE_SHARE) + TOLERANCE_BYTES
        if max(result["held" + end], result["resident" + end]) > most:
            fail(f"a server holds {result['resident' + end]} bytes, at most {int(most)} by formula")


if __name__ == "__main__":
    main()
