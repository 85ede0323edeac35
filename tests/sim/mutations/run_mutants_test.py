"""Tests of run_mutants.py: a mutant must be red by its invariant, and the sound code green."""

import os
import tempfile
import unittest

import run_mutants
from run_mutants import Outcome, Run

# The part of a program: what it says of its arguments, and how it ends.
PROGRAM = """#!/bin/sh
echo "mutation: $1"
echo "seeds: $2"
[ $1 = none ] && exit 0
echo "seed: 3"
echo "violation: window: of $3"
exit 1
"""


def red(**changes):
    outcome = Outcome(
        "window_one_wider", 1, "window_one_wider", "1", "all", "window: 6 of 5", "output"
    )
    return outcome._replace(**changes)


def green(**changes):
    return Outcome(run_mutants.SOUND, 0, "none", "", "all", "", "output")._replace(**changes)


class RunMutantsTest(unittest.TestCase):
    def test_a_mutant_is_red_by_its_invariant(self):
        self.assertIsNone(run_mutants.verdict(red()))
        self.assertEqual(
            run_mutants.verdict(red(violation="G1 exactly once: job 1")),
            "caught by 'G1 exactly once', not by 'window'",
        )
        self.assertRegex(run_mutants.verdict(red(status=0, violation="")), "^survived")
        self.assertEqual(run_mutants.verdict(red(status=-6)), "ended with -6, by no invariant")
        self.assertEqual(
            run_mutants.verdict(red(status=1, violation="")), "ended with 1, by no invariant"
        )

    def test_the_sound_code_is_green(self):
        self.assertIsNone(run_mutants.verdict(green()))
        self.assertEqual(
            run_mutants.verdict(green(status=1, violation="window: 6 of 5")),
            "the sound code is red",
        )
        self.assertEqual(
            run_mutants.verdict(green(status="no end")), "ended with no end, by no invariant"
        )

    def test_a_program_must_run_the_mutation_that_it_is_told(self):
        self.assertEqual(
            run_mutants.verdict(red(mutation="none")),
            "runs the mutation 'none', not 'window_one_wider'",
        )
        self.assertEqual(
            run_mutants.verdict(green(mutation="dedup_off")),
            "runs the mutation 'dedup_off', not 'none'",
        )

    def test_every_mutation_is_run_by_name(self):
        runs = run_mutants.mutants(7)
        names = [run.name for run in runs]
        self.assertEqual(names, sorted(run_mutants.mutations()))
        self.assertIn(Run("window_one_wider", "all", 7), runs)

    def test_the_sound_code_has_the_seeds_that_made_a_mutant_red(self):
        outcomes = [red(seed="3"), red(seed="12"), red(seed="4"), red(profile="lossy", seed="")]
        self.assertEqual(
            run_mutants.sound(outcomes),
            [Run(run_mutants.SOUND, "all", 12), Run(run_mutants.SOUND, "lossy", 1)],
        )


class OutcomeTest(unittest.TestCase):
    def program(self, text):
        path = os.path.join(self.folder.name, "program")
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_a_program_is_told_the_mutation_the_seeds_and_the_profile(self):
        outcome = run_mutants.outcome_of(self.program(PROGRAM), Run("dedup_off", "lossy", 9))
        output = "mutation: dedup_off\nseeds: 9\nseed: 3\nviolation: window: of lossy\n"
        self.assertEqual(
            outcome,
            Outcome("dedup_off", 1, "dedup_off", "3", "lossy", "window: of lossy", output),
        )

    def test_a_name_that_no_mutation_has_must_be_refused(self):
        refusal = "#!/bin/sh\necho \"no mutation is named '$1'\" >&2\nexit 2\n"
        self.assertIsNone(run_mutants.refuses_what_it_does_not_hold(self.program(refusal)))
        self.assertRegex(
            run_mutants.refuses_what_it_does_not_hold(self.program(PROGRAM)),
            "^takes a name that no mutation has: 1, mutation: no_such_mutation",
        )


if __name__ == "__main__":
    unittest.main()
