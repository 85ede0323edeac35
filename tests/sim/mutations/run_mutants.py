"""Runs every mutant, then the sound code; fails if a mutant is green or the sound code red.

    run_mutants.py --seeds N --report FILE PROGRAM

The program holds all mutants (mutant_main.cc); as many of it run at once as there are processors.
The report is a table in Markdown: which invariant caught which fault, at which seed.
"""

import argparse
import collections
import concurrent.futures
import functools
import glob
import os
import re
import subprocess
import sys
from xml.sax.saxutils import quoteattr

import mutate

FOLDER = "tests/sim/mutations"
DEADLINE_S = 300  # of one run; the simulator ends a seed that does not end by itself
SOUND = "none"  # the mutation that changes nothing
HEADER = """# What the simulator makes of deliberate faults

Written by `bazel run //tests/sim/mutations:report`. Each row is the simulator with one fault built
in, run from the first seed to the first red one, which must violate the invariant that the mutation
names; the sound code was green for each profile's seeds up to the last of these, in the same run.
README.md tells how a mutation is added.

| mutation | fault | source | profile | caught by | violation | seed |
| --- | --- | --- | --- | --- | --- | --- |
"""

Run = collections.namedtuple("Run", "name profile seeds")
Outcome = collections.namedtuple("Outcome", "name status mutation seed profile violation output")


def outcome_of(program, run):
    try:
        done = subprocess.run(
            [program, run.name, str(run.seeds), run.profile],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=DEADLINE_S,
            check=False,
        )
        status, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        status, output = "no end", late.stdout or b""
    output = output.decode(errors="replace")

    def said(key):
        found = re.search(rf"^{key}: (.*)$", output, re.M)
        return found.group(1) if found else ""

    return Outcome(
        run.name, status, said("mutation"), said("seed"), run.profile, said("violation"), output
    )


def invariant(outcome):
    return outcome.violation.split(":")[0]


def verdict(outcome):
    """None where all is well, else what is wrong."""
    if outcome.mutation != outcome.name:
        return f"runs the mutation '{outcome.mutation}', not '{outcome.name}'"
    if outcome.name == SOUND and outcome.status == 0:
        return None
    if outcome.status == 0:
        return "survived: no invariant sees this fault"
    if outcome.status != 1 or not outcome.violation:
        return f"ended with {outcome.status}, by no invariant"
    if outcome.name == SOUND:
        return "the sound code is red"
    wanted = mutations()[outcome.name].caught_by
    if invariant(outcome) != wanted:
        return f"caught by '{invariant(outcome)}', not by '{wanted}'"
    return None


@functools.cache
def mutations():
    return mutate.read_all(sorted(glob.glob(f"{FOLDER}/*.mutations")))


def row(outcome):
    mutation = mutations()[outcome.name]
    return (
        f"| {outcome.name} | {mutation.fault} | `{mutation.source}` | {outcome.profile} "
        f"| {invariant(outcome) or 'NOTHING'} | {outcome.violation} | {outcome.seed} |\n"
    )


def mutants(seeds):
    """One run for each mutation, by name."""
    return [
        Run(name, mutation.profile, int(mutation.seeds or seeds))
        for name, mutation in sorted(mutations().items())
    ]


def sound(outcomes):
    """The sound code's runs: each profile's seeds up to the last that made a mutant red."""
    last = collections.Counter()
    for outcome in outcomes:
        last[outcome.profile] = max(last[outcome.profile], int(outcome.seed or 1))
    return [Run(SOUND, profile, last[profile]) for profile in sorted(last)]


def judge(outcome, findings):
    finding = verdict(outcome)
    name = f"{SOUND} {outcome.profile}" if outcome.name == SOUND else outcome.name
    findings[name] = finding
    where = f"seed {outcome.seed}: {outcome.violation}" if outcome.seed else "green"
    print(f"{'FAIL' if finding else 'ok  '} {name:32} {finding or where}", flush=True)
    if finding:
        print(outcome.output)


def refuses_what_it_does_not_hold(program):
    """None, or what the program makes of a name that no mutation has."""
    outcome = outcome_of(program, Run("no_such_mutation", "all", 1))
    if outcome.status == 2 and outcome.output == "no mutation is named 'no_such_mutation'\n":
        return None
    return f"takes a name that no mutation has: {outcome.status}, {outcome.output}"


def write_cases(findings):
    """One case per program, for who counts test cases."""
    path = os.environ.get("XML_OUTPUT_FILE")
    if not path:
        return
    with open(path, "w") as file:
        failures = sum(1 for finding in findings.values() if finding)
        file.write(
            f'<testsuites><testsuite name="mutations" tests="{len(findings)}"'
            f' failures="{failures}">\n'
        )
        for name, finding in findings.items():
            inner = f"<failure message={quoteattr(finding)}/>" if finding else ""
            file.write(f"<testcase name={quoteattr(name)}>{inner}</testcase>\n")
        file.write("</testsuite></testsuites>\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, required=True)
    parser.add_argument("--report", required=True)
    parser.add_argument("program")
    args = parser.parse_args()

    findings, outcomes = {}, []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:

        def run_all(runs):
            for outcome in pool.map(lambda run: outcome_of(args.program, run), runs):
                judge(outcome, findings)
                yield outcome

        outcomes = list(run_all(mutants(args.seeds)))
        list(run_all(sound(outcomes)))
    text = HEADER + "".join(sorted(row(outcome) for outcome in outcomes))
    with open(args.report, "w") as report:
        report.write(text)
    findings["an unknown name"] = refuses_what_it_does_not_hold(args.program)
    if findings["an unknown name"]:
        print(f"FAIL {findings['an unknown name']}")
    write_cases(findings)
    return 1 if any(findings.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
