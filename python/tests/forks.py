"""Runs scripts as support.py does, by an interpreter that has imported PyTorch already: processes
fork from it (fork_server.py). All of a script is the same but how its interpreter begins, and that
its end does not take PyTorch apart."""

from __future__ import annotations

import atexit
import os
import pathlib
import socket
import subprocess
import sys
from typing import Any

import support
from support import HERE, SCRIPTS, Result, environment

PYTHON = str(HERE / "forked_python")
NAME = "STRATA_FORK_SERVER"


class Forks:
    """A server of forks that has imported some modules, until it is closed."""

    def __init__(self, *modules: str) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind("")  # to a name that is in no folder, which the kernel chooses
            # Requests wait until the server has imported everything.
            listener.listen(64)
            self.name = listener.getsockname()[1:].decode()
            words = [sys.executable, "-u", str(HERE / "fork_server.py"), str(listener.fileno())]
            self._server = subprocess.Popen(
                [*words, *modules],
                stdin=subprocess.PIPE,
                env=environment(),
                pass_fds=[listener.fileno()],
                start_new_session=True,  # Ctrl-C is for the tests, whose end is the server's
            )

    def close(self) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(60)


_started: list[Forks] = []


def start(*modules: str) -> None:
    """Starts what scripts are forked from, which imports PyTorch and these modules; once, however
    often it is called."""
    if _started:
        return
    _started.append(Forks("torch", *modules))
    os.environ[NAME] = _started[0].name
    atexit.register(_started[0].close)


def run_job(
    folder: pathlib.Path, script: str | pathlib.Path, *arguments: str, **how: Any
) -> Result:
    """Runs a script as a job whose ranks are forked."""
    start()
    return support.run_job(folder, script, *arguments, python=PYTHON, **how)


def run_script(folder: pathlib.Path, script: str | pathlib.Path, *arguments: str) -> Result:
    """Runs a script by itself, in a folder."""
    start()
    path = SCRIPTS / script if isinstance(script, str) else script
    return support.execute([PYTHON, str(path), *arguments], folder)
