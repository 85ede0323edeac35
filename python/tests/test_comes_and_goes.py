"""Jobs of scripts/comes_and_goes.py use each sample once in each epoch. Its nodes stay here; what
happens where they do not is in test_elastic_sampler.py and test_views.py."""

from __future__ import annotations

import pathlib
import re
import sys
from typing import Any

import pytest
from support import SCRIPTS, execute, must_finish, run_job

SCRIPT = "comes_and_goes.py"


def check(folder: pathlib.Path, *arguments: str) -> str:
    """Checks what a job has left, and returns what it was."""
    words = [sys.executable, str(SCRIPTS / SCRIPT), "out", "--check", *arguments]
    return must_finish(execute(words, folder)).out.strip()


@pytest.mark.parametrize(
    "arguments, how, found",
    [
        pytest.param((), {}, "51 steps of 2 ranks, 2 ends, 0 left before", id="sync"),
        pytest.param(
            ("--workers", "2"),
            {"mode": "async", "nodes": 3, "ranks": 3},
            "34 steps of 3 ranks, 3 ends, 0 left before",
            id="async, workers that read ahead",
        ),
    ],
)
def test_each_sample_is_used_once_in_each_epoch(
    tmp_path: pathlib.Path, arguments: tuple[str, ...], how: dict[str, Any], found: str
) -> None:
    must_finish(run_job(tmp_path, SCRIPT, "out", *arguments, **how))
    assert check(tmp_path) == found


def test_a_job_that_goes_on_from_a_checkpoint_does_so_in_the_middle_of_an_epoch(
    tmp_path: pathlib.Path,
) -> None:
    settings = [f'checkpoint={{dir: "{tmp_path}/store" every_steps: 5}}', "restart={attempts: 2}"]
    options = tuple(word for setting in settings for word in ("--set", setting))
    result = must_finish(run_job(tmp_path, SCRIPT, "out", "--die-at", "33", options=options))
    assert re.search(r"goes on after it failed: rank 1 .*: killed by signal 9", result.out)
    assert check(tmp_path) == "51 steps of 2 ranks, 2 ends, 0 left before"
    begun = {int(path.name.split("-")[1]) for path in (tmp_path / "out").glob("*.jsonl")}
    assert len(begun) == 2 and 0 in begun and max(begun) % 5 == 0 < max(begun) <= 30
