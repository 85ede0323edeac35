"""The optimizer on the ranks: the same as one process, and as DDP."""

from __future__ import annotations

import json
import pathlib
import re
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


def test_nothing_of_a_job_is_on_the_model_or_in_copies_of_its_optimizer(
    tmp_path: pathlib.Path,
) -> None:
    """It is compiled once, as a whole, scripted, and saved without a word of Strata."""
    result = must_finish(run_job(tmp_path, "model_exported.py"))
    assert result.out.count("exported as any other") == 2
    for rank in range(2):
        for name in ("model", "optimizer"):
            assert b"strata" not in (tmp_path / f"{name}.{rank}").read_bytes()


@pytest.mark.parametrize("who, kind", [("0", "momentum"), ("1", "momentum"), ("all", "adam")])
def test_all_ranks_go_on_with_the_state_of_rank_0s_optimizer(
    tmp_path: pathlib.Path, who: str, kind: str
) -> None:
    result = must_finish(run_job(tmp_path, "model_first_state.py", who, kind, nodes=2))
    assert result.out.count("as one process goes on") == 2


@pytest.mark.parametrize("place", ["ranks", "servers"])
def test_buffers_that_are_equal_on_all_ranks_stay_and_others_become_their_mean(
    tmp_path: pathlib.Path, place: str
) -> None:
    result = must_finish(run_job(tmp_path, "model_averaged.py", "stay", place))
    assert result.out.count("what is equal stays") == 2
    assert torch.equal(result.load("own.0"), result.load("own.1"))


@pytest.mark.parametrize(
    "what, text",
    [
        ("mask", 'buffer "mask": had values that have no mean .* and has changed'),
        ("nan", 'buffer "own": has come to have no mean .*element 3 is NaN'),
    ],
)
def test_a_buffer_that_has_no_mean_is_named(tmp_path: pathlib.Path, what: str, text: str) -> None:
    result = run_job(tmp_path, "model_averaged.py", what)
    lines = error_lines(result)
    assert result.status == 1 and len(lines) == 1, result.err
    assert re.search(text, lines[0]), lines[0]


@pytest.mark.parametrize("how", ["loader", "sampler"])
def test_samples_are_those_that_are_drawn_for_training(tmp_path: pathlib.Path, how: str) -> None:
    must_finish(run_job(tmp_path, "model_counted.py", how))
    (metrics,) = tmp_path.rglob("metrics.jsonl")
    records = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert [one["samples"] for one in records if one.get("samples")][-1] == 2 * 40


def test_what_ranks_can_and_cannot_do_is_as_the_table_says(tmp_path: pathlib.Path) -> None:
    """Of docs/python.md: weights that the script writes, the optimizer's state that it loads, names
    of the model's; and by name closures, a second backward pass, groups that are added and
    parameters that are unfrozen."""
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
            # Ranks 0 to 3: (0 + 1) + (2 + 3).
            expected = ((parts[0] + parts[1]) + (parts[2] + parts[3])) * 0.25
            assert torch.equal(expected, got)


@pytest.mark.parametrize("mode", ["delay1", "local(3)", "diloco(2)"])
def test_modes_with_late_means_make_the_steps_of_their_formulas(
    tmp_path: pathlib.Path, mode: str
) -> None:
    result = must_finish(run_job(tmp_path, "late_modes.py", mode, mode=mode))
    assert "as the formula" in result.out


