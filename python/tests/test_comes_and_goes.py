"""Jobs of scripts/comes_and_goes.py use each sample once in each epoch, whether their nodes stay or
come and go."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import IO, Any

import forks
import pytest
from forks import run_job, run_script
from support import DEADLINE_S, SCRIPTS, STRATA, environment, execute, must_finish

SCRIPT = "comes_and_goes.py"


def check(folder: pathlib.Path, *arguments: str) -> str:
    """Checks what a job has left, and returns what it was."""
    return must_finish(run_script(folder, SCRIPT, "out", "--check", *arguments)).out.strip()


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
    script = (SCRIPT, "out", "--die-at", "33", "--checkpoints", f"{tmp_path}/store")
    result = must_finish(run_job(tmp_path, *script, options=options))
    assert re.search(r"goes on after it failed: rank 1 .*: killed by signal 9", result.out)
    assert check(tmp_path) == "51 steps of 2 ranks, 2 ends, 0 left before"
    begun = {int(path.name.split("-")[1]) for path in (tmp_path / "out").glob("*.jsonl")}
    assert len(begun) == 2 and 0 in begun and max(begun) % 5 == 0 < max(begun) <= 30


@contextlib.contextmanager
def command(folder: pathlib.Path, *words: str) -> Iterator[IO[str]]:
    """Runs strata in a folder; gives what it prints, and ends it with all that it has started."""
    with subprocess.Popen(
        ["timeout", str(4 * DEADLINE_S), STRATA, *words],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as running:
        assert running.stdout is not None
        try:
            yield running.stdout
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGTERM)


def read_until(lines: IO[str], pattern: str) -> str:
    """Reads lines up to one that has the pattern, and returns them."""
    read = ""
    for line in lines:
        read += line
        if re.search(pattern, line):
            return read
    raise AssertionError(f"no line has {pattern}:\n{read}")


@pytest.mark.parametrize("mode, workers", [("sync", 0), ("async", 2)])
def test_nodes_join_and_leave_and_each_sample_is_used_once(
    tmp_path: pathlib.Path, mode: str, workers: int
) -> None:
    """With mode sync ranks are started as a user's are."""
    forks.start()
    python = sys.executable if mode == "sync" else forks.PYTHON
    settings = ("ranks_per_node=1", "ranks_min=1", "ranks_max=3")
    job = [word for setting in settings for word in ("--set", setting)]
    job += ["--mode", mode, "--python", python, str(SCRIPTS / SCRIPT), str(tmp_path / "out")]
    job += ["--samples", "3001", "--workers", str(workers), "--pause", "0.3"]
    with tempfile.TemporaryDirectory() as short:  # a socket's path is
        at = f"unix:{short}/cluster"
        local = ("local", "--nodes", "3", "--slots", "1", "--shards", "1", "--listen", at)
        with command(tmp_path, *local) as cluster:
            read_until(cluster, "strata local ready")
            with command(tmp_path, "run", "-n", "2", "--coordinator", at, *job) as running:
                read_until(running, "^nodes: node 2 joins with step")
                must_finish(execute([STRATA, "drain", "w0", "--coordinator", at], tmp_path))
                read_until(running, "^nodes: node 0 leaves with step")
                (tmp_path / "out" / "go").touch()  # all that was to happen has
                read_until(running, ": finished after")
    found = check(tmp_path, "--samples", "3001")
    assert re.fullmatch(r"\d+ steps of 2 or 3 ranks, 3 ends, 1 left before", found), found
