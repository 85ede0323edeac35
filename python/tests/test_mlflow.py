"""`strata-mlflow` logs a run directory to a store of MLflow's own."""

from __future__ import annotations

import fcntl
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from support import environment, execute

# MLflow keeps its store of files, but wants to be told that it is meant.
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
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


@pytest.fixture
def runs(tmp_path: pathlib.Path) -> Runs:
    return Runs(tmp_path)


def test_all_steps_of_all_metrics_are_logged_with_their_times(runs: Runs) -> None:
    # More numbers than MLflow takes in one call.
    lines = [line(step) for step in range(1, 201)]
    lines[9].update(test_accuracy=0.125, values={"bleu (4)": 21.5})
    lines[19].update(loss=None)
    lines.append({"step": 15, "test_accuracy": 0.5, "elapsed_s": 7.5})
    runs.add(*lines)
    os.utime(runs.folder / "metrics.jsonl", (2_000_000_000, 2_000_000_000))
    result = execute(runs.words(), runs.top)
    assert result.status == 0, result.err
    (run,) = runs.runs()
    losses = runs.history(run, "train/loss")
    assert [step for step, _ in losses] == list(range(1, 201))
    assert math.isnan(losses[19][1])
    del losses[19]
    assert losses == [(n, 1 / (n + 0.1)) for n in range(1, 201) if n != 20]
    assert runs.history(run, "train/staleness_mean")[0] == (1, 5 / 6)
    assert runs.history(run, "network/bytes_pushed")[199] == (200, 4096)
    assert runs.history(run, "test/accuracy") == [(10, 0.125), (15, 0.5)]
    assert runs.history(run, "program/bleu _4_") == [(10, 21.5)]
    # The last line is as old as the file.
    points = runs.client.get_metric_history(run.info.run_id, "train/lr")
    assert points[-1].timestamp == 2_000_000_000_000
    assert points[0].timestamp == 2_000_000_000_000 - 99_500
    assert (run.info.status, run.info.end_time) == ("FINISHED", 2_000_000_000_000)
    assert run.info.start_time == 2_000_000_000_000 - 100_000
    assert f"strata: run {run.info.run_id}: 201 lines, " in result.out


def test_the_job_is_parameters_tags_and_files(runs: Runs) -> None:
    runs.add(line(10, final=True, test_accuracy=0.5))
    result = execute(runs.words("--experiment", "nightly"), runs.top)
    assert result.status == 0, result.err
    assert runs.runs() == []
    (run,) = runs.runs("nightly")
    assert run.data.params == {
        "name": "lenet",
        "model.zoo": "lenet5",
        "ranks": "4",
        "consistency.async": "{}",
        "debug.delays.node": "0",
        "debug.delays.delay_ms": "5",
        "debug.delays.1.node": "1",
        "debug.delays.1.delay_ms": "7",
    }
    tags = run.data.tags
    assert tags["strata.mode"] == "async"
    assert tags["strata.exchange"] == "PARAMETER_SERVER"
    assert tags["strata.owner"] == runs.folder.owner()
    assert tags["strata.version"].count(".") == 2
    assert run.info.run_name == "lenet-3"
    files = {file.path for file in runs.client.list_artifacts(run.info.run_id)}
    assert files == {"job.textproto", "metrics.jsonl"}


def test_of_the_final_model_alone_only_what_was_measured_is_logged(runs: Runs) -> None:
    runs.add(line(10), line(10, final=True, samples_per_s=0, loss=0, test_accuracy=0.5))
    assert execute(runs.words(), runs.top).status == 0
    (run,) = runs.runs()
    assert runs.history(run, "train/loss") == [(10, 1 / 10.1)]
    assert runs.history(run, "test/accuracy") == [(10, 0.5)]


