"""How long a job with second copies stands still when one of its servers is killed.

usage: server_death.py STRATA [--rounds 10] [--bytes 104857600] [--shards 2] [--rate 10gbit]
                       [--down-s 1] [--seed 1] [--goal-median-s 0.8] [--goal-worst-s 2] [--json]

Hosts are network namespaces (netlab.sh): a coordinator, 2 servers, 2 workers with a rank each, all
on hosts of their own. The ranks compute nothing: they exchange gradients of --bytes in mode sync,
and compare every weight after every step with a computation of their own (`strata bench`). In each
round one server dies by SIGKILL at a moment that is drawn, from the seed. Times run from there to
the coordinator's decision that the other copies take over (its log says when), and to the first
step after that which all ranks have ended. The longest step is the longest time between two steps'
ends around the death. Ranks meet before and after each step, so that a step that was lost, or made
twice, would be seen. --down-s later the server is started again and the job's shards get their
second copies back, while it trains on: how long that takes counts from the server's start, and the
rate is that of --bytes. The next round waits for it.

Exits 1 if a value was wrong or a goal is missed; 77, after one line: no namespaces here.
"""

import argparse
import calendar
import json
import os
import random
import re
import socket
import statistics
import struct
import sys
import tempfile
import threading
import time

from cluster import fail
from host_cluster import HostCluster, in_lab, unprotected

JOB = """
name: "death"
program {{
  path: "{strata}"
  args: "bench" args: "rank" args: "--elements" args: "{elements}" args: "--steps" args: "1000000"
  args: "--gate" args: "{gate}" args: "--launch" args: "{{launch}}"
}}
optimizer {{ sgd {{}} }}
schedule {{ base_lr: 1 }}
ranks: 2
ranks_per_node: 1
replicas: 1
"""
SWITCH = "10.78.0.254"  # of netlab.sh
LIMIT_S = 120
MIB = 1 << 20
ARRIVAL = struct.Struct("<dII")  # cli/bench/gate.h
PROMOTED = re.compile(r"(\S+)\.(\d{3})Z .*shards go on with one copy")


class Gate:
    """Where ranks meet before and after each step; it knows when steps ended."""

    def __init__(self, ranks):
        self._ranks = ranks
        self._listening = socket.create_server((SWITCH, 0))
        self._changed = threading.Condition()
        self._ends = []  # of the steps, by time.monotonic()
        self._wrong = 0
        self.address = f"{SWITCH}:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        connections = [self._listening.accept()[0] for _ in range(self._ranks)]
        for connection in connections:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            ended = 0
            for connection in connections:
                said = connection.recv(ARRIVAL.size, socket.MSG_WAITALL)
                if len(said) < ARRIVAL.size:
                    return
                step_ms, wrong, _ = ARRIVAL.unpack(said)
                ended += step_ms >= 0
                with self._changed:
                    self._wrong += wrong != 0
            if ended not in (0, self._ranks):
                fail(f"{ended} of {self._ranks} ranks have ended a step, the others begin one")
            if ended:
                with self._changed:
                    self._ends.append(time.monotonic())
                    self._changed.notify()
            for connection in connections:
                connection.sendall(b"\1")

    def wrong(self):
        with self._changed:
            return self._wrong

    def ends(self):
        with self._changed:
            return list(self._ends)

    def await_steps(self, after, count):
        """The end of the count-th step that ended after a moment; None: not within the limit."""
        def found():
            return [end for end in self._ends[-1000:] if end > after]
        with self._changed:
            if not self._changed.wait_for(lambda: len(found()) >= count, LIMIT_S):
                return None
            return found()[count - 1]


def promotion(log, since):
    """Unix time of the first one at `since` or later; None: there is none."""
    with open(log, encoding="utf-8") as lines:
        for line in lines:
            match = PROMOTED.match(line)
            if match:
                at = calendar.timegm(time.strptime(match[1], "%Y-%m-%dT%H:%M:%S"))
                at += int(match[2]) / 1000
                if at >= since - 0.001:  # it has milliseconds
                    return at
    return None


def await_whole(cluster, begin, limit_s=LIMIT_S):
    """Seconds from `begin` until each shard has its second copy."""
    while True:
        status = cluster.status("death")
        took = time.monotonic() - begin
        if status["state"] != "running":
            fail(f"the job is {status['state']}: {status['reason']}")
        if not unprotected(status):
            return took
        if took > limit_s:
            fail(f"{unprotected(status)} shards have no second copy after {took:.0f} s: "
                 f"{status['reason']}")
        time.sleep(0.02)


