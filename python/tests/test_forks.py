"""Scripts that forks.py runs are as those that an interpreter of their own runs."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from forks import NAME, PYTHON, Forks
from support import environment


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    """Started as shells start what is in the background: with Ctrl-C ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    made = Forks("decimal")
    signal.signal(signal.SIGINT, before)
    yield made
    made.close()


class Script:
    """A script that this process has begun, which is forked unless another Python is named."""

    def __init__(self, folder: pathlib.Path, forks: Forks, text: str, python: str = PYTHON) -> None:
        folder.mkdir(exist_ok=True)
        path = folder / "script.py"
        path.write_text(text)
        self.reads, writes = os.pipe()
        self.process = subprocess.Popen(
            [python, str(path), "one", "two words"],
            cwd=folder,
            env=environment(**{NAME: forks.name, "OWN": "its own", "WRITES": str(writes)}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            pass_fds=[writes],
        )
        os.close(writes)

    def end(self) -> tuple[int, str, str]:
        """Returns its status, what it printed and what it wrote to the file that it was given."""
        with self.process, os.fdopen(self.reads) as file:
            out, _ = self.process.communicate(timeout=30)
            return self.process.returncode, out, file.read()

    def line(self) -> str:
        """Waits for a line, and returns it."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


LOOKS = """
import json, os, sys
links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
seen = {
    "arguments": sys.argv, "folder": os.getcwd(), "own": os.environ["OWN"], "name": __name__,
    "file": __file__, "place": sys.path[0], "main": sys.modules["__main__"].links is links,
    "files": sorted(os.readlink(link).split(":")[0] for link in links if os.path.islink(link)),
    "leads": os.getpgrp() == os.getpid(),
}
os.write(int(os.environ["WRITES"]), b"written")
print(json.dumps(seen))
"""


SLEEPS = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda number, _: sys.exit(int(number)))
if os.fork() == 0:
    print(os.getppid(), os.getpid(), flush=True)
time.sleep(100)
"""


def test_a_script_finds_what_one_with_an_interpreter_of_its_own_finds(
    tmp_path: pathlib.Path, forks: Forks
) -> None:
    other = Script(tmp_path / "other", forks, SLEEPS)
    other.line()
    status, out, written = Script(tmp_path, forks, LOOKS).end()
    other.process.kill()
    other.end()
    assert (status, written) == (0, "written"), out
    expected_status, expected, _ = Script(tmp_path, forks, LOOKS, sys.executable).end()
    assert expected_status == 0, expected
    found, alike = json.loads(out), json.loads(expected)
    # Popen gives no group of its own, as Strata's daemons do.
    assert found.pop("leads") and not alike.pop("leads")
    assert found == alike


def test_a_script_has_what_was_imported_before_it(tmp_path: pathlib.Path, forks: Forks) -> None:
    text = "import sys\nprint('decimal' in sys.modules, 'fractions' in sys.modules)"
    assert Script(tmp_path, forks, text).end()[:2] == (0, "True False\n")
    assert Script(tmp_path, forks, text, sys.executable).end()[:2] == (0, "False False\n")


@pytest.mark.parametrize(
    "text, status",
    [
        ("", 0),
        ("import sys; sys.exit(3)", 3),
        ("raise ValueError", 1),
        ("import atexit, os; atexit.register(os._exit, 7)", 7),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("import os; os.kill(os.getpid(), 15)", -signal.SIGTERM),
        ("def (", 1),
    ],
)
def test_what_stands_for_a_script_ends_as_it_does(
    tmp_path: pathlib.Path, forks: Forks, text: str, status: int
) -> None:
    found, out, _ = Script(tmp_path, forks, text).end()
    assert found == status, out


def test_an_exception_is_told_of_as_by_an_interpreter(tmp_path: pathlib.Path, forks: Forks) -> None:
    text = "def f():\n    raise ValueError('no such thing')\nf()"
    _, out, _ = Script(tmp_path, forks, text).end()
    path = tmp_path / "script.py"
    frames = f'  File "{path}", line 3, in <module>\n    f()\n  File "{path}", line 2, in f\n'
    assert frames in out and out.endswith("\nValueError: no such thing\n")


def waits_until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def is_gone(pid: str) -> bool:
    """Whether a process has ended; who inherits it may reap it later."""
    try:
        stat = pathlib.Path("/proc", pid, "stat").read_text()
    except OSError:
        return True
    return stat.rsplit(")", 1)[1].split()[0] == "Z"


@pytest.mark.parametrize(
    "number, status", [(signal.SIGTERM, 15), (signal.SIGINT, -2), (signal.SIGKILL, -9)]
)
def test_signals_reach_the_script_and_what_it_has_started_ends_with_it(
    tmp_path: pathlib.Path, forks: Forks, number: int, status: int
) -> None:
    script = Script(tmp_path, forks, SLEEPS)
    processes = script.line().split()
    script.process.send_signal(number)
    assert script.end()[0] == status
    assert all(waits_until(lambda: is_gone(pid)) for pid in processes)


def test_what_a_script_has_started_ends_when_it_does_so_by_itself(
    tmp_path: pathlib.Path, forks: Forks
) -> None:
    script = Script(tmp_path, forks, SLEEPS)
    parent, child = script.line().split()
    os.kill(int(parent), signal.SIGINT)  # to it alone
    assert script.end()[0] == -signal.SIGINT
    assert waits_until(lambda: is_gone(child))


def test_all_scripts_end_with_the_server(tmp_path: pathlib.Path) -> None:
    forks = Forks("decimal")
    script = Script(tmp_path, forks, SLEEPS)
    processes = script.line().split()
    forks.close()
    status, out, _ = script.end()
    assert status == 1 and out == "forked_python: the server of forks has ended\n"
    assert all(waits_until(lambda: is_gone(pid)) for pid in processes)


def test_numbers_at_random_are_each_scripts_own(tmp_path: pathlib.Path, forks: Forks) -> None:
    text = "import random; print(random.random())"
    drawn = {Script(tmp_path, forks, text).end()[1] for _ in range(3)}
    assert len(drawn) == 3
