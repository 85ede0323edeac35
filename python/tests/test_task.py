"""Tasks, live and in virtual time."""

from __future__ import annotations

import json
import pathlib
import re
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
import strata
from support import (
    SCRIPTS,
    STRATA,
    Result,
    environment,
    error_lines,
    execute,
    must_finish,
    run_job,
)

TASK = str(SCRIPTS / "line_task.py")
CLUSTER = """
nodes { count: 2 compute { log_normal { median_ms: 5 sigma: 0.3 } } link { gbit_per_s: 1 } }
servers { link { gbit_per_s: 1 } }
"""


def compare_words(
    folder: pathlib.Path, *more: str, script: str = TASK, out: str = "out", virtual: bool = True
) -> list[str]:
    """The command that compares modes of a task, in virtual time or live, by its error."""
    (folder / "cluster.textproto").write_text(CLUSTER)
    words = [STRATA, "compare", script, "-n", "2", "--python", sys.executable, "--out", out]
    words += ["--metric", "error", "--goal", "min", "--set", "metrics.every_steps=5"]
    words += ["--cluster", "cluster.textproto"] if virtual else ["--nodes", "2"]
    return [*words, *more]


def compare(folder: pathlib.Path, *more: str, **how: Any) -> Result:
    """Runs that command in the folder."""
    return execute(compare_words(folder, *more, **how), folder)


def report_of(folder: pathlib.Path) -> Any:
    return json.loads((folder / "report.json").read_text())


def records(folder: pathlib.Path) -> list[Any]:
    return [json.loads(path.read_text()) for path in sorted((folder / "runs").glob("*.json"))]


def test_ranks_share_each_epoch_as_a_sampler_has_it() -> None:
    samples = strata.Sampler(48, seed=5, rank=1, ranks=3)
    samples.set_epoch(2)
    steps = [strata.Step(1, 3, number, 5, 4, 4) for number in range(8, 12)]
    assert [int(i) for step in steps for i in step.samples(48)] == list(samples)
    used = [i for rank in range(3) for i in strata.Step(rank, 3, 2, 5, 4, 4).samples(range(12))]
    assert sorted(used) == list(range(12))


def test_a_steps_numbers_at_random_are_its_own() -> None:
    drawn = [
        float(strata.Step(rank, 2, number, seed, 4, 4).random().random())
        for rank in (0, 1)
        for number in (0, 1)
        for seed in (1, 2, 1)
    ]
    assert drawn[0] == drawn[2] and len(set(drawn)) == 8


def test_a_task_by_itself_is_one_rank(tmp_path: pathlib.Path) -> None:
    result = must_finish(execute([sys.executable, TASK], tmp_path))
    assert float(result.out.split()[-1]) < 0.5


def test_ranks_of_a_task_end_with_the_same_weights(tmp_path: pathlib.Path) -> None:
    result = must_finish(run_job(tmp_path, "line_task.py", ranks=2, nodes=2))
    errors = re.findall(r"largest error (\S+)", result.out)
    assert len(errors) == 2 and errors[0] == errors[1]


def test_virtual_time_is_the_same_each_time_and_sync_has_the_losses_of_live_ranks(
    tmp_path: pathlib.Path,
) -> None:
    modes = ["--modes", "sync,async,lazy:ssp(3)", "--seeds", "2"]
    for out in ("one", "two"):
        must_finish(compare(tmp_path, *modes, out=out))
    assert report_of(tmp_path / "one") == report_of(tmp_path / "two")
    must_finish(compare(tmp_path, "--modes", "sync", "--seeds", "1", out="live", virtual=False))
    (live,) = records(tmp_path / "live")
    mine = [record for record in records(tmp_path / "one") if record["mode"] == "sync"]
    assert len(mine) == 2
    (virtual,) = [record for record in mine if record["seed"] == live["seed"]]
    assert len(virtual["windows"]) == 6 and len(virtual["measurements"]) == 6
    for what, key in (("windows", "loss"), ("measurements", "step")):
        expected = [float(each[key]) for each in live[what]]
        assert [float(each[key]) for each in virtual[what]] == pytest.approx(expected, rel=1e-6)
    for mine, theirs in zip(virtual["measurements"], live["measurements"]):
        assert mine["values"] == pytest.approx(theirs["values"], rel=1e-6)


def test_arguments_of_a_task_are_swept(tmp_path: pathlib.Path) -> None:
    (tmp_path / "cluster.textproto").write_text(CLUSTER)
    words = [STRATA, "sweep", TASK, "-n", "2", "--python", sys.executable, "--out", "out"]
    words += ["--cluster", "cluster.textproto", "--vary", "program.args=--lr=0.001,--lr=0.05"]
    must_finish(execute([*words, "--metric", "largest", "--goal", "min"], tmp_path))
    best = json.loads((tmp_path / "out/sweep.json").read_text())
    assert "--lr=0.05" in json.dumps(best["points"][0])


