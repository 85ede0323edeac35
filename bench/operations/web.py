"""What `strata web` costs a cluster, and how soon it shows what goes wrong.

usage: web.py STRATA [--viewers 20] [--window 20] [--rounds 10]

On this machine: a coordinator, a server, a worker with 2 slots on which a job trains LeNet-5 in
mode sync, and `strata web`. Printed are: the coordinator's CPU time over --window seconds while
nobody looks and while --viewers streams of events are read, and the job's steps in the same times,
as ratios to a window without `strata web`; how old a picture is when a reader gets it; and the
seconds from SIGSTOP of a rank until a reader is told of it, --rounds times.
"""

import argparse
import json
import os
import re
import signal
import socket
import statistics
import sys
import tempfile
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from cluster import Cluster, fail, logs_of_node, writing_to  # noqa: E402

LIMIT_S = 120
JOB = """
name: "job"
model { zoo: "lenet5" }
data { synthetic { train_samples: 2048 test_samples: 64 } batch_per_rank: 16 }
ranks: 2
epochs: 10000000
metrics { every_steps: 5 }
"""


class Viewer:
    """One who reads a stream of events, in a thread of its own."""

    def __init__(self, url):
        place = urllib.parse.urlparse(url)
        self.line = socket.create_connection((place.hostname, place.port))
        self.line.sendall(b"GET /api/events?job=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.ages_s, self.told, self.wanted = [], threading.Event(), None
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        text = ""
        while True:
            try:
                part = self.line.recv(1 << 20)
            except OSError:
                return
            if not part:
                return
            text += part.decode("utf-8", "replace")
            while "\n\n" in text:
                event, text = text.split("\n\n", 1)
                found = re.search(r"event: cluster\ndata: (.*)", event)
                if found:
                    self.take(json.loads(found.group(1)))

    def take(self, cluster):
        self.ages_s.append(time.time() - cluster["taken_ms"] / 1000)
        waits = [wait["text"] for job in cluster["jobs"] for wait in job["waits"]]
        if self.wanted is not None and any(waits) == self.wanted:
            self.told.set()

    def await_waits(self, wanted):
        """Returns the seconds until it is told so."""
        begin = time.monotonic()
        self.told.clear()
        self.wanted = wanted
        if not self.told.wait(LIMIT_S):
            fail(f"{LIMIT_S} s and nobody is told that somebody waits: {wanted}")
        return time.monotonic() - begin

    def close(self):
        self.line.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.line.close()


def cpu_s(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Measured:
    """The coordinator's CPU time and the job's steps in a window."""

    def __init__(self, cluster, coordinator, window):
        steps, used, begin = self.step(cluster), cpu_s(coordinator), time.monotonic()
        time.sleep(window)
        took = time.monotonic() - begin
        self.cpu = (cpu_s(coordinator) - used) / took
        self.steps_per_s = (self.step(cluster) - steps) / took

    @staticmethod
    def step(cluster):
        return cluster.status("job")["progress"]["step"]


def look(cluster, options, coordinator):
    run_dir = cluster.submit("job", JOB)
    for status in cluster.watch("job", 0.1, LIMIT_S):
        if status["progress"]["step"] > 20:
            break
    without = Measured(cluster, coordinator.pid, options.window)
    _, ready = cluster.start("web", "--coordinator", cluster.address, "--listen", "127.0.0.1:0",
                             "--no-login", "--log-level", "error")
    time.sleep(11)  # until it counts as not looked at
    idle = Measured(cluster, coordinator.pid, options.window)
    viewers = [Viewer(ready["url"]) for _ in range(options.viewers)]
    watched = Measured(cluster, coordinator.pid, options.window)
    ages = [age for viewer in viewers for age in viewer.ages_s]
    for viewer in viewers[1:]:
        viewer.close()
    ranks = writing_to([log for log in logs_of_node(run_dir, 0) if "rank" in log])
    if len(ranks) != 1:
        fail(f"rank 0 is not found, but {ranks}")
    told = []
    for _ in range(options.rounds):
        os.kill(ranks[0], signal.SIGSTOP)
        told.append(viewers[0].await_waits(True))
        os.kill(ranks[0], signal.SIGCONT)
        viewers[0].await_waits(False)
    cluster.call("cancel", "job")
    return without, idle, watched, ages, told


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata")
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--window", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    with (tempfile.TemporaryDirectory(dir="/tmp") as folder,
          Cluster(options.strata, folder) as cluster):
        without, idle, watched, ages, told = look(cluster, options, cluster.start_small()[0])
    for name, one in (("nobody looks", idle), (f"{options.viewers} look", watched)):
        print(f"{name}: the coordinator uses {one.cpu * 100:.2f} % of a core, "
              f"{without.cpu * 100:.2f} % without strata web; steps "
              f"{one.steps_per_s / without.steps_per_s:.3f} x")
    print(f"a picture is {statistics.median(ages):.2f} s old (median), "
          f"{statistics.quantiles(ages, n=20)[-1]:.2f} s (95 %)")
    print(f"a stopped rank is shown after {statistics.median(told):.2f} s "
          f"({min(told):.2f} to {max(told):.2f})")


if __name__ == "__main__":
    main()
