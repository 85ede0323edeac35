"""`strata compare` on real processes: what it makes, what interruptions leave, what it refuses."""

import json
import os
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, "tests/e2e/testing")
from campaign_case import DEADLINE_S, STRATA, CampaignCase, read  # noqa: E402

# 32 steps, each of which takes 10 ms at least.
JOB = """
name: "compared"
model { zoo: "mlp" }
data { synthetic { train_samples: 512 test_samples: 128 } batch_per_rank: 8 }
schedule { base_lr: 0.002 }
ranks: 2
epochs: 1
debug { delays { node: 1 delay_ms: 10 } }
"""


class CompareTest(CampaignCase):
    JOB = JOB

    def args(self, modes, seeds, *more):
        return ["compare", self.job, "--modes", modes, "--seeds", str(seeds), "--out", self.out,
                *more]

    def compare(self, *args):
        return self.run_strata(self.args(*args))

    def finish(self, *args):
        return self.succeed(self.args(*args))

    def test_an_interrupted_comparison_goes_on_with_the_runs_that_are_missing(self):
        ask = ("sync,lazy:diloco(4)", 2, "--nodes", "2")
        code, err = self.interrupt(self.args(*ask))
        self.assertEqual(code, 1)
        self.assertRegex(err, r"^strata: error: stopped; [1-3] of 4 runs are in .*/out, the same "
                              r"command goes on with the others\n$")
        first = self.records()
        self.assertIn("sync-seed1.json", first)
        self.assertLess(len(first), 4)
        code, _ = self.interrupt(self.args(*ask), signal.SIGKILL)
        self.assertEqual(code, -signal.SIGKILL)
        second = self.records()
        self.assertLess(len(second), 4)
        out = self.finish(*ask)
        self.assertIn(f"4 runs of 32 steps, {len(second)} of them there already; on ", out)
        last = self.records()
        self.assertEqual(sorted(last), ["lazy_diloco_4-seed1.json", "lazy_diloco_4-seed2.json",
                                        "sync-seed1.json", "sync-seed2.json"])
        for name, made in {**first, **second}.items():
            self.assertEqual(last[name], made, name)  # not even written again
        self.assertNotIn("sync, seed 1:", out)
        self.assertIn("[4/4] lazy:diloco(4), seed 2: accuracy ", out)
        self.assertIn(f"report: {self.out}/report/index.html\n", out)
        self.assertTrue(os.path.exists(os.path.join(self.out, "report", "index.html")))
        self.check_records(last)
        self.check_additions(last)

    def check_records(self, records):
        sync = records["sync-seed2.json"][0]
        diloco = records["lazy_diloco_4-seed2.json"][0]
        for record in (sync, diloco):
            self.assertEqual(record["seed"], "2")
            self.assertEqual(record["samples"], "512")
            self.assertEqual(record["steps"], "32")
            # After every fourth of 32 steps.
            steps = [int(each["step"]) for each in record["measurements"]]
            self.assertEqual(steps, list(range(4, 33, 4)))
            samples = [int(each["samples"]) for each in record["measurements"]]
            self.assertEqual(samples, [16 * step for step in steps])
            times = [each["trained_s"] for each in record["measurements"]]
            self.assertEqual(times, sorted(times))
            self.assertGreaterEqual(record["trained_s"], 0.32)
            self.assertEqual(len(record["windows"]), 8)
            self.assertEqual(record["job"]["debug"]["delays"], [{"node": 1, "delay_ms": 10}])
        self.assertEqual((sync["updates"], diloco["updates"]), ("32", "8"))
        self.assertGreater(int(sync["bytes_pushed"]), 3 * int(diloco["bytes_pushed"]))

    def check_additions(self, before):
        """More modes and seeds leave what is there; nothing is made where nothing is missing."""
        out = self.finish("sync,lazy:diloco(4),ring", 2, "--nodes", "2")
        self.assertEqual(len(self.records()), 6)
        for name, made in before.items():
            self.assertEqual(self.records()[name], made)
        self.assertEqual([line[:5] for line in out.split("\n") if line.startswith("[")],
                         ["[3/6]", "[6/6]"])
        out = self.finish("sync,ring", 1, "--nodes", "2")
        self.assertIn("2 runs of 32 steps, 2 of them there already", out)
        report = json.loads(read(os.path.join(self.out, "report.json")))
        self.assertIn("node 1 stands still for 10 ms a step", json.dumps(report))

    def test_a_run_is_the_same_again_where_its_mode_promises_it(self):
        ask = ("sync,ring", 1, "--nodes", "2")
        self.finish(*ask)
        before = self.records()
        os.remove(os.path.join(self.out, "runs", "sync-seed1.json"))
        self.finish(*ask)

        def curve(records, name):
            return [(each["step"], each["accuracy"], each["loss"])
                    for each in records[name][0]["measurements"]]

        after = self.records()
        self.assertEqual(curve(after, "sync-seed1.json"), curve(before, "sync-seed1.json"))
        # One seed gives both modes the same weights and data; the order of addition is another.
        for (step, accuracy, loss), (_, also, other) in zip(curve(after, "sync-seed1.json"),
                                                            curve(after, "ring-seed1.json")):
            self.assertAlmostEqual(accuracy, also, delta=0.02, msg=step)
            self.assertAlmostEqual(loss, other, delta=0.01, msg=step)

    def test_a_run_that_diverges_is_a_result(self):
        mode = "async+debug.nan_rank=1+debug.nan_step=3"
        out = self.finish(f"{mode},sync", 1, "--nodes", "2")
        self.assertRegex(out, r"\[1/2\] async\+debug.nan_rank=1\+debug.nan_step=3, seed 1: failed: "
                              r"rank 1 \(node 1, w1\): loss is NaN at step 3\n")
        self.assertIn("[2/2] sync, seed 1: accuracy ", out)
        record = self.records()["async_debug.nan_rank_1_debug.nan_step_3-seed1.json"][0]
        self.assertEqual(record["failure"], "rank 1 (node 1, w1): loss is NaN at step 3")
        self.assertTrue(record["has_diverged"])

    def test_runs_on_a_cluster_that_is_there(self):
        local = subprocess.Popen([STRATA, "local", "--nodes", "2", "--slots", "1", "--listen",
                                  "127.0.0.1:0", "--runs", os.path.join(self.dir.name, "runs")],
                                 stdout=subprocess.PIPE, text=True)
        timer = self.watch(local)
        try:
            at = dict(word.split("=", 1) for word in local.stdout.readline().split()[3:])
            where = ["--coordinator", at["coordinator"], "--keys", at["keys"]]
            out = self.finish("sync,async", 1, *where)
            self.assertIn(f"cluster of {at['coordinator']}: 1 server with 1 shard, 2 workers with "
                          "2 slots", out)
            self.assertEqual(len(self.records()), 2)
            code, _, err = self.compare("sync,sync+ranks=3", 1, *where)
            self.assertEqual(code, 2, err)
            self.check_interruption(where)
        finally:
            local.send_signal(signal.SIGINT)
            local.communicate(timeout=DEADLINE_S)
            timer.cancel()

    @staticmethod
    def jobs(where):
        jobs = subprocess.run([STRATA, "jobs", "--json", *where], capture_output=True, text=True,
                              timeout=DEADLINE_S, check=True)
        return json.loads(jobs.stdout)

    def wait_until(self, done):
        end = time.monotonic() + DEADLINE_S
        while not done():
            self.assertLess(time.monotonic(), end)

    def daemon(self, *args):
        """Starts `strata ARGS` and returns what its ready line says."""
        process = subprocess.Popen([STRATA, *args], stdout=subprocess.PIPE, text=True,
                                   stderr=subprocess.DEVNULL)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait, DEADLINE_S)
        self.addCleanup(process.kill)
        timer = self.watch(process)
        line = process.stdout.readline()
        timer.cancel()
        return process, dict(word.split("=", 1) for word in line.split() if "=" in word)

    def test_a_coordinators_restart_costs_no_figures(self):
        state = os.path.join(self.dir.name, "state")
        runs = os.path.join(self.dir.name, "runs")
        keys = self.keys("coordinator/c", "user/u", "server/s0", "worker/w0", "worker/w1")
        own = ["--keys", keys["coordinator/c"], "--state", state]
        coordinator, at = self.daemon("coordinator", "--listen", "127.0.0.1:0", *own)
        address = at["address"]
        where = ["--coordinator", address, "--keys", keys["user/u"]]
        self.daemon("server", "--coordinator", address, "--keys", keys["server/s0"])
        for name in ("w0", "w1"):
            self.daemon("worker", "--slots", "1", "--runs", runs, "--coordinator", address,
                        "--keys", keys["worker/" + name])
        ask = self.args("sync,async", 1, *where, "--set", "epochs=4")
        compare = subprocess.Popen([STRATA, *ask], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        timer = self.watch(compare)
        self.wait_until(lambda: any(job.get("progress", {}).get("step", 0) > 0
                                    for job in self.jobs(where)))
        coordinator.kill()
        coordinator.wait(DEADLINE_S)
        self.daemon("coordinator", "--listen", address, *own)
        out, err = compare.communicate(timeout=DEADLINE_S)
        timer.cancel()
        self.assertEqual((compare.returncode, err), (0, ""), out)
        self.assertEqual({job["protection"] for job in self.jobs(where)}, {"ENCRYPT"})
        for name in ("sync-seed1.json", "async-seed1.json"):
            record = self.records()[name][0]
            self.assertEqual((record["samples"], record["steps"]), ("2048", "128"))
            self.assertEqual(record["windows"][-1]["samples"], "2048")
            steps = [int(each["step"]) for each in record["measurements"]]
            self.assertEqual(steps, [*range(5, 128, 5), 128])

    def check_interruption(self, where):
        """On a cluster that goes on, the job that was under way does not."""

        def states():
            return {job["state"] for job in self.jobs(where)}

        def wait_for_a_job():
            self.wait_until(lambda: "running" in states())

        self.out += "-long"
        code, err = self.interrupt(self.args("sync", 2, *where, "--set", "epochs=8"),
                                   wait=wait_for_a_job)
        self.assertEqual(code, 1)
        self.assertIn("stopped; 1 of 2 runs are in ", err)
        self.assertEqual(states(), {"finished", "cancelled"})

    def test_a_run_with_checkpoints_goes_on_where_it_was_interrupted(self):
        kept = os.path.join(self.dir.name, "kept")
        checkpoint = f'checkpoint={{dir: "{kept}" every_steps: 8}}'
        ask = self.args("sync", 1, "--nodes", "2", "--set", "epochs=4", "--set", checkpoint)

        interrupted = os.path.join(self.out, "interrupted", "sync-seed1.json")

        def newest():
            return max((folder for folder, _, files in os.walk(kept) if "manifest.json" in files),
                       default="")

        self.interrupt(ask, signal.SIGKILL, begins="",
                       wait=lambda: self.wait_until(lambda: os.path.exists(interrupted)))
        self.assertGreaterEqual(int(json.loads(read(interrupted))["steps"]), 8)
        before = newest()
        self.interrupt(ask, signal.SIGINT, begins="",
                       wait=lambda: self.wait_until(lambda: newest() > before))
        self.assertGreater(int(json.loads(read(interrupted))["resumed_step"]), 0)
        self.assertEqual(self.records(), {})
        self.succeed(ask)
        record = self.records()["sync-seed1.json"][0]
        self.assertGreaterEqual(int(record["resumed_step"]), 8)
        self.assertNotIn("began_anew", record)
        self.assertEqual((record["samples"], record["steps"], record["updates"]),
                         ("2048", "128", "128"))
        self.assertGreaterEqual(record["trained_s"], 1.28)
        self.assertFalse(os.path.exists(interrupted))
        # As one that nothing has interrupted.
        self.out += "-whole"
        self.succeed(self.args("sync", 1, "--nodes", "2", "--set", "epochs=4"))
        whole = self.records()["sync-seed1.json"][0]
        for field in ("step", "samples", "accuracy", "loss"):
            self.assertEqual([each.get(field) for each in record["measurements"]],
                             [each.get(field) for each in whole["measurements"]], field)
        times = [each["trained_s"] for each in record["measurements"]]
        self.assertEqual(times, sorted(times))

    def test_without_modes_and_folder_those_that_can_be_had_go_into_one_by_the_time(self):
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.dir.name)
        code, out, err = self.run_strata(["compare", self.job, "--seeds", "1", "--nodes", "2",
                                          "--set", "optimizer.lars={}"])
        self.assertEqual((code, err), (0, ""), out)
        self.assertRegex(out, r"left out: mode ssp\(2\): optimizer\.lars: .*\n"
                              r"left out: mode async: optimizer\.lars: ")
        self.assertIn("2 modes x 1 seed: 2 runs", out)
        (folder,) = os.listdir("strata-comparisons")
        self.assertRegex(folder, r"^\d{8}-\d{6}$")
        made = os.listdir(os.path.join("strata-comparisons", folder, "runs"))
        self.assertEqual(sorted(made), ["ring-seed1.json", "sync-seed1.json"])
        self.assertIn(f"/strata-comparisons/{folder}/report/index.html\n", out)

    def test_every_default_mode_is_taken_where_it_can_be_and_the_page_grows(self):
        out = self.succeed(["compare", self.job, "--seeds", "1", "--nodes", "2", "--out", self.out])
        self.assertIn("4 modes x 1 seed: 4 runs", out)
        self.assertNotIn("left out", out)
        self.assertEqual(sorted(self.records()), ["async-seed1.json", "ring-seed1.json",
                                                  "ssp_2-seed1.json", "sync-seed1.json"])
        self.assertIn(f"report, renewed after each run: {self.out}/report/index.html\n", out)
        self.assertIn("\nUndecided: ", out)
        self.assertEqual(json.loads(read(os.path.join(self.out, "report.json")))["under_way"], "")

    def test_tuning_before_seed_1_takes_a_seed_of_its_own(self):
        out = self.finish("sync", 1, "--nodes", "2", "--set", "seed=1", "--tune",
                          "schedule.base_lr=0.001,0.002")
        self.assertIn("the same 2 points with seed 1001, which is none of the comparison's", out)
        self.assertEqual(len(self.records()), 3)

    def test_what_cannot_be_compared_is_refused_before_anything_is_made(self):
        nodes = ("--nodes", "2")
        for why, ask in {
                "no mode to compare": ("", 1),
                "mode bulk: \"bulk\" is not one of sync": ("sync,bulk", 1),
                "mode lazy:ssp(x): \"ssp(x)\" is not NAME or NAME(NUMBER)": ("lazy:ssp(x)", 1),
                "mode sync is there twice": ("sync,sync", 1),
                "mode lazy:ssp(3): is the same job as mode ssp(3)": ("ssp(3),lazy:ssp(3)", 1),
                "mode ring: exchange: RING needs two nodes": ("ring,sync", 1),
                "debug.delays: there is no node 1: the job has 1 node": ("sync", 1),
                "mode sync: exchange: PARAMETER_SERVER needs a server": ("ring,sync", 1, *nodes,
                                                                        "--servers", "0"),
                "mode sync: ranks: 2 do not fit": ("sync", 1, "--nodes", "1", "--slots", "1"),
                "--straggler node=1,fast=4x: ": ("sync", 1, *nodes, "--straggler",
                                                 "node=1,fast=4x"),
                "run_dir: x: ": ("sync", 1, *nodes, "--set", "run_dir=x"),
                "--nodes excludes --coordinator": ("sync", 1, *nodes, "--coordinator", "h:1"),
                "--seeds: Value 0 not in range": ("sync", 0, *nodes),
                "--margin: Value 0 not in range": ("sync", 1, *nodes, "--margin", "0"),
                "--target: an accuracy is above 0 and at most 1": ("sync", 1, *nodes,
                                                                   "--target-accuracy", "88"),
        }.items():
            self.assertIn(why, self.refuse(self.args(*ask)))
            self.assertFalse(os.path.exists(self.out), why)

    def test_a_directory_of_something_else_is_refused(self):
        os.mkdir(self.out)
        self.path("out/notes.txt", "mine")
        code, _, err = self.compare("sync", 1, "--nodes", "2")
        self.assertEqual(code, 2)
        self.assertIn("holds files that are not of a comparison", err)
        self.assertEqual(os.listdir(self.out), ["notes.txt"])
        os.remove(os.path.join(self.out, "notes.txt"))
        self.finish("sync", 1, "--nodes", "2")
        code, _, err = self.compare("sync", 1, "--nodes", "2", "--set", "schedule.base_lr=0.5")
        self.assertEqual(code, 2)
        self.assertIn("holds another campaign, the first difference (there -> here): modified: "
                      "job.schedule.base_lr: 0.002 -> 0.5\n", err)
        code, _, err = self.compare("sync", 1, "--nodes", "2", "--straggler", "node=0,slow=2x")
        self.assertEqual(code, 2)
        self.assertIn("added: job.debug.delays[1]", err)


if __name__ == "__main__":
    unittest.main()
