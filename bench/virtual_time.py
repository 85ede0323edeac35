"""Is virtual time true? Step times that it predicts, beside those of the same jobs on shaped links.

usage: virtual_time.py STRATA [--model cnn] [--rate 200mbit] [--delay 100] [--batch 2] [--steps 32]
                       [--queue 25] [--window N] [--rounds 3] [--case NAME...] [--write FILE]
                       [--json]

Every host is a network namespace on a link of --rate each way that drops what waits for longer than
--queue milliseconds (netlab.sh), which virtual time does not; with --window 2 (the job's) less
waits there. Each case is a cluster of its own there: a daemon per host, `strata compare` on it, and
then `strata compare --cluster` on a description of it. Computation is a small model and --delay
milliseconds a step, of every node (`debug.delays`), so that two cores are no limit.
What the description says is the shaping's, or of
runs that are not predicted: what the model takes is that of one rank here with no exchange, what
a frame takes on a server is how much longer that rank's step is with one, by its pushes, and a
link's latency is a quarter of a byte's way to another host and back.

A round is a seed of each case. The losses on the test data in both runs of a seed, some 25 times
and of the final weights, must be equal to the last digit, else it ends with status 1; how far the
times are apart is said, and is not judged. --write: puts the table into FILE, between marks of its
own. Exit status 77, after one line: no namespaces here.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from cluster import Cluster, fail

HERE = os.path.dirname(os.path.abspath(__file__))
SWITCH = "10.78.0.254"  # of netlab.sh, on no shaped link
WINDOWS = 8
QUIET = ("--log-level", "warning")
# name: (mode, nodes, servers, whether these run on the nodes)
CASES = {
    "sync-1-1": ("sync", 1, 1, False),
    "sync-2-1": ("sync", 2, 1, False),
    "sync-2-2": ("sync", 2, 2, False),
    "sync-4-2": ("sync", 4, 2, False),
    "sync-4-4": ("sync", 4, 4, False),
    "sync-2-2-on-nodes": ("sync", 2, 2, True),
    "sync-4-4-on-nodes": ("sync", 4, 4, True),
    "ring-2": ("ring", 2, 0, False),
    "ring-4": ("ring", 4, 0, False),
}
HOSTS = 8
JOB = """
name: "true"
model {{ zoo: "{model}" }}
data {{ synthetic {{ train_samples: 1024 test_samples: 128 }} batch_per_rank: {batch} }}
schedule {{ base_lr: 0.002 }}
ranks: {nodes}
ranks_per_node: 1
epochs: 100000
max_steps: {steps}
metrics {{ every_steps: {every} }}
{pushes}
debug {{ {delays} }}
"""
CLUSTER = """
nodes {{
  count: {nodes}
  compute {{ constant_ms: {compute_ms} }}
  link {{ gbit_per_s: {gbit} latency_us: {latency_us} }}
}}
"""
SERVERS = """
servers {{
  count: {servers}
  {where}
  cpu_us_per_frame: {frame_us}
}}
"""


def gbit_of(rate):
    """Returns a rate in netlab.sh's notation in Gbit/s."""
    return float(rate[:-4]) * (1 if rate.endswith("gbit") else 1e-3)