def one_round(cluster, gate, victim, moment_s, options):
    """The round's times in seconds."""
    time.sleep(moment_s)
    at, begin = time.time(), time.monotonic()
    cluster.kill(victim)
    if gate.await_steps(begin, 1) is None:
        fail(f"no step after {victim} has died: {cluster.status('death')['reason']}")
    gate.await_steps(begin, 4)
    promoted = promotion(cluster.log_of("coordinator"), at)
    if promoted is None:
        fail("the coordinator's log has no word of a server that is lost")
    next_end = gate.await_steps(begin + promoted - at, 1)
    ends = [end for end in gate.ends() if end > begin - 60]
    last = max((end for end in ends if end <= begin), default=begin)
    around = [last] + [end for end in ends if end > begin]
    time.sleep(options.down_s)
    cluster.start_again(victim)
    whole_s = await_whole(cluster, time.monotonic())
    return {"killed": victim, "promoted_s": promoted - at, "next_step_s": next_end - begin,
            "longest_step_s": max(b - a for a, b in zip(around, around[1:])), "whole_s": whole_s,
            "bytes_per_s": options.bytes / whole_s}


def steps_of(gate, since):
    """Medians of steps and what lies between them, undisturbed."""
    ends = [end for end in gate.ends() if end > since]
    return statistics.median(b - a for a, b in zip(ends, ends[1:]))


def measure(cluster, gate, options):
    """Returns what a step takes that nobody disturbs, and the rounds."""
    draw = random.Random(options.seed)
    begin = time.monotonic()
    cluster.submit("death", JOB.format(strata=cluster.strata, elements=options.bytes // 4,
                                       gate=gate.address))
    if gate.await_steps(begin, 5) is None:
        fail(f"the job does not begin: {cluster.status('death')}")
    await_whole(cluster, begin)
    begin = time.monotonic()
    gate.await_steps(begin, 12)
    step_s = steps_of(gate, begin)
    rounds = []
    for number in range(options.rounds):
        victim = draw.choice(["s0", "s1"])
        gate.await_steps(time.monotonic(), 4)
        rounds.append(one_round(cluster, gate, victim, draw.uniform(0, 2 * step_s), options))
        if not options.json:
            one = rounds[-1]
            print(f"{number} {victim}: promoted after {one['promoted_s']:.3f} s, next step after "
                  f"{one['next_step_s']:.3f} s, longest step {one['longest_step_s']:.3f} s; second "
                  f"copies back in {one['whole_s']:.2f} s, "
                  f"{one['bytes_per_s'] / MIB:.0f} MiB/s", flush=True)
        if gate.wrong():
            fail("weights were wrong")
    return step_s, rounds


def show(result):
    def line(name, field, unit=1.0, digits=3):
        values = [one[field] / unit for one in result["rounds"]]
        return (f"{name}: median {statistics.median(values):.{digits}f} "
                f"({min(values):.{digits}f} to {max(values):.{digits}f})")
    print(f"{result['bytes'] / MIB:g} MiB, {len(result['rounds'])} deaths, {result['steps']} "
          f"steps, of {result['step_s']:.3f} s where nobody dies; no step lost, all weights right "
          f"in every step")
    print(line("promoted, s after the kill", "promoted_s"))
    print(line("next step, s after the kill", "next_step_s"),
          f"goals: median {result['goal_median_s']:g}, worst {result['goal_worst_s']:g}")
    print(line("longest step, s", "longest_step_s"))
    print(line("second copies back, s after the server's start", "whole_s", digits=2))
    print(line("at MiB/s", "bytes_per_s", MIB, digits=0))


def run(options):
    with (tempfile.TemporaryDirectory() as scratch,
          HostCluster(options.strata, scratch, options.inside) as cluster):
        cluster.add_coordinator()
        for number in range(2):
            cluster.add_server(f"s{number}", 1 + number, "--shards", str(options.shards))
            cluster.add_worker(f"w{number}", 3 + number, "--slots", "1")
        gate = Gate(2)
        step_s, rounds = measure(cluster, gate, options)
        steps = len(gate.ends())
        wrong = gate.wrong()
        cluster.call("cancel", "death")
    if wrong:
        fail("weights were wrong")
    result = {"bytes": options.bytes, "shards": options.shards, "rate": options.rate,
              "step_s": step_s, "steps": steps, "rounds": rounds, "verified": True,
              "goal_median_s": options.goal_median_s, "goal_worst_s": options.goal_worst_s,
              "cores": os.cpu_count()}
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        show(result)
    times = [one["next_step_s"] for one in rounds]
    if (statistics.median(times) > options.goal_median_s or max(times) > options.goal_worst_s):
        fail("a goal is missed")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata", type=os.path.abspath)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--bytes", type=int, default=100 * MIB)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--rate", default="10gbit")
    parser.add_argument("--down-s", type=float, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--goal-median-s", type=float, default=0.8)
    parser.add_argument("--goal-worst-s", type=float, default=2)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.inside:
        try:
            run(options)
        except KeyboardInterrupt:
            sys.exit(130)
    else:
        sys.exit(in_lab(5, options.rate, sys.argv[1:]))


if __name__ == "__main__":
    main()
