#!/usr/bin/env python3
"""Checks that every test that a tracked Markdown file names is there.

  named_tests.py [ROOT]    ROOT: the workspace; default: the one that this file lies in

A target is named as `FOLDER:NAME_test`, with or without // before it, and a test of it in the code
that follows on the same line, as `SUITE.NAME`. A BUILD file must have the target, and one of the
target's sources the test, or one of those of a suite (`NAME_suite`) of the same file that it links.
"""

import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from links import tracked_files  # noqa: E402

TARGET = r"`(?://)?([\w/]+):(\w+_test)`"
NAMED = re.compile(TARGET + r"(?:[ |,]+`(\w+)\.(\w+)`)?")
RULE = r"^\w+\(\n(?:(?!^\)).*\n)*?    name = \"%s\",\n((?:(?!^\)).*\n)*)"
SOURCES = re.compile(r"\"([\w.]+\.cc?)\"")
SUITES = re.compile(r"\":(\w+_suite)\"")
# Matches tests of googletest, also with the name in the next line.
DEFINED = r"\bTEST(?:_F|_P)?\(\s*%s,\s*%s\)"


def named(text):
    """Yields (line number, folder, target, suite, test); without a test the last two are None."""
    for number, line in enumerate(text.split("\n"), 1):
        for found in NAMED.finditer(line):
            yield (number, *found.groups())


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def sources(root, tracked, folder, target):
    """Returns the text of a target's sources, or None where there is no such target."""
    build = f"{folder}/BUILD"
    rule = re.search(RULE % target, read(root, build), re.M) if build in tracked else None
    if rule is None:
        return None
    paths = [f"{folder}/{name}" for name in SOURCES.findall(rule.group(1))]
    texts = [read(root, path) for path in paths if path in tracked]
    suites = SUITES.findall(rule.group(1))
    return "\n".join(texts + [sources(root, tracked, folder, suite) or "" for suite in suites])


def check(root, paths):
    """Yields what is wrong in the Markdown files among tracked paths, as "PATH:LINE: text"."""
    tracked = set(paths)
    for path in sorted(paths):
        if not path.endswith(".md"):
            continue
        for line, folder, target, suite, test in named(read(root, path)):
            text = sources(root, tracked, folder, target)
            if text is None:
                yield f"{path}:{line}: {folder}:{target}: no such target"
            elif test and not re.search(DEFINED % (suite, test), text):
                yield f"{path}:{line}: {folder}:{target}: has no test {suite}.{test}"


def main():
    here = os.path.dirname(os.path.realpath(__file__))
    root = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "../.."))
    paths = tracked_files(root)
    found = list(check(root, paths))
    for finding in found:
        print(finding)
    tests = [one for path in paths if path.endswith(".md") for one in named(read(root, path))]
    print(f"{len(tests)} tests are named in {root}: {len(found)} of them are not there")
    # A tree whose pages name none is not this project: the check would say nothing.
    return 1 if found or len(tests) < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
