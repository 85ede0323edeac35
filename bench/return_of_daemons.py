"""How long a cluster's daemons are away when its coordinator dies and is started again.

usage: return_of_daemons.py STRATA [--daemons 1024] [--rounds 3] [--goal-s 10] [--json]

Real workers with keys of their own on this machine, all connected over TLS to a coordinator on
127.0.0.1, which dies by SIGKILL in each round and is started again at once with its state, at its
port. The clock runs from that start until `strata nodes` shows every worker alive, and is looked at
4 times a second. Workers and coordinator share this machine's cores: on machines of their own the
workers' part of the handshakes would cost the coordinator nothing. A worker takes some 5 MiB and 14
threads. Exits 1 where a round takes longer than the goal.
"""

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import time

from cluster import Cluster, fail

AT_ONCE = 64  # workers that join at the same time
LIMIT_S = 300
LOOK_S = 0.25
THREADS_EACH, BYTES_EACH = 16, 6 << 20


def check_room(daemons):
    with open("/proc/sys/kernel/pid_max", encoding="utf-8") as text:
        threads_max = int(text.read())
    with open("/proc/meminfo", encoding="utf-8") as text:
        available = next(int(line.split()[1]) << 10 for line in text if "MemAvailable" in line)
    if daemons * THREADS_EACH > threads_max - 8192:
        fail(f"{daemons} workers want {daemons * THREADS_EACH} threads beside 8192 for others: "
             f"kernel.pid_max is {threads_max}")
    if daemons * BYTES_EACH > available:
        fail(f"{daemons} workers want {daemons * BYTES_EACH >> 20} MiB: "
             f"{available >> 20} MiB are available")


def start_coordinator(cluster, listen):
    """Returns its process and its address; operators reach it by its socket."""
    process, ready = cluster.start("coordinator", "--listen", listen, "--state",
                                   os.path.join(cluster.scratch, "state"), "--log-level", "error")
    cluster.address = ready["socket"]
    return process, ready["address"]


def start_workers(cluster, count, coordinator):
    token = os.path.join(cluster.scratch, "workers.token")
    cluster.call("keys", "token", "worker", "--uses", str(count), "--out", token)
    workers = []
    for first in range(0, count, AT_ONCE):
        some = [cluster.launch("worker", "--coordinator", coordinator, "--name", f"w{number}",
                               "--join-file", token, "--keys",
                               os.path.join(cluster.scratch, f"w{number}.pem"), "--slots", "1",
                               "--gpus", "none", "--runs", cluster.runs, "--log-level", "error")
                for number in range(first, min(first + AT_ONCE, count))]
        for worker in some:
            cluster.await_ready(worker)
        workers += some
    return workers


def alive(cluster):
    return sum(one["alive"] for one in cluster.nodes())


def await_all(cluster, count, begin):
    """Seconds from `begin` until all are there."""
    while True:
        there = alive(cluster)
        took = time.monotonic() - begin
        if there == count:
            return took
        if took > LIMIT_S:
            fail(f"{there} of {count} workers are there after {took:.0f} s")
        time.sleep(LOOK_S)


def cpu_s(process):
    """Seconds of CPU that a process has used, user and system."""
    with open(f"/proc/{process.pid}/stat", encoding="utf-8") as text:
        fields = text.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(cluster, options):
    """Returns, for each round, seconds until the coordinator was ready, and until all were back,
    and seconds of CPU that the coordinator took for it."""
    coordinator, address = start_coordinator(cluster, "127.0.0.1:0")
    begin = time.monotonic()
    workers = start_workers(cluster, options.daemons, address)
    await_all(cluster, options.daemons, begin)
    if not options.json:
        print(f"{options.daemons} workers have joined in {time.monotonic() - begin:.1f} s",
              flush=True)
    rounds = []
    for _ in range(options.rounds):
        coordinator.send_signal(signal.SIGKILL)
        coordinator.wait()
        begin = time.monotonic()
        coordinator, _ = start_coordinator(cluster, address)
        ready = time.monotonic() - begin
        rounds.append({"ready_s": ready, "all_s": await_all(cluster, options.daemons, begin),
                       "coordinator_cpu_s": cpu_s(coordinator)})
        if not options.json:
            print(f"ready after {ready:.2f} s, all are back after {rounds[-1]['all_s']:.2f} s, "
                  f"for which the coordinator took {rounds[-1]['coordinator_cpu_s']:.2f} s of CPU",
                  flush=True)
    for worker in workers:  # all at once; the cluster waits for them one by one
        worker.send_signal(signal.SIGTERM)
    return rounds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata")
    parser.add_argument("--daemons", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--goal-s", type=float, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    check_room(options.daemons)
    with (tempfile.TemporaryDirectory() as scratch,
          Cluster(options.strata, scratch) as cluster):
        cluster.call_alone("keys", "init", "--state", os.path.join(scratch, "state"))
        rounds = measure(cluster, options)
    times = [one["all_s"] for one in rounds]
    if options.json:
        print(json.dumps({"daemons": options.daemons, "rounds": rounds, "goal_s": options.goal_s}))
    else:
        print(f"{options.daemons} workers are back after {statistics.median(times):.2f} s "
              f"({min(times):.2f} to {max(times):.2f}), the goal is {options.goal_s:g}")
    sys.exit(0 if max(times) <= options.goal_s else 1)


if __name__ == "__main__":
    main()
