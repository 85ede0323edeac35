"""What jobs take of memory, beside what their formula says that they may.

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
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

JOB = """
name: "memory"
program {{ path: "{program}" args: "{elements}" args: "{steps}" args: "{slow_ms}" }}
optimizer {{ momentum_sgd {{}} }}
schedule {{ base_lr: 0.001 }}
ranks: 2
ranks_per_node: 1
metrics {{ every_steps: 1 }}
same_host: TCP
run_dir: "{run_dir}"
{more}
"""
MODES = {
    "sync": "consistency { sync {} }",
    "lazy": "consistency { lazy { staleness: 2 } }",
    "async": "consistency { async {} }",
    "ring": "consistency { sync {} } exchange: RING",
}
TINY = 256
# More than a step of the fast node takes.
SLOW_MS = 200
SLOW_MS_PER_MIB = 6
# Page tables, heap that is not returned, what a reading misses.
TOLERANCE_BYTES = 4 << 20
TOLERANCE_SHARE = 0.02
MIB = 1 << 20


def fail(text):
    sys.exit(f"memory: {text}")


def resident(pid, field):
    """Bytes of a line of smaps_rollup; 0 when the process is gone."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) * 1024
    except (OSError, ProcessLookupError):
        pass
    return 0


def writing_to(logs):
    """Ids of the processes whose standard output is one of these files."""
    found = []
    for link in glob.glob("/proc/[0-9]*/fd/1"):
        try:
            if os.readlink(link) in logs:
                found.append(int(link.split("/")[2]))
        except OSError:
            pass
    return found


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as text:
        return [int(word) for word in text.read().split()]


class Cluster:
    """`strata local`, and what one job does in it."""

    def __init__(self, strata, scratch):
        self.strata = strata
        self.scratch = scratch
        self.process = subprocess.Popen(
            [strata, "local", "--servers", "1", "--nodes", "2", "--slots", "1",
             "--listen", "127.0.0.1:0", "--runs", os.path.join(scratch, "runs")],
            stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if " ready " not in line:
            fail(f"strata local: {line}")
        self.address = line.split("coordinator=")[1].split()[0]
        self.server = next(pid for pid in children_of(self.process.pid) if self.is_server(pid))

    @staticmethod
    def is_server(pid):
        with open(f"/proc/{pid}/cmdline", "rb") as text:
            return text.read().split(b"\0")[1] == b"server"

    def call(self, *arguments):
        done = subprocess.run([self.strata, *arguments, "--coordinator", self.address],
                              capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            fail(f"{' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def run(self, mode, program, elements, steps, slow_ms):
        """Peaks of server and larger node in bytes, and the status with its formula."""
        run_dir = os.path.join(self.scratch, "job")
        path = os.path.join(self.scratch, "job.textproto")
        with open(path, "w", encoding="utf-8") as out:
            out.write(JOB.format(program=program, elements=elements, steps=steps, slow_ms=slow_ms,
                                 run_dir=run_dir, more=MODES[mode]))
        self.call("submit", path)
        logs = [[os.path.join(run_dir, "logs", name.format(i)) for name in
                 ("aggregator-node{}.log", "rank{}.log")] for i in range(2)]
        server, node, status, formula = 0, 0, {}, {}
        asked_at = 0
        deadline = time.time() + 1800
        while status.get("state") not in ("finished", "failed", "cancelled"):
            if time.time() > deadline:
                fail(f"{mode} does not end: {status}")
            server = max(server, resident(self.server, "Rss"))
            for one in logs:
                node = max(node, sum(resident(pid, "Pss") for pid in writing_to(one)))
            if time.time() - asked_at > 0.5:
                asked_at = time.time()
                status = json.loads(self.call("status", "1", "--json"))
                if status["nodes"] and status["nodes"][0]["memory_parts"]:
                    formula = status
            time.sleep(0.05)
        if status["state"] != "finished":
            fail(f"{mode}: {status['reason']}")
        return server, node, formula

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def measure(options, mode, elements, slow_ms):
    with tempfile.TemporaryDirectory(prefix="strata-memory-") as scratch:
        cluster = Cluster(options.strata, scratch)
        try:
            return cluster.run(mode, options.program, elements, options.steps, slow_ms)
        finally:
            cluster.stop()


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
