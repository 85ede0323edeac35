"""How long there is no coordinator when the one that leads dies, and what training loses.

usage: coordinator_failover.py STRATA [--rounds 3] [--failover 3] [--window 10] [--json]

On this machine: an etcd of one member, two coordinators, a server and a worker with 2 slots, on
which a job trains LeNet-5 in mode sync. In each round the coordinator that leads dies by SIGKILL
and is started again a moment after the other one has taken over, to stand by. Printed are the
seconds from the death until a command (`strata status`) is answered, which are to be `--failover`
and little more, and the steps per second over `--window` seconds from the death, as a ratio to
those over as many seconds just before; 1 is the bound, more is noise. Exits 1 where the job has not
trained on.
"""

import argparse
import json
import os
import signal
import statistics
import tempfile
import time

from cluster import Cluster, fail
from etcd import Etcd

LOOK_S = 0.1
LIMIT_S = 120
JOB = """
name: "job"
model { zoo: "lenet5" }
data { synthetic { train_samples: 2048 test_samples: 64 } batch_per_rank: 16 }
ranks: 2
epochs: 10000000
metrics { every_steps: 5 }
"""


def start_coordinator(cluster, number, listen, etcd, failover):
    """Returns its process and its address."""
    process, ready = cluster.start(
        "coordinator", "--listen", listen, "--insecure", "--etcd", etcd.endpoint, "--failover",
        str(failover), "--state", os.path.join(cluster.scratch, f"state{number}"), "--log-level",
        "error")
    return process, ready["address"]


def await_step(cluster, above):
    deadline = time.monotonic() + LIMIT_S
    while True:
        status = cluster.status("job")
        if status["state"] not in ("queued", "running"):
            fail(f"the job is {status['state']}: {status['reason']}")
        if status["progress"]["step"] > above:
            return status["progress"]["step"]
        if time.monotonic() > deadline:
            fail(f"the job does not train on: {status}")
        time.sleep(LOOK_S)


def step_now(cluster):
    """The job's step just when it grew, and when that was."""
    step = await_step(cluster, cluster.status("job")["progress"]["step"])
    return step, time.monotonic()


def rate(begin, end):
    return (end[0] - begin[0]) / (end[1] - begin[1])


def run_round(cluster, leader, window):
    """Returns seconds until a command is answered, and the ratio of the rates."""
    first = step_now(cluster)
    time.sleep(window)
    before = step_now(cluster)
    leader.send_signal(signal.SIGKILL)
    leader.wait()
    killed = time.monotonic()
    cluster.status("job")
    answered = time.monotonic() - killed
    time.sleep(max(0, window - answered))
    after = await_step(cluster, before[0]), time.monotonic()
    return {"answered_s": answered, "rate_ratio": rate(before, after) / rate(first, before)}


def measure(cluster, etcd, options):
    coordinators = [start_coordinator(cluster, number, "127.0.0.1:0", etcd, options.failover)
                    for number in range(2)]
    addresses = [address for _, address in coordinators]
    processes = [process for process, _ in coordinators]
    cluster.address = ",".join(addresses)
    cluster.keys = ["--insecure", "--timeout", "60"]
    way = ("--coordinator", cluster.address, "--insecure", "--log-level", "error")
    cluster.start("server", *way, "--name", "s0")
    cluster.start("worker", *way, "--name", "w0", "--slots", "2", "--gpus", "none", "--runs",
                  cluster.runs)
    cluster.submit("job", JOB)
    await_step(cluster, 0)
    rounds = []
    leads = 0
    for _ in range(options.rounds):
        rounds.append(run_round(cluster, processes[leads], options.window))
        cluster.daemons.remove(processes[leads])
        processes[leads], _ = start_coordinator(cluster, leads, addresses[leads], etcd,
                                                options.failover)
        leads = 1 - leads
        if not options.json:
            print(f"answered after {rounds[-1]['answered_s']:.2f} s, training at "
                  f"{rounds[-1]['rate_ratio']:.3f} of its rate", flush=True)
    cluster.call("cancel", "job")
    return rounds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--failover", type=float, default=3)
    parser.add_argument("--window", type=float, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with (tempfile.TemporaryDirectory() as scratch, Etcd(scratch) as etcd,
          Cluster(options.strata, scratch) as cluster):
        rounds = measure(cluster, etcd, options)
    if options.json:
        print(json.dumps({"rounds": rounds, "failover_s": options.failover}))
        return
    times = [one["answered_s"] for one in rounds]
    ratios = [one["rate_ratio"] for one in rounds]
    print(f"a command is answered after {statistics.median(times):.2f} s ({min(times):.2f} to "
          f"{max(times):.2f}), of which the lease takes up to {options.failover:g}; training at "
          f"{statistics.median(ratios):.3f} of its rate ({min(ratios):.3f} to {max(ratios):.3f})")


if __name__ == "__main__":
    main()
