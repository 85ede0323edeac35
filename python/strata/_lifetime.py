"""How a rank's process ends: with its script, by an exception, or in a process that it forked.

The job must learn which it was. A script that comes to its end has finished; one that dies of an
exception has failed, and the exception is the job's reason; `sys.exit(3)` and `raise SystemExit(3)`
have failed, too, of which the worker daemon tells the job by the exit status. A forked process,
such as a worker of a DataLoader, has no part in the job.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import sys
import sysconfig
import threading
import traceback
from types import TracebackType
from typing import Any, NoReturn

from strata import errors
from strata._client import Client
from strata._rank import Hooks, process

_LINE_MAX = 500


def watch_end() -> None:
    """Watches from now on how this process ends: replaces the interpreter's hooks and `sys.exit`,
    once. A process that is not a rank keeps its own."""
    if process.hooks is not None:
        return
    process.hooks = Hooks(sys.excepthook, threading.excepthook, sys.exit)
    sys.excepthook = _on_exception
    threading.excepthook = _on_thread_exception
    sys.exit = _exit


def connect() -> Client:
    """Returns this process's client, which the first call makes.

    In a job, `$STRATA_LAUNCH` names the launch file; without it the rank is alone.
    Raises `errors.OutOfOrder` in a process that forked from the rank, or under torchrun or mpirun.
    """
    if process.serves:
        raise errors.OutOfOrder(
            "the script makes a session, so it owns its loop and runs live only: virtual time"
            " computes a strata.Task"
        )
    if process.forked_from:
        raise errors.OutOfOrder(
            f"process {os.getpid()} forked from rank {os.environ.get('RANK', '0')}, process "
            f"{process.forked_from}: only that one takes part in the job"
        )
    if multiprocessing.parent_process() is not None:
        raise errors.OutOfOrder(
            f"process {os.getpid()} was started by rank {os.environ.get('RANK', '0')}: only that"
            " one takes part in the job (keep what makes the session under: if __name__ =="
            ' "__main__")'
        )
    if process.client is not None:
        raise errors.OutOfOrder(
            "this process has a session already; a process is one rank of one job"
        )
    launch = os.environ.get("STRATA_LAUNCH")
    if not launch and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise errors.OutOfOrder(
            f"WORLD_SIZE is {os.environ['WORLD_SIZE']}, but no Strata job runs this process: in"
            f" place of torchrun or mpirun, run: strata run -n {os.environ['WORLD_SIZE']}"
            f" {sys.argv[0]}"
        )
    watch_end()
    process.client = Client(launch, alone="optimizer { from_program {} }")
    process.client.on_begin = _go_on
    return process.client


def _go_on() -> None:
    """A step begins: an exit raised before it was caught."""
    process.exit_status = None


def finish() -> None:
    """Ends this rank's part in the job well. Does nothing if it has ended or never begun."""
    client = process.client
    if client is None or not client.is_open or process.has_failed:
        return
    _go_on()
    try:
        _prepare_finish(client)
        client.finish()
        for call in process.after_finish:
            call()
    finally:
        client.close()


def _prepare_finish(client: Client) -> None:
    error = process.thread_error
    if error is not None and client.steps == process.thread_steps:
        # Other threads go on, but none trains.
        reason = reason_of(error)
        fail(reason, _has_diverged(error))
        raise errors.OutOfOrder(f"the thread that trained has ended: {reason}") from error
    for call in process.before_finish:
        call()
    if client.in_step:
        raise errors.OutOfOrder(
            f"the end came within step {client.steps}, not all of whose gradients were given"
        )


def fail(reason: str, has_diverged: bool = False) -> None:
    """Reports in one line why this rank fails: the job's reason. `has_diverged`: because a loss or
    measured value is not finite."""
    client = process.client
    process.has_failed = True
    if client is not None and client.is_open:
        client.fail(" ".join(reason.split())[:_LINE_MAX], has_diverged)
        client.close()


