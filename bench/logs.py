"""How soon `strata logs` shows a line, and what a large log costs.

usage: logs.py STRATA [--lines 100] [--gigabytes 10]

On this machine: a coordinator, a server and a worker with 2 slots. One job writes a line with the
time every 0.1 s, which is followed: printed is how old lines are when the reader gets them. The
other one writes a log of --gigabytes, of which the last 100 lines, one line that matches and all of
it are read; all of it also by a reader who takes nothing for 10 s. Printed are the times, the bytes
compared with the file's, and the most memory that coordinator and worker had.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from cluster import Cluster, fail

LIMIT_S = 600
PIECE = 1 << 20


def write_script(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"#!/bin/sh\n{text}\n")
    os.chmod(path, 0o700)
    return f'name: "{name}" program {{ path: "{path}" }} ranks: 1'


def megabytes(process, field):
    with open(f"/proc/{process.pid}/status", encoding="utf-8") as file:
        for line in file:
            if line.startswith(field):
                return int(line.split()[1]) / 1024
    return fail(f"{field} is not in /proc/{process.pid}/status")


def logs(cluster, *words):
    return subprocess.Popen([cluster.strata, "logs", *words, "--coordinator", cluster.address],
                            stdout=subprocess.PIPE)


def ages(cluster, folder, count):
    """How old so many lines are when they are read, in seconds."""
    cluster.submit("says", write_script(folder, "says",
                                        "while :; do date +%s.%N; sleep 0.1; done"))
    await_line(cluster, "says", ".")
    with logs(cluster, "says", "--rank", "0", "--follow", "--tail", "0") as reader:
        old = []
        for _ in range(count):
            said = float(reader.stdout.readline())
            old.append(time.time() - said)
        reader.send_signal(signal.SIGINT)
    cluster.call("cancel", "says")
    return old


def await_line(cluster, job, pattern):
    until = time.time() + LIMIT_S
    words = ("logs", job, "--rank", "0", "--tail", "1", "--grep", pattern)
    while cluster.refusal(*words) or not cluster.call(*words):
        if time.time() > until:
            fail(f"{job} has not said {pattern} in {LIMIT_S} s")
        time.sleep(0.2)


def timed_read(cluster, *words, pause_s=0):
    """Returns the seconds and bytes of a read; with `pause_s` nothing is taken for so long."""
    begin = time.monotonic()
    read = 0
    with logs(cluster, "writes", "--rank", "0", *words) as reader:
        time.sleep(pause_s)
        while piece := reader.stdout.read(PIECE):
            read += len(piece)
    if reader.returncode != 0:
        fail(f"strata logs {' '.join(words)}: exit status {reader.returncode}")
    return time.monotonic() - begin - pause_s, read


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata")
    parser.add_argument("--lines", type=int, default=100)
    parser.add_argument("--gigabytes", type=float, default=10)
    options = parser.parse_args()
    size = int(options.gigabytes * (1 << 30))
    with (tempfile.TemporaryDirectory(dir="/var/tmp") as folder,
          Cluster(options.strata, folder) as cluster):
        daemons = dict(zip(("coordinator", "worker"), cluster.start_small()))
        old = ages(cluster, folder, options.lines)
        print(f"a line is {statistics.median(old):.2f} s old when it is shown (median), "
              f"{statistics.quantiles(old, n=20)[-1]:.2f} s (95 %), {max(old):.2f} s at most",
              flush=True)
        run_dir = cluster.submit("writes", write_script(
            folder, "writes", f"yes 'step 1234 of 56789: loss 0.1234, 5678 samples/s' | "
            f"head -c {size}\necho\necho written\nsleep 100000"))
        await_line(cluster, "writes", "^written$")
        before = {name: megabytes(one, "VmRSS") for name, one in daemons.items()}
        for what, words, pause in (
                ("the last 100 lines", ("--tail", "100"), 0),
                ("one line that matches", ("--tail", "all", "--grep", "^written$"), 0),
                ("all", ("--tail", "all"), 0),
                ("all, after 10 s in which nothing is taken", ("--tail", "all"), 10)):
            took, read = timed_read(cluster, *words, pause_s=pause)
            print(f"{what}: {took:.2f} s, {read:,} bytes", flush=True)
        written = os.path.getsize(os.path.join(run_dir, "logs", "rank0.log"))
        if read != written:
            fail(f"{read} bytes were shown of {written}")
        for name, one in daemons.items():
            print(f"{name}: {before[name]:.0f} MB before, {megabytes(one, 'VmHWM'):.0f} MB at most")
        cluster.call("cancel", "writes")


if __name__ == "__main__":
    main()
