"""Runs the sound program and every mutant; fails if the sound one is red or a mutant green.

    run_mutants.py --seeds N --report FILE [--committed FILE] PRISTINE MUTANT...

A mutant's description lies beside its program's source, as NAME.mutation. The report is a table in
Markdown: which invariant caught which fault, at which seed. `--committed`: a report that must name
the same mutations, and the same invariants for them, as this run.
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
DEADLINE_S = 300  # of one program; the simulator ends a run that does not end by itself
HEADER = """# What the simulator makes of deliberate faults

Written by `bazel run //tests/sim/mutations:report`. Each row is the simulator with one fault built
in, run from the first seed to the first red one, which must violate the invariant that the mutation
names; the sound program was green for at least {seeds} seeds of each profile, and for as many as
any of its mutants, in the same run. README.md tells how a mutation is added.

| mutation | fault | source | profile | caught by | violation | seed |
| --- | --- | --- | --- | --- | --- | --- |
"""

Outcome = collections.namedtuple("Outcome", "name status mutation seed profile violation output")


def run(program, seeds, profile):
    try:
        done = subprocess.run(
            [program, str(seeds), profile],
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
        name, status, said("mutation"), said("seed"), profile, said("violation"), output
    )


def invariant(outcome):
    return outcome.violation.split(":")[0]


def verdict(outcome, is_pristine):
    """None where all is well, else what is wrong."""
    expected = "none" if is_pristine else outcome.name
    if outcome.mutation != expected:
        return f"holds the mutation '{outcome.mutation}', not '{expected}'"
    if is_pristine:
        return None if outcome.status == 0 else "the sound program is red"
    if outcome.status == 0:
        return "survived: no invariant sees this fault"
    if outcome.status != 1 or not outcome.violation:
        return f"ended with {outcome.status}, by no invariant"
    wanted = described(outcome.name, "caught by")
    if invariant(outcome) != wanted:
        return f"caught by '{invariant(outcome)}', not by '{wanted}'"
    return None


def described(name, what, otherwise=None):
    with open(f"{FOLDER}/{name}.mutation") as file:
        return mutate.field(file.read(), what, otherwise)


def row(outcome):
    fault, source = described(outcome.name, "fault"), described(outcome.name, "source")
    return (
        f"| {outcome.name} | {fault} | `{source}` | {outcome.profile} "
        f"| {invariant(outcome) or 'NOTHING'} | {outcome.violation} | {outcome.seed} |\n"
    )


def causes_in(text):
    """Mutation -> what has caught it, of a report."""
    rows = [line.split(" | ") for line in re.findall(r"^\| (\w+ \| .*) \|$", text, re.M)]
    return {row[0]: row[4] for row in rows if row[0] != "mutation"}


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

    def judge(program, profile, seeds):
        outcome = run(program, seeds, profile)
        is_pristine = program == args.programs[0]
        finding = verdict(outcome, is_pristine)
        name = f"{outcome.name} {profile}" if is_pristine else outcome.name
        findings[name] = finding
        where = f"seed {outcome.seed}: {outcome.violation}" if outcome.seed else "green"
        print(f"{'FAIL' if finding else 'ok  '} {name:32} {finding or where}")
        if finding:
            print(outcome.output)
        return row(outcome) if not is_pristine else ""

    profile_of = {
        program: described(os.path.basename(program), "profile", "all")
        for program in args.programs[1:]
    }
    seeds_of = {
        program: int(described(os.path.basename(program), "seeds", args.seeds))
        for program in profile_of
    }
    for profile in sorted(set(profile_of.values())):
        most = max(seeds_of[program] for program in profile_of if profile_of[program] == profile)
        judge(args.programs[0], profile, most)
    rows = [
        judge(program, profile, seeds_of[program]) for program, profile in profile_of.items()
    ]
    text = HEADER.format(seeds=args.seeds) + "".join(sorted(rows))
    with open(args.report, "w") as report:
        report.write(text)
    if args.committed:
        findings["report"] = None
        with open(args.committed) as committed:
            differing = set(causes_in(committed.read()).items()) ^ set(causes_in(text).items())
        if differing:
            findings["report"] = f"REPORT.md is old, see its head: {sorted(differing)}"
            print(f"FAIL {findings['report']}")
    write_cases(findings)
    return 1 if any(findings.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
