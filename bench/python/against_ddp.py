"""PyTorch models by Strata and by DDP over Gloo, side by side: time and memory.

usage: against_ddp.py STRATA PYTHON [--cases exchange lenet ...] [--pairs N]

PYTHON is an interpreter with torch; the package `strata` is taken from this tree, its library from
$STRATA_CLIENT_LIBRARY. Both sides train the same model on the same data with one thread a rank, in
turn (A B A B ...); the weights must have changed alike. Prints a row per case (cases.py): medians
of both sides, and the median of the pairs' figures: mostly the ratio of seconds a step.

Cases `shaped*` run on links of 1 Gbit/s that netlab.sh makes: 4 hosts with a rank each, and 4 more
hosts for Strata's servers. Where it can make none, a line says that they were skipped.
Cases `memory*`: the most that all processes held, less what they hold for a model of some 5 k
parameters.
"""

import argparse
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


def check_alike(name, case, ours, theirs):
    """Ends the program unless the weights of both sides have changed alike."""
    apart = math.dist(ours["sketch"], theirs["sketch"])
    moved = math.hypot(*theirs["sketch"])
    if not apart <= case.tolerance * moved or not moved > 0:
        fail(f"{name}: the weights' changes are {apart} apart, where they are {moved}")


def pair(place, name, case, words):
    """Returns Strata's value, the peer's, and a figure of them, of one run of each."""
    reads_memory = case.figure == cases.RATIO_OF_BYTES
    ours = place.strata(case, words, reads_memory=reads_memory)
    theirs = place.peer(case, words, reads_memory=reads_memory)
    check_alike(name, case, ours, theirs)
    if reads_memory:
        tiny = ["transformer-tiny", *words[1:]]
        our_base = place.strata(case, tiny, reads_memory=True)
        its_base = place.peer(case, tiny, reads_memory=True)
        b = theirs["total"] - its_base["total"]
        a, without = (ours[k] - our_base[k] for k in ("total", "without_servers"))
        return [a, b, a / b, without, without / b]
    a, b = (statistics.median(one["seconds"]) for one in (ours, theirs))
    if case.figure == cases.US_PER_TENSOR:
        return [a, b, 1e6 * (a - b) / ours["tensors"]]
    return [a, b, a / b]


def row(name, case, pairs):
    """A line of the table."""
    columns = list(zip(*pairs))
    medians = [statistics.median(column) for column in columns]

    def spread(number):
        return f"{medians[number]:.3f} ({min(columns[number]):.3f} to {max(columns[number]):.3f})"

    def line(what, a, figure):
        unit, factor = ("ms", 1e3) if case.figure != cases.RATIO_OF_BYTES else ("GiB", 1 / GIB)
        return (
            f"| {what} | {case.ranks} | {medians[a] * factor:.2f} {unit} | {case.peer} |"
            f" {medians[1] * factor:.2f} {unit} | {spread(figure)} | {case.figure} |"
            f" {case.goal:.3f} |"
        )

    if case.figure != cases.RATIO_OF_BYTES:
        return line(name, 0, 2)
    return line(f"{name}, with the server", 0, 2) + "\n" + line(f"{name}, without it", 3, 4)


def measure(options, names):
    """Prints the rows of cases, all on this host or all in the lab."""
    for name in names:
        case = cases.CASES[name]
        words = list(case.words)
        for option in ("steps", "warmup", "mib"):
            if getattr(options, option) is not None:
                words += [f"--{option}", str(getattr(options, option))]
        if options.tiny and case.figure == cases.RATIO_OF_BYTES:
            words[0] = "transformer"
        with tempfile.TemporaryDirectory(prefix="strata-python-") as scratch:
            place = (sides.Lab if case.lab else sides.Here)(options, scratch)
            pairs = [pair(place, name, case, words) for _ in range(options.pairs)]
        print(row(name, case, pairs), flush=True)


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
    parser.add_argument("--warmup", type=int, help="in place of each case's own")
    parser.add_argument("--mib", type=float, help="gradients of `exchange` and `shaped*`")
    parser.add_argument("--tiny", action="store_true", help="a small model for `memory*`")
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