def job_of(options, nodes, delay_ms):
    delays = [f"delays {{ node: {n} delay_ms: {delay_ms} }}" for n in range(nodes) if delay_ms]
    return JOB.format(model=options.model, batch=options.batch, nodes=nodes, steps=options.steps,
                      every=max(1, options.steps // WINDOWS), delays=" ".join(delays),
                      pushes=f"window: {options.window}" if options.window else "")


class Lab:
    """The hosts that netlab.sh has made, and what is measured on them."""

    def __init__(self, options, scratch):
        self.options, self.scratch = options, scratch
        with open(options.inside, encoding="utf-8") as lines:
            fields = [line.split() for line in lines]
        self.addresses = [field[1] for field in fields]
        self.hosts = [field[2:] for field in fields]  # what is put before a command there

    def folder(self, name):
        return os.path.join(self.scratch, name)

    def path(self, name, text):
        path = self.folder(name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        return path

    def compare(self, name, job, mode, rounds, *more):
        """Records of the runs of all seeds."""
        out = self.folder(name)
        mode += "+all_reduce.algorithm=RING" if mode == "ring" else ""
        command = [self.options.strata, "compare", self.path(name + ".textproto", job), "--modes",
                   mode, "--seeds", str(rounds), "--out", out, *more]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        if done.returncode != 0:
            fail(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        records = []
        for file in os.listdir(os.path.join(out, "runs")):
            with open(os.path.join(out, "runs", file), encoding="utf-8") as text:
                records.append(json.load(text))
            if records[-1].get("failure"):
                fail(f"{name}: {records[-1]['failure']}")
        return sorted(records, key=lambda record: int(record["seed"]))

    def live(self, name, job, mode, case, rounds):
        """The same on daemons of their own: nodes on the first hosts, servers on the next."""
        _, nodes, servers, on_nodes = case
        with Cluster(self.options.strata, self.folder(name + "-daemons")) as cluster:
            _, ready = cluster.start("coordinator", "--listen", SWITCH + ":0", "--insecure",
                                     "--state", self.folder(name + "-state"), *QUIET)
            where = ["--coordinator", ready["address"], "--insecure"]
            for server in range(servers):
                cluster.start("server", *where, *QUIET, "--name", f"s{server}",
                              host=self.hosts[server + (0 if on_nodes else nodes)])
            for node in range(nodes):
                cluster.start("worker", *where, *QUIET, "--name", f"n{node}", "--slots", "1",
                              "--runs", cluster.runs, host=self.hosts[node])
            return self.compare(name, job, mode, rounds, *where)


def step_ms(record):
    """Mean over a run, without the first quarter of its windows, in which connections warm up, and
    the last, in which a live rank waits for the final weights."""
    windows = record["windows"]
    first, last = windows[len(windows) // 4], windows[-2]
    steps = (int(last["samples"]) - int(first["samples"])) / (
        int(record["job"]["ranks"]) * record["job"]["data"]["batch_per_rank"])
    return 1000 * (last["trained_s"] - first["trained_s"]) / steps


def losses(record):
    """Returns (step, loss, accuracy) on the test data of rank 0's weights at some steps."""
    return [(one["step"], one["loss"], one.get("accuracy", 0)) for one in record["measurements"]]


def alone(lab, name, exchange):
    """One rank on this host, with no exchange or with a server over TCP: milliseconds and pushes of
    a step."""
    job = job_of(lab.options, 1, lab.options.delay)
    job += f'exchange: {exchange}\nsame_host: TCP\nrun_dir: "run"\n'
    runs = lab.folder(name)
    command = [lab.options.strata, "local", "--servers", "1", "--nodes", "1", "--slots", "1",
               "--runs", runs, "--job", lab.path(name + ".textproto", job)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        fail(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    with open(os.path.join(runs, "run", "metrics.jsonl"), encoding="utf-8") as lines:
        windows = [record for record in map(json.loads, lines) if not record.get("final")]
    windows = windows[len(windows) // 4:-1]
    rate = statistics.median(window["samples_per_s"] for window in windows)
    every = windows[1]["step"] - windows[0]["step"]
    return 1000 * lab.options.batch / rate, windows[0]["pushes"] / every


PING = """
import socket, sys, time
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
times = []
for _ in range(300):
    begin = time.perf_counter()
    s.sendall(b"1")
    s.recv(1)
    times.append(time.perf_counter() - begin)
print(sorted(times)[150])
"""
PONG = """
import socket
with socket.create_server(("0.0.0.0", 0)) as listening:
    print(listening.getsockname()[1], flush=True)
    s, _ = listening.accept()
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while s.recv(1):
    s.sendall(b"1")
"""


def latency_us(lab):
    """Returns a host's link latency: a quarter of a byte's round trip to another host, over TCP."""
    python = [sys.executable, "-c"]
    with subprocess.Popen([*lab.hosts[0], *python, PONG], stdout=subprocess.PIPE,
                          text=True) as pong:
        port = pong.stdout.readline().strip()
        ping = subprocess.run([*lab.hosts[1], *python, PING, lab.addresses[0], port],
                              capture_output=True, text=True, timeout=60, check=True)
    return 1e6 * float(ping.stdout) / 4


def measure_costs(lab):
    """Measures what a cluster's description needs besides the shaping."""
    compute_ms, _ = alone(lab, "alone", "NONE")
    server_ms, pushes = alone(lab, "server", "PARAMETER_SERVER")
    return {"compute_ms": max(0.1, compute_ms - lab.options.delay), "latency_us": latency_us(lab),
            "frame_us": 1000 * max(0.0, server_ms - compute_ms) / pushes}


def describe(options, costs, case):
    """The text of a cluster file."""
    _, nodes, servers, on_nodes = case
    gbit = gbit_of(options.rate)
    text = CLUSTER.format(nodes=nodes, gbit=gbit, **costs)
    if servers:
        where = ("on_nodes: true" if on_nodes else
                 f"link {{ gbit_per_s: {gbit} latency_us: {costs['latency_us']} }}")
        text += SERVERS.format(servers=servers, where=where, **costs)
    return text


def run_case(lab, costs, name, number):
    """Returns a row of a case's figures in one round."""
    case = CASES[name]
    mode, nodes, _, _ = case
    job = job_of(lab.options, nodes, lab.options.delay) + f"seed: {number + 1}\n"
    live, = lab.live(f"{name}-live-{number}", job, mode, case, 1)
    cluster = lab.path(f"{name}-cluster-{number}.textproto", describe(lab.options, costs, case))
    virtual, = lab.compare(f"{name}-virtual-{number}", job, mode, 1, "--cluster", cluster)
    if losses(live) != losses(virtual):
        fail(f"{name}: the losses differ: {losses(live)}, virtual {losses(virtual)}")
    return {"case": name, "measured_ms": step_ms(live), "predicted_ms": step_ms(virtual)}


def table(options, costs, rows):
    """Markdown; medians over the rounds."""
    out = [f"`{options.model}`, batch {options.batch}, links of {options.rate} with queues of "
           f"{options.queue} ms, {options.delay} ms of delay a step, "
           f"{f'window {options.window}, ' if options.window else ''}{options.rounds} rounds of "
           f"{options.steps} steps on {os.cpu_count()} cores. Of other runs: "
           f"{costs['compute_ms']:.1f} ms a step to compute, {costs['latency_us']:.0f} µs a link, "
           f"{costs['frame_us']:.0f} µs a frame.", "",
           "| case | measured, ms | predicted, ms | predicted / measured |",
           "| --- | --- | --- | --- |"]
    for name in dict.fromkeys(row["case"] for row in rows):
        own = [row for row in rows if row["case"] == name]
        measured = [row["measured_ms"] for row in own]
        predicted = statistics.median(row["predicted_ms"] for row in own)
        ratios = [row["predicted_ms"] / row["measured_ms"] for row in own]
        out.append(f"| {name} | {statistics.median(measured):.1f} ({min(measured):.1f} to "
                   f"{max(measured):.1f}) | {predicted:.1f} | {statistics.median(ratios):.3f} "
                   f"({min(ratios):.3f} to {max(ratios):.3f}) |")
    return "\n".join(out)


def write_table(path, text):
    """Between the marks, which must be there."""
    with open(path, encoding="utf-8") as file:
        old = file.read()
    begin, end = (f"<!-- {mark} virtual-time -->\n" for mark in ("begin", "end"))
    if begin not in old or end not in old:
        fail(f"{path}: no marks {begin.strip()} and {end.strip()}")
    before, rest = old.split(begin)
    with open(path, "w", encoding="utf-8") as file:
        file.write(before + begin + text + "\n" + end + rest.split(end)[1])


def measure(options):
    with tempfile.TemporaryDirectory() as scratch:
        lab = Lab(options, scratch)
        costs = measure_costs(lab)
        rows = []
        for number in range(options.rounds):
            for name in options.case or CASES:
                rows.append(run_case(lab, costs, name, number))
                if not options.json:
                    row = rows[-1]
                    ratio = row["predicted_ms"] / row["measured_ms"]
                    print(f"{number} {name}: measured {row['measured_ms']:.1f} ms, predicted "
                          f"{row['predicted_ms']:.1f}, {ratio:.3f}", flush=True)
    if options.json:
        print(json.dumps({"costs": costs, "rows": rows, "losses_equal": True}, indent=2))
    else:
        print(table(options, costs, rows))
    if options.write:
        write_table(options.write, table(options, costs, rows))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata")
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--queue", type=int, default=25)
    parser.add_argument("--delay", type=int, default=100)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--window", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--case", nargs="*", choices=list(CASES))
    parser.add_argument("--write", type=os.path.abspath)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.strata = os.path.abspath(options.strata)
    if options.inside:
        return measure(options)
    command = [os.path.join(HERE, "netlab.sh"), "--hosts", str(HOSTS), "--rate", options.rate,
               "--once", "--", sys.executable, os.path.abspath(__file__), *sys.argv[1:],
               "--inside", "{hosts}"]
    sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
