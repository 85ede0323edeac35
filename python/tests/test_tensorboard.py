"""TensorBoard itself reads what the worker and `strata export tensorboard` write."""

from __future__ import annotations

import json
import math
import os
import pathlib
import signal
import subprocess
import time
from typing import Any

import numpy as np
import pytest
from support import STRATA, execute
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

WRITE_EVENTS = os.environ["STRATA_WRITE_EVENTS"]
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

Scalars = dict[str, list[tuple[int, float]]]


def read(folder: pathlib.Path) -> EventAccumulator:
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    return accumulator


def scalars(folder: pathlib.Path) -> Scalars:
    """What TensorBoard draws of a folder: the points of each tag."""
    found = read(folder)
    return {
        tag: [(event.step, event.value) for event in found.Scalars(tag)]
        for tag in found.Tags()["scalars"]
    }


def line(step: int, **more: Any) -> dict[str, Any]:
    fields = {
        "step": step,
        "samples": 64 * step,
        "epoch": step / 30,
        "loss": 1 / (step + 0.1),
        "samples_per_s": 1234.5678 * step,
        "bytes_pushed": 123456789012345 + step,
        "bytes_answered": step,
        "staleness": [3, 1, 2, 0],
        "waiting_share": 0.3,
        "hidden_share": 0.7,
        "elapsed_s": 0.5 * step,
        "pushes": 6,
        "pushes_during_backward": 2,
        "lr": 0.05,
    }
    return {**fields, **more}


def expected(lines: list[dict[str, Any]]) -> Scalars:
    """The points that lines of metrics.jsonl make, worked out anew."""
    points: Scalars = {}

    def add(tag: str, step: int, value: float | None) -> None:
        rounded = np.float32(math.nan if value is None else value)
        points.setdefault(tag, []).append((step, float(rounded)))

    for fields in lines:
        has_window = "samples" in fields
        for name, tag in {**(WINDOW if has_window else {}), **MEASURED}.items():
            if name in fields:
                add(tag, fields["step"], fields[name])
        pushes = fields.get("staleness", [])
        if sum(pushes):
            mean = sum(i * n for i, n in enumerate(pushes)) / sum(pushes)
            add("train/staleness_mean", fields["step"], mean)
        for name, value in fields.get("values", {}).items():
            add(f"program/{name}", fields["step"], value)
    return points


def write_run(folder: pathlib.Path, lines: list[dict[str, Any]]) -> None:
    folder.mkdir(parents=True)
    text = "".join(json.dumps(fields) + "\n" for fields in lines)
    (folder / "metrics.jsonl").write_text(text, encoding="utf-8")
    (folder / "job.textproto").write_text('name: "lenet"\nranks: 4\n', encoding="utf-8")


def test_an_export_has_the_floats_of_metrics_jsonl(tmp_path: pathlib.Path) -> None:
    lines = [line(step) for step in range(10, 200, 10)]
    lines[3].update(test_accuracy=0.123456789, test_loss=2.3025850929)
    lines[4].update(values={"perplexity": 9.87654321, "bleu score": 1e-40})
    lines.append({"step": 55, "test_accuracy": 0.9, "elapsed_s": 3.25})
    write_run(tmp_path / "run", lines)
    result = execute([STRATA, "export", "tensorboard", "run"], tmp_path)
    assert result.status == 0, result.err
    assert scalars(tmp_path / "run") == expected(lines)
    events = read(tmp_path / "run").Scalars("train/loss")
    assert [event.wall_time for event in events] == [0.5 * step for step in range(10, 200, 10)]


def test_a_loss_that_is_no_number_is_shown_as_none(tmp_path: pathlib.Path) -> None:
    write_run(tmp_path / "run", [line(10), line(20, loss=None)])
    result = execute([STRATA, "export", "tensorboard", "run"], tmp_path)
    assert result.status == 0, result.err
    assert [math.isnan(value) for _, value in scalars(tmp_path / "run")["train/loss"]] == [
        False,
        True,
    ]


def test_the_job_is_shown_as_a_text(tmp_path: pathlib.Path) -> None:
    write_run(tmp_path / "run", [line(10)])
    assert execute([STRATA, "export", "tensorboard", "run"], tmp_path).status == 0
    found = read(tmp_path / "run")
    assert found.Tags()["tensors"] == ["job"]
    assert found.SummaryMetadata("job").plugin_data.plugin_name == "text"
    (event,) = found.Tensors("job")
    assert event.tensor_proto.string_val[0] == b'    name: "lenet"\n    ranks: 4\n'


def test_runs_of_a_comparison_are_runs_of_their_own(tmp_path: pathlib.Path) -> None:
    for mode, step in (("sync", 10), ("async", 20)):
        write_run(tmp_path / "out" / "jobs" / f"{mode}-seed1", [line(step)])
    result = execute([STRATA, "export", "tensorboard", "out", "--out", "boards"], tmp_path)
    assert result.status == 0, result.err
    for mode, step in (("sync", 10), ("async", 20)):
        assert scalars(tmp_path / "boards" / f"{mode}-seed1") == expected([line(step)])


@pytest.mark.parametrize("after_bytes", [20_000, 200_000, 300_000])
def test_a_writer_that_is_killed_leaves_a_file_that_is_read(
    tmp_path: pathlib.Path, after_bytes: int
) -> None:
    with subprocess.Popen([WRITE_EVENTS, str(tmp_path), "100000000"]) as writer:
        deadline = time.monotonic() + 60
        while sum(file.stat().st_size for file in tmp_path.iterdir()) < after_bytes:
            assert writer.poll() is None and time.monotonic() < deadline
            time.sleep(0.001)
        writer.send_signal(signal.SIGKILL)
    steps = [step for step, _ in scalars(tmp_path)["train/loss"]]
    assert len(steps) > 50
    check_losses(tmp_path, len(steps))
    # The next one goes on after whatever it was killed in.
    subprocess.run([WRITE_EVENTS, str(tmp_path), "10", str(len(steps) + 1)], check=True)
    check_losses(tmp_path, len(steps) + 10)


def check_losses(folder: pathlib.Path, count: int) -> None:
    losses = scalars(folder)["train/loss"]
    assert losses == [(k, float(np.float32(1 / k))) for k in range(1, count + 1)]


def test_a_record_that_is_cut_short_is_cut_off(tmp_path: pathlib.Path) -> None:
    subprocess.run([WRITE_EVENTS, str(tmp_path), "20"], check=True)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-7])
    check_losses(tmp_path, 19)
    subprocess.run([WRITE_EVENTS, str(tmp_path), "5", "20"], check=True)
    check_losses(tmp_path, 24)


def test_steps_that_are_made_again_are_shown_once(tmp_path: pathlib.Path) -> None:
    subprocess.run([WRITE_EVENTS, str(tmp_path), "20"], check=True)
    subprocess.run([WRITE_EVENTS, str(tmp_path), "5", "11"], check=True)
    check_losses(tmp_path, 15)
    assert len(read(tmp_path).Tensors("job")) == 1
