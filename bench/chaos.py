"""Blows at random on a cluster that trains one job: does it go on, and with the right weights?

usage: chaos.py STRATA [--minutes 10] [--seed 1] [--every 15] [--hard] [--restart]
                [--roles server,coordinator,node,rank,aggregator]
                [--blows kill,stop,part,drain,leave]
                [--consistency "sync {}"] [--servers 3] [--workers 3] [--standby] [--step-ms 25]
                [--logs DIR]

Hosts are network namespaces (netlab.sh), one for each daemon: a coordinator, servers, and workers
of which two train and the others are spare. The job trains LeNet-5 with `replicas: 1` and `replace`
and asks for more with --restart: checkpoints, and to be started again from them. With --standby
there are two coordinators, which keep what they know in an etcd that nothing is done to. First the
job trains undisturbed. Then, some --every seconds, drawn from the seed, one of these is done:

  kill   SIGKILL of a server, the coordinator, a worker with all that it has started (`node`), one
         rank or one aggregator; a daemon is started again by the script after a moment
  stop   SIGSTOP of the same for a while, at times for so long that it counts as lost; then SIGCONT
  part   for a while one host gets nothing of what another one sends it, and the other way round
  drain  `strata drain` of a server or of a worker that trains, and `--undo` after a while: shards
         go to other servers meanwhile, a node begins again on another worker
  leave  SIGTERM of the same, which were started with `--notice`: they end once all has gone
         elsewhere, and are started again

The next blow waits until the job is whole again: it makes steps, each shard has its second copy, no
daemon is away. With --hard it does not, so that two may fall within the time of one repair: then
the job may fail. A line for each blow says what it cost: the longest time without a step from the
blow until all was whole, or until the next blow with --hard. A step counts when the weights before
the next one are on all nodes.

The blows of a seed are always the same; when exactly they fall is not. Ends with status 0 only if
the job finished, the weights of each step were those of the undisturbed run bit for bit (where the
mode promises that: sync), and nothing runs on that the daemons have started; with 77, after one
line, where there are no namespaces. --logs keeps the logs of all daemons and the job's.
"""

import argparse
import os
import random
import signal
import statistics
import sys
import tempfile
import time

from blows import KINDS, NOTICE_S, ROLES, Blow, Striker, roles_of
from cluster import command_of, fail, keep_logs, weights
from host_cluster import HostCluster, in_lab, unprotected
from job_course import Course, differences

JOB = """
name: "{name}"
model {{ zoo: "lenet5" }}
data {{ synthetic {{ train_samples: 2048 test_samples: 64 }} batch_per_rank: 16 }}
optimizer {{ momentum_sgd {{ momentum: 0.9 weight_decay: 5e-4 }} }}
schedule {{ base_lr: 0.005 }}
ranks: 2
ranks_per_node: 1
epochs: 100000
max_steps: {steps}
chunk_elements: 1024
consistency {{ {consistency} }}
metrics {{ every_steps: 10 }}
debug {{ hash_weights: true {delays} }}
{more}
"""
NODES = 2
WHOLE_S = 90  # at most, from the end of a blow
LEAVE_S = 15  # what daemons have started may run on for so long


