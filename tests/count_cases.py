"""Counts test cases of a finished `bazel test`; used by tests/run.sh.

usage: count_cases.py LOG TESTLOGS_DIR BAZEL_STATUS

LOG is what `bazel test` and tests/fuzz.sh printed. Each target in Bazel's summary counts with the
cases of its test.xml; a target that has none (it did not build, or ran out of time) counts as one
failed case. Of targets that did not build, Bazel names five and counts the others. A fuzz target is
one case. Cases that were skipped count as neither: each is printed
with its reason. Prints "N passed, N failed" and exits 1 if any case failed or Bazel itself did.
"""

import os
import re
import sys
import xml.etree.ElementTree as ElementTree

SUMMARY = re.compile(
    r"^(//\S+)\s+(?:\(cached\) )?(PASSED|FLAKY|FAILED TO BUILD|FAILED|TIMEOUT|NO STATUS)\b"
)
# "Executed 0 out of 63 tests: 4 tests pass and 59 fail to build."
NOT_BUILT = re.compile(r"^Executed \d+ out of \d+ tests?:.* (\d+) fails? to build")
FUZZED = re.compile(r"^fuzz/\S+ (PASSED|FAILED):")


def cases(report):
    """Returns (cases that ran, failed cases, lines about skipped ones) of one test.xml."""
    total = failed = 0
    skipped = []
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        skip = case.find("skipped")
        if skip is not None:
            reason = " ".join((skip.get("message") or skip.text or "").split())
            skipped.append(f"{case.get('classname')}.{case.get('name')}: {reason}")
            continue
        total += 1
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
    return total, failed, skipped


def main(log, testlogs, bazel_status):
    passed = failed = 0
    with open(log, encoding="utf-8", errors="replace") as opened:
        lines = opened.readlines()
    outcomes = {m.group(1): m.group(2) for m in map(SUMMARY.match, lines) if m}
    for fuzzed in filter(None, map(FUZZED.match, lines)):
        good = fuzzed.group(1) == "PASSED"
        passed += good
        failed += not good
    skipped = []
    for target, outcome in outcomes.items():
        report = os.path.join(testlogs, target[2:].replace(":", "/"), "test.xml")
        good = outcome in ("PASSED", "FLAKY")
        try:
            if outcome not in ("PASSED", "FLAKY", "FAILED"):
                raise FileNotFoundError(report)
            total, bad, left_out = cases(report)
            skipped += [f"skipped: {target} {text}" for text in left_out]
        except (OSError, ElementTree.ParseError):
            total, bad = 1, 0 if good else 1
        if not good and bad == 0:
            bad, total = 1, max(total, 1)
        passed += total - bad
        failed += bad
    for not_built in filter(None, map(NOT_BUILT.match, lines)):
        failed += int(not_built.group(1)) - list(outcomes.values()).count("FAILED TO BUILD")
    if bazel_status != 0 and failed == 0:
        failed = 1
    if passed + failed == 0:
        failed = 1
    for line in skipped:
        print(line)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
