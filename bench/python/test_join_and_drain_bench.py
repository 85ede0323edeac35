"""The benchmark of nodes that join and leave at a tiny size: it must run, and its values must be
right."""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def test_a_node_that_joins_and_leaves_is_measured():
    words = "--bytes 1000000 --pause 0.02 --rounds 1 --json".split()
    done = subprocess.run(
        [sys.executable, os.path.join(HERE, "join_and_drain.py"), os.environ["STRATA_COMMAND"]]
        + [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert len(result["rounds"]) == 1
    for one in result["rounds"][0].values():
        assert one["begins"] > 0 and one["change"] > 0 and one["until_s"] > 0
