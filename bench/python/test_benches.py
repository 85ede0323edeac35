"""The benchmarks of checkpoints, of rows, and of nodes that die, join and leave, at a tiny size:
each runs, and its values are right."""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def run(program, words, programs=True):
    """Returns the report of a program; it must end well. `programs`: it is given those of Strata
    and of Python."""
    command = [sys.executable, os.path.join(HERE, program)]
    if programs:
        command += [os.environ["STRATA_COMMAND"], sys.executable]
    command += [*words.split(), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_costs_rates_and_what_goes_on_are_measured():
    result = run("checkpoints.py", "--bytes 1MiB --steps 20 --every 5 --no-goals")
    assert result["bytes"] > 3 * 2**20  # weights and Adam's two moments
    assert result["rate"] > 0
    assert result["resume"] > 0


def test_deaths_of_a_node_are_measured():
    result = run("node_death.py", "--bytes 1000000 --rounds 1")
    assert [side["name"] for side in result["sides"]] == [
        "Strata, sync", "Strata, async", "Strata, ring"]
    for side in result["sides"]:
        assert [one["thrown_away"] for one in side["rounds"]] == [0]
        assert side["rounds"][0]["longest_s"] >= side["rounds"][0]["next_step_s"] > 0
    assert all(side["rounds"][0]["back_s"] > 0 for side in result["sides"][:2])
    assert result["sides"][2]["rounds"][0]["back_s"] is None


def test_a_node_that_joins_and_leaves_is_measured():
    result = run("join_and_drain.py", "--bytes 1000000 --pause 0.02 --rounds 1")
    assert len(result["rounds"]) == 1
    for one in result["rounds"][0].values():
        assert one["begins"] > 0 and one["change"] > 0 and one["until_s"] > 0


def test_a_step_of_an_embedding_is_measured():
    words = "--rows 2000 --bags 64 --ids 5 --steps 4 --no-goals"
    result = run("embedding_step.py", words, programs=False)
    assert list(result) == ["torch"]
    assert result["torch"]["ratio"] > 0 and 1 < result["torch"]["memory"] < 3


def test_an_exchange_of_rows_is_measured():
    words = "--rows 100 --ids 1000 --steps 4 --rounds 1"
    result = run("rows_exchange.py", f"{os.environ['STRATA_COMMAND']} {words}", programs=False)
    assert result["strata_ms"] > 0 and "ratio" not in result
