"""Blows are drawn alike from a seed, befall whom they may, and say what came of them."""

import argparse
import os
import random
import subprocess
import sys
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import blows  # noqa: E402  (beside this file)
from host_cluster import Daemon  # noqa: E402


def options(**changes):
    return argparse.Namespace(**{"every": 3.0, "blows": list(blows.KINDS),
                                 "roles": list(blows.ROLES), **changes})


def drawn(seed, count, **changes):
    draw, given = random.Random(seed), options(**changes)
    return [blows.Blow(draw, given) for _ in range(count)]


def blow(kind, role, **changes):
    one = drawn(1, 1)[0]
    one.kind, one.role, one.which, one.again_s, one.lasts_s = kind, role, 0, 0, 0
    vars(one).update(changes)
    return one


def status(nodes, shards):
    return {"nodes": [{"node": node, "daemon": name} for node, name in enumerate(nodes)],
            "shards": [{"daemon": first, "backup": second} for first, second in shards]}


# A daemon that ends in order at SIGTERM, in disorder, or not at all.
ENDS = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit({status}))"
STAYS = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
WAITS = "; print('ready', flush=True); signal.pause()"


class FakeCluster:
    """Answers with one status after the other, and keeps what it is told."""

    runs = "/nowhere"

    def __init__(self, *statuses, refusal=""):
        self.statuses, self.refused, self.told = list(statuses), refusal, []
        self.by_name = {}

    def add(self, name, role, program=None):
        self.by_name[name] = one = Daemon(name, role, 0, ())
        if program:
            one.process = subprocess.Popen([sys.executable, "-c", program + WAITS],
                                           stdout=subprocess.PIPE)
            one.process.stdout.readline()
        return one.process

    def status(self, _):
        return self.statuses[0] if len(self.statuses) == 1 else self.statuses.pop(0)

    def refusal(self, *words):
        self.told.append(words)
        return self.refused

    def call(self, *words):
        self.told.append(words)

    def start_again(self, name):
        self.told.append(("start", name, self.by_name[name].runs))


class DrawnBlows(unittest.TestCase):
    def test_a_seed_has_the_same_blows_each_time(self):
        self.assertEqual([vars(one) for one in drawn(7, 40)], [vars(one) for one in drawn(7, 40)])

    def test_without_drain_and_leave_a_seed_has_the_blows_that_results_tell_of(self):
        first = [(one.kind, one.role, one.which % 6, round(one.lasts_s, 3))
                 for one in drawn(11, 4, blows=["kill", "stop", "part"])]
        self.assertEqual(first, [("part", "rank", 1, 1.682), ("stop", "coordinator", 2, 1.37),
                                 ("part", "server", 1, 6.09), ("part", "coordinator", 5, 7.372)])

    def test_servers_and_workers_alone_are_drained_and_leave(self):
        befallen = {}
        for one in drawn(1, 400):
            befallen.setdefault(one.kind, set()).add(one.role)
        self.assertEqual(set(befallen), set(blows.KINDS))
        self.assertEqual(befallen["drain"], {"server", "node"})
        self.assertEqual(befallen["leave"], {"server", "node"})
        self.assertEqual(befallen["kill"], set(blows.ROLES))
        self.assertEqual(blows.roles_of("drain", ["node", "rank"]), ["node"])

    def test_blows_are_counted_by_kind_and_role_but_partitions(self):
        titles = [blow(kind, "server").title for kind in blows.KINDS]
        self.assertEqual(titles, ["kill server", "stop server", "part", "drain server",
                                  "leave server"])


class Drained(unittest.TestCase):
    def deal(self, cluster, role, hard=False):
        return blows.Striker(cluster, "job", 2, hard).strike(blow("drain", role))

    def test_a_server_is_back_in_service_afterwards_and_the_copies_that_have_moved_are_told(self):
        before = status(["w0"], [("s0", "s1"), ("s1", "s0"), ("s0", "s2")])
        cluster = FakeCluster(before, status(["w0"], [("s2", "s1"), ("s1", "s0"), ("s1", "s2")]))
        cluster.add("s0", "server")
        self.assertEqual(self.deal(cluster, "server"),
                         "drain s0 for 0.0 s: 2 of its 3 copies of shards have moved")
        self.assertEqual(cluster.told, [("drain", "s0"), ("drain", "s0", "--undo")])

    def test_a_worker_says_where_its_node_has_begun_again_or_that_it_stays(self):
        before = status(["w1", "w2"], [])
        self.assertEqual(self.deal(FakeCluster(before, before, status(["w3", "w2"], [])), "node"),
                         "drain w1 for 0.0 s: its node 0 has begun again on w3")
        self.assertEqual(self.deal(FakeCluster(before), "node"),
                         "drain w1 for 0.0 s: its node 0 stays")

    def test_a_refusal_is_told_where_not_all_need_be_whole_and_ends_the_program_elsewhere(self):
        for hard in (True, False):
            cluster = FakeCluster(status([], []), refusal="no other server")
            cluster.add("s0", "server")
            if hard:
                self.assertEqual(self.deal(cluster, "server", hard),
                                 "drain s0: refused: no other server")
            else:
                with self.assertRaisesRegex(SystemExit, "drain s0: no other server"):
                    self.deal(cluster, "server", hard)
            self.assertEqual(cluster.told, [("drain", "s0")])


class Leaving(unittest.TestCase):
    def deal(self, program):
        before = status(["w0", "w1"], [])
        cluster = FakeCluster(before, before, status(["w2", "w1"], []))
        process = cluster.add("w0", "worker", program)
        try:
            return blows.Striker(cluster, "job", 2, False).strike(blow("leave", "node")), cluster
        finally:
            process.kill()
            process.communicate()

    def test_a_daemon_is_started_again_once_it_has_ended(self):
        said, cluster = self.deal(ENDS.format(status=0))
        self.assertRegex(said, r"^w0 leaves, ended after \d+\.\d s: its node 0 has begun again on "
                               r"w2; started again after 0.0 s$")
        self.assertEqual(cluster.told, [("start", "w0", False)])

    def test_one_that_ends_in_disorder_or_outlasts_its_notice_ends_the_program(self):
        with self.assertRaisesRegex(SystemExit, "w0 was to leave, and ended with status 3"):
            self.deal(ENDS.format(status=3))
        with mock.patch.multiple(blows, NOTICE_S=0, END_S=0.2):
            with self.assertRaisesRegex(SystemExit, "w0 runs 0.2 s after SIGTERM"):
                self.deal(STAYS)


if __name__ == "__main__":
    unittest.main()
