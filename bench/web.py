"""What `strata web` costs a cluster, and how soon it shows what goes wrong.

usage: web.py STRATA CLOCK_RANK [--viewers 20] [--window 20] [--pairs 5] [--points 200]
              [--rounds 10]

On this machine: a coordinator, a server, a worker with 2 slots on which a job trains LeNet-5 in
mode sync, and `strata web`. Printed are, by turns --pairs times, for --window seconds in which
nobody looks and for as many in which --viewers streams of events are read: the job's time for a
step, and the CPU time of the coordinator and of what looks at it; and those of a window without
`strata web`. Then, while all look and the job goes on: the seconds from a time that a rank of
another job writes down until a reader has it (CLOCK_RANK, bazel-bin/bench/clock_rank,
reports the time as its loss), for --points of its reports; and those from SIGSTOP of a rank until a
reader is told, --rounds times.
"""

import argparse
import json
import math
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

from cluster import Cluster, fail, logs_of_node, writing_to

LIMIT_S = 120
JOB = """
name: "job"
model { zoo: "lenet5" }
data { synthetic { train_samples: 2048 test_samples: 64 } batch_per_rank: 16 }
ranks: 2
epochs: 10000000
metrics { every_steps: 5 }
"""


CLOCK_JOB = """
name: "clock"
program {{ path: "{program}" args: "20" args: "{every}" }}
optimizer {{ sgd {{}} }}
ranks: 2
metrics {{ every_steps: {every} }}
"""
CLOCK_EVERY = 10  # steps of 20 ms: some 5 reports a second


class Stream:
    """A stream of events that is read and not looked at."""

    def __init__(self, url, job):
        self.line = self.open(urllib.parse.urlparse(url), job)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    @staticmethod
    def open(place, job):
        """A stream that was closed keeps its place until it is next written to, a second or two."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            line = socket.create_connection((place.hostname, place.port))
            line.sendall(f"GET /api/events?job={job} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            status = line.recv(len("HTTP/1.1 200"), socket.MSG_PEEK | socket.MSG_WAITALL)
            if status == b"HTTP/1.1 200":
                return line
            line.close()
            if status != b"HTTP/1.1 503" or time.monotonic() > deadline:
                fail(f"no stream of events, but {status.decode('latin-1')}")
            time.sleep(0.5)

    def read(self):
        while self.receive():
            pass

    def receive(self):
        try:
            return self.line.recv(1 << 20)
        except OSError:
            return b""

    def close(self):
        self.line.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.line.close()


class Viewer(Stream):
    """One who takes in what a stream tells."""

    def __init__(self, url, job):
        self.lags_s, self.last_step = [], None  # of the points of the job's course
        self.told, self.wanted = threading.Event(), None
        super().__init__(url, job)

    def read(self):
        text = ""
        while part := self.receive():
            text += part.decode("utf-8", "replace")
            now = time.time()
            while "\n\n" in text:
                event, text = text.split("\n\n", 1)
                found = re.search(r"event: (cluster|job)\ndata: (.*)", event)
                if found:
                    take = self.take_cluster if found.group(1) == "cluster" else self.take_job
                    take(json.loads(found.group(2)), now)

    def take_cluster(self, cluster, _):
        waits = [wait["text"] for job in cluster["jobs"] for wait in job["waits"]]
        if self.wanted is not None and any(waits) == self.wanted:
            self.told.set()

    def take_job(self, job, now):
        """Points that the first document has may have waited for somebody to look."""
        steps = job["course"]["step"]
        if self.last_step is not None:
            self.lags_s += [now - said for step, said in zip(steps, job["course"]["loss"])
                            if step > self.last_step]
        self.last_step = max(steps, default=0)

    def await_waits(self, wanted):
        """Returns the seconds until it is told so."""
        begin = time.monotonic()
        self.told.clear()
        self.wanted = wanted
        if not self.told.wait(LIMIT_S):
            fail(f"{LIMIT_S} s and nobody is told that somebody waits: {wanted}")
        return time.monotonic() - begin


def cpu_s(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Measured:
    """The job's steps in a window, and the CPU time of the coordinator and of what looks at it."""

    def __init__(self, cluster, coordinator, window, web=None):
        steps, begin = self.step(cluster), time.monotonic()
        used, lookers = cpu_s(coordinator.pid), self.lookers_s(web)
        time.sleep(window)
        steps = self.step(cluster) - steps
        took = time.monotonic() - begin
        self.cpu = (cpu_s(coordinator.pid) - used) / took
        self.lookers_cpu = (self.lookers_s(web) - lookers) / took
        self.step_ms = took / steps * 1000 if steps else math.nan

    @staticmethod
    def lookers_s(web):
        """Returns the CPU seconds of `strata web` and of this program with its streams."""
        return time.process_time() + (cpu_s(web.pid) if web else 0)

    @staticmethod
    def step(cluster):
        return cluster.status("job")["progress"]["step"]


