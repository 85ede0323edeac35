"""`strata-mlflow RUN_DIR`: logs a job's run directory to MLflow, once or as the job runs."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import math
import os
import pathlib
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from strata import _library

ARTIFACTS = ("job.textproto", "metrics.jsonl", "report.html", "report.json")
# MLflow's bounds of one call, and of a parameter.
METRICS_AT_ONCE = 1000
PARAMS_AT_ONCE = 100
PARAM_CHARACTERS = 6000
# What MLflow takes in the name of a metric or parameter.
NOT_IN_NAMES = re.compile(r"[^\w./ -]")
LOOK_EVERY_S = 1.0
# A job that goes on by itself after a failure lets go of its folder for this long at most.
PATIENCE_S = 30.0

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
    """What a user can mend, in one line."""


def number(value: Any) -> float:
    """The number of a field; null stands for one that is not finite."""
    return math.nan if value is None else float(value)


def metrics_of(line: dict[str, Any]) -> dict[str, float]:
    """What a line of metrics.jsonl says, under TensorBoard's tags (see docs/boards.md)."""
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


def params_of(text: str) -> dict[str, str]:
    """The fields of a job as its run directory has it: NAME.NAME, and NAME.1 for a second one."""
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
            full = ".".join(path)
            if not any(name.startswith(full + ".") for name in params):
                params[full] = "{}"
            path.pop()
        elif row.endswith("{"):
            path.append(unique(row[:-1].strip()))
        elif ": " in row:
            name, value = row.split(": ", 1)
            params[".".join([*path, unique(name)])] = value.strip('"')[:PARAM_CHARACTERS]
    return params


def mode_of(params: dict[str, str]) -> str:
    """The job's consistency, in the words of `--mode` without constants."""
    for name in params:
        found = re.match(r"consistency\.(sync|lazy|async)\b", name)
        if found:
            return found[1]
    return "sync"


@dataclass
class Measured:
    """A line that was read."""

    step: int
    elapsed_s: float
    final: bool
    metrics: dict[str, float]


class MetricsFile:
    """metrics.jsonl, of which each read gives the lines that no read before has given."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._given: set[str] = set()
        self.is_cut = False

    def read(self) -> list[Measured]:
        """Reads whole lines. A job that goes on from an older step writes the file anew: what it
        says otherwise than before is new. Raises UsageError naming the file and the line."""
        try:
            text = self._path.read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{self._path}: {error.strerror}") from None
        rows = text.split("\n")
        self.is_cut = rows[-1] != ""
        fresh = []
        for row_number, row in enumerate(rows[:-1], 1):
            if row not in self._given:
                self._given.add(row)
                fresh.append(self._parse(row, row_number))
        return fresh

    def _parse(self, row: str, row_number: int) -> Measured:
        try:
            line = json.loads(row)
            return Measured(
                int(line["step"]),
                number(line.get("elapsed_s", 0)),
                bool(line.get("final")),
                metrics_of(line),
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            raise UsageError(f"{self._path}:{row_number}: is no line of metrics") from None


def holds(path: pathlib.Path) -> bool:
    """Whether a process of this host has a lock on the file, as a job has while it runs."""
    try:
        inode = path.stat().st_ino
        locks = pathlib.Path("/proc/locks").read_text(encoding="ascii")
    except OSError:
        return False
    return re.search(rf":{inode}\s", locks) is not None


class Run:
    """A run of MLflow's, which a run directory is logged to."""

    def __init__(self, mlflow: Any, folder: pathlib.Path, uri: str | None, experiment: str) -> None:
        self._entities = importlib.import_module("mlflow.entities")
        self._client = mlflow.tracking.MlflowClient(tracking_uri=uri)
        self._folder = folder
        self._began_s = 0.0
        self._last_s = 0.0
        known = self._client.get_experiment_by_name(experiment)
        self._experiment = (
            known.experiment_id if known else self._client.create_experiment(experiment)
        )
        self.id = ""

    def begin(self, first: list[Measured]) -> None:
        """Makes the run, of a job whose first lines these are."""
        metrics = self._folder / "metrics.jsonl"
        # A line has the seconds since training began; the file's own time is that of the last.
        last_s = max((line.elapsed_s for line in first), default=0.0)
        self._began_s = metrics.stat().st_mtime - last_s
        job = self._folder / "job.textproto"
        params = params_of(job.read_text(encoding="utf-8")) if job.exists() else {}
        tags = {
            "strata.mode": mode_of(params),
            "strata.exchange": params.get("exchange", "PARAMETER_SERVER"),
            "strata.owner": _owner(self._folder),
            "strata.version": _library.version(),
            "strata.run_dir": str(self._folder),
        }
        run = self._client.create_run(
            self._experiment,
            start_time=int(self._began_s * 1000),
            tags=tags,
            run_name=self._folder.name,
        )
        self.id = run.info.run_id
        entries = [
            self._entities.Param(NOT_IN_NAMES.sub("_", name), value)
            for name, value in params.items()
        ]
        for begin in range(0, len(entries), PARAMS_AT_ONCE):
            self._client.log_batch(self.id, params=entries[begin : begin + PARAMS_AT_ONCE])

    def log(self, lines: list[Measured]) -> int:
        """Logs lines. Returns how many numbers they have."""
        entries = []
        for line in lines:
            self._last_s = max(self._last_s, line.elapsed_s)
            at_ms = int((self._began_s + line.elapsed_s) * 1000)
            entries += [
                self._entities.Metric(name, value, at_ms, line.step)
                for name, value in line.metrics.items()
            ]
        for begin in range(0, len(entries), METRICS_AT_ONCE):
            self._client.log_batch(self.id, metrics=entries[begin : begin + METRICS_AT_ONCE])
        return len(entries)

    def end(self) -> None:
        """Logs the files that are there, and says that the run is over."""
        for name in ARTIFACTS:
            if (self._folder / name).exists():
                self._client.log_artifact(self.id, str(self._folder / name))
        self._client.set_terminated(
            self.id, "FINISHED", end_time=int((self._began_s + self._last_s) * 1000)
        )