class Chaos:
    """A cluster, its job, and what is done to them."""

    def __init__(self, cluster, options):
        self.cluster, self.options = cluster, options
        self.striker = Striker(cluster, "chaos", NODES, options.hard)
        self.done = []  # (what, its cost in seconds)
        self.untold = None  # the newest blow, until its cost is known
        self.steps = 0  # of the job

    def start(self):
        workers_end = 1 + self.options.servers + self.options.workers
        if self.options.standby:
            self.cluster.add_coordinators(0, workers_end, workers_end + 1)
        else:
            self.cluster.add_coordinator()
        notice = ["--notice", str(NOTICE_S)] if "leave" in self.options.blows else []
        for number in range(self.options.servers):
            self.cluster.add_server(f"s{number}", 1 + number, "--shards", "2", *notice)
        for number in range(self.options.workers):
            self.cluster.add_worker(f"w{number}", 1 + self.options.servers + number, "--slots", "1",
                                    *notice)

    def job(self, name, steps, delay_ms, more):
        delays = " ".join(f"delays {{ node: {node} delay_ms: {delay_ms} }}"
                          for node in range(NODES) if delay_ms)
        return JOB.format(name=name, steps=steps, delays=delays, more=more,
                          consistency=self.options.consistency)

    def disturbed(self, steps):
        more = "replicas: 1\n"
        if set(self.options.roles) - {"server", "coordinator"}:
            more += "replace { per_hour: 1000 }\n"
        if self.options.restart:
            checkpoints = os.path.join(self.cluster.scratch, "checkpoints")
            more += (f'checkpoint {{ dir: "{checkpoints}" every_steps: 100 }}\n'
                     "restart { attempts: 1000 }\n")
        return self.job("chaos", steps, self.options.step_ms, more)

    # ---- who there is ----

    def coordinators(self):
        return [one for one in self.cluster.by_name.values() if one.role == "coordinator"]

    def status(self):
        """None: the coordinator is away."""
        if not any(one.runs for one in self.coordinators()):
            return None
        return self.cluster.status("chaos")

    def trouble(self, course, since):
        """Why the job is not whole; empty: it is."""
        away = [one.name for one in self.cluster.by_name.values() if not one.runs]
        if away:
            return f"{away[0]} is away"
        there = {one["name"] for one in self.cluster.nodes() if one["alive"]}
        there |= {one.name for one in self.coordinators()}
        lost = [name for name in self.cluster.by_name if name not in there]
        if lost:
            return f"{lost[0]} counts as lost"
        status = self.cluster.status("chaos")
        if status["state"] == "running":
            if unprotected(status):
                return f"{unprotected(status)} shards have no second copy"
            if len(course.ended(since)) < 4:
                return f"no steps: {'; '.join(wait['text'] for wait in status['waits'])}"
        return ""

    # ---- what is done ----

    def revive(self):
        """Starts again what has ended by itself; returns who that is."""
        ended = [one.name for one in self.cluster.by_name.values() if not one.runs]
        for name in ended:
            self.cluster.start_again(name)
        return ended

    def revive_deposed(self):
        """Starts coordinators again that ended as they lead no longer, which may take a moment."""
        for one in self.coordinators():
            if self.options.standby and not one.runs:
                self.cluster.start_again(one.name)

    def await_whole(self, course, since):
        """Returns why the job is not whole within the limit; empty: it is, or it has ended."""
        deadline = time.monotonic() + WHOLE_S
        while True:
            self.revive_deposed()
            trouble = self.trouble(course, since)
            if not trouble or time.monotonic() > deadline:
                return trouble
            time.sleep(0.1)

    def one_blow(self, blow, course, begin):
        """Returns what is wrong afterwards; empty: nothing."""
        since = time.monotonic()
        what = self.striker.strike(blow)
        over = time.monotonic()
        ended = self.revive()
        what += "".join(f"; {name} had ended and is started again" for name in ended)
        trouble = "" if self.options.hard else self.await_whole(course, over)
        self.untold = (blow, what, since, since - begin, trouble)
        if not self.options.hard:
            self.tell(course)
        return trouble

    def tell(self, course):
        """Says what the last blow was and has cost until now."""
        if not self.untold:
            return
        (blow, what, since, begin_s, trouble), self.untold = self.untold, None
        until = time.monotonic()
        cost = course.longest_without(since, until, self.steps)
        self.done.append((blow.title, cost))
        print(f"{begin_s:7.1f} s, step {course.steps():6}: {what}: {cost:.2f} s without a step"
              + ("" if self.options.hard else f", whole after {until - since:.1f} s")
              + (f"; NOT WHOLE: {trouble}" if trouble else ""), flush=True)


def undisturbed(chaos, steps):
    """Hashes by step of a run of the same job, and its weights' hash."""
    run_dir = chaos.cluster.submit("alone", chaos.job("alone", steps, 0, ""))
    course = Course(run_dir, NODES)
    chaos.cluster.await_end("alone")
    return course.end(), weights(run_dir)