FAULTS = {
    "always": r"line_task.py: rank 0 at step 0: ValueError: never any such thing \(line_task.py:",
    "raises": r"line_task.py: rank \d at step 3: ValueError: no such thing \(line_task.py:\d+\)",
    "shape": r'gradients \(line_task.py:\d+\): "w": the gradient is \(3,\), the weights are \(8,\)',
    "missing": r'gradients \(line_task.py:\d+\): "b": its gradient is missing',
    "samples": r"gradients \(line_task.py:\d+\): samples: 0, must be from 1 to 65536",
    "returns": r"gradients \(line_task.py:\d+\): returns dict, not \(gradients, samples, loss\)",
    "value": r"evaluate \(line_task.py:\d+\): error: 'much' is no number",
    "name": r"evaluate \(line_task.py:\d+\): 'a b': a name has 1 to 64 letters",
    "dies": r"line_task.py: rank \d at step 3: the process that serves the task killed by signal 9",
}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_task_that_goes_wrong_is_one_line_that_names_it(
    tmp_path: pathlib.Path, fault: str
) -> None:
    result = compare(tmp_path, "--modes", "sync", "--seeds", "1", "--", f"--fault={fault}")
    lines = error_lines(result)
    assert len(lines) == 1 and re.search(FAULTS[fault], lines[0]), result.err
    assert result.status == (1 if fault == "dies" else 2)
    if fault not in ("raises", "dies"):
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_who_ends_the_command_ends_the_process_of_the_task(
    tmp_path: pathlib.Path, number: signal.Signals
) -> None:
    words = compare_words(tmp_path, "--modes", "sync", "--", "--fault=hangs")
    with subprocess.Popen(words, cwd=tmp_path, env=environment()) as running:
        try:
            end = time.monotonic() + 60
            while not (tmp_path / "hanging").exists():
                assert running.poll() is None and time.monotonic() < end
                time.sleep(0.02)
            running.send_signal(number)
            assert running.wait(20) != 0
            process = pathlib.Path("/proc", (tmp_path / "hanging").read_text())
            while process.exists():
                assert time.monotonic() < end
                time.sleep(0.02)
        finally:
            running.kill()


@pytest.mark.parametrize(
    "fault, reason",
    [
        ("nan", r'rank \d: the gradient of "w" is not finite at step 3'),
        ("nan-loss", r"rank \d: loss is NaN at step 3"),
        ("nan-value", "evaluate: error is not finite at step 5"),
    ],
)
def test_a_task_that_diverges_is_a_result(tmp_path: pathlib.Path, fault: str, reason: str) -> None:
    must_finish(compare(tmp_path, "--modes", "sync", "--seeds", "1", "--", f"--fault={fault}"))
    (record,) = records(tmp_path / "out")
    assert re.fullmatch(reason, record["failure"])
    assert record["has_diverged"]


@pytest.mark.parametrize(
    "fault, reason",
    [
        ("raises", r"ValueError: no such thing \(line_task.py:\d+\)"),
        ("nan-loss", r"loss is NaN at step 3"),
        ("nan-value", "evaluate: error is not finite at step 5"),
    ],
)
def test_a_live_rank_fails_for_the_same_reasons(
    tmp_path: pathlib.Path, fault: str, reason: str
) -> None:
    result = run_job(tmp_path, "line_task.py", "--fault", fault, ranks=2)
    assert result.status == 1 and re.search(reason, error_lines(result)[0]), result.err


REFUSALS = {
    "import strata": "it defines no strata.Task, so it owns its loop and runs live only",
    "import numpy as np, strata\nstrata.Session({'w': np.zeros(1)})": (
        "the script makes a session, so it owns its loop"
    ),
    "def (": r"SyntaxError: invalid syntax",
    "import argparse; argparse.ArgumentParser(prog='mine').parse_args(['--nope'])": (
        "exited with status 2: mine: error: unrecognized arguments: --nope"
    ),
    "import strata\nstrata.Task(params={}, gradients=1, batch=1, steps_per_epoch=1)": (
        r"Task: gradients: 1 is no function \(mine.py:2\)"
    ),
    "import strata\ntask = strata.Task(params={}, gradients=print, batch=1, steps_per_epoch=1)": (
        "Task: params: there are none, by name"
    ),
}


@pytest.mark.parametrize("text", sorted(REFUSALS))
def test_a_script_without_a_task_is_refused_by_name(tmp_path: pathlib.Path, text: str) -> None:
    (tmp_path / "mine.py").write_text(text)
    result = compare(tmp_path, "--modes", "sync", script="mine.py")
    lines = error_lines(result)
    assert result.status == 2 and len(lines) == 1, result.err
    assert re.search("mine.py: .*" + REFUSALS[text], lines[0]), lines
    assert not (tmp_path / "out").exists()
