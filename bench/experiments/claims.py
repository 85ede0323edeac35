"""A report's verdicts on claims: pure functions from report.json to a verdict and its figures.

A claim *holds* where the 95 % interval lies on its side of the bound, *fails* where it lies on the
other, and is *open* where it contains the bound: the seeds were too few to say. Runs that failed
are in no interval, so that nothing in a mode's favour holds where some of its own did, or the
baseline's. Bytes and step times are single figures.
"""

import dataclasses

TUNED = ("schedule.base_lr=", "optimizer.momentum_sgd.momentum=")  # fields
HOLDS, FAILS, OPEN = "holds", "does not hold", "open"


@dataclasses.dataclass(frozen=True)
class Finding:
    verdict: str  # HOLDS, FAILS, OPEN
    figures: str  # a clause


def mode_of(report, name):
    """The mode of that name, or the one that tuning made of it (NAME+FIELD=VALUE...): the shortest
    that fits, where others have fields of their own before those."""
    for mode in report["modes"]:
        if mode["mode"] == name:
            return mode
    tuned = [mode for mode in report["modes"] if mode["mode"].startswith(name + "+")]
    if not tuned:
        raise KeyError(f"the report has no mode {name}")
    return min(tuned, key=lambda mode: len(mode["mode"]))


def baseline_of(report):
    return report["modes"][0]


def short(report, mode):
    """A mode's name without what it was tuned to, which the report says in a rule."""
    if not any(rule.startswith("Tuned") for rule in report["rules"]):
        return mode
    parts = mode.split("+")
    return "+".join(part for part in parts if not part.startswith(TUNED))


def best_of(report, tries):
    """Returns the mode with the fewest failed runs; among equals the greatest mean final accuracy
    decides, then the order."""
    def rank(mode):
        accuracy = mode["final_accuracy"]
        return -mode["failed"], accuracy["mean"] if accuracy else 0

    return max((mode_of(report, name) for name in tries), key=rank)["mode"]


def not_the_best(report, tries, chosen):
    """A Finding where tuning found another than what the comparison has; else none."""
    best = best_of(report, tries)
    if best != chosen:
        yield Finding(OPEN, f"tuning found {best}, compared was {chosen}")


def _points(estimate):
    text = f"{100 * estimate['mean']:+.2f} points"
    if estimate["low"] is not None:
        text += f" ({100 * estimate['low']:+.2f} to {100 * estimate['high']:+.2f})"
    return text


def _side(low, high, holds, fails):
    """holds, fails: of an interval's ends."""
    if low is None:
        return OPEN
    if holds(low, high):
        return HOLDS
    return FAILS if fails(low, high) else OPEN


def _nothing(report, name):
    return Finding(OPEN, f"{short(report, name)} and {short(report, baseline_of(report)['mode'])}: "
                         "no pair of runs has finished")


def _failures(report, name):
    """", 1 of 3 runs of sync failed", of the mode and the baseline; empty where none did."""
    text = ""
    for mode in (mode_of(report, name), baseline_of(report)):
        if mode["failed"]:
            text += f", {mode['failed']} of {len(mode['runs'])} runs of "
            text += f"{short(report, mode['mode'])} failed"
    return text


def _by_difference(report, name, holds, fails, in_favour=True):
    """By the interval of a mode's final accuracy less the baseline's. in_favour: whether the claim
    speaks for the mode, so that runs of its that failed cannot bear it out."""
    comparison = mode_of(report, name)["comparison"]
    if not comparison["pairs"]:
        return _nothing(report, name)
    difference = comparison["accuracy"]
    verdict = _side(difference["low"], difference["high"], holds, fails)
    failures = _failures(report, name)
    if failures and (in_favour or verdict == FAILS):
        verdict = OPEN
    return Finding(verdict, f"{short(report, name)}: {_points(difference)} from "
                            f"{short(report, baseline_of(report)['mode'])}{failures}")


