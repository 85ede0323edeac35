"""The errors of a job as exceptions, available as `strata.InvalidArgument` and so on."""

from __future__ import annotations


class StrataError(Exception):
    """The base of all exceptions of this package. Its text is one line that names the thing."""


class InvalidArgument(StrataError, ValueError):
    """A tensor, option, file or value that cannot be used. Nothing has changed."""


class OutOfOrder(StrataError, RuntimeError):
    """A call at the wrong time: after the session was closed or its process forked, from a second
    thread while the first is in a call, or a gradient that was published twice. Nothing has
    changed."""


class JobStopped(StrataError, RuntimeError):
    """The job was stopped, or a process that this rank needs is gone. The script is to exit."""


class NoMoreSteps(StrataError, RuntimeError):
    """This rank has made its last step: its node leaves the job, which goes on without it. The
    script ends its loop, and then itself. Nothing has changed."""


class Diverged(InvalidArgument, ArithmeticError):
    """A loss, gradient or measured value that is NaN or infinite: training has diverged, and the
    same job would fail again. A script may raise it, too."""


class LibraryMissing(StrataError, ImportError):
    """libstrata_client.so.1 is missing, or has another version."""


# The names under which scripts know them, and tracebacks and reasons show them.
for _error in (
    StrataError,
    InvalidArgument,
    OutOfOrder,
    JobStopped,
    NoMoreSteps,
    Diverged,
    LibraryMissing,
):
    _error.__module__ = "strata"
