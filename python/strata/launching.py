"""Jobs from within a notebook or a program: a function, run on several ranks."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any, Callable

from strata import errors


def command() -> str:
    """Returns the program `strata`: $STRATA_COMMAND, this package's own, or the one on the PATH."""
    named = os.environ.get("STRATA_COMMAND")
    if named:
        return named
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_bin", "strata")
    found = own if os.path.exists(own) else shutil.which("strata")
    if not found:
        raise errors.InvalidArgument("launch: no program `strata` on the PATH; $STRATA_COMMAND names it")
    return found


def _pickled(value: object) -> bytes:
    try:
        import cloudpickle

        data: bytes = cloudpickle.dumps(value)
        return data
    except ImportError:
        pass
    try:
        data = pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise errors.InvalidArgument(
            f"launch: the function cannot be handed on: {error}; pip install cloudpickle"
        ) from None
    if b"__main__" in data:
        raise errors.InvalidArgument(
            "launch: the function is of this notebook or script, which ranks cannot import: "
            "pip install cloudpickle"
        )
    return data


def launch(
    function: Callable[..., Any],
    *arguments: Any,
    ranks: int = 2,
    nodes: int = 1,
    servers: int | None = None,
    mode: str | None = None,
    options: Sequence[str] = (),
) -> list[Any]:
    """Runs `function(*arguments)` on every rank of a job, and returns what each returned, by rank.

    The job runs on a cluster of its own on this machine (`nodes`, `servers`), in `mode` ("sync", "ssp(3)",
    "ring", ...); `options` are further ones of `strata run`, such as ["--coordinator", "head:7070"] for
    another cluster that shares this machine's files. What rank 0 prints, and the progress, appears here.

    Raises `errors.InvalidArgument`: what cannot be handed on, or options that do not hold;
    `errors.JobStopped` with the job's reason where it failed. Ctrl-C ends the job.
    """
    with tempfile.TemporaryDirectory(prefix="strata-launch-") as folder:
        with open(os.path.join(folder, "call.pkl"), "wb") as file:
            file.write(_pickled((function, arguments)))
        words = [command(), "run", "-n", str(ranks), "--nodes", str(nodes), "--python", sys.executable]
        words += [] if servers is None else ["--servers", str(servers)]
        words += [] if mode is None else ["--mode", mode]
        # Not a file of this package: Python would look for all modules beside it first.
        name = getattr(function, "__name__", "function").strip("<>")
        script = os.path.join(folder, f"{name}.py")
        with open(script, "w") as text:
            text.write(f"from strata._launched import main\n\nmain({folder!r})\n")
        words += [*options, script]
        status, last = _run(words)
        if status == 2:
            raise errors.InvalidArgument(f"launch: {last}")
        if status:
            raise errors.JobStopped(last or f"strata run ended with status {status}")
        results = []
        for rank in range(ranks):
            with open(os.path.join(folder, f"{rank}.pkl"), "rb") as file:
                results.append(pickle.load(file))
        return results


def _run(words: list[str]) -> tuple[int, str]:
    """Runs a program and prints what it prints; returns its exit status and its last line."""
    source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    running = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    last = ""
    assert running.stdout is not None
    try:
        for line in running.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
        return running.wait(), last
    except KeyboardInterrupt:
        running.terminate()
        running.wait()
        raise