def _owner(folder: pathlib.Path) -> str:
    try:
        return folder.owner()
    except KeyError:
        return str(folder.stat().st_uid)


def _batches(file: MetricsFile, folder: pathlib.Path, follow: bool) -> Iterator[list[Measured]]:
    """Lines as they come; ends with the final model's, or once no job writes there any more."""
    was_held, since = False, time.monotonic()
    while True:
        lines = file.read()
        yield lines
        if not follow or any(line.final for line in lines):
            return
        held = holds(folder / ".lock")
        was_held |= held
        if held or lines:
            since = time.monotonic()
        if was_held and time.monotonic() - since >= PATIENCE_S:
            return
        time.sleep(LOOK_EVERY_S)


def export(mlflow: Any, options: argparse.Namespace) -> str:
    """Logs what the options ask for. Returns what was done, in words."""
    folder = pathlib.Path(options.run_dir)
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder")
    if not (folder / "metrics.jsonl").exists():
        raise UsageError(
            f"{folder}: no metrics.jsonl, which is there once the first steps are reported"
        )
    file = MetricsFile(folder / "metrics.jsonl")
    run, lines_logged, numbers = None, 0, 0
    with contextlib.suppress(KeyboardInterrupt):
        for lines in _batches(file, folder.resolve(), options.follow):
            if run is None:
                run = Run(mlflow, folder.resolve(), options.tracking_uri, options.experiment)
                run.begin(lines)
            numbers += run.log(lines)
            lines_logged += len(lines)
    if run is None:
        raise UsageError("interrupted before anything was logged")
    if file.is_cut and not options.follow:
        cut = f"{options.run_dir}/metrics.jsonl: the last line is cut short, and left out"
        print(f"strata: warning: {cut}", file=sys.stderr)
    run.end()
    return f"{options.experiment}: run {run.id}: {lines_logged} lines, {numbers} numbers"


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line's options."""
    parser = argparse.ArgumentParser(
        prog="strata-mlflow",
        description="Logs a job's run directory to MLflow: parameters, metrics, tags and files.",
    )
    parser.add_argument("run_dir", metavar="RUN_DIR", help="the job's run directory")
    parser.add_argument(
        "--tracking-uri", metavar="URI", help="MLflow's server or store (default: MLflow's own)"
    )
    parser.add_argument(
        "--experiment", metavar="NAME", default="strata", help="(default: %(default)s)"
    )
    parser.add_argument(
        "--follow", action="store_true", help="log what comes, too, until the job has ended"
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """The command `strata-mlflow`. Returns its exit status: 0 logged, 1 MLflow could not, 2 bad
    input."""
    options = parse(sys.argv[1:] if arguments is None else arguments)
    # Its messages say nothing about the job.
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    try:
        mlflow = importlib.import_module("mlflow")
    except ImportError:
        print("strata: error: mlflow is missing: pip install mlflow-skinny", file=sys.stderr)
        return 1
    try:
        print(export(mlflow, options))
    except UsageError as error:
        print(f"strata: error: {error}", file=sys.stderr)
        return 2
    except Exception as error:  # MLflow's, of its stores and of their libraries
        why = str(error).strip().splitlines() or [type(error).__name__]
        print(f"strata: error: mlflow: {why[0]}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