def await_step(cluster, name, step):
    for status in cluster.watch(name, 0.1, LIMIT_S):
        if status["progress"]["step"] > step:
            return


def measure_pairs(cluster, options, coordinator, web, url):
    """[(nobody looks, all look)]"""
    pairs = []
    for _ in range(options.pairs):
        time.sleep(options.idle)  # until it counts as not looked at
        idle = Measured(cluster, coordinator, options.window, web)
        streams = [Stream(url, 1) for _ in range(options.viewers)]
        time.sleep(2)
        pairs.append((idle, Measured(cluster, coordinator, options.window, web)))
        for stream in streams:
            stream.close()
    return pairs


def measure_lags(cluster, options, url):
    """Seconds, of each of so many reports, until a reader has it."""
    cluster.start("worker", "--coordinator", cluster.address, "--log-level", "error", "--name",
                  "w1", "--slots", "2", "--gpus", "none", "--runs", cluster.runs)
    program = os.path.abspath(options.clock_rank)
    cluster.submit("clock", CLOCK_JOB.format(program=program, every=CLOCK_EVERY))
    await_step(cluster, "clock", 2 * CLOCK_EVERY)
    viewer = Viewer(url, 2)
    deadline = time.monotonic() + LIMIT_S + options.points
    while len(viewer.lags_s) < options.points:
        if time.monotonic() > deadline:
            fail(f"only {len(viewer.lags_s)} reports were shown")
        time.sleep(0.1)
    viewer.close()
    cluster.call("cancel", "clock")
    if min(viewer.lags_s) < 0:
        fail(f"a report was shown {-min(viewer.lags_s):.3f} s before it was made")
    return viewer.lags_s


def measure_stops(options, rank, url):
    """Seconds, each time, from SIGSTOP of the rank until a reader is told."""
    viewer, told = Viewer(url, 1), []
    for _ in range(options.rounds):
        os.kill(rank, signal.SIGSTOP)
        told.append(viewer.await_waits(True))
        os.kill(rank, signal.SIGCONT)
        viewer.await_waits(False)
    viewer.close()
    return told


def look(cluster, options, coordinator):
    run_dir = cluster.submit("job", JOB)
    await_step(cluster, "job", 20)
    without = Measured(cluster, coordinator, options.window)
    web, ready = cluster.start("web", "--coordinator", cluster.address, "--listen", "127.0.0.1:0",
                               "--no-login", "--log-level", "error")
    url = ready["url"]
    pairs = measure_pairs(cluster, options, coordinator, web, url)
    streams = [Stream(url, 2) for _ in range(options.viewers - 1)]
    lags = measure_lags(cluster, options, url)
    for stream in streams:
        stream.close()
    ranks = writing_to([log for log in logs_of_node(run_dir, 0) if "rank" in log])
    if len(ranks) != 1:
        fail(f"rank 0 is not found, but {ranks}")
    told = measure_stops(options, ranks[0], url)
    cluster.call("cancel", "job")
    return without, pairs, lags, told


def spread(values, form):
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata")
    parser.add_argument("clock_rank")
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--window", type=float, default=20)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--idle", type=float, default=11)
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    with (tempfile.TemporaryDirectory(dir="/tmp") as folder,
          Cluster(options.strata, folder) as cluster):
        coordinator, _ = cluster.start_small()
        without, pairs, lags, told = look(cluster, options, coordinator)
    idle, watched = zip(*pairs)
    for name, windows in (("nobody looks", idle), (f"{options.viewers} look", watched)):
        print(f"{name}: a step takes {spread([one.step_ms for one in windows], '.2f')} ms; "
              f"of a core the coordinator uses {spread([one.cpu * 100 for one in windows], '.2f')} "
              f"%, strata web and the readers "
              f"{spread([one.lookers_cpu * 100 for one in windows], '.2f')} %")
    print(f"without strata web: {without.step_ms:.2f} ms, {without.cpu * 100:.2f} %")
    for name, ratios in (("a step", [both.step_ms / none.step_ms for none, both in pairs]),
                         ("the coordinator's CPU", [both.cpu / none.cpu if none.cpu else math.nan
                                                    for none, both in pairs])):
        print(f"{name} while {options.viewers} look / while nobody does, pair by pair: "
              f"{spread(ratios, '.3f')}")
    most = statistics.quantiles(lags, n=20, method="inclusive")[-1]
    print(f"a reader has what a rank reports after {statistics.median(lags):.2f} s (median), "
          f"{most:.2f} s (95 %), {max(lags):.2f} s (all of {len(lags)})")
    print(f"a stopped rank is shown after {spread(told, '.2f')} s")


if __name__ == "__main__":
    main()
