"""The benchmark of a node's death at a tiny size: it must run, and its values must be right."""

import os
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import tiny  # noqa: E402


def test_deaths_of_a_node_are_measured():
    result = tiny.run("node_death.py", "--bytes 1000000 --rounds 1")
    assert [side["name"] for side in result["sides"]] == [
        "Strata, sync", "Strata, async", "Strata, ring"]
    for side in result["sides"]:
        assert [one["thrown_away"] for one in side["rounds"]] == [0]
        assert side["rounds"][0]["longest_s"] >= side["rounds"][0]["next_step_s"] > 0
    assert all(side["rounds"][0]["back_s"] > 0 for side in result["sides"][:2])
    assert result["sides"][2]["rounds"][0]["back_s"] is None
