"""PyTorch models by Strata and by DDP over Gloo, side by side: time and memory.

usage: against_ddp.py STRATA PYTHON [--cases exchange lenet ...] [--pairs N]

PYTHON is an interpreter with torch; the package `strata` is taken from this tree, its library from
$STRATA_CLIENT_LIBRARY. Both sides train the same model on the same data with one thread a rank, in
turn (A B A B ...); the weights must have changed alike. Prints a row per case (cases.py): medians
of both sides, and the median of the pairs' figures: mostly the ratio of seconds a step.

Cases `shaped*` run on links of 1 Gbit/s that netlab.sh makes: 4 hosts with a rank each, and 4 more
hosts for Strata's servers. Where it can make none, a line says that they were skipped.
Cases `memory*`: the most that all processes held together while the timed steps were made, less
what they hold for a model of some 5 k parameters.
"""

import argparse
import dataclasses
import math
import os
import statistics
import subprocess
import sys
import tempfile

import cases
import sides
from sides import fail

SKIPPED = 77
GIB = 1 << 30
STEPS_OF_TINY = 300  # long enough to read memory meanwhile


def check_alike(name, case, ours, theirs):
    """Ends the program unless the weights of both sides have changed alike."""
    apart = math.dist(ours["sketch"], theirs["sketch"])
    moved = math.hypot(*theirs["sketch"])
    if not apart <= case.tolerance * moved or not moved > 0:
        fail(f"{name}: the weights' changes are {apart} apart, where they are {moved}")


def pair(place, name, case, words):
    """Runs each side once; returns pairs of their values with what each is of."""
    ours = place.strata(case, words)
    theirs = place.peer(case, words)
    check_alike(name, case, ours, theirs)
    if case.figure != cases.RATIO_OF_BYTES:
        a, b = (statistics.median(one["seconds"]) for one in (ours, theirs))
        figure = a / b
        if case.figure == cases.US_PER_TENSOR:
            figure = 1e6 * (a - b) / ours["tensors"]
        return {name: (1e3 * a, 1e3 * b, figure)}
    tiny = ["transformer-tiny", *words[1:], "--steps", str(STEPS_OF_TINY)]
    our_base = place.strata(case, tiny)
    its_base = place.peer(case, tiny)
    rows = {}
    for what, of_ours, of_its in (
        ("with the server", "training", "training"),
        ("without it", "training_without_servers", "training"),
        ("with it, begin and end of the run too", "ever", "ever"),
    ):
        a = (ours[of_ours] - our_base[of_ours]) / GIB
        b = (theirs[of_its] - its_base[of_its]) / GIB
        rows[f"{name}, {what}"] = (a, b, a / b)
    return rows


def rows(case, pairs):
    """Lines of the table."""
    lines = []
    unit = "GiB" if case.figure == cases.RATIO_OF_BYTES else "ms"
    for name in pairs[0]:
        ours, theirs, figures = zip(*(one[name] for one in pairs))
        lines.append(
            f"| {name} | {case.ranks} | {statistics.median(ours):.2f} {unit} | {case.peer} |"
            f" {statistics.median(theirs):.2f} {unit} | {statistics.median(figures):.3f}"
            f" ({min(figures):.3f} to {max(figures):.3f}) | {case.figure} | {case.goal:.3f} |"
        )
    return "\n".join(lines)


def chosen(options, name):
    """Returns the case, and words of rank.py for both sides, as the options have it."""
    case = cases.CASES[name]
    words = list(case.words)
    if options.tiny:
        case = dataclasses.replace(case, ranks=min(case.ranks, 2))
        words += ["--warmup", "1", "--steps", "3", "--mib", "1"]
        if words[0] == "transformer-100m":
            words[0] = "transformer"
    if options.steps:
        words += ["--steps", str(options.steps)]
    return case, words


def measure(options, names):
    """Prints the rows of cases, all on this host or all in the lab."""
    for name in names:
        case, words = chosen(options, name)
        with tempfile.TemporaryDirectory(prefix="strata-python-") as scratch:
            place = (sides.Lab if case.lab else sides.Here)(options, scratch)
            pairs = [pair(place, name, case, words) for _ in range(options.pairs)]
        print(rows(case, pairs), flush=True)


def in_lab(options, names):
    """Runs this program for some cases where netlab.sh has made hosts."""
    hosts = 2 * max(cases.CASES[name].ranks for name in names)
    command = [os.path.join(os.path.dirname(sides.HERE), "netlab.sh"), "--hosts", str(hosts)]
    command += ["--once", "--", sys.executable, os.path.abspath(__file__), *sys.argv[1:]]
    where = command.index("--options") if "--options" in command else len(command)
    command[where:where] = ["--hosts-file", "{hosts}"]
    status = subprocess.run(command, check=False).returncode
    if status == SKIPPED:
        print(f"skipped, as the lab takes root: {' '.join(names)}", flush=True)
    elif status:
        sys.exit(status)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("strata", type=os.path.abspath)
    parser.add_argument("python", type=os.path.abspath)
    parser.add_argument("--cases", nargs="+", choices=cases.CASES, default=list(cases.CASES))
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--steps", type=int, help="in place of each case's own")
    parser.add_argument(
        "--tiny", action="store_true", help="2 ranks, few steps, small models: for a test"
    )
    parser.add_argument("--hosts-file", help=argparse.SUPPRESS)
    parser.add_argument(
        "--options", nargs=argparse.REMAINDER, default=[], help="of `strata run`; last"
    )
    options = parser.parse_args()
    sides.set_environment()
    of_lab = [name for name in options.cases if cases.CASES[name].lab]
    if options.hosts_file:
        return measure(options, of_lab)
    print("| case | ranks | Strata | peer | its | figure (least to most) | of | goal |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    measure(options, [name for name in options.cases if not cases.CASES[name].lab])
    if of_lab:
        in_lab(options, of_lab)


if __name__ == "__main__":
    main()
