"""`strata-mlflow` logs a run directory to a store of MLflow's own."""

from __future__ import annotations

import fcntl
import json
import math
import os
import pathlib
import sys
import time
import tracemalloc

import pytest
from mlflow_runs import COMMAND, Runs, line, running
from strata import mlflow_export
from support import execute

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


def test_nobody_waits_for_a_pipe_in_the_run_directory(runs: Runs) -> None:
    runs.add(line(1))
    for name in ("metrics.jsonl", "job.textproto"):
        path = runs.folder / name
        path.rename(runs.top / name)
        os.mkfifo(path)
        result = execute(runs.words(), runs.top)
        assert result.status != 0
        assert result.err.splitlines()[-1].endswith(f"{name}: not a file"), result.err
        path.unlink()
        (runs.top / name).rename(path)


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
    with running(runs.words("--follow"), runs.top) as follower:
        runs.await_losses(1)
        runs.add(line(20), line(30))
        runs.await_losses(3)
        # The job goes on from step 20: another file takes the place of this one.
        runs.replace(line(10), line(20))
        runs.add(line(30, loss=0.25), line(40, final=True))
        out, _ = follower.communicate(timeout=60)
    assert follower.returncode == 0
    (run,) = runs.runs()
    assert [step for step, _ in runs.history(run, "train/loss")] == [10, 20, 30, 30, 40]
    assert run.info.status == "FINISHED"
    assert "5 lines" in out


def test_follow_ends_once_no_job_writes_there_any_more(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlflow_export, "PATIENCE_S", 0.2)
    monkeypatch.setattr(mlflow_export, "LOOK_EVERY_S", 0.05)
    runs.add(line(10))
    with open(runs.folder / ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        file = mlflow_export.MetricsFile(runs.folder / "metrics.jsonl")
        job = mlflow_export.Job(runs.folder, [])
        batches = mlflow_export._batches(file, job, follow=True)
        assert [measured.step for measured in next(batches)] == [10]
        began = time.monotonic()
        while time.monotonic() - began < 1.0:  # as long as it is held
            assert next(batches) == []
    for batch in batches:
        assert batch == []


def test_of_a_file_only_what_is_new_is_read(runs: Runs) -> None:
    runs.add(line(10), line(20))
    path = runs.folder / "metrics.jsonl"
    file = mlflow_export.MetricsFile(path)
    assert [measured.step for measured in file.read()] == [10, 20]
    with open(path, "r+b") as earlier:
        earlier.write(b"what was read is not read again")
    runs.add(line(30))
    assert [measured.step for measured in file.read()] == [30]
    assert list(file.read()) == []
    with open(path, "ab") as more:
        more.write(b"nonsense\n")
    with pytest.raises(mlflow_export.UsageError, match=r"metrics\.jsonl:4: is no line"):
        list(file.read())


def test_a_character_that_is_half_written_waits_for_its_rest(runs: Runs) -> None:
    row = json.dumps(line(10, values={"güte": 1.5}), ensure_ascii=False).encode() + b"\n"
    half = row.index("ü".encode()) + 1
    path = runs.folder / "metrics.jsonl"
    path.write_bytes(row[:half])
    file = mlflow_export.MetricsFile(path)
    assert list(file.read()) == [] and file.is_cut
    with open(path, "ab") as rest:
        rest.write(row[half:])
    (measured,) = file.read()
    assert measured.metrics["program/güte"] == 1.5
    assert not file.is_cut


def test_what_is_read_does_not_stay_in_memory(runs: Runs) -> None:
    runs.add(*(line(step) for step in range(5000)))
    assert (runs.folder / "metrics.jsonl").stat().st_size > 1_400_000
    file = mlflow_export.MetricsFile(runs.folder / "metrics.jsonl")
    tracemalloc.start()
    try:
        assert sum(1 for _ in file.read()) == 5000
        assert tracemalloc.get_traced_memory()[1] < 300_000
    finally:
        tracemalloc.stop()


def test_of_a_file_that_was_replaced_what_was_read_is_not_read_again(runs: Runs) -> None:
    runs.add(line(10), line(20), line(30))
    path = runs.folder / "metrics.jsonl"
    file = mlflow_export.MetricsFile(path)

    def steps() -> list[int]:
        return [measured.step for measured in file.read()]

    assert steps() == [10, 20, 30]
    runs.replace(line(10), line(20))
    assert steps() == []
    runs.add(line(30, loss=1))
    assert steps() == [30]
    runs.replace(line(10), line(20, loss=1), line(30))
    assert steps() == [20, 30]
    path.unlink()
    assert steps() == []
    runs.add(line(5), line(10))
    assert steps() == [5, 10]
    path.write_bytes(b"")
    assert steps() == []
    runs.add(line(10))
    assert steps() == [10]


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


@pytest.mark.parametrize(
    "row",
    [
        b'{"step": 20, "values": {"\xff": 1}}',
        b'{"step": Infinity}',
        b'{"step": 20, "elapsed_s": null}',
        b"[" * 100_000,
        b"x" * (1 << 20),
    ],
    ids=["no UTF-8", "no step", "no time", "deep", "long"],
)
def test_a_line_that_is_none_is_named(
    runs: Runs, row: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.add(line(10))
    with open(runs.folder / "metrics.jsonl", "ab") as file:
        file.write(row + b"\n")
    assert runs.export() == 2
    assert capsys.readouterr().err == (
        f"strata: error: {runs.folder}/metrics.jsonl:2: is no line of metrics\n"
    )
    assert runs.runs() == []


@pytest.mark.parametrize("text", [b'name: "\xff"\n', b"}\n"])
def test_a_job_that_is_none_is_named(
    runs: Runs, text: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.add(line(10))
    (runs.folder / "job.textproto").write_bytes(text)
    assert runs.export() == 2
    assert capsys.readouterr().err == f"strata: error: {runs.folder}/job.textproto: is no job\n"


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
