#!/usr/bin/env python3
"""Checks the whole source tree against STYLE's countable rules; see README.md beside this file.

  run.py [ROOT]    ROOT: the workspace; default: the one that this file lies in
"""

import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import folders  # noqa: E402
import rules  # noqa: E402
import weight  # noqa: E402

# Files whose one purpose needs a banned call.
ALLOWED = {}


class Tree:
    """The text files of a source tree, by path from its root."""

    def __init__(self, texts, ratchet=None, allowed=None):
        self._texts = texts
        self.paths = sorted(texts)
        self.ratchet = ratchet or {}
        self.allowed = allowed or {}

    def text(self, path):
        return self._texts[path]


def tracked_files(root):
    """What git would commit: tracked and new files, without ignored ones."""
    if os.path.isdir(os.path.join(root, ".git")) or os.path.isfile(os.path.join(root, ".git")):
        command = ["git", "-c", "safe.directory=*", "-C", root, "ls-files", "-z", "--cached"]
        command += ["--others", "--exclude-standard"]
        listed = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if listed.returncode == 0:
            return [path for path in listed.stdout.decode().split("\0") if path]
    paths = []
    for folder, names, files in os.walk(root):
        names[:] = [n for n in names if not n.startswith((".", "bazel-", "strata-runs"))]
        paths += [os.path.relpath(os.path.join(folder, name), root) for name in files]
    return paths


def load(root):
    texts = {}
    for path in tracked_files(root):
        full = os.path.join(root, path)
        if os.path.islink(full) or not os.path.isfile(full):
            continue
        with open(full, "rb") as file:
            content = file.read()
        if b"\0" not in content:
            texts[path] = content.decode("utf-8", "replace")
    ratchet = {}
    for line in texts.get("tests/tidy/ratchet.txt", "").split("\n"):
        found = re.match(r"(\d+)\s+(\S+)$", line)
        if found:
            ratchet[found.group(2)] = int(found.group(1))
    return Tree(texts, ratchet, ALLOWED)


def clang_format(root, tree):
    """What clang-format would change; nothing where it is not installed."""
    program = shutil.which("clang-format")
    sources = [path for path in tree.paths if rules.is_source(path)]
    if program is None or not sources:
        return
    checked = subprocess.run(
        [program, "--dry-run", "-Werror", "--style=file"] + sources,
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    for line in checked.stdout.decode("utf-8", "replace").split("\n"):
        if ": error:" in line:
            yield re.sub(r": error: .*", ": run clang-format -i", line)


def main():
    # Bazel shows this file through a link.
    here = os.path.dirname(os.path.realpath(__file__))
    root = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "../.."))
    tree = load(root)
    sources = sum(1 for path in tree.paths if rules.is_source(path))
    found = [finding for rule in rules.ALL + folders.ALL + weight.ALL for finding in rule(tree)]
    found += list(clang_format(root, tree))
    for finding in found:
        print(finding)
    print(f"{len(tree.paths)} files, {sources} of C++ in {root}: {len(found)} findings")
    # A tree without sources is not this project: the check would say nothing.
    return 1 if found or sources < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
