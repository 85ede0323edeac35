"""Ranks that are killed in each mode, and in each way to exchange: the job goes on by itself, with
the bits of a run that nothing disturbed."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import numpy as np
import pytest
import support
import torch
from forks import run_job
from going_on import SCRIPT, STEPS, Undisturbed, checkpoints, expect_no_change_by_a_kill
from support import must_finish


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return Undisturbed(tmp_path_factory.mktemp("undisturbed"))


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "without-servers": ("sync", {"servers": None}),
    "ring": ("ring", {"nodes": 2}),
    "local-steps": ("local(2)", {}),
    "delayed": ("delay1", {}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_rank_that_is_killed_changes_no_bit(
    tmp_path: pathlib.Path, case: str, undisturbed: Undisturbed
) -> None:
    mode, how = CASES[case]
    expect_no_change_by_a_kill(tmp_path, undisturbed.run(mode), mode, **how)


def test_metrics_count_local_steps_once_where_a_job_goes_on(tmp_path: pathlib.Path) -> None:
    words = ["--die-at", "17", "--checkpoints", str(tmp_path / "checkpoints")]
    options = (*checkpoints(tmp_path), "--set", "metrics.every_steps=2")
    result = must_finish(run_job(tmp_path, SCRIPT, *words, mode="local(2)", options=options))
    (resumed,) = re.findall(r"^resumed from step (\d+), restart 1", result.out, re.M)
    assert int(resumed) in (6, 12)
    (file,) = tmp_path.glob("strata-runs/*/*/metrics.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    made = [line["step"] for line in lines if line.get("samples")]
    assert made == sorted(set(made)) and made[-1] == STEPS and int(resumed) in made


def test_each_rank_makes_its_steps_in_modes_where_none_waits(tmp_path: pathlib.Path) -> None:
    arguments = ["--die-at", "17", "--checkpoints", str(tmp_path / "checkpoints")]
    must_finish(
        run_job(tmp_path, SCRIPT, *arguments, mode="async", options=checkpoints(tmp_path), nodes=2)
    )
    made = [len(torch.load(tmp_path / f"rank{rank}.pt")["made"]) for rank in range(2)]
    assert made[0] == made[1] < STEPS


def test_a_session_gives_and_reads_a_state_of_its_own(tmp_path: pathlib.Path) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    script = "session_goes_on.py"
    must_finish(support.run_job(whole, script, str(whole), "-1"))
    words = (str(folder / "checkpoints"), "8")
    result = must_finish(support.run_job(folder, script, *words, options=checkpoints(folder)))
    (first,) = set(re.findall(r"first step (\d+)", result.out))
    assert int(first) in (3, 6)
    for rank in range(2):
        one, other = (np.load(place / f"rank{rank}.npy") for place in (folder, whole))
        assert one.tobytes() == other.tobytes()
