"""The benchmark of checkpoints at a tiny size: it must run, and its values must be right."""

import os
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import tiny  # noqa: E402


def test_costs_rates_and_what_goes_on_are_measured():
    result = tiny.run("checkpoints.py", "--bytes 1MiB --steps 20 --every 5 --no-goals")
    assert result["bytes"] > 3 * 2**20  # weights and Adam's two moments
    assert result["rate"] > 0
    assert result["resume"] > 0