def _has_diverged(error: BaseException | None) -> bool:
    """Returns whether the exception, or one that caused it, says that training has diverged."""
    while error is not None and not isinstance(error, errors.Diverged):
        error = error.__cause__
    return error is not None


def reason_of(error: BaseException) -> str:
    """Returns an exception as one line: its type and text, and where it was raised: "ValueError:
    ... (a.py:12)"."""
    text = traceback.format_exception_only(type(error), error)[-1].strip()
    frames = traceback.extract_tb(error.__traceback__)
    own = os.path.dirname(_absolute(__file__))
    library = sysconfig.get_path("stdlib")
    for frame in reversed(frames):
        path = _absolute(frame.filename)
        # Where it is the user's to mend, not within a library.
        if not path.startswith((own, library)) and "-packages" + os.sep not in path:
            return f"{text} ({os.path.basename(path)}:{frame.lineno})"
    return text


def _absolute(path: str) -> str:
    try:
        return os.path.abspath(path)
    except FileNotFoundError:  # the folder that the process works in was removed
        return path


def _on_exception(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, errors.JobStopped) and not process.has_failed:
        # The reason is another's; this rank's stack says nothing of it.
        process.has_failed = True
        print(f"strata: the job has stopped: {error}", file=sys.stderr)
        return
    _fail_of(error)
    assert process.hooks is not None
    process.hooks.exception(kind, error, trace)
    _say_last(error)


def _on_thread_exception(arguments: Any) -> None:
    """An uncaught exception ends only its thread; the rank ends early if that thread has
    trained."""
    client = process.client
    if client is not None and client.stepped_in == threading.get_ident():
        process.thread_error, process.thread_steps = arguments.exc_value, client.steps
    assert process.hooks is not None
    process.hooks.thread_exception(arguments)


def _fail_of(error: BaseException) -> None:
    """Makes an uncaught exception the rank's reason of failure."""
    if not process.forked_from:
        reason = "interrupted" if isinstance(error, KeyboardInterrupt) else reason_of(error)
        fail(reason, _has_diverged(error))


def _say_last(error: BaseException) -> None:
    """Before this process has joined its job, it cannot report to it: the last line of its output
    is the reason."""
    if process.client is None and not process.forked_from and os.environ.get("STRATA_LAUNCH"):
        print(" ".join(reason_of(error).split())[:_LINE_MAX], file=sys.stderr, flush=True)


def _exit(status: Any = None) -> NoReturn:
    process.exit_status = status
    assert process.hooks is not None
    process.hooks.exit(status)


def ends_well() -> bool:
    """Returns whether this process ends without a failure, as far as is known."""
    return _is_unfailed() and process.exit_status in (None, 0)


def _is_unfailed() -> bool:
    """Returns whether no exception has ended this process, which may have a part in the job."""
    # Set by the interpreter, also where another hook than this module's has taken its place.
    uncaught = getattr(sys, "last_value", None)
    if uncaught is not None and not process.has_failed:
        _fail_of(uncaught)
        _say_last(uncaught)
    return not (process.forked_from or process.has_failed)


def _at_exit() -> None:
    if not _is_unfailed() or process.client is None or not process.client.is_open:
        return
    try:
        # After sys.exit(3) nothing may wait for the other ranks.
        if process.exit_status in (None, 0):
            _prepare_finish(process.client)
        # Python reports `raise SystemExit(3)` to the C library only.
        process.client.finish_at_exit()
    except BaseException as error:  # the interpreter would print it and exit with 0
        if not ends_well():
            return  # after sys.exit(3), unless that was caught, the status is the reason
        _on_exception(type(error), error, error.__traceback__)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def _after_fork_in_child() -> None:
    client, process.client = process.client, None
    if client is not None:
        process.forked_from = os.getppid()
        client.close()


if os.environ.get("STRATA_LAUNCH"):  # also for what binds sys.exit to a name before the session
    watch_end()
atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork_in_child)