def equal_within(report, name, points):
    """The mode's final accuracy equals the baseline's within +- points."""
    bound = points / 100
    return _by_difference(report, name, lambda low, high: -bound <= low and high <= bound,
                          lambda low, high: high < -bound or low > bound)


def at_most_above(report, name, points):
    """The mode's final accuracy is at most `points` above the baseline's."""
    bound = points / 100
    return _by_difference(report, name, lambda low, high: high <= bound,
                          lambda low, high: low > bound)


def at_most_below(report, name, points):
    """The mode's final accuracy is at most `points` below the baseline's."""
    bound = -points / 100
    return _by_difference(report, name, lambda low, high: low >= bound,
                          lambda low, high: high < bound)


def loses(report, name, points):
    """The mode diverges, or ends at least `points` below the baseline, in the runs that do not."""
    mode, baseline = mode_of(report, name), baseline_of(report)
    diverged = [run for run in mode["runs"] if run.get("diverged", False)]
    if baseline["failed"] or len(diverged) < mode["failed"]:
        return Finding(OPEN, f"{short(report, name)}{_failures(report, name)}")
    if len(diverged) == len(mode["runs"]):
        return Finding(HOLDS, f"{short(report, name)}: diverges in all of {len(diverged)} runs")
    bound = -points / 100
    return _by_difference(report, name, lambda low, high: high <= bound,
                          lambda low, high: low > bound, in_favour=False)


def better(report, name):
    """The mode ends above the baseline."""
    return _by_difference(report, name, lambda low, high: low > 0, lambda low, high: high <= 0)


def sooner(report, name, factor):
    """The mode reaches the target accuracy `factor` times sooner than the baseline."""
    mode, baseline = mode_of(report, name), baseline_of(report)
    if report["target_accuracy"] is None:
        return _nothing(report, name)
    target = f"{100 * report['target_accuracy']:.1f} %"
    speedup = mode["comparison"]["speedup"]
    if speedup is None:
        runs = len(mode["runs"])
        missed = mode["reached"] < runs and baseline["reached"] == len(baseline["runs"])
        return Finding(FAILS if missed else OPEN,
                       f"{short(report, name)} reaches {target} in {mode['reached']} of {runs} "
                       f"runs, {short(report, baseline['mode'])} in {baseline['reached']}")
    verdict = _side(speedup["low"], speedup["high"], lambda low, high: low >= factor,
                    lambda low, high: high < factor)
    text = f"{short(report, name)} reaches {target} {speedup['mean']:.2f} × sooner"
    if speedup["low"] is not None:
        text += f" ({speedup['low']:.2f} to {speedup['high']:.2f})"
    return Finding(verdict, text)


def fewer_bytes(report, name, factor):
    """The mode moves at most 1 / factor of the baseline's bytes in a step."""
    own = mode_of(report, name)["bytes_per_step"]
    base = baseline_of(report)["bytes_per_step"]
    if own is None or base is None:
        return _nothing(report, name)
    ratio = base["mean"] / own["mean"]
    return Finding(HOLDS if ratio >= factor else FAILS,
                   f"{short(report, name)}: 1/{ratio:.1f} of the bytes")


def step_time(case, step_ms, compute_ms, exchange_ms, within):
    """A step takes the longer of computation and exchange, +- `within` (a share)."""
    ratio = step_ms / max(compute_ms, exchange_ms)
    return Finding(HOLDS if abs(ratio - 1) <= within else FAILS,
                   f"{case}: {step_ms:.1f} ms a step, {compute_ms:.1f} of computation and "
                   f"{exchange_ms:.1f} of exchange: {ratio:.3f} of the longer")


def overall(findings):
    """Returns the verdict on a claim with several parts: all must hold."""
    verdicts = [finding.verdict for finding in findings]
    if FAILS in verdicts:
        return FAILS
    return OPEN if OPEN in verdicts else HOLDS
