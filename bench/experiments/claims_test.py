"""The figures that make a claim hold, fail or stay open."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import claims  # noqa: E402  (beside this file)
import results  # noqa: E402
from campaign import Campaign, ExperimentError  # noqa: E402
from catalogue import EXPERIMENTS, Experiment  # noqa: E402
from claims import FAILS, HOLDS, OPEN  # noqa: E402


def estimate(mean, low=None, high=None, count=3):
    return {"mean": mean, "low": low, "high": high, "count": count}


def mode(name, accuracy=None, speedup=None, reached=3, failed=0, size=100.0,
         diverges=True):
    """accuracy: the difference from the baseline; None: no pair has finished."""
    comparison = {"pairs": 3 if accuracy else 0, "accuracy": accuracy or estimate(0),
                  "speedup": speedup}
    why = "rank 1: loss is NaN at step 7" if diverges else "no server is left"
    runs = [{"failure": why if i < failed else "", "diverged": diverges and i < failed}
            for i in range(3)]
    return {"mode": name, "comparison": comparison, "reached": reached, "failed": failed,
            "runs": runs, "bytes_per_step": estimate(size)}


def report(*modes):
    return {"target_accuracy": 0.85, "modes": [mode("sync"), *modes], "rules": ["Tuned: so."]}


class ClaimsTest(unittest.TestCase):
    def verdicts(self, judge, bound, *differences):
        """Returns the verdict on a mode for each (mean, low, high) in points."""
        found = []
        for mean, low, high in differences:
            one = mode("async", estimate(mean / 100, low / 100, high / 100))
            found.append(judge(report(one), "async", *bound).verdict)
        return found

    def test_equal_within_wants_the_whole_interval_inside(self):
        self.assertEqual(
            self.verdicts(claims.equal_within, (0.2,), (0, -0.1, 0.1), (0.1, -0.1, 0.3),
                          (0.5, 0.3, 0.7), (-0.5, -0.7, -0.3)), [HOLDS, OPEN, FAILS, FAILS])

    def test_at_most_above_and_below_look_at_one_side(self):
        self.assertEqual(
            self.verdicts(claims.at_most_above, (0.2,), (-3, -4, -2), (0.1, -0.1, 0.3),
                          (0.5, 0.3, 0.7)), [HOLDS, OPEN, FAILS])
        self.assertEqual(
            self.verdicts(claims.at_most_below, (1,), (3, 2, 4), (-0.9, -1.1, -0.7),
                          (-2, -3, -1.5)), [HOLDS, OPEN, FAILS])

    def test_loses_and_better(self):
        self.assertEqual(
            self.verdicts(claims.loses, (5,), (-20, -30, -10), (-6, -9, -3), (-2, -3, -1)),
            [HOLDS, OPEN, FAILS])
        self.assertEqual(
            self.verdicts(claims.better, (), (1, 0.5, 1.5), (0.1, -0.1, 0.3), (-2, -3, -1)),
            [HOLDS, OPEN, FAILS])

    def test_a_mode_that_diverges_in_every_run_has_lost(self):
        self.assertEqual(claims.loses(report(mode("async", failed=3)), "async", 5).verdict, HOLDS)
        self.assertEqual(claims.loses(report(mode("async", failed=2)), "async", 5).verdict, OPEN)
        killed = mode("async", failed=3, diverges=False)
        self.assertEqual(claims.loses(report(killed), "async", 5).verdict, OPEN)
        both = report(mode("async", failed=3))
        both["modes"][0] = mode("sync", failed=3)
        self.assertEqual(claims.loses(both, "async", 5).verdict, OPEN)

    def test_runs_that_failed_do_not_flatter_those_that_are_left(self):
        near, far = estimate(-0.002, -0.003, -0.001), estimate(-0.2, -0.3, -0.1)
        one = report(mode("async", near, failed=1))
        for judge in (claims.at_most_below, claims.equal_within, claims.at_most_above):
            self.assertEqual(judge(one, "async", 1).verdict, OPEN)
        self.assertIn("1 of 3 runs of async failed", claims.equal_within(one, "async", 1).figures)
        baseline = report(mode("async", estimate(0.02, 0.01, 0.03)))
        baseline["modes"][0]["failed"] = 1
        self.assertEqual(claims.better(baseline, "async").verdict, OPEN)
        # A diverged run does not contradict a loss.
        self.assertEqual(claims.loses(report(mode("async", far, failed=1)), "async", 5).verdict,
                         HOLDS)
        self.assertEqual(claims.loses(one, "async", 5).verdict, OPEN)

    def test_one_pair_of_runs_proves_nothing(self):
        one = report(mode("async", estimate(0.0, count=1)))
        for finding in (claims.equal_within(one, "async", 1), claims.better(one, "async"),
                        claims.loses(one, "async", 5)):
            self.assertEqual(finding.verdict, OPEN)

    def test_sooner_wants_the_interval_beyond_the_factor(self):
        for (low, high), expected in {(1.6, 2.0): HOLDS, (1.4, 2.0): OPEN, (1.0, 1.4): FAILS
                                      }.items():
            one = report(mode("async", estimate(0), estimate(1.7, low, high)))
            self.assertEqual(claims.sooner(one, "async", 1.5).verdict, expected)

    def test_a_target_that_only_the_baseline_reaches_was_not_reached_sooner(self):
        missed = claims.sooner(report(mode("async", estimate(0), reached=1)), "async", 1.5)
        self.assertEqual(missed.verdict, FAILS)
        self.assertIn("85.0 % in 1 of 3 runs", missed.figures)
        both = report(mode("async", estimate(0), reached=1))
        both["modes"][0]["reached"] = 2
        self.assertEqual(claims.sooner(both, "async", 1.5).verdict, OPEN)

    def test_bytes_and_step_times(self):
        self.assertEqual(claims.fewer_bytes(report(mode("diloco", size=8.0)), "diloco", 12).verdict,
                         HOLDS)
        self.assertEqual(claims.fewer_bytes(report(mode("diloco", size=9.0)), "diloco", 12).verdict,
                         FAILS)
        self.assertEqual(claims.step_time("a", 26, 25, 10, 0.1).verdict, HOLDS)
        self.assertEqual(claims.step_time("a", 35, 25, 10, 0.1).verdict, FAILS)
        self.assertEqual(claims.step_time("a", 26, 10, 30, 0.1).verdict, FAILS)

    def test_a_mode_is_found_by_the_name_that_tuning_has_made_longer(self):
        tuned = report(mode("async_dc+consistency.a=true+schedule.base_lr=1"),
                       mode("async_dc+schedule.base_lr=0.01"), mode("async+schedule.base_lr=1"))
        self.assertEqual(claims.mode_of(tuned, "async_dc")["mode"],
                         "async_dc+schedule.base_lr=0.01")
        self.assertEqual(claims.mode_of(tuned, "async_dc+consistency.a=true")["mode"],
                         "async_dc+consistency.a=true+schedule.base_lr=1")
        with self.assertRaises(KeyError):
            claims.mode_of(tuned, "ring")
        name = "async_dc+consistency.a=true+schedule.base_lr=1"
        self.assertEqual(claims.short(tuned, name), "async_dc+consistency.a=true")
        # Settings given by hand belong to the mode.
        self.assertEqual(claims.short({**tuned, "rules": []}, name), name)

    def test_tuning_prefers_what_fails_in_no_run_then_the_better_then_the_first(self):
        def tried(name, accuracy, failed=0):
            return {"mode": name, "failed": failed,
                    "final_accuracy": accuracy and {"mean": accuracy}}

        one = {"modes": [tried("a", 0.9, failed=1), tried("b", 0.7), tried("c", 0.8),
                         tried("d", 0.8), tried("e", None, failed=3), tried("f", 0.99)]}
        self.assertEqual(claims.best_of(one, "abcde"), "c")
        self.assertEqual(claims.best_of(one, "ea"), "a")
        self.assertEqual(list(claims.not_the_best(one, "abcde", "c")), [])
        found, = claims.not_the_best(one, "abcde", "b")
        self.assertEqual(found, claims.Finding(OPEN, "tuning found c, compared was b"))

    def test_all_parts_of_a_claim_must_hold(self):
        found = [claims.Finding(HOLDS, ""), claims.Finding(OPEN, "")]
        self.assertEqual(claims.overall(found[:1]), HOLDS)
        self.assertEqual(claims.overall(found), OPEN)
        self.assertEqual(claims.overall([*found, claims.Finding(FAILS, "")]), FAILS)


class ResultsTest(unittest.TestCase):
    def test_text_goes_between_its_marks_alone(self):
        text = "a\n<!-- begin E1 -->\nold\n<!-- end E1 -->\nb\n"
        new = results.put_between(text, "E1", "new\n")
        self.assertEqual(new, "a\n<!-- begin E1 -->\nnew\n<!-- end E1 -->\nb\n")
        for bad in ("a\n", new + new, "<!-- end E1 -->\n<!-- begin E1 -->\n"):
            with self.assertRaisesRegex(ExperimentError, "begin E1"):
                results.put_between(bad, "E1", "new\n")

    def test_the_document_has_the_figures_of_every_experiment(self):
        with open("docs/RESULTS.md", encoding="utf-8") as file:
            text = file.read()
        results.put_between(text, "summary", "")
        for experiment in EXPERIMENTS:
            results.put_between(text, experiment.name, "")
            wanted = [f"| {experiment.name} | "]
            for campaign in experiment.campaigns:
                wanted.append("    " + campaign.command(experiment.name))
                for picture in results.pictures_of(experiment, campaign):
                    wanted.append(f"({picture})")
                    self.assertTrue(os.path.exists(os.path.join("docs", picture)), picture)
            self.assertEqual([part for part in wanted if part not in text], [])

    def test_tries_are_shown_by_their_accuracy_alone(self):
        rows = [["mode", "accuracy", "time to 80.0 %", "waiting", "runs"], [*"abcde"]]
        shown = {"modes": [{"cluster": "c"}], "table": rows, "rules": []}
        for options, heads in (({"tries": True}, "mode | accuracy | runs"),
                               ({"timed": False}, "mode | accuracy | runs"),
                               ({}, "mode | accuracy | time to 80.0 % | waiting | runs")):
            one = Campaign("c", ("a",), 4, 64, (), pictures=(), **options)
            text = results.section(Experiment("E9", "so", (one,), None), [], {"c": shown}, 60)
            self.assertIn(f"| {heads} |", text)
            self.assertNotIn("![", text)

    def test_processor_time_of_earlier_series_counts(self):
        old, new = (Experiment(name, "so", (), None, earlier_min=earlier)
                    for name, earlier in (("E8", 30), ("E9", 0)))
        self.assertIn("time: 1.0 minutes, and 30.0 for what", results.section(old, [], {}, 60))
        self.assertIn("time: 1.0 minutes.", results.section(new, [], {}, 60))
        text = results.summary([(old, [], 60), (new, [], 60)])
        self.assertIn("| E8 | so | holds | 0 | 0 | 0 | 31.0 |", text)
        self.assertIn("All together: 0.53 hours of processor time, 0.50 of them", text)

    def test_commands_are_those_that_are_run(self):
        campaign = Campaign("c", ("sync", "lazy:ssp(3)"), 4, 64, ("--nodes", "4"), 2,
                            tune=("schedule.base_lr=0.1,0.2",))
        self.assertEqual(
            campaign.command("E9"),
            "strata compare bench/experiments/lenet5.textproto --modes 'sync,lazy:ssp(3)' --seeds 2"
            " --margin 0.005 --tune schedule.base_lr=0.1,0.2 --nodes 4 --set ranks=4 --set "
            "data.batch_per_rank=64 --out out/E9/c")
        self.assertEqual(campaign.arguments(reduced=True)[-1], "data.limit_train=2048")


if __name__ == "__main__":
    unittest.main()