def test_follow_logs_what_comes_until_the_final_line(runs: Runs) -> None:
    runs.add(line(10))
    with subprocess.Popen(
        runs.words("--follow"), cwd=runs.top, env=environment(), stdout=subprocess.PIPE, text=True
    ) as follower:
        await_losses(runs, 1)
        runs.add(line(20), line(30))
        await_losses(runs, 3)
        # The job goes on from step 20: the file is written anew.
        (runs.folder / "metrics.jsonl").write_text("", encoding="utf-8")
        runs.add(line(10), line(20), line(30, loss=0.25), line(40, final=True))
        out, _ = follower.communicate(timeout=60)
    assert follower.returncode == 0
    (run,) = runs.runs()
    assert [step for step, _ in runs.history(run, "train/loss")] == [10, 20, 30, 30, 40]
    assert run.info.status == "FINISHED"
    assert "5 lines" in out


def test_follow_ends_once_no_job_writes_there_any_more(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    from strata import mlflow_export

    monkeypatch.setattr(mlflow_export, "PATIENCE_S", 0.2)
    monkeypatch.setattr(mlflow_export, "LOOK_EVERY_S", 0.05)
    runs.add(line(10))
    with open(runs.folder / ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        file = mlflow_export.MetricsFile(runs.folder / "metrics.jsonl")
        batches = mlflow_export._batches(file, runs.folder, follow=True)
        assert [measured.step for measured in next(batches)] == [10]
        began = time.monotonic()
        while time.monotonic() - began < 1.0:  # as long as it is held
            assert next(batches) == []
    for batch in batches:
        assert batch == []


def await_losses(runs: Runs, count: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = runs.runs()
        if found and len(runs.history(found[0], "train/loss")) == count:
            return
        time.sleep(0.1)
    raise AssertionError(f"no {count} losses")


def test_a_follower_that_is_interrupted_says_what_it_has_logged(runs: Runs) -> None:
    runs.add(line(10))
    with subprocess.Popen(
        runs.words("--follow"), cwd=runs.top, env=environment(), stdout=subprocess.PIPE, text=True
    ) as follower:
        await_losses(runs, 1)
        follower.send_signal(signal.SIGINT)
        out, _ = follower.communicate(timeout=60)
    assert follower.returncode == 0
    assert ": 1 lines" in out


def test_bad_input_is_one_line(runs: Runs) -> None:
    def why(*words: str) -> tuple[int, str]:
        result = execute([*COMMAND, *words, "--tracking-uri", runs.uri], runs.top)
        assert result.out == ""
        return result.status, result.err

    assert why("none") == (2, "strata: error: none: no such folder\n")
    assert why("lenet-3") == (
        2,
        "strata: error: lenet-3: no metrics.jsonl, which is there once the first steps are "
        "reported\n",
    )
    runs.add(line(10))
    with open(runs.folder / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write("nonsense\n")
    assert why("lenet-3") == (
        2,
        "strata: error: lenet-3/metrics.jsonl:2: is no line of metrics\n",
    )
    assert runs.runs() == []


def test_a_last_line_that_is_cut_short_is_left_out_and_said(runs: Runs) -> None:
    runs.add(line(10))
    with open(runs.folder / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write('{"step":20,"sam')
    result = execute(runs.words(), runs.top)
    assert result.status == 0
    assert result.err == (
        "strata: warning: lenet-3/metrics.jsonl: the last line is cut short, and left out\n"
    )
    (run,) = runs.runs()
    assert runs.history(run, "train/loss") == [(10, 1 / 10.1)]


def test_a_store_that_cannot_be_had_is_one_line(runs: Runs) -> None:
    runs.add(line(10))
    result = execute([*COMMAND, "lenet-3", "--tracking-uri", "nothing://x"], runs.top)
    assert result.status == 1
    assert result.err.startswith("strata: error: mlflow: ")
    assert result.err.count("\n") == 1


def test_without_mlflow_one_line_says_how_to_have_it(runs: Runs) -> None:
    runs.add(line(10))
    (runs.top / "mlflow").mkdir()
    (runs.top / "mlflow" / "__init__.py").write_text("raise ImportError('none')", encoding="ascii")
    blocked = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(runs.top)!r}); "
               "from strata import mlflow_export; sys.exit(mlflow_export.main(['lenet-3']))"]
    result = execute(blocked, runs.top)
    assert (result.status, result.out) == (1, "")
    assert result.err == "strata: error: mlflow is missing: pip install mlflow-skinny\n"
