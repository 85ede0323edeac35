"""Virtual time held against live runs on shaped links.

usage: bench/netlab.sh --hosts 8 --rate 100mbit --once -- \\
           python3 bench/clock_model.py STRATA {hosts} --mbit 100 [--nodes 2 4] [--steps 40]

Runs a job in sync (n nodes and as many servers, a host each) and in a ring of n nodes: live on the
lab's hosts, and by `strata compare --cluster` on a cluster file of the same links, whose compute
time is that of one rank by itself here. Prints the time of a step of both, and by how much the
prediction is off; the losses of both must be the same. The job's window is 2, so that what waits at
a shaped link stays below the 25 ms after which the lab drops it: virtual time drops nothing.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile

WINDOWS = 4
JOB = """
name: "clock"
model {{ zoo: "cnn" }}
data {{ synthetic {{ train_samples: 2048 test_samples: 16 }} batch_per_rank: 4 }}
ranks: 1
ranks_per_node: 1
epochs: 1000
max_steps: {steps}
window: 2
evaluation {{ every_epochs: 1000 }}
metrics {{ every_steps: {every} }}
"""
# Latencies and a shard's processor as on a 2-core machine; all are small beside the links.
CLUSTER = """
nodes {{ count: {nodes} compute {{ constant_ms: {compute_ms} }} link {{ {link} }} }}
servers {{ count: {nodes} link {{ {link} }} cpu_ns_per_byte: 0.3 cpu_us_per_frame: 20 }}
"""
LINK = "gbit_per_s: {gbit} latency_us: 30"


def enter(hosts, host, command):
    """What ssh does elsewhere: runs a command on a host of the lab."""
    with open(hosts, encoding="utf-8") as lines:
        for line in lines:
            _, address, *how = line.split()
            if address == host:
                os.execvp(how[0], [*how, "sh", "-c", " ".join(command)])
    sys.exit(f"{host} is no host of the lab")


class Bench:
    def __init__(self, options, scratch):
        self.options = options
        self.scratch = scratch
        self.job = self.write("job.textproto",
                              JOB.format(steps=options.steps, every=options.steps // WINDOWS))
        with open(options.hosts, encoding="utf-8") as lines:
            self.addresses = [line.split()[1] for line in lines]
        self.compute_ms = 4000 / self.median(self.metrics(
            "alone", ["local", "--set", "exchange=NONE"]), "samples_per_s")

    def write(self, name, text):
        path = os.path.join(self.scratch, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def run(self, args):
        done = subprocess.run([self.options.strata, *args], capture_output=True, text=True,
                              timeout=600)
        if done.returncode != 0:
            sys.exit(f"{shlex.join(args)}: {done.stdout}{done.stderr}")

    def metrics(self, name, args):
        """A live run's windows."""
        runs = os.path.join(self.scratch, name)
        self.run([args[0], "--job", self.job, "--runs", runs, *args[1:]])
        with open(os.path.join(runs, "clock-1", "metrics.jsonl"), encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    @staticmethod
    def median(windows, key):
        """Without the first window and the last, which waits for the final weights."""
        return statistics.median(window[key] for window in windows[1:-1])

    def live(self, mode, nodes, servers):
        lines = [f"{at} slots=1 role=worker{',coordinator' * (i == 0)}"
                 for i, at in enumerate(self.addresses[:nodes])]
        lines += [f"{at} role=server" for at in self.addresses[nodes:nodes + servers]]
        hosts = self.write(f"hosts-{mode}-{nodes}", "\n".join(lines) + "\n")
        ssh = shlex.join([sys.executable, os.path.abspath(__file__), "--enter",
                          os.path.abspath(self.options.hosts)])
        windows = self.metrics(f"live-{mode}-{nodes}",
                               ["launch", "--hosts", hosts, "--ssh", ssh, "--mode", mode,
                                "--set", f"ranks={nodes}", "--log-level", "error"])
        step_s = 4 * nodes / self.median(windows, "samples_per_s")
        return step_s, [window["loss"] for window in windows]

    def predicted(self, mode, nodes):
        link = LINK.format(gbit=self.options.mbit / 1000)
        cluster = self.write(f"cluster-{nodes}.textproto",
                             CLUSTER.format(nodes=nodes, compute_ms=self.compute_ms, link=link))
        out = os.path.join(self.scratch, f"out-{mode}-{nodes}")
        self.run(["compare", self.job, "--modes", mode, "--seeds", "1", "--out", out, "--cluster",
                  cluster, "--set", f"ranks={nodes}"])
        with open(os.path.join(out, "runs", f"{mode}-seed1.json"), encoding="utf-8") as file:
            windows = json.load(file)["windows"]
        ends = [window["trained_s"] for window in windows]
        step_s = (ends[-2] - ends[0]) / (WINDOWS - 2) / (self.options.steps // WINDOWS)
        return step_s, [window["loss"] for window in windows]

    def compare(self, mode, nodes):
        servers = nodes if mode == "sync" else 0
        if nodes + servers > len(self.addresses):
            sys.exit(f"{mode} of {nodes} nodes needs {nodes + servers} hosts")
        live_s, live_losses = self.live(mode, nodes, servers)
        predicted_s, losses = self.predicted(mode, nodes)
        for one, other in zip(live_losses, losses, strict=True):
            if abs(one - other) > 1e-6 * abs(one):
                sys.exit(f"{mode}, {nodes} nodes: losses differ: {live_losses} {losses}")
        print(f"| {mode} | {nodes} | {servers} | {1000 * live_s:.1f} | {1000 * predicted_s:.1f} | "
              f"{100 * (predicted_s / live_s - 1):+.1f} % |", flush=True)


def main():
    if sys.argv[1:2] == ["--enter"]:
        enter(sys.argv[2], sys.argv[3], sys.argv[4:])
    parser = argparse.ArgumentParser()
    parser.add_argument("strata", type=os.path.abspath)
    parser.add_argument("hosts")
    parser.add_argument("--mbit", type=float, required=True)
    parser.add_argument("--nodes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(options, scratch)
        print(f"cnn, batch 4, {options.mbit:g} Mbit/s, computes {bench.compute_ms:.1f} ms alone")
        print("| mode | nodes | servers | live, ms a step | predicted | off by |")
        print("| --- | --- | --- | --- | --- | --- |", flush=True)
        for nodes in options.nodes:
            for mode in ("sync", "ring"):
                bench.compare(mode, nodes)


if __name__ == "__main__":
    main()
