"""All experiments run at a tiny size, go on where they were, are judged and written down."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import results  # noqa: E402  (beside this file)
from campaign import records  # noqa: E402
from catalogue import EXPERIMENTS  # noqa: E402

DEADLINE_S = 800
RUN = ["python3", "bench/experiments/run.py", "cli/strata", "--out"]


class ExperimentsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.out = os.path.join(cls.scratch.name, "out")
        cls.first = cls.call("--reduced")

    @classmethod
    def call(cls, *more):
        return subprocess.run([*RUN, cls.out, *more], capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False)

    def test_every_experiment_is_run_and_judged(self):
        self.assertEqual(self.first.returncode, 0, self.first.stdout + self.first.stderr)
        for experiment in EXPERIMENTS:
            self.assertRegex(self.first.stdout,
                             rf"(?m)^{experiment.name} (holds|does not hold|open) \(reduced")
            for campaign in experiment.campaigns:
                runs = records(os.path.join(self.out, experiment.name, campaign.name))
                self.assertEqual(len(runs), min(2, campaign.seeds) * len(campaign.modes))

    def test_ring_has_the_figures_of_sync(self):
        for name in ("virtual", "live", "resnet8"):
            runs = records(os.path.join(self.out, "E1", name))
            accuracy = {mode.split("+")[0]: record["measurements"][-1]["accuracy"]
                        for (mode, seed), record in runs.items() if seed == 2}
            self.assertEqual(accuracy["ring"], accuracy["sync"], name)

    def test_a_step_takes_no_less_than_its_parts(self):
        with open(os.path.join(self.out, "E5", "overlap", "virtual.json"),
                  encoding="utf-8") as file:
            cases = json.load(file)
        self.assertEqual(len(cases), 3)
        for case in cases:
            longer = max(case["compute_ms"], case["exchange_ms"])
            self.assertGreater(case["step_ms"], 0.99 * longer, case)
            self.assertLess(case["step_ms"], case["compute_ms"] + case["exchange_ms"], case)

    def test_nothing_is_made_twice(self):
        again = self.call("--reduced", "--only", "E3", "E5")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("6 of them there already", again.stdout)
        self.assertIn("4 of them there already", again.stdout)

    def test_the_document_gets_figures_and_pictures(self):
        document = os.path.join(self.scratch.name, "RESULTS.md")
        shutil.copyfile("docs/RESULTS.md", document)
        os.chmod(document, 0o644)
        done = self.call("--judge", "--write", document)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(document, encoding="utf-8") as file:
            text = file.read()
        for experiment in EXPERIMENTS:
            self.assertIn(f"| {experiment.name} | ", text)
            for campaign in experiment.campaigns:
                self.assertIn("    " + campaign.command(experiment.name), text)
                for path in results.pictures_of(experiment, campaign):
                    self.assertIn(f"({path})", text)
                    self.assertTrue(os.path.exists(os.path.join(self.scratch.name, path)))

    def test_what_cannot_be_done_is_refused(self):
        refused = self.call("--reduced", "--write", "docs/RESULTS.md")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--write: the reduced set has no figures", refused.stderr)
        with tempfile.TemporaryDirectory() as empty:
            missing = subprocess.run([*RUN, empty, "--judge", "--only", "E1"], capture_output=True,
                                     text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(missing.returncode, 1)
        self.assertRegex(missing.stderr, r"^run.py: error: .*E1/virtual/report.json: [^\n]*\n$")


if __name__ == "__main__":
    unittest.main()
