"""`strata-mlflow RUN_DIR`: logs a job's run directory to MLflow, once or as the job runs."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import pathlib
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

from strata import _library
from strata._run_directory import (
    NOT_IN_NAMES,
    Measured,
    MetricsFile,
    UsageError,
    last_second,
    mode_of,
    read_params,
)
from strata._run_state import Job, State

ARTIFACTS = ("job.textproto", "metrics.jsonl", "report.html", "report.json")
# MLflow's bounds of one call, and of a parameter.
METRICS_AT_ONCE = 1000
PARAMS_AT_ONCE = 100
PARAM_CHARACTERS = 6000
LINES_AT_ONCE = 500
LOOK_EVERY_S = 1.0
ASK_EVERY_S = 5.0
# A job that goes on by itself after a failure lets go of its folder for this long at most; and a
# job ends this long after the final model's line.
PATIENCE_S = 30.0
# MLflow's names of jobs' ends. The run of a job that continues ends when nobody logs any more.
STATUS = {
    "finished": "FINISHED",
    "failed": "FAILED",
    "cancelled": "KILLED",
    "running": "KILLED",
    "unknown": "FINISHED",
}


class Run:
    """An MLflow run to which a run directory is logged."""

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

    def begin(self, params: dict[str, str], began_s: float) -> None:
        """Creates the run of a job with these fields that began to train at this time."""
        self._began_s = began_s
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
        """Logs lines. Returns the number of values in them."""
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

    def end(self, state: State) -> None:
        """Logs the files that exist, and how the job has ended."""
        for name in ARTIFACTS:
            if (self._folder / name).exists():
                self._client.log_artifact(self.id, str(self._folder / name))
        self._client.set_tag(self.id, "strata.state", state.name)
        if state.reason:
            self._client.set_tag(self.id, "strata.reason", state.reason)
        self._terminate(STATUS[state.name])

    def give_up(self, status: str) -> str:
        """Ends a run that can no longer be logged. Returns its state, in words."""
        if not self.id:
            return ""
        # A server that is gone has been waited for already.
        os.environ.update(MLFLOW_HTTP_REQUEST_MAX_RETRIES="1", MLFLOW_HTTP_REQUEST_TIMEOUT="10")
        try:
            self._terminate(status)
        except (Exception, KeyboardInterrupt):
            return f"; run {self.id} stays RUNNING"
        return f"; run {self.id} has ended as {status}"

    def _terminate(self, status: str) -> None:
        end_time = int((self._began_s + self._last_s) * 1000)
        self._client.set_terminated(self.id, status, end_time=end_time)


def _owner(folder: pathlib.Path) -> str:
    try:
        return folder.owner()
    except KeyError:
        return str(folder.stat().st_uid)


class Interrupts:
    """Ctrl-C and SIGTERM, as KeyboardInterrupt. The first waits for the call of MLflow's that is on
    its way, of which a store of files would keep a part; the next does not."""

    def __init__(self) -> None:
        self._calls = self._waits = False

    def on_signal(self, number: int, frame: Any) -> None:
        """Handles the signals."""
        if not self._calls or self._waits:
            raise KeyboardInterrupt
        self._waits = True

    @contextlib.contextmanager
    def after(self) -> Iterator[None]:
        """Returns a context for an MLflow call."""
        self._calls = True
        try:
            yield
        finally:
            self._calls = False
        if self._waits:
            raise KeyboardInterrupt


def _batches(file: MetricsFile, job: Job, follow: bool) -> Iterator[list[Measured]]:
    """Lines as they come. Following ends with the final model's, where there is a coordinator once
    it says that the job is over, or once no job writes there any more."""
    was_held, is_final, since = False, False, time.monotonic()
    while True:
        # Before the last look, so that nothing is missed.
        over = follow and job.has_ended(LOOK_EVERY_S if is_final else ASK_EVERY_S)
        batch = []
        for line in file.read():
            batch.append(line)
            is_final |= line.final
            since = time.monotonic()
            if len(batch) == LINES_AT_ONCE:
                yield batch
                batch = []
        yield batch
        if not follow or over or (is_final and not job.is_asked):
            return
        held = job.holds()
        was_held |= held
        if held and not is_final:
            since = time.monotonic()
        quiet = time.monotonic() - since >= PATIENCE_S
        if quiet and (was_held or is_final) and not job.goes_on:
            return
        time.sleep(LOOK_EVERY_S)


class Export:
    """Logs a run directory, as the options require."""

    def __init__(self, mlflow: Any, options: argparse.Namespace) -> None:
        self._mlflow, self._options = mlflow, options
        self._lines = self._numbers = 0
        self.interrupts = Interrupts()
        self.left = ""
        """what became of a run that could not be logged to its end, for the error's line"""

    def run(self) -> str:
        """Logs it. Returns a description of what was done."""
        options = self._options
        folder = pathlib.Path(options.run_dir)
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such folder")
        path = folder / "metrics.jsonl"
        if not path.exists():
            raise UsageError(
                f"{folder}: no metrics.jsonl, which is there once the first steps are reported"
            )
        file, params = MetricsFile(path), read_params(folder, PARAM_CHARACTERS)
        # A line has the seconds since training began; the file's own time is that of the last.
        began_s = path.stat().st_mtime - last_second(path)
        folder = folder.resolve()
        job = Job(folder, _access(options))
        run = Run(self._mlflow, folder, options.tracking_uri, options.experiment)
        try:
            with self.interrupts.after():
                run.begin(params, began_s)
            is_final, is_cut_off = self._log(file, job, run)
            state = job.state(is_final, is_cut_off, any(n.startswith("program") for n in params))
            run.end(state)
        except (Exception, KeyboardInterrupt) as error:
            stopped = isinstance(error, KeyboardInterrupt)
            self.left = run.give_up("KILLED" if stopped else "FAILED")
            raise

        logged = f"{self._lines} lines, {self._numbers} numbers, {STATUS[state.name]}"
        return f"{options.experiment}: run {run.id}: {logged}"

    def _log(self, file: MetricsFile, job: Job, run: Run) -> tuple[bool, bool]:
        """Returns whether the final model's line was logged, and whether Ctrl-C ended it."""
        is_final = False
        try:
            for lines in _batches(file, job, self._options.follow):
                is_final |= any(line.final for line in lines)
                with self.interrupts.after():
                    self._numbers += run.log(lines)
                    self._lines += len(lines)
        except KeyboardInterrupt:
            if not self._options.follow:
                raise
            return is_final, True
        if file.is_cut and not self._options.follow:
            cut = f"{self._options.run_dir}/metrics.jsonl: the last line is cut short, and left out"
            print(f"strata: warning: {cut}", file=sys.stderr)
        return is_final, False


