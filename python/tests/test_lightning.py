"""PyTorch Lightning over a job, beside Lightning in one process with the same data."""

from __future__ import annotations

import importlib.util
import pathlib
from typing import Any

import forks
import pytest
import support
import torch
from strata._library import lib
from support import Result, error_lines, must_finish

HAS_LIGHTNING = importlib.util.find_spec("lightning") is not None
needs_rates = pytest.mark.skipif(
    not hasattr(lib, "strata_begin_step_at"), reason="this library takes no learning rates"
)
needs_lightning = pytest.mark.skipif(not HAS_LIGHTNING, reason="needs lightning")


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    if HAS_LIGHTNING:
        forks.start("lightning", "lightning.pytorch.callbacks")


def fit(folder: pathlib.Path, wants: str, **how: Any) -> Result:
    return forks.run_job(folder, "fitted.py", "job", "job", *wants.split(), **how)


def refusal(folder: pathlib.Path, wants: str, **how: Any) -> str:
    """Returns why the job fails, which must be one line."""
    result = fit(folder, wants, **how)
    assert result.status == 1
    (line,) = error_lines(result)
    return line


@needs_lightning
@pytest.mark.parametrize(
    "wants, how",
    [
        pytest.param("clip", {}, id="its own sampler, clipping"),
        pytest.param("accumulate", {"mode": "ring", "nodes": 2}, id="a ring, accumulation"),
        pytest.param("sampler manual", {}, id="a Sampler, manual optimization"),
        pytest.param(
            "servers",
            {"mode": "ssp(0)", "nodes": 2, "options": ()},
            id="on servers",
            marks=needs_rates,
        ),
    ],
)
def test_two_ranks_train_as_one_process_does(
    tmp_path: pathlib.Path, wants: str, how: dict[str, Any]
) -> None:
    must_finish(fit(tmp_path, wants, **how))
    must_finish(forks.run_script(tmp_path, "fitted.py", "alone", "alone", *wants.split()))
    weights, metrics, steps, _ = torch.load(tmp_path / "alone.0")
    for rank in range(2):
        own, own_metrics, own_steps, all_agree = torch.load(tmp_path / f"job.{rank}")
        assert max(float((own[name] - weights[name]).abs().max()) for name in weights) <= 1e-6
        assert own_steps == steps == (4 if "accumulate" in wants else 8)
        assert own_metrics["val_loss"] == pytest.approx(metrics["val_loss"], abs=1e-6)
        # If ranks decide differently, all of them learn that not all agree.
        assert all_agree is False
    saved = torch.load(tmp_path / "checkpoints" / "job.ckpt", weights_only=False)
    assert all(torch.equal(saved["state_dict"][name], own[name]) for name in weights)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == [
        "alone.ckpt",
        "job.ckpt",
    ]


@needs_lightning
def test_training_goes_on_from_a_checkpoint_of_rank_0(tmp_path: pathlib.Path) -> None:
    must_finish(fit(tmp_path, "half"))
    must_finish(fit(tmp_path, "resume"))
    must_finish(forks.run_script(tmp_path, "fitted.py", "alone", "alone"))
    weights, _, steps, _ = torch.load(tmp_path / "alone.0")
    for rank in range(2):
        own, _, own_steps, _ = torch.load(tmp_path / f"job.{rank}")
        assert own_steps == steps == 8
        assert max(float((own[name] - weights[name]).abs().max()) for name in weights) <= 1e-6


@needs_lightning
def test_a_job_that_only_tests_ends_well(tmp_path: pathlib.Path) -> None:
    """Whose ranks are started as a user's are."""
    result = must_finish(support.run_job(tmp_path, "fitted.py", "job", "job", "test"))
    tested = {line.split("tested:")[1] for line in result.out.splitlines() if "tested:" in line}
    assert len(tested) == 1


@needs_lightning
@pytest.mark.parametrize(
    "wants, named",
    [
        ("devices", "devices: 2, num_nodes: 1: a rank has one device"),
        ("sampler twice", "a strata.Sampler, whose share Lightning would divide again"),
        ("again", "fit: this process has trained already"),
    ],
)
def test_what_cannot_be_had_is_refused_by_name(
    tmp_path: pathlib.Path, wants: str, named: str
) -> None:
    assert named in refusal(tmp_path, wants, ranks=2 if "twice" in wants else 1)


@pytest.mark.skipif(HAS_LIGHTNING, reason="lightning is there")
def test_without_lightning_the_import_says_what_to_install() -> None:
    with pytest.raises(ImportError) as raised:
        import strata.lightning  # noqa: F401
    assert str(raised.value) == "strata.lightning: needs PyTorch Lightning 2: pip install lightning"
