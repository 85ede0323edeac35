"""Runs scripts as jobs, and reads what they leave."""

from __future__ import annotations

import errno
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = HERE / "scripts"
STRATA = os.environ.get("STRATA_COMMAND", "strata")
DEADLINE_S = 150


@dataclass
class Result:
    """How a command ended."""

    status: int
    out: str
    err: str
    folder: pathlib.Path

    def load(self, name: str) -> Any:
        """Returns what a script saved in its folder."""
        import torch

        return torch.load(self.folder / name)


def environment(**more: str) -> dict[str, str]:
    """The environment of scripts: this package, and one thread for each process."""
    path = os.pathsep.join([str(HERE.parent), str(HERE), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more}


def free_port() -> int:
    """Returns a port that nobody listens on, from below those that the kernel gives out itself."""
    for _ in range(100):
        port = random.SystemRandom().randrange(10_000, 30_000)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError("no free port among 100")


def execute(words: list[str], folder: pathlib.Path, deadline_s: float = DEADLINE_S) -> Result:
    """Runs a command in a folder, in a process group that ends with it."""
    folder.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(
        words,
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        try:
            out, err = running.communicate(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            out, err = running.communicate()
            raise AssertionError(f"no end after {deadline_s} s: {words}\n{out}\n{err}") from None
    return Result(running.returncode, out, err, folder)


def job_words(
    script: str | pathlib.Path,
    *arguments: str,
    ranks: int = 2,
    nodes: int = 1,
    servers: int | None = 1,
    mode: str = "sync",
    options: tuple[str, ...] = (),
    python: str = sys.executable,
) -> list[str]:
    """The command that runs a script as a job."""
    path = SCRIPTS / script if isinstance(script, str) else script
    words = [STRATA, "run", "-n", str(ranks), "--nodes", str(nodes), "--python", python]
    words += ["--mode", mode, "--log", "all"]
    # A ring has no servers, and a cluster that is there has its own.
    words += [] if mode == "ring" or servers is None else ["--servers", str(servers)]
    return [*words, *options, str(path), *arguments]


def run_job(
    folder: pathlib.Path, script: str | pathlib.Path, *arguments: str, **how: Any
) -> Result:
    """Runs a script as a job on a cluster of its own, in a folder."""
    return execute(job_words(script, *arguments, **how), folder)


def must_finish(result: Result) -> Result:
    """Returns the result of a job that must have ended well."""
    assert result.status == 0, f"{result.out}\n{result.err}"
    return result


def error_lines(result: Result) -> list[str]:
    """The lines in which the command says why the job failed."""
    return [line for line in result.err.splitlines() if line.startswith("strata: error:")]


def processes_of(folder: pathlib.Path) -> list[int]:
    """The processes that work in a folder, as all of a job's do."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if os.readlink(entry / "cwd").startswith(str(folder)):
                found.append(int(entry.name))
        except OSError:
            continue
    return found
