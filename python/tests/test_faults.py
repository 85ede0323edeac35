"""What befalls a rank: one clear line for the user, nothing left behind, no hang."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import forks
import pytest
from support import (
    STRATA,
    environment,
    error_lines,
    job_words,
    must_finish,
    processes_of,
    run_job,
)

REASONS = {
    "exception": r"rank 1 \(node 0, w0\): ValueError: no such thing \(befalls.py:\d+\)$",
    "own-hook": r"rank 1 \(node 0, w0\): ValueError: no such thing \(befalls.py:\d+\)$",
    "before": (
        r"rank 1 \(node 0, w0\): exited with status 1: FileNotFoundError: .*'no/such/file'"
        r" \(befalls.py:\d+\)$"
    ),
    "before-own-hook": (
        r"rank 1 \(node 0, w0\): exited with status 1: ValueError: no such thing"
        r" \(befalls.py:\d+\)$"
    ),
    "thread": r"rank 1 \(node 0, w0\): ValueError: no such thing \(faults.py:\d+\)$",
    "kill": r"rank 1 \(node 0, w0\): killed by signal 9 \(Killed\)$",
    "os-exit": r"rank 1 \(node 0, w0\): exited with status 7",
    "sys-exit": r"rank 1 \(node 0, w0\): exited with status 3",
    "sys-exit-text": r"rank 1 \(node 0, w0\): exited with status 1: no data$",
    "raise-exit": r"rank 1 \(node 0, w0\): exited with status 4",
    "raise-exit-text": r"rank 1 \(node 0, w0\): exited with status 1: no such file$",
    "end-raise-exit-5": r"rank [01] \(node 0, w0\): exited with status 5",
    "nan": (
        r'rank 1 \(node 0, w0\): strata.Diverged: the gradient of "2.bias": element 0 is NaN'
    ),
    "unequal": r"rank 1 has finished after 10 steps, but rank 0 goes on$",
    "tensors": r'"2.bias" \[1[01]\].*instead of "2.bias" \[1[01]\]',
    "more-tensors": r'rank [01] .*"3.bias" \[10\]',
    "frozen": (
        r'"0.weight \(frozen, checksum \w+\)".*instead of "0.weight \(frozen, checksum \w+\)"'
    ),
}

# By scripts/array_faults.py.
WITHOUT_TORCH = {
    "before-own-hook",
    "end-raise-exit-5",
    "os-exit",
    "own-hook",
    "raise-exit-text",
    "sys-exit",
    "sys-exit-text",
}
# Where it does not matter that ranks are forked from what has imported PyTorch.
FORKED = {"before", "frozen", "more-tensors", "nan", "raise-exit", "tensors", "thread", "unequal"}


def nothing_is_left(folder: pathlib.Path, within_s: float = 10) -> bool:
    deadline = time.monotonic() + within_s
    while processes_of(folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not processes_of(folder)


@pytest.mark.parametrize("what", sorted(REASONS))
def test_what_ends_a_rank_is_the_jobs_reason_in_one_line(tmp_path: pathlib.Path, what: str) -> None:
    script = "array_faults.py" if what in WITHOUT_TORCH else "faults.py"
    result = (forks.run_job if what in FORKED else run_job)(tmp_path, script, what)
    lines = error_lines(result)
    assert result.status == 1 and len(lines) == 1, result.err
    assert re.search(REASONS[what], lines[0]), lines[0]
    assert nothing_is_left(tmp_path)
    if what == "exception":
        # The other rank says no more than that the job has stopped; the worker daemon may be
        # quicker, which ends it without a word.
        of_rank_0 = [line for line in result.out.splitlines() if line.startswith("[0]")]
        assert len(of_rank_0) <= 1, of_rank_0
        assert all(line.startswith("[0] strata: the job has stopped: ") for line in of_rank_0)


def test_a_rank_that_exits_waits_for_no_other(tmp_path: pathlib.Path) -> None:
    """With local steps the ranks of a good end exchange the steps of an unfinished round."""
    started = time.monotonic()
    result = forks.run_job(tmp_path, "faults.py", "sys-exit-alone", mode="local(7)")
    assert "exited with status 1: no data" in error_lines(result)[0], result.err
    assert time.monotonic() - started < 60


GOOD_ENDS = ["end-sys-exit-0", "end-sys-exit-none", "end-raise-exit-0", "end-caught-exit"]


@pytest.mark.parametrize("what", GOOD_ENDS)
def test_an_exit_with_status_0_is_a_good_end(tmp_path: pathlib.Path, what: str) -> None:
    result = must_finish(run_job(tmp_path, "array_faults.py", what))
    assert result.out.count("came to the end") == 2


@pytest.mark.parametrize("what", ["workers-fork", "workers-spawn"])
def test_workers_of_a_dataloader_have_no_part_in_the_job(tmp_path: pathlib.Path, what: str) -> None:
    run = forks.run_job if what == "workers-fork" else run_job
    result = must_finish(run(tmp_path, "faults.py", what))
    assert result.out.count("came to the end") == 2
    assert nothing_is_left(tmp_path)


@pytest.mark.parametrize("what", ["fork", "spawn"])
def test_a_process_that_a_rank_starts_is_told_that_it_has_no_session(
    tmp_path: pathlib.Path, what: str
) -> None:
    result = must_finish(run_job(tmp_path, "array_faults.py", what))
    said = [line for line in result.out.splitlines() if "child:" in line]
    assert len(said) == 2 and all(
        re.search(r"rank 1|no session", line) for line in said
    ), result.out


def test_a_killed_ranks_dataloader_workers_do_not_hold_up_the_end(tmp_path: pathlib.Path) -> None:
    started = time.monotonic()
    result = run_job(tmp_path, "faults.py", "kill-with-workers")
    assert len(error_lines(result)) == 1 and "signal 9" in result.err
    assert time.monotonic() - started < 60
    assert nothing_is_left(tmp_path)


def wait_for(condition: object, within_s: float = 60) -> None:
    deadline = time.monotonic() + within_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.2)


def started(folder: pathlib.Path, words: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words,
        cwd=folder,
        env=environment(),
        stdout=(folder / "out").open("a"),
        stderr=(folder / "err").open("a"),
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("what", ["slow", "waits"])
def test_ctrl_c_ends_the_job_and_all_its_processes(tmp_path: pathlib.Path, what: str) -> None:
    """While ranks train, and while one waits within a step for another."""
    forks.start()
    # Ranks that train are started as a user's are.
    python = forks.PYTHON if what == "waits" else sys.executable
    with started(tmp_path, job_words("faults.py", what, python=python)) as running:
        wait_for(lambda: len(list(tmp_path.glob("trains-*"))) == 2)
        # As a terminal does it: to the whole process group.
        os.killpg(running.pid, signal.SIGINT)
        assert running.wait(30) == 1
    assert nothing_is_left(tmp_path)
    said = (tmp_path / "err").read_text().splitlines()
    assert said == ["strata: error: stopped before the job had ended"]
    assert "Traceback" not in (tmp_path / "out").read_text()


def test_a_rank_that_is_interrupted_while_it_waits_for_another_ends_the_job(
    tmp_path: pathlib.Path,
) -> None:
    forks.start()
    with started(tmp_path, job_words("faults.py", "waits", python=forks.PYTHON)) as running:
        wait_for(lambda: len(list(tmp_path.glob("trains-*"))) == 2)
        time.sleep(0.5)  # it comes to wait in that step
        os.kill(int((tmp_path / "trains-0").read_text()), signal.SIGINT)
        assert running.wait(30) == 1
    (line,) = (tmp_path / "err").read_text().splitlines()[-1:]
    assert line.startswith("strata: error: ") and line.endswith("rank 0 (node 0, w0): interrupted")
    assert nothing_is_left(tmp_path)


def test_status_names_a_rank_that_is_stopped(tmp_path: pathlib.Path) -> None:
    with contextlib.ExitStack() as ends:
        cluster = ends.enter_context(
            started(tmp_path, [STRATA, "local", "--listen", "127.0.0.1:0", "--slots", "2"])
        )
        ends.callback(end, cluster, tmp_path)
        wait_for(lambda: " keys=" in (tmp_path / "out").read_text())
        ready = (tmp_path / "out").read_text()
        (address,) = re.findall(r" coordinator=(\S+)", ready)
        (keys,) = re.findall(r" keys=(\S+)", ready)
        where = ("--coordinator", address, "--keys", keys)
        job = ends.enter_context(
            started(
                tmp_path,
                job_words("array_faults.py", "stop", servers=None, options=where),
            )
        )
        ends.callback(end, job, tmp_path)
        wait_for(lambda: any(state_of(pid) == "T" for pid in processes_of(tmp_path)))
        wait_for(lambda: re.search(r"rank 1 .*stopped", status_of(*where, "1").stdout), 30)


def end(running: subprocess.Popen[str], folder: pathlib.Path) -> None:
    """Ends a command, and what of a job is stopped and so cannot end by itself."""
    for pid in processes_of(folder):
        if state_of(pid) == "T":
            os.kill(pid, signal.SIGCONT)
    os.killpg(running.pid, signal.SIGINT)
    running.wait(60)


def status_of(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([STRATA, "status", *words], capture_output=True, text=True)


def state_of(pid: int) -> str:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


def test_a_rank_of_another_protocol_version_is_refused_and_both_are_named(
    tmp_path: pathlib.Path,
) -> None:
    result = run_job(tmp_path, "other_version.py", "99")
    lines = error_lines(result)
    assert result.status == 1 and len(lines) == 1, result.err
    assert re.search(
        r"rank 1 .*: the client library has protocol version 99, the aggregator (\d+)$", lines[0]
    ), lines[0]
    assert nothing_is_left(tmp_path)
    # The link between the rank and its node changes only the number.
    own = lines[0].split()[-1]
    must_finish(run_job(tmp_path / "own", "other_version.py", own))


BAD_SCRIPTS = {
    "import strata_that_is_not_there": r"status 1: ModuleNotFoundError: No module named",
    "not Python at all": r"exited with status 1: SyntaxError: invalid syntax",
    "print('no session')": r"rank [01] .*: ended without calling DistributedOptimizer or Session",
}


@pytest.mark.parametrize("text", sorted(BAD_SCRIPTS))
def test_a_script_that_cannot_be_a_rank_is_named_in_one_line(
    tmp_path: pathlib.Path, text: str
) -> None:
    script = tmp_path / "script.py"
    script.write_text(text + "\n")
    result = run_job(tmp_path, script)
    lines = error_lines(result)
    assert result.status == 1 and len(lines) == 1, result.err
    assert re.search(BAD_SCRIPTS[text], lines[0]), lines[0]


@pytest.mark.parametrize("data", [b"\x7fELF\x02\x01\x01\x00\x00\xff\xfe", b"caf\xe9 = 1\n"])
def test_a_script_that_is_no_text_is_named_in_one_line(tmp_path: pathlib.Path, data: bytes) -> None:
    script = tmp_path / "script.py"
    script.write_bytes(data)
    result = run_job(tmp_path, script)
    lines = error_lines(result)
    assert result.status == 1 and len(lines) == 1, result.err
    assert re.search(r"exited with status 1: (SyntaxError|ValueError): ", lines[0]), lines[0]


def test_an_interpreter_without_the_package_is_told_in_one_line(tmp_path: pathlib.Path) -> None:
    interpreter = tmp_path / "python3"
    # -I: without what PYTHONPATH names.
    interpreter.write_text(f'#!/bin/sh\nexec {sys.executable} -I "$@"\n')
    interpreter.chmod(0o755)
    result = run_job(tmp_path, "numpy_session.py", "sgd", python=str(interpreter))
    lines = error_lines(result)
    assert result.status == 1 and len(lines) == 1, result.err
    said = "ModuleNotFoundError: No module named 'strata'; is the wheel installed in this Python?"
    assert said in lines[0], lines[0]


def test_an_interpreter_that_is_not_there_is_named(tmp_path: pathlib.Path) -> None:
    result = run_job(tmp_path, "faults.py", "none", python="/nowhere/python3")
    assert result.status == 1
    assert "/nowhere/python3" in error_lines(result)[0]
