"""`strata compare --cluster`: runs in virtual time, what they make and what is refused."""

import json
import os
import sys
import unittest

sys.path.insert(0, "tests/e2e/testing")
from campaign_case import CampaignCase, read  # noqa: E402

CLUSTERS = os.path.abspath("examples/clusters")
JOB = """
name: "compared"
model { zoo: "mlp" }
data { synthetic { train_samples: 1024 test_samples: 128 } batch_per_rank: 8 }
schedule { base_lr: 0.002 }
ranks: 16
epochs: 1
"""


class CompareVirtualTest(CampaignCase):
    JOB = JOB

    def args(self, out, modes, *more):
        return ["compare", self.job, "--modes", modes, "--seeds", "2", "--out", self.path(out),
                *more]

    def compare(self, out, modes, *more):
        return self.run_strata(self.args(out, modes, *more))

    def runs(self, out):
        folder = os.path.join(self.path(out), "runs")
        return {name: read(os.path.join(folder, name)) for name in sorted(os.listdir(folder))}

    def refused(self, *more, modes="sync"):
        err = self.refuse(self.args("refused", modes, *more))
        self.assertFalse(os.path.exists(self.path("refused")))
        return err

    def test_two_comparisons_are_the_same_to_the_last_digit(self):
        cluster = os.path.join(CLUSTERS, "two_site_wan.textproto")
        modes = "sync,lazy:diloco(4),async,ring"
        for out in ("one", "two"):
            code, text, err = self.compare(out, modes, "--cluster", cluster)
            self.assertEqual((code, err), (0, ""), text)
            self.assertIn("virtual time, 2 sites, 100 Mbit/s and 40 ms between them: 8 nodes, 16 "
                          "slots, 2 servers x 2 shards", text)
        runs = self.runs("one")
        self.assertEqual(len(runs), 8)
        self.assertEqual(runs, self.runs("two"))
        # All are there already.
        code, text, err = self.compare("two", modes, "--cluster", cluster)
        self.assertEqual((code, err), (0, ""), text)
        self.assertIn("8 of them there already", text)
        self.assertTrue(os.path.exists(os.path.join(self.path("one"), "report", "index.html")))
        self.assertEqual(read(os.path.join(self.path("one"), "report.json")),
                         read(os.path.join(self.path("two"), "report.json")))
        sync = json.loads(runs["sync-seed1.json"])
        diloco = json.loads(runs["lazy_diloco_4-seed1.json"])
        self.assertEqual(sync["samples"], diloco["samples"])
        # Each step crosses 40 ms twice; with local steps every fourth does.
        self.assertGreater(sync["trained_s"], 7 * 0.110)
        self.assertLess(diloco["trained_s"], 0.6 * sync["trained_s"])

    def test_what_cannot_be_is_refused_in_one_line_before_anything_runs(self):
        straggler = os.path.join(CLUSTERS, "one_straggler.textproto")
        self.assertIn("mode sync: ranks: needs 16 slots", self.refused("--cluster", straggler))
        self.assertIn("--nodes excludes --cluster",
                      self.refused("--cluster", straggler, "--nodes", "2"))
        self.assertIn("--coordinator excludes --cluster",
                      self.refused("--cluster", straggler, "--coordinator", "127.0.0.1:1"))
        self.assertIn("gone.textproto", self.refused("--cluster", self.path("gone.textproto")))
        wrong = self.path("wrong.textproto", "nodes { ranks: 16 compute { constant_ms: -1 } }")
        self.assertIn("wrong.textproto: nodes[0].compute.constant_ms: -1 is not a finite number > "
                      "0", self.refused("--cluster", wrong))
        typo = self.path("typo.textproto", "nodes {\n  rank: 8\n}")
        self.assertIn('typo.textproto:2:7: Message type "strata.proto.NodeGroup" has no field '
                      'named "rank".', self.refused("--cluster", typo))
        alone = self.path("alone.textproto", "nodes { ranks: 16 compute { constant_ms: 1 } }")
        self.assertIn("mode sync: servers: the cluster has none",
                      self.refused("--cluster", alone))
        self.assertIn("mode ring: exchange: RING needs two nodes",
                      self.refused("--cluster", alone, modes="ring"))

    def test_tuning_gives_every_mode_the_same_points_and_its_best(self):
        cluster = os.path.join(CLUSTERS, "two_site_wan.textproto")
        ask = ("--tune", "schedule.base_lr=0.00001,0.01", "--cluster", cluster)
        code, text, err = self.compare("out", "sync,async", *ask)
        self.assertEqual((code, err), (0, ""), text)
        runs = self.runs("out")
        self.assertEqual(len(runs), 2 * 2 + 2 * 2)
        tried = {name: json.loads(run) for name, run in runs.items()
                 if name.endswith("-seed1.json")}
        self.assertEqual(len(tried), 4)
        self.assertIn("tuning: 4 runs\n", text)
        self.assertIn("each mode was given the same 2 points with seed 1", text)
        for mode in ("sync", "async"):
            accuracy = {rate: tried[f"{mode}_schedule.base_lr_{rate}-seed1.json"]["measurements"]
                              [-1]["accuracy"] for rate in ("0.00001", "0.01")}
            best = max(accuracy, key=accuracy.get)
            for seed in (2, 3):
                self.assertIn(f"{mode}_schedule.base_lr_{best}-seed{seed}.json", runs)
            self.assertIn(f"{mode} schedule.base_lr={best} ({100 * accuracy[best]:.2f} %)", text)
        report = json.loads(read(os.path.join(self.path("out"), "report.json")))
        self.assertTrue([rule for rule in report["rules"] if rule.startswith("Tuned: ")])
        code, text, err = self.compare("out", "sync,async", *ask)
        self.assertEqual((code, err), (0, ""), text)
        self.assertEqual(self.runs("out"), runs)
        code, _, err = self.compare("out", "sync,async", "--cluster", cluster)
        self.assertEqual(code, 2)
        self.assertIn("holds another campaign", err)
        self.assertIn("has no field named", self.refused("--tune", "lr=1", "--cluster", cluster))
        for value in ("nan", "inf", "0"):
            self.assertIn(f"--margin: Value {value} not in range",
                          self.refused("--cluster", cluster, "--margin", value))
            self.assertIn("--target: an accuracy is above 0 and at most 1",
                          self.refused("--cluster", cluster, "--target-accuracy", value))

    def test_another_cluster_is_another_comparison(self):
        text = ("nodes { ranks: 16 compute { constant_ms: %d } } "
                "servers { on_nodes: true }")
        quick = self.path("quick.textproto", text % 1)
        self.assertEqual(self.compare("out", "sync", "--cluster", quick)[0], 0)
        before = self.runs("out")
        slow = self.path("quick.textproto", text % 2)
        code, _, err = self.compare("out", "sync", "--cluster", slow)
        self.assertEqual(code, 2)
        self.assertIn("holds another campaign", err)
        self.assertEqual(self.runs("out"), before)


if __name__ == "__main__":
    unittest.main()
