"""Runs a benchmark of this folder at a tiny size, for its test."""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def run(program, words):
    """Returns the report of `program STRATA PYTHON words --json`; it must end well."""
    command = [sys.executable, os.path.join(HERE, program), os.environ["STRATA_COMMAND"]]
    command += [sys.executable, *words.split(), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)
