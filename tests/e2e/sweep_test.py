"""`strata sweep` on real processes and in virtual time: what it makes, keeps and refuses."""

import json
import os
import re
import sys
import unittest

sys.path.insert(0, "tests/e2e/testing")
from campaign_case import CampaignCase, read  # noqa: E402

# 32 steps.
JOB = """
name: "swept"
model { zoo: "mlp" }
data { synthetic { train_samples: 512 test_samples: 128 } batch_per_rank: 8 }
schedule { base_lr: 0.002 }
ranks: 2
epochs: 1
"""
CLUSTER = "nodes { ranks: 2 compute { constant_ms: 1 } } servers { on_nodes: true }"
# From what learns little to what learns well.
RATES = "schedule.base_lr=0.00001,0.0001,0.001,0.01"


class SweepTest(CampaignCase):
    JOB = JOB

    def virtual(self):
        return ["--cluster", self.path("cluster.textproto", CLUSTER)]

    def args(self, vary, *more):
        varied = [word for each in vary for word in ("--vary", each)]
        return ["sweep", self.job, *varied, "--out", self.out, *more]

    def finish(self, vary, *more):
        return self.succeed(self.args(vary, *more))

    def figures(self):
        return json.loads(read(os.path.join(self.out, "sweep.json")))

    def test_several_at_once_and_goes_on_where_it_was_killed(self):
        ask = (["schedule.base_lr=0.001,0.01", "data.batch_per_rank=8,16"], "--mode", "async",
               "--slots", "6", "--set", "debug.delays={node: 0 delay_ms: 20}")
        code, err = self.interrupt(self.args(*ask))
        self.assertEqual(code, 1)
        self.assertRegex(err, r"^strata: error: stopped; [1-3] of 4 runs are in .*/out, the same "
                              r"command goes on with the others\n$")
        before = self.records()
        self.assertIn(len(before), (1, 2, 3))
        so_far = self.figures()
        self.assertRegex(so_far["under_way"], r"^[1-3] of 4 runs are made")
        self.assertIn(len(so_far["points"]), (1, 2, 3))
        self.assertIn("Best so far: ", so_far["verdict"][0])
        out = self.finish(*ask)
        self.assertIn(f"4 points x 1 seed in 1 rung, {len(before)} runs of the first there "
                      "already, 3 at once; on ", out)
        after = self.records()
        self.assertEqual(sorted(after), [
            f"schedule.base_lr_{rate}_data.batch_per_rank_{batch}-seed1.json"
            for rate in ("0.001", "0.01") for batch in (16, 8)])
        for name, made in before.items():
            self.assertEqual(after[name], made, name)
        for name, (record, _) in after.items():
            self.assertIn("async", record["job"]["consistency"])
            self.assertEqual(record["steps"], "16" if "rank_16" in name else "32")
            self.assertEqual(len(record["measurements"]), 1)
        self.check_figures(after)
        # Nothing is missing: no cluster is started.
        self.assertNotIn("[", self.finish(*ask).split("\n\n")[0])
        self.assertEqual(self.records(), after)

    def check_figures(self, records):
        figures = self.figures()
        self.assertEqual(figures["under_way"], "")
        self.assertEqual([each["field"] for each in figures["vary"]],
                         ["schedule.base_lr", "data.batch_per_rank"])
        accuracies = [point["accuracy"]["mean"] for point in figures["points"]]
        self.assertEqual(accuracies, sorted(accuracies, reverse=True))
        for point in figures["points"]:
            rate, batch = point["values"]
            name = f"schedule.base_lr_{rate}_data.batch_per_rank_{batch}-seed1.json"
            measured = records[name][0]["measurements"][-1]["accuracy"]
            self.assertEqual(point["accuracy"]["mean"], measured)
            self.assertEqual(point["steps"], int(records[name][0]["steps"]))
        self.assertEqual(figures["samples"], figures["grid_samples"])
        self.assertEqual(figures["samples"], 4 * 512)

    def test_halving_gives_the_best_the_whole_budget_and_says_what_it_saved(self):
        out = self.finish([RATES], "--halving", "2", "--seeds", "2", *self.virtual())
        self.assertIn("rung 1 of 3: 4 points, 1/4 of the steps\n", out)
        self.assertIn("rung 3 of 3: 1 point, 1/1 of the steps\n", out)
        self.assertEqual(out.count("report, renewed after each run: "), 1)
        # 4 x 8 + 2 x 16 + 1 x 32 steps instead of 4 x 32, of 16 samples, two seeds.
        self.assertIn("trained on 3.07 k samples in 3 rungs, each from the start; the whole grid "
                      "takes 4.10 k: saved 25.0 %.", out)
        records = self.records()
        self.assertEqual(len(records), 2 * (4 + 2 + 1))

        def mean(rate, steps):
            names = [f"schedule.base_lr_{rate}{steps}-seed{seed}.json" for seed in (1, 2)]
            return sum(records[name][0]["measurements"][-1]["accuracy"] for name in names) / 2

        first = {rate: mean(rate, "_max_steps_8") for rate in RATES.split("=")[1].split(",")}
        second = {rate for rate in first
                  if f"schedule.base_lr_{rate}_max_steps_16-seed1.json" in records}
        self.assertEqual(len(second), 2)
        self.assertGreaterEqual(min(first[rate] for rate in second),
                                max(first[rate] for rate in first if rate not in second))
        last = [rate for rate in first if f"schedule.base_lr_{rate}-seed1.json" in records]
        self.assertEqual(last, [self.figures()["points"][0]["values"][0]])
        self.assertEqual(mean(last[0], "_max_steps_16"),
                         max(mean(rate, "_max_steps_16") for rate in second))
        self.assertEqual([point["steps"] for point in self.figures()["points"]], [32, 16, 8, 8])
        # The whole grid makes but those that have not had the whole budget.
        before = len(records)
        self.finish([RATES], "--seeds", "2", *self.virtual())
        self.assertEqual(len(self.records()) - before, 2 * 3)
        self.assertEqual(len(self.figures()["points"]), 4)

    def test_a_point_that_diverges_is_a_result_and_comes_last(self):
        out = self.finish(["debug.nan_step=2,3,1000"], "--set", "debug.nan_rank=1", *self.virtual())
        self.assertIn("failed: ", out)
        points = self.figures()["points"]
        self.assertEqual([point["values"] for point in points], [["1000"], ["2"], ["3"]])
        self.assertIsNone(points[1]["accuracy"])
        self.assertIn("loss is NaN at step 2", points[1]["runs"][0]["failure"])
        self.assertTrue(re.search(r"\n2 +- +32 +- +1, 1 failed\n", out), out)

    def test_what_cannot_be_swept_is_refused_in_one_line_before_anything_runs(self):
        for why, vary, more in [
            ("is not FIELD=V1,V2,...", ["ranks"], []),
            ('"ranks=": has no values', ["ranks="], []),
            ("ranks: is varied twice", ["ranks=1", "ranks=2"], []),
            ('Schedule has no field named "lr"', ["schedule.lr=1"], []),
            ("point ranks=3: ranks: 3 do not fit", ["ranks=1,3"], ["--slots", "2"]),
            ("point schedule.base_lr=-1: ", ["schedule.base_lr=-1"], []),
            ("halving: 4 needs as many points at least, there are 2", ["ranks=1,2"],
             ["--halving", "4"]),
            ("--halving: Value 1 not in range", ["ranks=1,2"], ["--halving", "1"]),
            ("--vary is required", [], []),
            ("run_dir: x", ["ranks=1,2"], ["--set", "run_dir=x"]),
            ("--metric loss: a model of the zoo reports test_accuracy and test_loss alone",
             ["ranks=1,2"], ["--metric", "loss"]),
        ]:
            with self.subTest(why):
                self.assertIn(why, self.refuse(self.args(vary, *more)))
                self.assertFalse(os.path.exists(self.out))

    def test_a_directory_of_another_sweep_or_comparison_is_refused(self):
        self.finish(["ranks=1,2"], *self.virtual())
        before = self.records()
        other = self.refuse(self.args(["ranks=1,2"], "--mode", "async", *self.virtual()))
        self.assertIn("holds another campaign", other)
        comparison = self.refuse(["compare", self.job, "--modes", "sync", "--out", self.out,
                                  *self.virtual()])
        self.assertIn(self.out + ": holds a sweep, not a comparison", comparison)
        self.assertEqual(self.records(), before)


if __name__ == "__main__":
    unittest.main()