def _access(options: argparse.Namespace) -> list[str]:
    words = ["--coordinator", options.coordinator] if options.coordinator else []
    words += ["--keys", options.keys] if options.keys else []
    return words + (["--insecure"] if options.insecure else [])


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parses the command line's options."""
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
    parser.add_argument(
        "--coordinator",
        metavar="ADDRESS",
        help="HOST:PORT or unix:/PATH of the coordinator to ask how the job ends",
    )
    parser.add_argument("--keys", metavar="FILE", help="the keys for it, as of strata status")
    parser.add_argument("--insecure", action="store_true", help="ask it without keys")
    options = parser.parse_args(arguments)
    if (options.keys or options.insecure) and not options.coordinator:
        parser.error("--keys and --insecure need --coordinator")
    return options


def main(arguments: list[str] | None = None) -> int:
    """The command `strata-mlflow`. Returns its exit status: 0 logged, 1 MLflow could not, 2 bad
    input, 130 interrupted."""
    options = parse(sys.argv[1:] if arguments is None else arguments)
    # Its messages say nothing about the job.
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    try:
        mlflow = importlib.import_module("mlflow")
    except ImportError:
        print("strata: error: mlflow is missing: pip install mlflow-skinny", file=sys.stderr)
        return 1
    export = Export(mlflow, options)
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(each, export.interrupts.on_signal) for each in signals]
    try:
        print(export.run())
    except UsageError as error:
        print(f"strata: error: {error}{export.left}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"strata: error: interrupted{export.left}", file=sys.stderr)
        return 130
    except Exception as error:  # MLflow's, of its stores and of their libraries
        why = str(error).strip().splitlines() or [type(error).__name__]
        print(f"strata: error: mlflow: {why[0]}{export.left}", file=sys.stderr)
        return 1
    finally:
        for each, handler in zip(signals, before):
            signal.signal(each, handler)
    return 0


if __name__ == "__main__":
    sys.exit(main())
