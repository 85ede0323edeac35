"""What protection adds to the time from submit to RUNNING, and to the end of a job of one step.

usage: submit_to_running.py STRATA [--rounds 15] [--goal-ms 30] [--json]

Two clusters on this machine, each with 1 server and 2 nodes: one that listens on a Unix socket and
has no keys, one on 127.0.0.1 whose daemons and commands have certificates. In every round the same
job goes, in turn, to the first with `protection: PLAIN`, to the first with `ENCRYPT`, and to the
second with `ENCRYPT`. The clock starts before the process `strata submit`; where it stops is what
the coordinator noted, to the millisecond: that the job is RUNNING, and that it has ended after one
step, with the connections between nodes and server made. Prints medians, and the medians over the
rounds of what each takes more than the first; exits 1 where RUNNING comes later by more than the
goal.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass

from cluster import Cluster

JOB = """
name: "{name}"
model {{ zoo: "lenet5" }}
data {{ synthetic {{ train_samples: 64 test_samples: 16 }} batch_per_rank: 16 }}
ranks: 2
ranks_per_node: 1
max_steps: 1
protection: {protection}
"""


@dataclass
class Case:
    name: str
    cluster: Cluster
    protection: str


def once(case, name):
    """Milliseconds from before the submit to RUNNING and to the end."""
    begin_ms = 1e3 * time.time()
    case.cluster.submit(name, JOB.format(name=name, protection=case.protection))
    case.cluster.await_end(name)
    status = case.cluster.status(name)
    return {"running": status["started_ms"] - begin_ms, "ended": status["ended_ms"] - begin_ms}


def summary(cases, rounds):
    """A row per case: medians, and what it takes more than the first, paired."""
    rows = []
    for case in cases:
        row = {"name": case.name}
        for what in ("running", "ended"):
            times = [one[case.name][what] for one in rounds]
            more = [one[case.name][what] - one[cases[0].name][what] for one in rounds]
            row[what] = {"median_ms": statistics.median(times), "more_ms": statistics.median(more),
                         "more_least_ms": min(more), "more_most_ms": max(more)}
        rows.append(row)
    return rows


def table(rows):
    lines = ["| cluster | RUNNING after ms | more (least to most) | ended after ms | "
             "more (least to most) |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        cells = [row["name"]]
        for one in (row["running"], row["ended"]):
            cells += [f"{one['median_ms']:.1f}", f"{one['more_ms']:+.1f} "
                      f"({one['more_least_ms']:+.1f} to {one['more_most_ms']:+.1f})"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--goal-ms", type=float, default=30)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with (tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other,
          Cluster(options.strata, one) as local, Cluster(options.strata, other) as keyed):
        local.start_local(2, listen=f"unix:{os.path.join(one, 'coordinator')}")
        keyed.start_local(2)
        cases = [Case("socket, PLAIN", local, "PLAIN"), Case("socket, ENCRYPT", local, "ENCRYPT"),
                 Case("keys, ENCRYPT", keyed, "ENCRYPT")]
        rounds = []
        for number in range(-1, options.rounds):  # the first has programs and files to load
            one_round = {case.name: once(case, f"{case.protection.lower()}-{number + 1}")
                         for case in cases}
            if number >= 0:
                rounds.append(one_round)
    rows = summary(cases, rounds)
    most = max(row["running"]["more_ms"] for row in rows)
    if options.json:
        print(json.dumps({"rounds": rounds, "rows": rows, "goal_ms": options.goal_ms}))
    else:
        print(table(rows))
        print(f"\n{len(rounds)} rounds; RUNNING comes later by {most:.1f} ms at most, "
              f"the goal is {options.goal_ms:g}")
    sys.exit(0 if most <= options.goal_ms else 1)


if __name__ == "__main__":
    main()
