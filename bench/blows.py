"""The faults that chaos.py causes in a cluster that trains a job: one at a time, from a seed."""

import contextlib
import os
import signal
import subprocess
import time

from cluster import children_of, fail, logs_of_node, writing_to

ROLES = ("server", "coordinator", "node", "rank", "aggregator")
KINDS = ("kill", "stop", "part", "drain", "leave")
# Kinds that hit only daemons whose work can move elsewhere.
MOVING = {"drain": ("server", "node"), "leave": ("server", "node")}
LOST_S = 5  # of silence: the coordinator's default
NOTICE_S = 30  # of daemons that leave
END_S = 15  # after its notice a daemon has ended


def roles_of(kind, roles):
    """Returns those of `roles` that a kind of blow may hit."""
    return [role for role in roles if role in MOVING.get(kind, ROLES)]


class Blow:
    """A blow as drawn, whatever the cluster then does."""

    def __init__(self, draw, options):
        self.pause_s = draw.uniform(0.5, 1.5) * options.every
        self.kind = draw.choice(options.blows)
        self.role = draw.choice(roles_of(self.kind, options.roles))
        self.which, self.other = draw.randrange(1 << 30), draw.randrange(1 << 30)
        self.again_s = draw.uniform(0.2, 3)  # until what has ended is started again
        # Half of them are over before anybody is lost.
        self.lasts_s = draw.choice([draw.uniform(0.3, 3), LOST_S + draw.uniform(1, 4)])

    @property
    def title(self):
        """The name under which such blows are counted."""
        return self.kind if self.kind == "part" else f"{self.kind} {self.role}"


class Striker:
    """Deals blows to a HostCluster whose job has this name and so many nodes of one rank. What a
    blow takes away it gives back before it returns. `hard`: not all is whole at the time, so that
    a drain may be refused.
    """

    def __init__(self, cluster, job, nodes, hard):
        self.cluster, self.job, self.nodes, self.hard = cluster, job, nodes, hard

    def strike(self, blow):
        """Returns in words what it was, and what came of it at once."""
        if blow.kind == "part":
            return self.part(blow)
        targets = self.targets(blow.role)
        if not targets:
            return f"{blow.kind} {blow.role}: there is none"
        target = targets[blow.which % len(targets)]
        name = target if isinstance(target, str) else f"{blow.role} {target}"
        return getattr(self, blow.kind)(blow, target, name)

    # ---- who there is ----

    def processes(self, role):
        """Ids of the job's ranks or aggregators."""
        number = {"aggregator": 0, "rank": 1}[role]
        logs = [logs_of_node(os.path.join(self.cluster.runs, self.job), node)[number]
                for node in range(self.nodes)]
        return sorted(writing_to(logs))

    def targets(self, role):
        """Names of daemons, or ids of processes."""
        if role in ("rank", "aggregator"):
            return self.processes(role)
        if role == "node":
            return sorted({node["daemon"] for node in self.cluster.status(self.job)["nodes"]})
        return sorted(one.name for one in self.cluster.by_name.values() if one.role == role)

    def all_of(self, target):
        """A daemon's process with all that it has started, or the one process."""
        if isinstance(target, int):
            return [target]
        pids = [self.cluster.by_name[target].process.pid]
        for pid in pids:
            pids += children_of(pid)
        return pids

    # ---- what is done ----

    def kill(self, blow, target, name):
        send(signal.SIGKILL, self.all_of(target))
        if isinstance(target, int):
            return f"kill {name}"
        self.cluster.by_name[target].process.wait()
        self.start_again(blow, target)
        return f"kill {name}, started again after {blow.again_s:.1f} s"

    def stop(self, blow, target, name):
        stopped = self.all_of(target)
        try:
            send(signal.SIGSTOP, stopped)
            time.sleep(blow.lasts_s)
        finally:
            send(signal.SIGCONT, stopped)
        return f"stop {name} for {blow.lasts_s:.1f} s"

    def part(self, blow):
        daemons = sorted(self.cluster.by_name.values(), key=lambda one: one.name)
        one = daemons[blow.which % len(daemons)]
        others = [other for other in daemons if other is not one]
        other = others[blow.other % len(others)]
        self.cluster.part(one.host, other.host)
        try:
            time.sleep(blow.lasts_s)
        finally:
            self.cluster.join(one.host, other.host)
        return f"part {one.name} from {other.name} for {blow.lasts_s:.1f} s"

    def drain(self, blow, target, name):
        """Out of service for a while, whether or not all has gone elsewhere by then."""
        before = self.cluster.status(self.job)
        refusal = self.cluster.refusal("drain", target)
        if refusal and not self.hard:
            fail(f"drain {name}: {refusal}")
        if refusal:
            return f"drain {name}: refused: {refusal}"
        time.sleep(blow.lasts_s)
        what = moved(target, before, self.cluster.status(self.job))
        self.cluster.call("drain", target, "--undo")
        return f"drain {name} for {blow.lasts_s:.1f} s: {what}"

    def leave(self, blow, target, name):
        """SIGTERM of a daemon with a notice: it ends once all has gone elsewhere."""
        process = self.cluster.by_name[target].process
        before, begin = self.cluster.status(self.job), time.monotonic()
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(timeout=NOTICE_S + END_S)
        except subprocess.TimeoutExpired:
            fail(f"{name} runs {NOTICE_S + END_S} s after SIGTERM, with a notice of {NOTICE_S} s")
        took = time.monotonic() - begin
        if status != 0:
            fail(f"{name} was to leave, and ended with status {status}")
        what = moved(target, before, self.cluster.status(self.job))
        self.start_again(blow, target)
        return (f"{name} leaves, ended after {took:.1f} s: {what}; started again after "
                f"{blow.again_s:.1f} s")

    def start_again(self, blow, target):
        time.sleep(blow.again_s)
        self.cluster.start_again(target)


def moved(daemon, before, after):
    """Returns what became of a daemon's part of a job, from the job's status before and after."""
    nodes = {node["node"]: node["daemon"] for node in after["nodes"]}
    parts = []
    for node in before["nodes"]:
        if node["daemon"] != daemon:
            continue
        place = nodes.get(node["node"])
        parts.append(f"its node {node['node']} "
                     + ("stays" if place == daemon else f"has begun again on {place}"))
    had, has = copies_on(daemon, before), copies_on(daemon, after)
    if had:
        parts.append(f"{max(had - has, 0)} of its {had} copies of shards have moved")
    return "; ".join(parts) or "it had nothing of the job"


def copies_on(daemon, status):
    return sum(daemon in (shard["daemon"], shard["backup"]) for shard in status["shards"])


def send(which, pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, which)
