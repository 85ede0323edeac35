"""`strata sweep --halving` on real processes: rungs go on from checkpoints of the one before."""

import glob
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, "tests/e2e/testing")
from campaign_case import DEADLINE_S, STRATA, CampaignCase, read  # noqa: E402

# 32 steps of 16 samples, with momentum and a rate that changes with the epoch.
JOB = """
name: "halved"
model { zoo: "lenet5" }
data { synthetic { train_samples: 256 test_samples: 128 } batch_per_rank: 8 }
optimizer { momentum_sgd {} }
schedule { base_lr: 0.002 cosine {} }
ranks: 2
epochs: 2
"""
RATES = "schedule.base_lr=0.00001,0.0001,0.001,0.003"


class HalvingTest(CampaignCase):
    JOB = JOB

    def args(self, *more, out=None):
        return ["sweep", self.job, "--vary", RATES, "--halving", "2", "--out", out or self.out,
                *more]

    def figures(self):
        return json.loads(read(os.path.join(self.out, "sweep.json")))

    def model(self, name, out=None):
        """Says which bits a run's final model has."""
        path = os.path.join(out or self.out, "jobs", name, "model.safetensors")
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

    def checkpoints(self):
        """The folders of checkpoints in `out`, by the names of their runs."""
        folder = os.path.join(self.out, "checkpoints")
        found = os.listdir(folder) if os.path.exists(folder) else []
        return {re.sub(r"-\d+$", "", name): os.path.join(folder, name) for name in found}

    def steps_made(self, name):
        """The steps of which a run's job reported windows, in order."""
        lines = read(os.path.join(self.out, "jobs", name, "metrics.jsonl")).splitlines()
        return [json.loads(line)["step"] for line in lines]

    def run_whole(self, rate, *more):
        """The job of that rate without halving; returns records, and the folder they are in."""
        whole = self.path("whole")
        self.succeed(["sweep", self.job, "--vary", f"schedule.base_lr={rate}", "--out", whole,
                      *more])
        runs = os.path.join(whole, "runs")
        records = {name: json.loads(read(os.path.join(runs, name))) for name in os.listdir(runs)}
        return records, whole

    def check_is_whole(self, record, whole):
        """The record of a run that went on twice says what that of a whole one says."""
        self.assertEqual(record["resumed_step"], "16")
        for field in ("samples", "steps", "updates", "bytes_pushed", "bytes_answered",
                      "staleness"):
            self.assertEqual(record[field], whole[field], field)
        self.assertEqual([int(window["samples"]) for window in record["windows"]],
                         [16 * step for step in range(1, 33)])
        losses = [[window["loss"] for window in run["windows"]] for run in (record, whole)]
        self.assertEqual(*losses)
        times = [window["trained_s"] for window in record["windows"]]
        self.assertEqual(times, sorted(times))
        self.assertLessEqual(times[-1], record["trained_s"])
        self.assertEqual([each["step"] for each in record["measurements"]], ["8", "16", "32"])
        self.assertEqual(record["measurements"][-1]["accuracy"],
                         whole["measurements"][-1]["accuracy"])

    def test_the_best_ends_with_the_bits_of_a_run_without_halving(self):
        ask = ("--seeds", "2", "--slots", "4")
        out = self.succeed(self.args(*ask))
        # 4 x 8, then 2 x 8 and 16 steps more, in place of 4 x 32; two seeds.
        self.assertIn("Halving: trained on 2.05 k samples in 3 rungs, each from checkpoints of the "
                      "one before; the whole grid takes 4.10 k: saved 50.0 %.\n"
                      "Later rungs made 64 of their runs' 128 steps; the others they had from "
                      "checkpoints.\n", out)
        self.assertNotIn("again", out)
        self.assertEqual(len(re.findall(", of which 8 of 16 steps were there\n", out)), 4)
        self.assertEqual(len(re.findall(", of which 16 of 32 steps were there\n", out)), 2)
        figures = self.figures()
        self.assertEqual((figures["samples"], figures["later_steps"], figures["resumed_steps"]),
                         (2 * 16 * 64, 128, 64))
        best = figures["points"][0]["values"][0]
        whole, where = self.run_whole(best, *ask)
        records = self.records()
        for seed in (1, 2):
            name = f"schedule.base_lr_{best}-seed{seed}"
            self.assertEqual(self.steps_made(name), list(range(17, 33)))
            self.assertEqual(self.model(name), self.model(name, where))
            self.check_is_whole(records[name + ".json"][0], whole[name + ".json"])
        self.assertFalse(os.path.exists(os.path.join(self.out, "checkpoints")))
        # Nothing is missing.
        self.assertNotIn("[", self.succeed(self.args(*ask)).split("\n\n")[0])
        self.assertEqual(self.records(), records)

    def test_an_interrupted_one_goes_on_and_begins_anew_where_a_checkpoint_is_gone(self):
        code, err = self.interrupt(self.args(), begins="rung 2 of 3")
        self.assertEqual(code, 1)
        self.assertRegex(err, r"strata: error: stopped; [45] of 7 runs are in ")
        before = self.records()
        first = {name: path for name, path in self.checkpoints().items() if "steps_8-" in name}
        self.assertEqual(len(first), 2)  # of those that go on
        gone, damaged = sorted(first)
        for name in before:
            if "steps_16-" in name:
                os.remove(os.path.join(self.out, "runs", name))
        shutil.rmtree(first[gone])
        [path] = glob.glob(os.path.join(first[damaged], "*", "shard-*"))
        with open(path, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            byte = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([byte[0] ^ 1]))
        out = self.succeed(self.args())
        self.assertRegex(out, "; it began anew: no complete checkpoint in .*; passed over: ")
        self.assertEqual(len(re.findall("; it began anew: ", out)), 2)
        self.assertIn("rungs, 1 of 3 later runs from a checkpoint of the rung before; ", out)
        for name, made in before.items():
            if "steps_8-" in name:
                self.assertEqual(self.records()[name], made, name)
        best = self.figures()["points"][0]["values"][0]
        _, where = self.run_whole(best)
        name = f"schedule.base_lr_{best}-seed1"
        self.assertEqual(self.steps_made(name), list(range(17, 33)))
        self.assertEqual(self.model(name), self.model(name, where))
        self.assertFalse(os.path.exists(os.path.join(self.out, "checkpoints")))

    def test_what_cannot_have_checkpoints_starts_again_and_the_reason_is_said(self):
        out = self.succeed(self.args("--mode", "delay1", "--set", "pull.codec=FP16"))
        self.assertIn("4 of 4 points start again in each rung: checkpoint: consistency: double "
                      "buffering goes with pull.codec: FP32 only, not FP16\nrung 1 of 3", out)
        self.assertIn("in 3 rungs, each from the start; ", out)

    def test_on_a_cluster_that_is_there_it_goes_on_from_the_folder_that_the_job_names(self):
        local = subprocess.Popen([STRATA, "local", "--slots", "2", "--listen", "127.0.0.1:0",
                                  "--runs", self.path("runs")], stdout=subprocess.PIPE, text=True)
        timer = self.watch(local)
        try:
            at = dict(word.split("=", 1) for word in local.stdout.readline().split()[3:])
            self.check_coordinator("--coordinator", at["coordinator"], "--keys", at["keys"])
        finally:
            local.send_signal(signal.SIGINT)
            local.communicate(timeout=DEADLINE_S)
            timer.cancel()

    def check_coordinator(self, *where):
        out = self.succeed(self.args(*where, out=self.path("anew")))
        self.assertIn("4 of 4 points start again in each rung: the job has no checkpoint; with "
                      "--set 'checkpoint={dir: \"/FOLDER\" every_steps: 8}', where all hosts see "
                      "that folder, they go on\n", out)
        self.assertIn("in 3 rungs, each from the start; ", out)
        shared = os.path.join(self.out, "checkpoints")
        out = self.succeed(self.args(
            *where, "--set", f'checkpoint={{dir: "{shared}" every_steps: 4}}'))
        self.assertIn("in 3 rungs, each from checkpoints of the one before; ", out)
        # They are the user's, wherever they lie.
        self.assertEqual(len(os.listdir(shared)), 7)


if __name__ == "__main__":
    unittest.main()
