"""The benchmark of nodes that join and leave at a tiny size: it must run, and its values must be
right."""

import os
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import tiny  # noqa: E402


def test_a_node_that_joins_and_leaves_is_measured():
    result = tiny.run("join_and_drain.py", "--bytes 1000000 --pause 0.02 --rounds 1")
    assert len(result["rounds"]) == 1
    for one in result["rounds"][0].values():
        assert one["begins"] > 0 and one["change"] > 0 and one["until_s"] > 0
