#!/usr/bin/env python3
"""Writes the table of docs/metrics.md from what /metrics says of a sample cluster.

  metrics_reference.py [--check] [PRINT_SAMPLE]

  --check        only says whether the table is current
  PRINT_SAMPLE   the program that prints the sample; default: that of bazel-bin
"""

import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import document  # noqa: E402

OUTPUT = "docs/metrics.md"
PROGRAM = "cli/web/print_sample"
COMMAND = ("bazel build //cli/web:print_sample && "
           "python3 docs/generate/metrics_reference.py")
HEAD = "| metric | what it is |\n| --- | --- |\n"


def families(sample):
    """Name as Prometheus has it, and help, of every family."""
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", sample, re.M))
    found = []
    for name, text in re.findall(r"^# HELP (\S+) (.+)$", sample, re.M):
        found.append((name + ("_total" if kinds[name] == "counter" else ""), text))
    return found


def render(program, path):
    sample = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout
    with open(path, encoding="utf-8") as file:
        prose, head, _ = file.read().partition(HEAD)
    if not head:
        raise SystemExit(f"{path} has no table that begins {HEAD.splitlines()[0]!r}")
    rows = [f"| `{name}` | {document.escape(text)} |\n" for name, text in families(sample)]
    return prose + head + "".join(rows)


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    program = os.path.abspath(arguments[0] if arguments else os.path.join("bazel-bin", PROGRAM))
    return document.finish(render(program, OUTPUT), OUTPUT, "--check" in sys.argv[1:], COMMAND)


if __name__ == "__main__":
    sys.exit(main())
