"""The benchmark of a node's death at a tiny size: it must run, and its values must be right."""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def test_deaths_of_a_node_are_measured():
    words = "--bytes 1000000 --rounds 1 --json".split()
    done = subprocess.run(
        [sys.executable, os.path.join(HERE, "node_death.py"), os.environ["STRATA_COMMAND"]]
        + [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert [side["name"] for side in result["sides"]] == ["Strata, sync", "Strata, async"]
    for side in result["sides"]:
        assert [one["thrown_away"] for one in side["rounds"]] == [0]
        assert side["rounds"][0]["longest_s"] >= side["rounds"][0]["next_step_s"] > 0
        assert side["rounds"][0]["back_s"] > 0
