"""Reads a job's run directory: its metrics, line by line, and the job."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import pathlib
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

# Characters that MLflow refuses in the name of a metric or parameter.
NOT_IN_NAMES = re.compile(r"[^\w./ -]")
# Many times the longest line that a worker writes.
ROW_BYTES_MAX = 1 << 20

WINDOW = {
    "loss": "train/loss",
    "lr": "train/lr",
    "epoch": "train/epoch",
    "samples": "train/samples",
    "samples_per_s": "train/samples_per_s",
    "waiting_share": "train/waiting_share",
    "hidden_share": "train/hidden_share",
    "bytes_pushed": "network/bytes_pushed",
    "bytes_answered": "network/bytes_answered",
    "pushes": "network/pushes",
    "pushes_during_backward": "network/pushes_during_backward",
}
MEASURED = {"test_accuracy": "test/accuracy", "test_loss": "test/loss"}


class UsageError(Exception):
    """An error that a user can fix, in one line."""


def open_file(path: pathlib.Path) -> BinaryIO:
    """Opens a file that a job's program may have created: never blocks on a pipe."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(number).st_mode):
        return os.fdopen(number, "rb")
    os.close(number)
    raise OSError(errno.EINVAL, "not a file")


def number(value: Any) -> float:
    """Returns the value of a numeric field; null stands for a value that is not finite."""
    return math.nan if value is None else float(value)


def metrics_of(line: dict[str, Any]) -> dict[str, float]:
    """Returns the values of a line of metrics.jsonl, under TensorBoard's tags (see
    docs/boards.md)."""
    names = dict(MEASURED)
    # A line about the final model alone has no window of steps, nor has a late measurement.
    if line.get("samples") and not (line.get("final") and line.get("samples_per_s") == 0):
        names = {**WINDOW, **MEASURED}
    found = {tag: number(line[field]) for field, tag in names.items() if field in line}
    pushes = line.get("staleness", []) if "train/loss" in found else []
    if sum(pushes) > 0:
        mean = sum(bin_ * count for bin_, count in enumerate(pushes)) / sum(pushes)
        found["train/staleness_mean"] = mean
    for name, value in line.get("values", {}).items():
        found["program/" + NOT_IN_NAMES.sub("_", name)] = number(value)
    return found


@dataclass
class Measured:
    """A line that was read."""

    step: int
    elapsed_s: float
    final: bool
    metrics: dict[str, float]


def _measured(row: bytes) -> Measured:
    line = json.loads(row.decode("utf-8"))
    measured = Measured(
        int(line["step"]),
        float(line.get("elapsed_s", 0)),
        bool(line.get("final")),
        metrics_of(line),
    )
    if not math.isfinite(measured.elapsed_s) or not 0 <= measured.step < 1 << 63:
        raise ValueError
    return measured


def _rows_in_both(old: BinaryIO, new: BinaryIO, end: int) -> tuple[int, int]:
    """Returns the number of bytes, and of rows, of the first `end` bytes of one file with which
    another begins."""
    at = rows = 0
    # Another host's file system may have nothing left of the old one.
    with contextlib.suppress(OSError):
        old.seek(0)
        while at < end:
            row = old.readline(ROW_BYTES_MAX)
            if not row or new.read(len(row)) != row:
                break
            at += len(row)
            rows += 1
    return at, rows


class MetricsFile:
    """metrics.jsonl, which each read reads on where the one before has ended.

    A job that goes on from an older step puts another file in its place: of that, what comes after
    the rows that both begin with is new. A file that got shorter is read from its beginning again.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._file = self._open()
        self._end, self._rows = 0, 0  # of the whole rows that were read
        self.is_cut = False
        """whether the last row was there in part, when it was read"""

    def read(self) -> Iterator[Measured]:
        """Returns the new complete lines. Raises UsageError naming the file and the line."""
        try:
            self._follow()
            self._file.seek(self._end)
            while (row := self._file.readline(ROW_BYTES_MAX)).endswith(b"\n"):
                self._end += len(row)
                self._rows += 1
                yield self._parse(row)
        except OSError as error:
            raise UsageError(f"{self._path}: {error.strerror}") from None
        if len(row) == ROW_BYTES_MAX:
            raise self._broken(self._rows + 1)
        self.is_cut = row != b""

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _open(self) -> BinaryIO:
        try:
            file = open_file(self._path)
            facts = os.fstat(file.fileno())
        except OSError as error:
            raise UsageError(f"{self._path}: {error.strerror}") from None
        self._identity = (facts.st_dev, facts.st_ino)
        return file

    def _follow(self) -> None:
        try:
            now = os.stat(self._path)
        except FileNotFoundError:
            return  # The next one is not there yet.
        is_other = (now.st_dev, now.st_ino) != self._identity
        if not is_other and now.st_size >= self._end:
            return
        new = self._open()
        # A file that was replaced can be read for as long as it is open.
        end = self._end if is_other else 0
        self._end, self._rows = _rows_in_both(self._file, new, end)
        self._file.close()
        self._file = new

    def _parse(self, row: bytes) -> Measured:
        try:
            return _measured(row)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            raise self._broken(self._rows) from None

    def _broken(self, row_number: int) -> UsageError:
        return UsageError(f"{self._path}:{row_number}: is no line of metrics")


def last_second(path: pathlib.Path) -> float:
    """The newest line's `elapsed_s`. Raises UsageError naming the file and the first bad line."""
    file = MetricsFile(path)
    try:
        return max((line.elapsed_s for line in file.read()), default=0.0)
    finally:
        file.close()


def params_of(text: str, characters: int) -> dict[str, str]:
    """Returns the fields of the job in its run directory: NAME.NAME, and NAME.1 for a second one.
    Values are cut to this many characters. Raises ValueError for unbalanced braces."""
    params: dict[str, str] = {}
    path: list[str] = []
    times: dict[str, int] = {}

    def unique(name: str) -> str:
        full = ".".join([*path, name])
        times[full] = times.get(full, -1) + 1
        return f"{name}.{times[full]}" if times[full] else name

    for row in text.splitlines():
        row = row.strip()
        if row == "}":
            if not path:
                raise ValueError
            full = ".".join(path)
            if not any(name.startswith(full + ".") for name in params):
                params[full] = "{}"
            path.pop()
        elif row.endswith("{"):
            path.append(unique(row[:-1].strip()))
        elif ": " in row:
            name, value = row.split(": ", 1)
            params[".".join([*path, unique(name)])] = value.strip('"')[:characters]
    return params


def read_params(folder: pathlib.Path, characters: int) -> dict[str, str]:
    """Returns the fields of the run directory's job; empty if it does not say."""
    path = folder / "job.textproto"
    try:
        with open_file(path) as file:
            return params_of(file.read().decode(), characters)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise UsageError(f"{path}: is no job") from None


def mode_of(params: dict[str, str]) -> str:
    """Returns the job's consistency in the words of `--mode`, without constants."""
    for name in params:
        found = re.match(r"consistency\.(sync|lazy|async)\b", name)
        if found:
            return found[1]
    return "sync"
