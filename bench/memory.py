"""The memory that jobs use, compared with the bound of their formula.

usage: memory.py STRATA MEMORY_RANK [--elements 268435456] [--steps 4] [--modes sync,lazy]

For each mode a cluster on this machine: 1 server with 1 shard (none for ring), 2 nodes with 1 rank,
momentum SGD. The second node is slow, so that the first one runs ahead as far as the mode lets it.
While the job runs, the resident size of the server, and of each node's aggregator and rank together
(shared memory counted once: proportional set sizes), are read 20 times a second. What the same
processes take for a model of 256 parameters is subtracted. They exchange as between hosts: by
reference, each would also show what it maps of its peers'. Prints the greatest of it beside the
formula of `strata status`, in multiples of the model's size M, for the server and for the larger
of the nodes. Exits 1 if one is above its formula, or below what it must hold: a server its weights
and state, a node its shared memory.
"""

import argparse
import os
import sys
import tempfile
import time

from cluster import (Cluster, children_of, command_of, fail, logs_of_node,
                     resident, writing_to)

JOB = """
name: "memory"
program {{ path: "{program}" args: "{elements}" args: "{steps}" args: "{slow_ms}" }}
optimizer {{ momentum_sgd {{}} clip_norm: {clip_norm} }}
schedule {{ base_lr: 0.001 }}
ranks: 2
ranks_per_node: 1
metrics {{ every_steps: 1 }}
same_host: TCP
{more}
"""
MODES = {
    "sync": "consistency { sync {} }",
    "lazy": "consistency { lazy { staleness: 2 } }",
    "async": "consistency { async {} }",
    "ring": "consistency { sync {} } exchange: RING",
    "async-clipped": "consistency { async {} }",
}
TINY = 256
# More than a step of the fast node takes.
SLOW_MS = 200
SLOW_MS_PER_MIB = 6
# Page tables, heap that is not returned, what a reading misses.
TOLERANCE_BYTES = 4 << 20
TOLERANCE_SHARE = 0.02
MIB = 1 << 20


def measure(options, mode, elements, slow_ms):
    """Peaks of server and larger node in bytes, and the status with its formula."""
    job = JOB.format(program=options.program, elements=elements, steps=options.steps,
                     slow_ms=slow_ms, more=MODES[mode],
                     clip_norm=0.001 if mode.endswith("-clipped") else 0)
    with tempfile.TemporaryDirectory(prefix="strata-memory-") as scratch:
        with Cluster(options.strata, scratch) as cluster:
            local = cluster.start_local(2)
            server_pid = next(pid for pid in children_of(local.pid)
                              if command_of(pid)[1] == "server")
            run_dir = cluster.submit("memory", job)
            logs = [logs_of_node(run_dir, node) for node in range(2)]
            server, node, formula = 0, 0, {}
            for status in cluster.watch("memory", 0, 1800):
                if status["nodes"] and status["nodes"][0]["memory_parts"]:
                    formula = status
                asked_at = time.time()
                while time.time() - asked_at < 0.5:
                    server = max(server, resident(server_pid, "Rss"))
                    for one in logs:
                        node = max(node, sum(resident(pid, "Pss") for pid in writing_to(one)))
                    time.sleep(0.05)
            return server, node, formula


def limit_of(holder, *names):
    """Sum of the parts whose names begin so; of all without names."""
    return sum(part["limit_bytes"] for part in holder["memory_parts"]
               if not names or part["name"].startswith(names))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata", type=os.path.abspath)
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("--elements", type=int, default=1 << 28)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--modes", default=",".join(MODES))
    options = parser.parse_args()
    model = options.elements * 4
    print(f"{options.elements} parameters, M = {model / MIB:.0f} MiB, momentum SGD, 2 nodes of 1 "
          f"rank; in multiples of M")
    print("| mode | server: at most | resident | node: at most | resident |")
    print("| --- | --- | --- | --- | --- |")
    wrong = []
    for mode in options.modes.split(","):
        server_base, node_base, _ = measure(options, mode, TINY, 0)
        slow_ms = SLOW_MS + SLOW_MS_PER_MIB * model // MIB
        server, node, status = measure(options, mode, options.elements, slow_ms)
        rows = [("node", max(0, node - node_base), status["nodes"][0], ("shared memory",))]
        if status["shards"]:
            rows.append(("server", max(0, server - server_base), status["shards"][0],
                         ("weights", "optimizer state")))
        cells = {"server": ("-", "-")}
        for name, held, holder, must in rows:
            most, least = limit_of(holder), limit_of(holder, *must)
            cells[name] = (f"{most / model:.2f}", f"{held / model:.2f}")
            if held > most * (1 + TOLERANCE_SHARE) + TOLERANCE_BYTES:
                wrong.append(f"{mode}: the {name} holds {held / MIB:.1f} MiB, at most "
                             f"{most / MIB:.1f} MiB by formula")
            if held < least * (1 - TOLERANCE_SHARE) - TOLERANCE_BYTES:
                wrong.append(f"{mode}: the {name} holds {held / MIB:.1f} MiB, but its parts "
                             f"{', '.join(must)} are {least / MIB:.1f} MiB")
        print(f"| {mode} | {' | '.join(cells['server'] + cells['node'])} |", flush=True)
    if wrong:
        fail("; ".join(wrong))


if __name__ == "__main__":
    main()
