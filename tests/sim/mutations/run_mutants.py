"""Runs the sound program and every mutant; fails if the sound one is red or a mutant green.

    run_mutants.py --seeds N --report FILE [--committed FILE] PRISTINE MUTANT...

A mutant's description lies beside its program's source, as NAME.mutation. The report is a table in
Markdown: which invariant caught which fault, at which seed. `--committed`: a report that must name
the same mutations as this run.
"""

import argparse
import collections
import os
import re
import subprocess
import sys
from xml.sax.saxutils import quoteattr

import mutate

FOLDER = "tests/sim/mutations"
DEADLINE_S = 120  # of one program; the simulator ends a run that does not end by itself
HEADER = """# What the simulator makes of deliberate faults

Written by `bazel run //tests/sim/mutations:report`. Each row is the simulator with one fault built
in, run from the first seed to the first red one; the sound program was green for {seeds} seeds in
the same run. README.md tells how a mutation is added.

| mutation | fault | source | caught by | seed | seeds needed |
| --- | --- | --- | --- | --- | --- |
"""

Outcome = collections.namedtuple("Outcome", "name status mutation seed seeds invariant output")


def run(program, seeds):
    try:
        done = subprocess.run(
            [program, str(seeds)],
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

    name = os.path.basename(program)
    return Outcome(
        name, status, said("mutation"), said("seed"), said("seeds"), said("invariant"), output
    )


def verdict(outcome, is_pristine):
    """None where all is well, else what is wrong."""
    expected = "none" if is_pristine else outcome.name
    if outcome.mutation != expected:
        return f"holds the mutation '{outcome.mutation}', not '{expected}'"
    if is_pristine:
        return None if outcome.status == 0 else "the sound program is red"
    if outcome.status == 0:
        return "survived: no invariant sees this fault"
    if outcome.status != 1 or not outcome.invariant:
        return f"ended with {outcome.status}, by no invariant"
    return None


def described(name):
    with open(f"{FOLDER}/{name}.mutation") as file:
        text = file.read()
    return mutate.field(text, "fault"), mutate.field(text, "source")


def row(outcome):
    fault, source = described(outcome.name)
    return (
        f"| {outcome.name} | {fault} | `{source}` | {outcome.invariant or 'NOTHING'} "
        f"| {outcome.seed} | {outcome.seeds} |\n"
    )


def names_in(report):
    with open(report) as file:
        return set(re.findall(r"^\| (\w+) \|.*\|$", file.read(), re.M)) - {"mutation"}


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
    parser.add_argument("--committed")
    parser.add_argument("programs", nargs="+")
    args = parser.parse_args()

    findings = {}
    rows = []
    for program in args.programs:
        is_pristine = program == args.programs[0]
        outcome = run(program, args.seeds)
        finding = verdict(outcome, is_pristine)
        findings[outcome.name] = finding
        where = f"seed {outcome.seed}: {outcome.invariant}" if outcome.seed else "green"
        print(f"{'FAIL' if finding else 'ok  '} {outcome.name:32} {finding or where}")
        if finding:
            print(outcome.output)
        if not is_pristine:
            rows.append(row(outcome))
    with open(args.report, "w") as report:
        report.write(HEADER.format(seeds=args.seeds) + "".join(sorted(rows)))
    if args.committed:
        mutants = set(findings) - {os.path.basename(args.programs[0])}
        differing = names_in(args.committed) ^ mutants
        findings["report"] = (
            f"REPORT.md is old, see its head: {sorted(differing)}" if differing else None
        )
        if differing:
            print(f"FAIL {findings['report']}")
    write_cases(findings)
    return 1 if any(findings.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
