"""What a node under SIGSTOP costs a job that it has nothing to do with.

usage: stopped_node.py STRATA [--pairs 4] [--seconds 10] [--goal 0.9] [--json]

One cluster on this machine: 1 server, 4 worker nodes with 1 slot. Job A trains on two nodes, job B
on the other two, both mode sync on the same shard. In turn B's rate is measured while A trains,
and while node 1 of A (its aggregator and its rank) stands still under SIGSTOP; A then waits. A
sleeps in most of its steps, so that it leaves B hardly more processor time when it is stopped.
A must end with the weights that it has when nobody stops it, bit for bit. Prints each pair's
rates, the median of the ratios (stopped / before), the goal, and the bound, which is 1: more is
noise, and processor time that A did not use. Exits 1 if the median is below the goal.
"""

import argparse
import json
import os
import signal
import statistics
import tempfile
import time

from cluster import Cluster, fail, logs_of_node, weights, writing_to

JOB = """
name: "{name}"
model {{ zoo: "lenet5" }}
data {{ synthetic {{ train_samples: 2048 test_samples: 64 }} batch_per_rank: 16 }}
ranks: 2
ranks_per_node: 1
epochs: 100000
max_steps: {steps}
chunk_elements: 4096
metrics {{ every_steps: 5 }}
{more}
"""
DELAY_MS = 50


def submit(cluster, name, steps, more=""):
    """Returns the job's run directory; waits until it has begun to train."""
    run_dir = cluster.submit(name, JOB.format(name=name, steps=steps, more=more))
    deadline = time.time() + 120
    while cluster.status(name)["progress"]["step"] == 0:
        if time.time() > deadline:
            fail(f"{name} does not begin: {cluster.status(name)}")
        time.sleep(0.05)
    return run_dir


def processes_of_node_one(run_dir):
    """Ids of aggregator and rank."""
    found = writing_to(logs_of_node(run_dir, 1))
    if len(found) != 2:
        fail(f"{len(found)} processes instead of 2 on node 1 of {run_dir}")
    return found


def rate_of(cluster, name, seconds):
    """Steps per second over a while, from the job's own reports."""
    begin = cluster.status(name)["progress"]["step"], time.time()
    time.sleep(seconds)
    end = cluster.status(name)["progress"]["step"], time.time()
    return (end[0] - begin[0]) / (end[1] - begin[1])


def measure(cluster, options):
    """Returns rows of (rate before, rate while stopped)."""
    steps = int(options.pairs * options.seconds * 1.5 * 1000 / DELAY_MS) + 100
    alone = submit(cluster, "alone", steps)
    cluster.await_end("alone")
    delays = "".join(f"delays {{ node: {n} delay_ms: {DELAY_MS} }} " for n in (0, 1))
    stopped = submit(cluster, "stopped", steps, f"debug {{ {delays} }}")
    submit(cluster, "other", 10**9)
    pids = processes_of_node_one(stopped)
    rate_of(cluster, "other", options.seconds / 2)  # warm-up
    rows = []
    for pair in range(options.pairs):
        before = rate_of(cluster, "other", options.seconds)
        if cluster.status("stopped")["state"] != "running":
            fail("job A ended before it was stopped")
        try:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            during = rate_of(cluster, "other", options.seconds)
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        rows.append((before, during))
        if not options.json:
            print(f"pair {pair}: before {before:7.1f} steps/s   stopped {during:7.1f}   "
                  f"ratio {during / before:.3f}", flush=True)
    cluster.await_end("stopped")
    cluster.call("cancel", "other")
    if weights(stopped) != weights(alone):
        fail("job A ended with other weights than when nobody stopped it")
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata")
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--goal", type=float, default=0.9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        with Cluster(options.strata, scratch) as cluster:
            cluster.start_local(4)
            rows = measure(cluster, options)
    ratios = [during / before for before, during in rows]
    result = {"pairs": [{"before": b, "stopped": d, "ratio": d / b} for b, d in rows],
              "ratio_median": statistics.median(ratios), "bound": 1.0, "goal": options.goal,
              "seconds": options.seconds, "cores": os.cpu_count(), "weights_equal": True}
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        print(f"{options.seconds:g} s each, {os.cpu_count()} cores: median ratio "
              f"{result['ratio_median']:.3f} (min {min(ratios):.3f}, max {max(ratios):.3f}; "
              f"bound 1, goal {options.goal:g}); weights equal, bit for bit")
    if result["ratio_median"] < options.goal:
        fail(f"the median is below the goal of {options.goal:g}")


if __name__ == "__main__":
    main()
