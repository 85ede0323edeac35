"""Functions that run as jobs, launched from this process or from scripts of their own."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from typing import Any

import numpy as np
import pytest
import strata

from support import SCRIPTS, environment, execute


def mean_of_ranks(offset: float) -> tuple[int, int, float]:
    session = strata.Session({"w": np.zeros(1, "f4")}, strata.Mean())
    gradients = session.step({"w": [offset + session.rank]})
    return session.rank, session.ranks, float(gradients["w"][0])


def fail_on_rank_1(word: str) -> None:
    session = strata.Session({"w": np.zeros(1, "f4")}, strata.Mean())
    if session.rank == 1:
        raise ValueError(f"no such thing: {word}")
    session.step({"w": [0.0]})


def number_of_rank(factor: int) -> int:
    return factor * int(os.environ["RANK"])


def session_on_rank_0() -> None:
    if os.environ["RANK"] == "0":
        mean_of_ranks(0.0)


def a_generator() -> Any:
    return (i for i in range(3))


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run directories are left in the working directory."""
    monkeypatch.chdir(tmp_path)


def reason(call: Any, kind: type[strata.StrataError]) -> str:
    """Returns the text of the exception, which must be of a kind and one line."""
    with pytest.raises(kind) as raised:
        call()
    assert type(raised.value) is kind and "\n" not in str(raised.value)
    return str(raised.value)


def test_results_come_back_by_rank() -> None:
    assert strata.launch(mean_of_ranks, 5.0, ranks=2) == [(0, 2, 5.5), (1, 2, 5.5)]


def test_two_nodes_and_a_mode_may_be_named(capfd: pytest.CaptureFixture[str]) -> None:
    results = strata.launch(number_of_rank, 3, ranks=4, nodes=2, servers=2, mode="ssp(2)")
    assert results == [0, 3, 6, 9]
    assert "mode ssp(2), 4 ranks on w0, w1" in capfd.readouterr().out


def test_an_exception_in_the_function_is_the_jobs_reason() -> None:
    call = lambda: strata.launch(fail_on_rank_1, "gold", ranks=2)
    text = reason(call, strata.JobStopped)
    assert "rank 1 (node 0, w0): ValueError: no such thing: gold (test_launch.py:" in text


def test_a_function_that_makes_no_session_just_runs() -> None:
    assert strata.launch(number_of_rank, 7, ranks=2) == [0, 7]


def test_a_session_on_some_ranks_alone_is_named() -> None:
    text = reason(lambda: strata.launch(session_on_rank_0), strata.JobStopped)
    assert "none: this rank made no session" in text


@pytest.mark.parametrize(
    "how, named",
    [
        ({"mode": "nope"}, '"nope" is not one of sync'),
        ({"ranks": 0}, "--ranks: Value 0"),
        ({"options": ["--set", "nope=1"]}, "nope"),
        ({"options": ["--nope"]}, "unknown option --nope"),
    ],
)
def test_an_option_that_does_not_hold_is_named(how: dict[str, Any], named: str) -> None:
    assert named in reason(lambda: strata.launch(number_of_rank, 1, **how), strata.InvalidArgument)


def test_a_result_that_cannot_be_handed_on_is_named() -> None:
    text = reason(lambda: strata.launch(a_generator), strata.JobStopped)
    assert "what the function returned cannot be handed on" in text and "generator" in text


def script(folder: pathlib.Path, text: str) -> list[str]:
    path = folder / "notebook.py"
    path.write_text(textwrap.dedent(text))
    return [sys.executable, str(path)]


OWN_FUNCTIONS = """
    import os, sys
    {block}
    import strata

    class Own:
        def __init__(self, rank):
            self.rank = rank

    def name(factor):
        return Own(factor * int(os.environ["RANK"]))

    if __name__ == "__main__":
        print([own.rank for own in strata.launch(name, 2)])
        print(strata.launch(lambda: int(os.environ["RANK"]) + 1))
    """


def test_functions_and_classes_of_a_script_run_with_cloudpickle(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("cloudpickle")
    result = execute(script(tmp_path, OWN_FUNCTIONS.format(block="")), tmp_path)
    assert result.status == 0, result.err
    assert "[0, 2]" in result.out.splitlines() and "[1, 2]" in result.out.splitlines()


def test_a_function_of_a_script_is_refused_by_name_without_cloudpickle(
    tmp_path: pathlib.Path,
) -> None:
    block = "sys.modules['cloudpickle'] = None"
    result = execute(script(tmp_path, OWN_FUNCTIONS.format(block=block)), tmp_path)
    last = result.err.splitlines()[-1]
    assert result.status == 1
    assert last.startswith("strata.InvalidArgument: launch: name is of this notebook or script")
    assert "pip install cloudpickle" in last


def processes_with(mark: str) -> list[str]:
    """The command lines of processes that have a word in their environment."""
    found = []
    for place in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (place / "environ").read_bytes():
                found.append((place / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def wait_until(holds: Any, deadline_s: float) -> None:
    end = time.monotonic() + deadline_s
    while not holds():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


def test_ctrl_c_ends_the_job_and_leaves_no_process(tmp_path: pathlib.Path) -> None:
    mark = uuid.uuid4().hex
    words = [sys.executable, str(SCRIPTS / "interrupted.py"), str(tmp_path)]
    running = subprocess.Popen(
        words,
        cwd=tmp_path,
        env=environment(STRATA_TEST_MARK=mark),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        wait_until(lambda: len(list(tmp_path.glob("began-*"))) == 2, 60)
        time.sleep(1)  # rank 1 waits for rank 0's gradient
        assert len(processes_with(mark)) >= 5  # itself, `strata run`, its daemons, and two ranks
        running.send_signal(signal.SIGINT)  # to this process alone, as a notebook does
        out, _ = running.communicate(timeout=30)
        assert "KeyboardInterrupt" in out
        # Python's own exit status after one.
        assert running.returncode == -signal.SIGINT
        assert processes_with(mark) == []
    finally:
        running.kill()
        running.wait()
