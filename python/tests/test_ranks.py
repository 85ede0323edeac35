"""The optimizer on the ranks: the same as one process, and as DDP."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import forks
import pytest
import support
import torch
from forks import run_job, run_script
from support import SCRIPTS, Result, environment, error_lines, free_port, must_finish

Tensors = list[torch.Tensor]


def largest_difference(left: Tensors, right: Tensors) -> float:
    assert len(left) == len(right)
    return max(float((a - b).abs().max()) for a, b in zip(left, right))


def have_same_bits(left: Tensors, right: Tensors) -> bool:
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def train_with_ddp(folder: pathlib.Path, ranks: int) -> Tensors:
    forks.start()
    port = str(free_port())
    words = [forks.PYTHON, str(SCRIPTS / "recipes.py"), "ddp", str(folder / "ddp")]
    started = [
        subprocess.Popen(
            words,
            env=environment(
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=port,
                RANK=str(rank),
                WORLD_SIZE=str(ranks),
            ),
        )
        for rank in range(ranks)
    ]
    assert [process.wait(120) for process in started] == [0] * ranks
    trained: Tensors = torch.load(folder / "ddp.0")
    return trained


def train_in_one_process(folder: pathlib.Path, how: str, *ranks: str) -> Tensors:
    """As plain PyTorch; `tree`: with the gradients of so many ranks, added up in tree order."""
    out = "".join((how, *ranks))
    result = must_finish(run_script(folder, "recipes.py", how, out, *ranks))
    trained: Tensors = result.load(f"{out}.0")
    return trained


def train(
    folder: pathlib.Path, ranks: int, nodes: int, run: Callable[..., Result] = run_job, **how: Any
) -> list[Tensors]:
    out = folder / f"strata-{ranks}-{nodes}"
    must_finish(run(out, "recipes.py", "strata", "out", ranks=ranks, nodes=nodes, **how))
    return [torch.load(out / f"out.{rank}") for rank in range(ranks)]


def test_four_ranks_in_any_layout_have_the_bits_of_one_process_and_are_as_ddp(
    tmp_path: pathlib.Path,
) -> None:
    """SGD, momentum, Nesterov, Adam, amsgrad, RMSprop and AdamW; decays and betas by group,
    dampening, maximize; schedulers; clipping, which does clip: 50 steps."""
    layouts = [
        train(tmp_path, 4, nodes, servers=servers) for nodes, servers in ((1, 1), (2, 2), (4, 1))
    ]
    first = layouts[0][0]
    for layout in layouts:
        for trained in layout:
            assert have_same_bits(trained, first)
    assert have_same_bits(first, train_in_one_process(tmp_path, "tree", "4"))
    assert largest_difference(first, train_with_ddp(tmp_path, 4)) < 1e-6


def test_two_ranks_in_a_ring_and_with_servers_have_the_bits_of_one_process(
    tmp_path: pathlib.Path,
) -> None:
    one = train_in_one_process(tmp_path, "tree", "2")
    for trained in train(tmp_path / "ring", 2, 1, mode="ring"):
        assert have_same_bits(trained, one)
    # Where each rank is started as a user's is.
    started = train(tmp_path / "servers", 2, 1, run=support.run_job)
    assert have_same_bits(started[0], one)


def test_one_process_alone_and_plain_pytorch_have_the_same_bits(tmp_path: pathlib.Path) -> None:
    alone, plain = (train_in_one_process(tmp_path, how) for how in ("alone", "plain"))
    assert have_same_bits(alone, plain)


@pytest.fixture(scope="module")
def features_of_one_process(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    folder = tmp_path_factory.mktemp("features")
    result = must_finish(run_script(folder, "features.py", "reference", "one"))
    tensors: dict[str, torch.Tensor] = result.load("one.0")
    return tensors


@pytest.mark.parametrize(
    "publish, place", [("backward", "ranks"), ("step", "ranks"), ("backward", "servers")]
)
def test_all_that_a_backward_pass_meets_trains_as_in_one_process(
    tmp_path: pathlib.Path,
    publish: str,
    place: str,
    features_of_one_process: dict[str, torch.Tensor],
) -> None:
    """channels_last, batch norm with averaged buffers, tied, frozen and unused parameters,
    changing shapes, accumulation, ranks that weigh by samples; a reentrant checkpoint; a part that
    is compiled."""
    result = must_finish(run_job(tmp_path, "features.py", "strata", "out", publish, place))
    one, first, second = features_of_one_process, result.load("out.0"), result.load("out.1")
    assert set(one) == set(first)
    for name, tensor in one.items():
        assert float((tensor - first[name]).abs().max()) < 1e-6, name
        assert torch.equal(first[name], second[name]), name


def test_what_ranks_can_and_cannot_do_is_as_the_table_says(tmp_path: pathlib.Path) -> None:
    """Of docs/python.md: weights that the script writes; and by name closures, a second backward
    pass, groups that are added and parameters that are unfrozen."""
    result = must_finish(run_job(tmp_path, "table.py"))
    assert result.out.count("as the table says") == 2


def test_gradients_after_backward_are_the_mean_of_all_ranks_in_tree_order(
    tmp_path: pathlib.Path,
) -> None:
    result = must_finish(run_job(tmp_path, "gradients.py", ranks=4, nodes=2, servers=2))
    local = [result.load(f"local.{rank}") for rank in range(4)]
    for rank in range(4):
        mean = result.load(f"mean.{rank}")
        for parts, got in zip(zip(*local), mean):
            # Of ranks 0 to 3: (0 + 1) + (2 + 3).
            expected = ((parts[0] + parts[1]) + (parts[2] + parts[3])) * 0.25
            assert torch.equal(expected, got)


@pytest.mark.parametrize("mode", ["delay1", "local(3)", "diloco(2)"])
def test_modes_with_late_means_make_the_steps_of_their_formulas(
    tmp_path: pathlib.Path, mode: str
) -> None:
    result = must_finish(run_job(tmp_path, "late_modes.py", mode, mode=mode))
    assert "as the formula" in result.out


def test_a_gradient_that_is_not_finite_on_one_rank_makes_a_grad_scaler_skip_on_all(
    tmp_path: pathlib.Path,
) -> None:
    if not hasattr(torch, "amp") or not hasattr(torch.amp, "GradScaler"):
        pytest.skip("this PyTorch has GradScaler for CUDA alone")
    result = must_finish(run_job(tmp_path, "scaler.py"))
    assert "[0] scales [1024.0, 1024.0, 512.0, 512.0]" in result.out
    assert "[1] scales [1024.0, 1024.0, 512.0, 512.0]" in result.out


def test_a_grad_scaler_is_refused_with_a_codec(tmp_path: pathlib.Path) -> None:
    if not hasattr(torch, "amp") or not hasattr(torch.amp, "GradScaler"):
        pytest.skip("this PyTorch has GradScaler for CUDA alone")
    result = run_job(tmp_path, "scaler.py", options=("--set", "push.codec=INT8"))
    lines = error_lines(result)
    assert result.status == 1 and len(lines) == 1, result.err
    assert "scaler: does not go with push.codec: INT8" in lines[0]


@pytest.mark.parametrize("place", ["ranks", "servers"])
def test_parameters_of_16_bits_and_autocast_train(tmp_path: pathlib.Path, place: str) -> None:
    """On the servers autocast alone, as weights are fp32 there."""
    result = must_finish(run_job(tmp_path, "halves.py", place))
    assert result.out.count("the losses fall") == 2


def test_two_optimizers_of_one_model_step_by_turns(tmp_path: pathlib.Path) -> None:
    result = must_finish(run_job(tmp_path, "gan.py"))
    assert result.out.count("as one process") == 2


@pytest.mark.parametrize("how", ["together", "turns", "assigned", "clipped"])
def test_optimizers_that_publish_in_step_exchange_each_gradient_once(
    tmp_path: pathlib.Path, how: str
) -> None:
    result = must_finish(run_job(tmp_path, "optimizers_at_once.py", how))
    assert result.out.count("as one process") == 2


@pytest.mark.parametrize("publish", ["backward", "step"])
def test_an_overflow_in_one_optimizers_part_makes_all_optimizers_skip(
    tmp_path: pathlib.Path, publish: str
) -> None:
    if not hasattr(torch, "amp") or not hasattr(torch.amp, "GradScaler"):
        pytest.skip("this PyTorch has GradScaler for CUDA alone")
    result = must_finish(run_job(tmp_path, "overflow.py", publish))
    assert result.out.count("no optimizer stepped") == 2


@pytest.mark.parametrize("place", ["ranks", "servers"])
def test_layers_freeze_models_are_copied_and_live_on_after_the_job(
    tmp_path: pathlib.Path, place: str
) -> None:
    result = must_finish(run_job(tmp_path, "changes.py", place))
    assert result.out.count("as one process") == 2


@pytest.mark.parametrize("place", ["ranks", "servers"])
def test_buffers_that_share_memory_share_it_after_they_were_averaged(
    tmp_path: pathlib.Path, place: str
) -> None:
    result = must_finish(run_job(tmp_path, "shared_memory.py", place))
    assert result.out.count("still share memory") == 2


@pytest.mark.parametrize("script", ["gan.py", "overflow.py"])
def test_what_is_of_one_step_does_not_go_with_delayed_means(
    tmp_path: pathlib.Path, script: str
) -> None:
    if script == "overflow.py" and not hasattr(getattr(torch, "amp", None), "GradScaler"):
        pytest.skip("this PyTorch has GradScaler for CUDA alone")
    result = run_job(tmp_path, script, "backward", mode="delay1")
    assert "does not go with double buffering (delay1)" in error_lines(result)[0]
