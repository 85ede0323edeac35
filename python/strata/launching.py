"""Jobs from a notebook or a program: a function that runs on several ranks."""

from __future__ import annotations

import importlib
import io
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Callable

from strata import errors

_ERROR = "strata: error: "
_END_DEADLINE_S = 30.0


def command() -> str:
    """Returns the `strata` program: $STRATA_COMMAND, this package's own, or the one on the PATH."""
    named = os.environ.get("STRATA_COMMAND")
    if named:
        return named
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_bin", "strata")
    found = own if os.path.exists(own) else shutil.which("strata")
    if not found:
        raise errors.InvalidArgument(
            "launch: no program `strata` on the PATH; $STRATA_COMMAND names it"
        )
    return found


class _ByReference(pickle.Pickler):
    """Refuses objects that ranks cannot import."""

    def reducer_override(self, value: Any) -> Any:
        if getattr(value, "__module__", "") == "__main__" and hasattr(value, "__qualname__"):
            raise errors.InvalidArgument(
                f"launch: {value.__qualname__} is of this notebook or script, which other processes"
                " cannot import: pip install cloudpickle, or move it to a module"
            )
        return NotImplemented


def pickled(what: str, value: object) -> bytes:
    """Returns an object's pickle, which a process of the same `sys.path` can read.

    With cloudpickle, functions and classes of a notebook or script may be in it.
    Raises `errors.InvalidArgument` saying `what` cannot be handed on, and why.
    """
    target = io.BytesIO()
    hint = ""
    try:
        pickler: pickle.Pickler = importlib.import_module("cloudpickle").CloudPickler(target)
    except ImportError:
        pickler = _ByReference(target)
        hint = ": pip install cloudpickle"
    try:
        pickler.dump(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise errors.InvalidArgument(f"launch: {what} cannot be handed on: {error}{hint}") from None
    return target.getvalue()


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

    The job runs on a cluster of its own on this machine (`nodes`, `servers`), in `mode` ("sync",
    "ssp(3)", "ring", ...); `options` are further ones of `strata run`, such as ["--coordinator",
    "head:7070"] for another cluster that shares this machine's files. What rank 0 prints, and the
    progress, appears here. A function of a notebook or script needs the package cloudpickle; one of
    a module does not. One that makes no session just runs.

    Raises `errors.InvalidArgument`: what cannot be handed on, or options that do not hold;
    `errors.JobStopped` with the job's reason where it failed. Ctrl-C ends the job.
    """
    with tempfile.TemporaryDirectory(prefix="strata-launch-") as folder:
        with open(os.path.join(folder, "path.pkl"), "wb") as file:
            pickle.dump([os.path.abspath(place) for place in sys.path], file)
        with open(os.path.join(folder, "call.pkl"), "wb") as file:
            file.write(pickled("the function", (function, arguments)))
        words = [
            command(),
            "run",
            "-n",
            str(ranks),
            "--nodes",
            str(nodes),
            "--python",
            sys.executable,
        ]
        words += [] if servers is None else ["--servers", str(servers)]
        words += [] if mode is None else ["--mode", mode]
        # Not a file of this package: Python would look for all modules beside it first.
        name = getattr(function, "__name__", "function").strip("<>")
        script = os.path.join(folder, f"{name}.py")
        with open(script, "w") as text:
            text.write(f"from strata._launched import main\n\nmain({folder!r})\n")
        words += [*options, script]
        status, reason = _run(words)
        _check(status, reason)
        results = []
        for rank in range(ranks):
            with open(os.path.join(folder, f"{rank}.pkl"), "rb") as file:
                results.append(pickle.load(file))
        return results


def _check(status: int, reason: str) -> None:
    if status == 2:
        raise errors.InvalidArgument(f"launch: {reason}")
    if status:
        raise errors.JobStopped(reason or f"launch: strata run ended with status {status}")


def _run(words: list[str]) -> tuple[int, str]:
    """Runs `strata run` and prints its output; returns its exit status and the reason of a
    failure."""
    source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    try:
        running = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, "PYTHONPATH": path},
        )
    except OSError as error:
        raise errors.InvalidArgument(f"launch: cannot start {words[0]}: {error.strerror}") from None
    reason = ""
    assert running.stdout is not None
    try:
        for line in running.stdout:
            if line.startswith(_ERROR):
                reason = line[len(_ERROR) :].strip()  # the exception's text
            else:
                print(line, end="", flush=True)
        return running.wait(), reason
    except BaseException:
        _end(running)
        raise


def _end(running: subprocess.Popen[str]) -> None:
    """Ends the job and its cluster, and waits for the end; a second Ctrl-C, or the deadline, kills
    them."""
    running.terminate()
    try:
        # Reads on, as who cannot print cannot end.
        with suppress(subprocess.TimeoutExpired):
            running.communicate(timeout=_END_DEADLINE_S)
    finally:
        running.kill()
        running.wait()