def train(chaos, steps):
    """Deals blows while the job trains. Returns its end in words, its course and what was wrong."""
    options, wrong = chaos.options, []
    chaos.steps = steps
    run_dir = chaos.cluster.submit("chaos", chaos.disturbed(steps))
    course = Course(run_dir, NODES)
    begin = time.monotonic()
    trouble = chaos.await_whole(course, begin)
    if trouble:
        fail(f"the job does not begin: {trouble}")
    draw = random.Random(options.seed)
    while time.monotonic() - begin < options.minutes * 60:
        blow = Blow(draw, options)
        time.sleep(min(blow.pause_s, max(0, begin + options.minutes * 60 - time.monotonic())))
        chaos.tell(course)
        if chaos.status()["state"] != "running":
            break
        trouble = chaos.one_blow(blow, course, begin)
        if trouble:
            wrong.append(f"not whole {WHOLE_S} s after a blow: {trouble}")
            break
    limit_s = 60 + 2 * options.minutes * 60
    deadline = time.monotonic() + (10 if wrong else limit_s)
    while (status := chaos.status())["state"] in ("queued", "running"):
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    chaos.tell(course)
    if status["state"] != "finished":
        waits = "; ".join(wait["text"] for wait in status["waits"])
        wrong.append(f"the job is {status['state']}: {status['reason']} {waits}")
    return run_dir, course, time.monotonic() - begin, wrong


def report(chaos, course, steps, took, wrong, exact):
    costs = {}
    for what, cost in chaos.done:
        costs.setdefault(what, []).append(cost)
    print(f"seed {chaos.options.seed}: {len(chaos.done)} blows, {course.steps()} of {steps} steps "
          f"in {took:.0f} s")
    for what in sorted(costs):
        print(f"  {what}: {len(costs[what])} times, {statistics.median(costs[what]):.2f} s without "
              f"a step (median), at most {max(costs[what]):.2f}")
    print(f"  in all {sum(cost for _, cost in chaos.done):.1f} s without a step")
    print("WRONG: " + "; ".join(wrong) if wrong else
          "the job finished" + (" with the weights of the undisturbed run" if exact else "")
          + ", nothing is left behind", flush=True)


def await_nothing(cluster):
    """Returns what is wrong: what runs on though all daemons have ended."""
    deadline = time.monotonic() + LEAVE_S
    while (left := cluster.left_over()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return [f"left behind: {pid} {' '.join(command_of(pid))}" for pid in left]


def run(options, scratch):
    exact = options.consistency.split()[0] == "sync"
    with HostCluster(options.strata, scratch, options.inside) as cluster:
        chaos = Chaos(cluster, options)
        chaos.start()
        steps = options.steps or int(options.minutes * 60 * 1000 / options.step_ms * 0.5)
        expected, final = undisturbed(chaos, steps)
        run_dir, course, took, wrong = train(chaos, steps)
        hashes = course.end()
        if exact:
            wrong += differences(hashes, expected, final=not wrong)
            if not wrong and weights(run_dir) != final:
                wrong.append("the model that was saved is another one than undisturbed")
    wrong += await_nothing(cluster)
    report(chaos, course, steps, took, wrong, exact)
    return wrong


def inside(options):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as scratch:
        try:
            wrong = run(options, scratch)
        except KeyboardInterrupt:
            sys.exit(130)
        finally:
            if options.logs:
                keep_logs(scratch, options.logs)
    if wrong:
        sys.exit(1)


def words(allowed):
    def parse(text):
        chosen = text.split(",")
        for word in chosen:
            if word not in allowed:
                raise argparse.ArgumentTypeError(f"{word}: not one of {', '.join(allowed)}")
        return chosen
    return parse


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata", type=os.path.abspath)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=float, default=15)
    parser.add_argument("--roles", type=words(ROLES), default=list(ROLES))
    parser.add_argument("--blows", type=words(KINDS))
    parser.add_argument("--consistency", default="sync {}")
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--standby", action="store_true")
    parser.add_argument("--step-ms", type=int, default=25)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--hard", action="store_true")
    parser.add_argument("--restart", action="store_true")
    parser.add_argument("--logs", type=os.path.abspath)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.blows:
        options.blows = [kind for kind in KINDS if roles_of(kind, options.roles)]
    for kind in options.blows:
        if not roles_of(kind, options.roles):
            fail(f"--blows {kind}: befalls none of --roles {','.join(options.roles)}")
    if options.servers < 2 or options.workers < NODES:
        fail(f"at least 2 servers and {NODES} workers")
    if options.inside:
        inside(options)
    else:
        hosts = 1 + options.servers + options.workers + (2 if options.standby else 0)
        sys.exit(in_lab(hosts, "10gbit", sys.argv[1:]))


if __name__ == "__main__":
    main()
