"""`strata compare` and `strata sweep` of a program of one's own, judged by what it reports."""

import json
import os
import shutil
import sys
import unittest

sys.path.insert(0, "tests/e2e/testing")
from campaign_case import CampaignCase, read  # noqa: E402

BY_PERPLEXITY = ("--metric", "perplexity", "--goal", "min")


class CompareProgramTest(CampaignCase):
    def setUp(self):
        super().setUp()
        self.program = self.path("values_rank")
        shutil.copy("tests/e2e/testing/values_rank", self.program)

    def compare(self, *more, steps=30):
        return ["compare", self.program, "-n", "2", "--nodes", "2", "--out", self.out, *more,
                "--set", "optimizer.sgd={}", "--set", "schedule.base_lr=0.1", "--", str(steps), "5",
                "{launch}"]

    def report(self):
        return json.loads(read(os.path.join(self.out, "report.json")))

    def test_modes_are_judged_by_a_value_that_is_to_be_small(self):
        out = self.succeed(self.compare("--modes", "sync,ring", "--seeds", "2", *BY_PERPLEXITY))
        self.assertIn("2 modes x 2 seeds: 4 runs, 0 of them there already; on ", out)
        self.assertRegex(out, r"\[1/4\] sync, seed 1: perplexity 10\.\d+ after [0-9.]+ s\n")
        self.assertRegex(out, r"mode +perplexity +difference +at equal updates +time to 1")
        report = self.report()
        self.assertEqual(report["metric"], {"name": "perplexity", "words": "perplexity",
                                            "goal": "min", "format": "plain"})
        # After 30 steps of (1 - w) / 10: 20 - 10 (1 - 0.9^30) = 10.42, in both modes and seeds.
        for mode in report["modes"]:
            self.assertAlmostEqual(mode["final_accuracy"]["mean"], 10 + 10 * 0.9 ** 30, delta=0.01)
            self.assertEqual(mode["reached"], 2)
            for run in mode["runs"]:
                self.assertEqual((run["steps"], run["samples"]), (30, 2 * 30 * 8))
                self.assertGreater(run["trained_s"], 30 * 0.005)
                values = [y for _, y in run["accuracy"]["seconds"]]
                self.assertEqual(len(values), 6)
                self.assertEqual(values, sorted(values, reverse=True))
        self.assertEqual(report["modes"][1]["comparison"]["accuracy_finding"], "equal")
        self.assertIn("equal to sync's within 0.0521", report["modes"][1]["verdict"])
        self.assertIn("Less perplexity is better.", report["rules"])
        page = read(os.path.join(self.out, "report", "index.html"))
        self.assertIn('"words":"perplexity"', page)
        self.assertIn("perplexity", read(os.path.join(self.out, "report",
                                                      "accuracy_by_seconds.svg")))
        # The same runs by another value, of which more is better.
        out = self.succeed(self.compare("--modes", "sync,ring", "--seeds", "2", "--metric",
                                        "twice"))
        self.assertIn("4 of them there already", out)
        self.assertAlmostEqual(self.report()["modes"][0]["final_accuracy"]["mean"],
                               2 * (1 - 0.9 ** 30), delta=0.01)

    def test_a_value_that_is_not_reported_is_named(self):
        code, out, err = self.run_strata(self.compare("--modes", "sync", "--seeds", "1"))
        self.assertEqual(code, 1, out)
        self.assertEqual(err, "strata: error: no run is of use: no test_accuracy was reported, but "
                              "perplexity, twice: --metric NAME takes one of those\n")

    def test_no_other_run_is_made_where_the_first_does_not_report_the_value(self):
        ask = ("--seeds", "2", "--metric", "loss")
        for _ in range(2):  # the second time by the run that is there
            code, out, err = self.run_strata(self.compare("--modes", "sync,ring", *ask))
            self.assertEqual(code, 1, out)
            self.assertRegex(err, r"^strata: error: no run so far is of use: loss is that of "
                                  r"training steps, by which no run is judged; reported were "
                                  r"perplexity, twice: --metric NAME takes one of those; 1 of 4 "
                                  r"runs are in .*/out, the same command goes on with the others")
            self.assertEqual(len(self.records()), 1)

    def test_a_sweep_whose_runs_all_fail_says_why(self):
        script = self.path("train.py", "raise ValueError('no data')")
        code, out, err = self.run_strata(["sweep", script, "--out", self.out, "--vary",
                                          "program.args=--lr=0.1,--lr=0.2"])
        self.assertEqual(code, 1, out)
        self.assertIn("No point has finished.", out)
        self.assertRegex(err, r"^strata: error: no run is of use: rank 0 \(.*\): exited with "
                              r"status 1: ValueError: no data\n$")

    def test_a_straggler_takes_so_many_times_its_computation(self):
        self.succeed(self.compare("--modes", "sync", "--seeds", "1", *BY_PERPLEXITY,
                                  "--straggler", "node=1,slow=5x"))
        run = self.report()["modes"][0]["runs"][0]
        # 30 steps of 5 ms take 25 ms on node 1, for which node 0 waits.
        self.assertGreater(run["trained_s"], 30 * 0.020)
        self.assertGreater(run["waiting_share"], 0.3)

    def test_a_sweep_ranks_points_by_a_value(self):
        out = self.succeed(["sweep", self.program, "-n", "2", "--nodes", "2", "--out", self.out,
                            "--vary", "schedule.base_lr=0.02,0.1", "--set", "optimizer.sgd={}",
                            *BY_PERPLEXITY, "--", "20", "1", "{launch}"])
        self.assertIn("Best: schedule.base_lr=0.1 with perplexity ", out)
        rows = json.loads(read(os.path.join(self.out, "sweep.json")))["table"]
        self.assertEqual(rows[0], ["schedule.base_lr", "perplexity", "steps", "time", "runs"])
        self.assertEqual([row[0] for row in rows[1:]], ["0.1", "0.02"])

    def test_fields_that_a_script_does_not_read_are_refused_before_anything_is_made(self):
        script = self.path("train.py", "")
        for ask, why in [
            (["sweep", "--vary", "schedule.base_lr=0.01,0.1"],
             "point schedule.base_lr=0.01: schedule.base_lr: the script has an optimizer of its"
             " own"),
            (["compare", "--modes", "sync,sync+schedule.base_lr=0.00001"],
             "mode sync+schedule.base_lr=0.00001: schedule.base_lr: the script has an optimizer"),
            (["compare", "--modes", "sync", "--tune", "schedule.base_lr=0.01,0.1"],
             "schedule.base_lr: the script has an optimizer of its own"),
            (["sweep", "--vary", "epochs=1,2"],
             "epochs: a program makes as many epochs as it likes"),
            (["sweep", "--vary", "data.batch_per_rank=1,2"],
             "data.batch_per_rank: belongs to model, a program reads its own"),
            (["sweep", "--vary", "model.zoo=mlp,lenet5"],
             "model.zoo: the job runs a program, which has a model of its own"),
            (["run", "--set", "schedule.base_lr=0.1"],
             "--set schedule.base_lr=0.1: schedule.base_lr:"),
            (["run", "--set", "max_steps=10"], "--set max_steps=10: max_steps: belongs to model"),
        ]:
            more = [] if ask[0] == "run" else ["--nodes", "2", "--out", self.out]
            error = self.refuse([*ask, *more, "-n", "2", script])
            self.assertIn(why, error)
            self.assertIn("program.args=--NAME=V1,--NAME=V2", error)
            self.assertFalse(os.path.exists(self.out), why)

    def test_where_only_the_program_knows_no_verdict_is_given(self):
        """A program that names its optimizer and says its rates, started by a job file."""
        job = self.path("own.textproto", f"""
            name: "own" ranks: 2 optimizer {{ from_program {{}} }}
            program {{ path: "{self.program}" args: "20" args: "1" args: "{{launch}}"
                       args: "own" }}""")
        # 0.05 is the default, so that this run alone could be made.
        code, out, err = self.run_strata(["sweep", job, "--vary", "schedule.base_lr=0.05,0.1",
                                          "--nodes", "2", "--out", self.out, *BY_PERPLEXITY])
        self.assertEqual(code, 2, out)
        self.assertNotIn("Best:", out)
        self.assertRegex(err, r"mode schedule\.base_lr=0\.1: .*schedule: the program says the"
                              r" learning rate of each step, so it has no effect")

    def test_arguments_stand_behind_two_dashes_in_run_as_in_compare(self):
        for dashes in ([], ["--"]):
            out = self.succeed(["run", "-n", "2", "--nodes", "3", "--set", "optimizer.sgd={}",
                                "--runs", self.out, self.program, *dashes, "5", "1", "{launch}"])
            empty = "ranks: 2, 1 on a node, take 2 of the 3 nodes; the other stays empty"
            self.assertIn(empty, out)
            self.assertIn("finished after", out)

    def test_virtual_time_and_halving_of_programs_are_refused_by_name(self):
        error = self.refuse(["compare", self.program, "--modes", "sync", "--out", self.out,
                             "--cluster", "examples/clusters/two_site_wan.textproto"])
        self.assertIn("program: in virtual time a program is a script *.py that defines "
                      "a strata.Task; this one owns its loop", error)
        error = self.refuse(["sweep", self.program, "--out", self.out, "--vary",
                             "schedule.base_lr=0.1,0.2", "--halving", "2", "--nodes", "1"])
        self.assertIn("halving: a program makes as many steps as it likes", error)


if __name__ == "__main__":
    unittest.main()
