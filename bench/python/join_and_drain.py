"""What a step takes while a node joins a job, and while one leaves it.

usage: join_and_drain.py STRATA PYTHON [--bytes 104857600] [--pause 0.05] [--rounds 3] [--json]

Two nodes of one rank and a server on this machine train in sync; each step exchanges --bytes, after
a rest of --pause seconds, as if the ranks computed on devices. In each round a third node joins,
because its worker comes back into service, and leaves, because it is drained.

- begins: the longest step of rank 0 from the command to the step of the change, divided by the
  median step of before: the new process begins on the cores of this machine, which others share
- change: the same of the five steps before the change to the five after it, divided by the larger
  of the medians before and after: with more nodes there is more to exchange
- until: seconds from the command to the step from which the node takes part, or does not

Verified: weights, after each step of each rank, of which it looks at some. PYTHON has NumPy;
STRATA_CLIENT_LIBRARY names the client library. No figure is judged.
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
sys.path.append(HERE)
from cluster import Cluster, fail  # noqa: E402
from node_death import MIB, Notes, Stuck  # noqa: E402

RANK = os.path.join(HERE, "join_and_drain_rank.py")
SETTLED = 15  # steps of which the median is taken
AROUND = 5
SPARE = "w2"


def start_job(cluster, options, address, output):
    command = [cluster.strata, "run", "-n", "2", "--coordinator", cluster.address, *cluster.keys,
               "--python", options.python, "--mode", "sync"]
    for setting in ("ranks_per_node=1", "ranks_min=2", "ranks_max=3"):
        command += ["--set", setting]
    command += [RANK, str(options.bytes // 4), address, str(options.pause)]
    return subprocess.Popen(command, stdout=output, stderr=output)


def durations(steps):
    """Returns the duration of each step: (step, seconds), from (when, process, step)."""
    return [(b[2], b[0] - a[0]) for a, b in zip(steps, steps[1:])]


def median_of(steps):
    return statistics.median(seconds for _, seconds in durations(steps)[-SETTLED:])


def settle(notes):
    now = time.monotonic()
    return notes.wait(0, lambda step: step[0] > now, SETTLED + 1)


def change(cluster, notes, known, *command):
    """Gives the command; returns what the change of the nodes that follows it has cost."""
    before = median_of(settle(notes))
    told = time.monotonic()
    cluster.call(*command)
    while len(cluster.status("1").get("nodes_changes", [])) <= known:
        time.sleep(0.05)
    first = cluster.status("1")["nodes_changes"][known]["step"]
    notes.wait(0, lambda step: step[2] >= first + AROUND)
    steps = settle(notes)
    after = median_of(steps)
    took = durations([step for step in steps if step[0] >= told])
    until = [step for step in steps if step[2] >= first][0][0] - told
    return {
        "begins": max((s for step, s in took if step < first - AROUND), default=before) / before,
        "change": max(s for step, s in took if abs(step - first) <= AROUND) / max(before, after),
        "until_s": until,
    }


def measure(options):
    # Ranks have it from the workers of the cluster.
    package = os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")
    path = [package, os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(one for one in path if one)
    os.environ["OMP_NUM_THREADS"] = "1"
    notes, rounds = Notes(), []
    with tempfile.TemporaryDirectory() as scratch, Cluster(options.strata, scratch) as cluster:
        cluster.start_local(3, listen=f"unix:{scratch}/coordinator")
        cluster.call("drain", SPARE)
        with open(os.path.join(scratch, "output"), "w+", encoding="utf-8") as output:
            job = start_job(cluster, options, notes.address, output)
            threading.Thread(target=lambda: notes.end(f"it ended with status {job.wait()}"),
                             daemon=True).start()
            try:
                step_s = median_of(settle(notes))
                for number in range(options.rounds):
                    joined = change(cluster, notes, 2 * number, "drain", SPARE, "--undo")
                    left = change(cluster, notes, 2 * number + 1, "drain", SPARE)
                    rounds.append({"join": joined, "leave": left})
            except Stuck as stuck:
                output.seek(0)
                fail(f"{stuck}\n{output.read()}")
            finally:
                if cluster.status("1")["state"] == "running":
                    cluster.call("cancel", "1")
                job.wait(timeout=60)
    return {"bytes": options.bytes, "cores": os.cpu_count(), "step_s": step_s, "rounds": rounds}


def show(result):
    print(f"{result['bytes'] / MIB:g} MiB, a step {result['step_s']:.3f} s, "
          f"{len(result['rounds'])} rounds; medians, least to most\n")
    print("| | begins | change | until (s) |")
    print("| --- | --- | --- | --- |")
    for what in ("join", "leave"):
        cells = [what]
        for field in ("begins", "change", "until_s"):
            values = [one[what][field] for one in result["rounds"]]
            cells.append(f"{statistics.median(values):.2f} ({min(values):.2f} to "
                         f"{max(values):.2f})")
        print(f"| {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata", type=os.path.abspath)
    parser.add_argument("python")
    parser.add_argument("--bytes", type=int, default=100 * MIB)
    parser.add_argument("--pause", type=float, default=0.05)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = measure(options)
    if options.json:
        print(json.dumps(result))
    else:
        show(result)


if __name__ == "__main__":
    main()