def test_local_steps_count_as_steps_in_progress_and_metrics(tmp_path: pathlib.Path) -> None:
    """Also those of the last round, which is short."""
    options = ("--set", "metrics.every_steps=4")
    result = must_finish(run_job(tmp_path, "local_progress.py", mode="diloco(4)", options=options))
    assert "mode diloco(4), " in result.out
    assert re.findall(r"^step (\d+)/(\d+) ", result.out, re.M)[-1] == ("10", "10")
    (file,) = tmp_path.glob("strata-runs/*/*/metrics.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    # Measurements need not wait for the window that the other rank has not ended.
    assert sorted(line["step"] for line in lines) == [4, 6, 8, 10]


@pytest.mark.parametrize("how", ["", "fused", "float64"])
def test_a_gradient_that_is_not_finite_on_one_rank_makes_a_grad_scaler_skip_on_all(
    tmp_path: pathlib.Path, how: str
) -> None:
    """Also of a fused optimizer, which a scaler calls all the same, and where numbers are of fp64
    by default. A step that is skipped is one step."""
    if not hasattr(torch, "amp") or not hasattr(torch.amp, "GradScaler"):
        pytest.skip("this PyTorch has GradScaler for CUDA alone")
    result = must_finish(run_job(tmp_path, "scaler.py", how))
    assert "[0] scales [1024.0, 1024.0, 512.0, 512.0]" in result.out
    assert "[1] scales [1024.0, 1024.0, 512.0, 512.0]" in result.out


def test_a_grad_scaler_is_refused_with_a_codec(tmp_path: pathlib.Path) -> None:
    if not hasattr(torch, "amp") or not hasattr(torch.amp, "GradScaler"):
        pytest.skip("this PyTorch has GradScaler for CUDA alone")
    result = run_job(tmp_path, "scaler.py", "", options=("--set", "push.codec=INT8"))
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


def test_buffers_are_not_averaged_with_local_steps(tmp_path: pathlib.Path) -> None:
    result = run_job(tmp_path, "model_averaged.py", "stay", mode="local(2)")
    assert result.status == 1
    assert 'buffers: "mean" does not go with local steps' in error_lines(result)[0]


@pytest.mark.parametrize("script", ["gan.py", "overflow.py", "model_averaged.py"])
def test_what_is_of_one_step_does_not_go_with_delayed_means(
    tmp_path: pathlib.Path, script: str
) -> None:
    if script == "overflow.py" and not hasattr(getattr(torch, "amp", None), "GradScaler"):
        pytest.skip("this PyTorch has GradScaler for CUDA alone")
    result = run_job(tmp_path, script, "backward", mode="delay1")
    assert "does not go with double buffering (delay1)" in error_lines(result)[0]


@pytest.mark.parametrize(
    "what, kind, mode",
    [
        ("unused", "momentum", "sync"),
        ("unused", "adamw", "ring"),
        ("unused", "adamw", "delay1"),
        ("nothing", "decay", "sync"),
        ("nothing", "adamw", "ring"),
        ("without", "momentum", "sync"),
        ("skip", "momentum", "sync"),
        ("dummy", "momentum", "ring"),
        ("zero", "decay", "sync"),
        ("empty", "adamw", "sync"),
        ("empty", "adamw", "ring"),
        ("empty", "adamw", "delay1"),
        ("assigned", "adamw", "sync"),
        ("rest", "momentum", "sync"),
    ],
)
def test_what_no_rank_uses_is_left_alone_and_a_rank_without_samples_counts_nothing(
    tmp_path: pathlib.Path, what: str, kind: str, mode: str
) -> None:
    late = ("ranks", "late") if mode == "delay1" else ()
    result = must_finish(run_job(tmp_path, "absent.py", what, kind, *late, mode=mode, nodes=2))
    assert result.out.count("as one process") == 2


def test_so_it_is_with_all_ranks_on_one_node(tmp_path: pathlib.Path) -> None:
    """Whose means no server makes."""
    for what in ("unused", "empty"):
        result = must_finish(run_job(tmp_path, "absent.py", what, "adamw", mode="ring"))
        assert result.out.count("as one process") == 2


def test_a_model_of_another_type_after_the_wrapping_is_named(tmp_path: pathlib.Path) -> None:
    result = run_job(tmp_path, "refused.py", "double", mode="ring")
    assert result.status == 1
    assert "has become torch.float64 since the optimizer was wrapped" in error_lines(result)[0]


@pytest.mark.parametrize("what", ["tensor", "post"])
def test_a_hook_that_comes_after_the_wrapping_counts(tmp_path: pathlib.Path, what: str) -> None:
    if what == "post" and torch.__version__.startswith("1."):
        pytest.skip("this PyTorch has no such hooks")
    result = must_finish(run_job(tmp_path, "hooks.py", what))
    assert result.out.count("as one process") == 2


def test_a_hook_whose_change_comes_too_late_is_told_of(tmp_path: pathlib.Path) -> None:
    result = run_job(tmp_path, "hooks.py", "node")
    assert result.status == 1
    assert "its gradient was changed after it had been given" in error_lines(result)[0]


APART = {
    "load": 'rank 1\'s "2.bias" differs from rank 0\'s after step 6',
    "skip": 'rank 1\'s "2.bias" differs from rank 0\'s after step 6',
    "clip": 'rank 1\'s "2.bias" differs from rank 0\'s after step 6',
    "decay": "rank 1's optimizer has weight_decay (of group 0) 0.25, rank 0's 0 after step 6",
    "momentum": "rank 1's optimizer has momentum (of group 0) 0.25, rank 0's 0.5 after step 6",
    "rate": "rank 1's optimizer has lr (of group 1) 0.01, rank 0's 0.1 after step 6",
    "buffer": "scale (buffer, checksum ",
}


@pytest.mark.parametrize("what", APART)
def test_ranks_that_come_apart_fail_the_job(tmp_path: pathlib.Path, what: str) -> None:
    result = run_job(tmp_path, "agree.py", what, nodes=2)
    # Ranks' final weights are compared after they have ended: only the job knows them.
    assert result.status == 1
    assert APART[what] in error_lines(result)[0]


@pytest.mark.parametrize("mode", ["ring", "delay1", "local(2)"])
def test_so_they_do_in_other_modes_and_before_the_end(tmp_path: pathlib.Path, mode: str) -> None:
    must_finish(run_job(tmp_path / "alike", "agree.py", "alike", "2", mode=mode, nodes=2))
    result = run_job(tmp_path / "apart", "agree.py", "momentum", "2", mode=mode, nodes=2)
    assert result.status == 1
    text = "rank 1's optimizer has momentum (of group 0) 0.25, rank 0's 0.5 after step "
    # The first of ranks may have made the last step meanwhile.
    assert text + "4" in error_lines(result)[0] or text + "6" in error_lines(result)[0]


def test_ranks_with_weights_of_their_own_say_so(tmp_path: pathlib.Path) -> None:
    result = must_finish(run_job(tmp_path, "agree.py", "skip", "0", nodes=2))
    assert result.out.count("has finished") == 2
