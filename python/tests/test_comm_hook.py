"""DistributedDataParallel whose gradients a job exchanges, beside DDP's own exchange."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import support
import torch
from forks import run_job
from support import error_lines, must_finish

IS_OLD = torch.__version__.startswith("1.")


def largest_difference(path: pathlib.Path) -> float:
    hooked, own = torch.load(path)
    assert hooked.keys() == own.keys()
    return max(float((hooked[name] - own[name]).abs().max()) for name in hooked)


@pytest.mark.parametrize(
    "wants, how",
    [
        pytest.param("view accumulate", {}, id="no_sync and gradients as views"),
        pytest.param("unused", {}, id="find_unused_parameters"),
        pytest.param("unused static", {}, id="static_graph"),
        pytest.param("", {"mode": "ring", "nodes": 2}, id="ring of two nodes"),
        pytest.param("delayed", {"mode": "delay1", "nodes": 2}, id="delay1"),
    ],
)
def test_ddp_over_a_job_trains_as_ddp_by_itself(
    tmp_path: pathlib.Path, wants: str, how: dict[str, Any]
) -> None:
    must_finish(run_job(tmp_path, "hooked.py", "out", *wants.split(), **how))
    for rank in range(2):
        assert largest_difference(tmp_path / f"out.{rank}") <= 1e-6


@pytest.mark.skipif(IS_OLD, reason="Gloo of this PyTorch has no bfloat16")
def test_gradients_of_bfloat16_keep_their_type(tmp_path: pathlib.Path) -> None:
    must_finish(run_job(tmp_path, "hooked.py", "out", "bfloat16"))
    # Means are sums of fp32 here, of bfloat16 in Gloo.
    assert largest_difference(tmp_path / "out.0") <= 0.05
    both = [torch.load(tmp_path / f"out.{rank}")[0] for rank in range(2)]
    assert all(
        torch.equal(both[0][name], both[1][name]) for name in both[0] if "running" not in name
    )


@pytest.mark.skipif(IS_OLD, reason="this profiler does not name Gloo's collectives")
def test_no_gradient_goes_through_gloo(tmp_path: pathlib.Path) -> None:
    result = must_finish(support.run_job(tmp_path, "hooked.py", "out", "gloo"))
    line = next(line for line in result.out.splitlines() if line.startswith("[0] through Gloo:"))
    assert "all_reduce" not in line
    # The order of parameters remains, which ranks settle once.
    assert "broadcast" in line


@pytest.mark.parametrize("mode", ["ssp(3)", "local(4)"])
def test_a_mode_that_is_not_ddps_is_refused_by_name(tmp_path: pathlib.Path, mode: str) -> None:
    result = run_job(tmp_path, "hooked.py", "out", mode=mode)
    assert result.status == 1
    name = {"ssp(3)": "lazy with staleness 3", "local(4)": "local_steps"}[mode]
    assert f"comm_hook: does not go with mode {name}" in error_lines(result)[0]


def test_a_gradient_that_is_not_finite_names_its_parameter(tmp_path: pathlib.Path) -> None:
    result = run_job(tmp_path, "hooked.py", "out", "nan")
    assert result.status == 1
    assert "rank 1" in error_lines(result)[0] and '"last.bias"' in error_lines(result)[0]


def test_ranks_that_come_apart_fail_the_job(tmp_path: pathlib.Path) -> None:
    result = run_job(tmp_path, "hooked.py", "out", "apart")
    assert result.status == 1
    assert 'rank 1\'s "last.bias" differs from rank 0\'s after step 20' in error_lines(result)[0]
