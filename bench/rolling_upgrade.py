"""A cluster is upgraded host by host while jobs train: is any lost, and how long does each wait?

usage: rolling_upgrade.py NEW --old OLD [--notice 20] [--logs DIR]

NEW and OLD are two builds of `strata`, OLD of the protocol version before NEW's or the same. Hosts
are network namespaces (netlab.sh): one with the coordinator, four with a server and a worker each.
All begin with OLD. Two jobs train from the first minute to the last: one in mode sync with second
copies, one in mode lazy with checkpoints alone; short ones are submitted all the time, by OLD's and
NEW's command line in turn. First the coordinator is stopped and started as NEW with the same state,
then one host after the other: SIGTERM to its worker and its server, which were started with
`--notice` and leave their jobs, then NEW in their place.

Ends with status 0 only if no job was lost: all finished, and the weights of the one in mode sync
are those of an undisturbed run bit for bit. With 77, after one line, where there are no namespaces.
"""

import argparse
import os
import signal
import sys
import tempfile
import time

from cluster import fail, keep_logs, weights
from host_cluster import HostCluster, in_lab

HOSTS = 4
SHORT_STEPS = 40
LONG_STEPS = 3000
LIMIT_S = 300
JOB = """
name: "{name}"
model {{ zoo: "lenet5" }}
data {{ synthetic {{ train_samples: 2048 test_samples: 64 }} batch_per_rank: 16 }}
optimizer {{ momentum_sgd {{ momentum: 0.9 weight_decay: 5e-4 }} }}
schedule {{ base_lr: 0.005 }}
ranks: {ranks}
ranks_per_node: 1
epochs: 100000
max_steps: {steps}
metrics {{ every_steps: 10 }}
debug {{ {delays} }}
{more}
"""


def job(name, ranks, steps, more="", delay_ms=0):
    delays = " ".join(f"delays {{ node: {node} delay_ms: {delay_ms} }}"
                      for node in range(ranks) if delay_ms)
    return JOB.format(name=name, ranks=ranks, steps=steps, more=more, delays=delays)


class Upgrade:
    """A cluster of OLD that becomes one of NEW."""

    def __init__(self, cluster, options):
        self.cluster, self.options = cluster, options
        self.begin = time.monotonic()
        self.short = []
        self.begun = False  # the coordinator is NEW

    def say(self, text):
        print(f"{time.monotonic() - self.begin:6.1f} s  {text}", flush=True)

    def start(self):
        self.cluster.strata = self.options.old
        self.cluster.add_coordinator()
        notice = ("--notice", str(self.options.notice))
        for host in range(1, HOSTS + 1):
            self.cluster.add_server(f"s{host}", host, *notice)
            self.cluster.add_worker(f"w{host}", host, "--slots", "3", *notice)

    def again(self, name, more=""):
        checkpoints = os.path.join(self.cluster.scratch, "checkpoints", name)
        return (f'checkpoint {{ dir: "{checkpoints}" every_steps: 100 }}\n'
                f"restart {{ attempts: 100 }}\n{more}\n")

    def submit_short(self):
        """By OLD's command line and NEW's in turn, once the coordinator takes both."""
        number = len(self.short)
        self.cluster.strata = (self.options.old, self.options.new)[self.begun and number % 2]
        name = f"short{number}"
        self.cluster.submit(name, job(name, 2, SHORT_STEPS, self.again(name)))
        self.short.append(name)
        self.cluster.strata = self.options.new if self.begun else self.options.old

    def wait(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.submit_short()
            time.sleep(min(4, seconds))

    def stop(self, name):
        one = self.cluster.by_name[name]
        one.process.send_signal(signal.SIGTERM)

    def await_stopped(self, name):
        deadline = time.monotonic() + self.options.notice + LIMIT_S
        while self.cluster.by_name[name].runs:
            if time.monotonic() > deadline:
                fail(f"{name} does not end")
            if name == "coordinator":
                time.sleep(0.05)
            else:
                self.wait(1)

    def upgrade(self, *names):
        begin = time.monotonic()
        for name in names:
            self.stop(name)
        for name in names:
            self.await_stopped(name)
        away = time.monotonic()
        self.cluster.strata = self.options.new
        for name in names:
            self.cluster.start_again(name)
        self.say(f"{' and '.join(names)}: left after {away - begin:.1f} s, "
                 f"new after {time.monotonic() - begin:.1f} s; {self.told()}")

    def told(self):
        return "; ".join(f"{name} {status['state']} at step {status['progress']['step']}"
                         for name in ("sync", "lazy") for status in [self.cluster.status(name)])

    def run(self):
        """Returns what is wrong."""
        self.start()
        alone = self.cluster.submit("alone", job("alone", 2, LONG_STEPS))
        self.cluster.await_end("alone")
        self.say("the undisturbed run is over")
        delay_ms = 40
        copies = "replicas: 1\nreplace { per_hour: 100 patience_s: 5 }\nconsistency { sync {} }"
        run_dir = self.cluster.submit(
            "sync", job("sync", 2, LONG_STEPS, self.again("sync", copies), delay_ms))
        lazy = self.again("lazy", "consistency { lazy { staleness: 2 } }")
        self.cluster.submit("lazy", job("lazy", 1, LONG_STEPS, lazy, delay_ms))
        self.wait(5)
        self.upgrade("coordinator")
        self.begun = True
        for host in range(1, HOSTS + 1):
            self.wait(4)
            self.upgrade(f"w{host}", f"s{host}")
        return self.judge(run_dir, alone)

    def judge(self, run_dir, alone):
        wrong = []
        for name in ["sync", "lazy", *self.short]:
            self.cluster.strata = self.options.new
            deadline = time.monotonic() + LIMIT_S
            while (status := self.cluster.status(name))["state"] in ("queued", "running"):
                if time.monotonic() > deadline:
                    break
                time.sleep(0.2)
            if status["state"] != "finished":
                wrong.append(f"{name} is {status['state']}: {status['reason']}")
        status = self.cluster.status("sync")
        self.say(f"{2 + len(self.short)} jobs, {len(wrong)} lost")
        if not wrong and weights(run_dir) != weights(alone):
            wrong.append("the weights of the job in mode sync are not those of the undisturbed run")
        return wrong


def inside(options):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as scratch:
        try:
            with HostCluster(options.new, scratch, options.inside) as cluster:
                wrong = Upgrade(cluster, options).run()
        finally:
            if options.logs:
                keep_logs(scratch, options.logs)
    print("WRONG: " + "; ".join(wrong) if wrong else "no job was lost", flush=True)
    sys.exit(1 if wrong else 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("new", type=os.path.abspath)
    parser.add_argument("--old", type=os.path.abspath, required=True)
    parser.add_argument("--notice", type=int, default=20)
    parser.add_argument("--logs", type=os.path.abspath)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        inside(options)
    else:
        sys.exit(in_lab(1 + HOSTS, "10gbit", sys.argv[1:]))


if __name__ == "__main__":
    main()
