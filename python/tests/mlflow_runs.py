"""Run directories that nobody writes, and the stores that MLflow logs them to."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from strata import mlflow_export
from support import environment

# MLflow keeps its store of files, but wants to be told that it is meant.
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
from mlflow.exceptions import MlflowException  # noqa: E402
from mlflow.tracking import MlflowClient  # noqa: E402

COMMAND = [sys.executable, "-m", "strata.mlflow_export"]
JOB = """\
name: "lenet"
model {
  zoo: "lenet5"
}
ranks: 4
consistency {
  async {
  }
}
debug {
  delays {
    node: 0
    delay_ms: 5
  }
  delays {
    node: 1
    delay_ms: 7
  }
}
"""


def line(step: int, **more: Any) -> dict[str, Any]:
    fields = {
        "step": step,
        "samples": 64 * step,
        "epoch": step / 30,
        "loss": 1 / (step + 0.1),
        "samples_per_s": 1234.5678,
        "bytes_pushed": 4096,
        "bytes_answered": 2048,
        "staleness": [3, 1, 2],
        "waiting_share": 0.3,
        "elapsed_s": 0.5 * step,
        "pushes": 6,
        "pushes_during_backward": 2,
        "lr": 0.05,
    }
    return {**fields, **more}


@contextlib.contextmanager
def running(words: list[str], folder: pathlib.Path) -> Iterator[subprocess.Popen[str]]:
    """A command that does not outlive a test that goes wrong."""
    with subprocess.Popen(
        words, cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def await_that(holds: Callable[[], bool]) -> None:
    """Waits for what a store is to say. One that is just written to may not be readable."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(MlflowException, ValueError):
            if holds():
                return
        time.sleep(0.1)
    raise AssertionError("it did not come to that")


class Runs:
    """A run directory, and a store that it is logged to."""

    def __init__(self, top: pathlib.Path) -> None:
        self.top = top
        self.folder = top / "lenet-3"
        self.folder.mkdir()
        self.uri = (top / "store").as_uri()
        (self.folder / "job.textproto").write_text(JOB, encoding="utf-8")

    def add(self, *lines: dict[str, Any]) -> None:
        with open(self.folder / "metrics.jsonl", "a", encoding="utf-8") as file:
            file.writelines(json.dumps(fields) + "\n" for fields in lines)

    def replace(self, *lines: dict[str, Any]) -> None:
        """As a worker does, where a job goes on from an older step."""
        text = "".join(json.dumps(fields) + "\n" for fields in lines)
        (self.folder / "new").write_text(text, encoding="utf-8")
        (self.folder / "new").replace(self.folder / "metrics.jsonl")

    def claim(self, number: int = 3) -> None:
        """What a worker writes into the lock that it takes."""
        text = f'job {number} "lenet" of cluster 165936085aa3fa21\n'
        (self.folder / ".lock").write_text(text, encoding="ascii")

    def export(self, *more: str) -> int:
        """The command, in this process."""
        return mlflow_export.main([str(self.folder), "--tracking-uri", self.uri, *more])

    def words(self, *more: str) -> list[str]:
        return [*COMMAND, "lenet-3", "--tracking-uri", self.uri, *more]

    @property
    def client(self) -> MlflowClient:
        return MlflowClient(tracking_uri=self.uri)

    def runs(self, experiment: str = "strata") -> list[Any]:
        found = self.client.get_experiment_by_name(experiment)
        return list(self.client.search_runs([found.experiment_id])) if found else []

    def history(self, run: Any, name: str) -> list[Any]:
        points = self.client.get_metric_history(run.info.run_id, name)
        return [(point.step, point.value) for point in points]

    def await_losses(self, count: int) -> None:
        def are_there() -> bool:
            found = self.runs()
            return bool(found) and len(self.history(found[0], "train/loss")) == count

        await_that(are_there)
