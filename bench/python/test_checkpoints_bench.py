"""The benchmark of checkpoints at a tiny size: it must run, and its values must be right."""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def test_costs_rates_and_what_goes_on_are_measured():
    words = "--bytes 1MiB --steps 20 --every 5 --no-goals --json".split()
    done = subprocess.run(
        [sys.executable, os.path.join(HERE, "checkpoints.py"), os.environ["STRATA_COMMAND"]]
        + [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["bytes"] > 3 * 2**20  # weights and Adam's two moments
    assert result["rate"] > 0
    assert result["resume"] > 0
