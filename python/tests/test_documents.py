"""The Python scripts in README.md and docs/python.md run as they stand there, and each row of what
works has a test."""

from __future__ import annotations

import ast
import pathlib
import re
import sys

import forks
import pytest
from support import HERE, execute, free_port, must_finish, run_job

ROOT = HERE.parents[1]
README, PAGE = ROOT / "README.md", ROOT / "docs" / "python.md"
ROWS = ROOT / "docs" / "rows.md"
MODEL = """
import torch
import torch.nn.functional as F
from torch.utils.data import TensorDataset

torch.manual_seed(1)
_points = torch.rand(2000, 2) * 2 - 1
data = TensorDataset(_points, (_points.square().sum(1) < 0.6).long())


class Net(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))


def test(model):
    return (model(_points).argmax(1) == data.tensors[1]).float().mean().item()
"""


def scripts(page: pathlib.Path) -> list[str]:
    """The blocks of Python in a page that are whole scripts."""
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S)
    return [block for block in blocks if "import " in block]


def script_of(page: pathlib.Path, *words: str) -> str:
    """The one script of a page that has all these words."""
    (found,) = [script for script in scripts(page) if all(word in script for word in words)]
    return found


def saved(folder: pathlib.Path, script: str) -> pathlib.Path:
    (folder / "model.py").write_text(MODEL)
    path = folder / "train.py"
    path.write_text(script)
    return path


def test_the_script_of_the_readme_learns_on_two_ranks(tmp_path: pathlib.Path) -> None:
    (script,) = scripts(README)
    result = must_finish(run_job(tmp_path, saved(tmp_path, script)))
    (accuracy,) = re.findall(r"finished after .*, test accuracy (\S+)", result.err + result.out)
    assert float(accuracy) > 0.9


def test_the_page_begins_with_the_same_script() -> None:
    assert scripts(PAGE)[0] == scripts(README)[0]


def test_the_script_of_the_readme_runs_by_itself(tmp_path: pathlib.Path) -> None:
    must_finish(execute([sys.executable, str(saved(tmp_path, scripts(README)[0]))], tmp_path))


def test_the_script_of_the_page_about_rows_runs_by_itself(tmp_path: pathlib.Path) -> None:
    (script,) = scripts(ROWS)
    result = must_finish(execute([sys.executable, str(saved(tmp_path, script))], tmp_path))
    (rows, in_bytes) = re.findall(r"^(\d+) rows, (\d+) bytes$", result.out, re.M)[0]
    assert int(rows) == 100 * 32 * 5 and int(in_bytes) < 300 * int(rows)


@pytest.mark.parametrize("optimizer", ["AdamW", "SGD"], ids=["ddp", "horovod"])
def test_what_ddp_and_horovod_become_learns(tmp_path: pathlib.Path, optimizer: str) -> None:
    script = script_of(PAGE, "strata.torch", "from model import Net", optimizer)
    result = must_finish(forks.run_job(tmp_path, saved(tmp_path, script)))
    (accuracy,) = re.findall(r"^\[0\] accuracy (\S+)", result.out, re.M)
    assert float(accuracy) > 0.7


def test_the_script_of_ddp_that_stands_beside_it_runs(tmp_path: pathlib.Path) -> None:
    """By what torchrun gives to its ranks; Debian's torchrun does not run with its Python."""
    forks.start()
    path = saved(tmp_path, script_of(PAGE, "DistributedDataParallel", "dist.init_process_group"))
    port = free_port()
    ranks = f"""export MASTER_ADDR=127.0.0.1 MASTER_PORT={port} WORLD_SIZE=2
        RANK=1 {forks.PYTHON} {path} & RANK=0 {forks.PYTHON} {path} && wait $!"""
    result = must_finish(execute(["bash", "-c", ranks], tmp_path))
    (accuracy,) = re.findall(r"^accuracy (\S+)", result.out, re.M)
    assert float(accuracy) > 0.7


def test_the_script_for_nodes_that_join_and_leave_runs(tmp_path: pathlib.Path) -> None:
    script = script_of(PAGE, "st.ElasticSampler")
    result = must_finish(forks.run_job(tmp_path, saved(tmp_path, script), nodes=2))
    assert sorted(result.load("net.pt")) == ["0.bias", "0.weight", "2.bias", "2.weight"]


def test_the_session_of_the_page_finds_the_line(tmp_path: pathlib.Path) -> None:
    script = script_of(PAGE, "strata.Session")
    result = must_finish(run_job(tmp_path, saved(tmp_path, script), nodes=2))
    first, second = re.findall(r"^\[\d\] \[(\S+)\]", result.out, re.M)
    assert first == second and abs(float(first) - 3) < 0.01


# The tests that run a row of "What works", with the optimizer on the ranks and on the servers. One
# stands in both lists where it runs both, or where the place makes no difference to what it runs.
RANKS = "test_ranks.py::"
SERVERS = "test_servers.py::"
REFUSALS = "test_refusals.py::"
RECIPES = RANKS + "test_four_ranks_in_any_layout_have_the_bits_of_one_process_and_are_as_ddp"
FEATURES = RANKS + "test_all_that_a_backward_pass_meets_trains_as_in_one_process"
TABLE = RANKS + "test_what_ranks_can_and_cannot_do_is_as_the_table_says"
FORMULAS = SERVERS + "test_an_optimizer_of_the_job_makes_pytorchs_steps"
REFUSED = SERVERS + "test_what_servers_cannot_do_is_refused_by_name"
NOT_ON_SERVERS = REFUSALS + "test_an_optimizer_that_servers_do_not_have_is_named"
TENSORS = REFUSALS + "test_a_tensor_that_cannot_be_trained_is_named"
EMBEDDINGS = "test_rows.py::test_a_converted_embedding_trains_as_pytorchs_sparse_optimizer"
HALVES = RANKS + "test_parameters_of_16_bits_and_autocast_train"
CHANGES = RANKS + "test_layers_freeze_models_are_copied_and_live_on_after_the_job"
ABSENT = RANKS + "test_what_no_rank_uses_is_left_alone_and_a_rank_without_samples_counts_nothing"
ABSENT_ON_SERVERS = (
    SERVERS + "test_what_no_rank_uses_is_left_alone_and_a_rank_without_samples_counts_nothing"
)
EXPORTED = RANKS + "test_nothing_of_a_job_is_on_the_model_or_in_copies_of_its_optimizer"
AVERAGED = RANKS + "test_buffers_that_are_equal_on_all_ranks_stay_and_others_become_their_mean"
NO_MEAN = RANKS + "test_a_buffer_that_has_no_mean_is_named"
ONE_STEP = RANKS + "test_what_is_of_one_step_does_not_go_with_delayed_means"
HOOKS = RANKS + "test_a_hook_that_comes_after_the_wrapping_counts"
HOOKS_ON_SERVERS = SERVERS + "test_a_hook_that_comes_after_the_wrapping_counts"
SHARED = RANKS + "test_buffers_that_share_memory_share_it_after_they_were_averaged"
EMPTY = REFUSALS + "test_what_has_no_elements_is_left_out"
EQUAL = REFUSALS + "test_buffers_that_must_be_equal_differ_by_their_checksums"

WHAT_WORKS: dict[str, tuple[list[str], list[str]]] = {
    "SGD, momentum, Nesterov, Adagrad, Adam, AdamW": ([RECIPES], [FORMULAS]),
    "other optimizers, `amsgrad`, `maximize`, `dampening`, `lr_decay`": (
        [RECIPES],
        [NOT_ON_SERVERS, REFUSED],
    ),
    "betas, `eps` or momentum that differ between groups": ([RECIPES], [NOT_ON_SERVERS]),
    "weight decay and rates by group": ([RECIPES], [FORMULAS]),
    "schedulers, a rate that the script changes": (
        [RECIPES],
        [FORMULAS, REFUSED, REFUSALS + "test_a_group_whose_ratio_changes_is_named"],
    ),
    "`clip_grad_norm_`": (
        [RECIPES],
        [REFUSED, SERVERS + "test_the_norm_over_servers_clips_as_pytorch_does"],
    ),
    "`GradScaler`": (
        [
            RANKS
            + "test_a_gradient_that_is_not_finite_on_one_rank_makes_a_grad_scaler_skip_on_all",
            RANKS + "test_a_grad_scaler_is_refused_with_a_codec",
            ONE_STEP,
        ],
        [REFUSED],
    ),
    "autocast": ([HALVES], [HALVES]),
    "parameters in bfloat16 or float16": ([HALVES], [REFUSED]),
    "parameters in float64, sparse or lazy ones": ([TENSORS], [TENSORS]),
    "`nn.Embedding(sparse=True)` and `nn.EmbeddingBag(sparse=True)`": ([EMBEDDINGS], [TENSORS]),
    "parameters and buffers without elements": ([EMPTY, AVERAGED], [EMPTY, AVERAGED]),
    "state that the optimizer has when it is wrapped": (
        [RANKS + "test_all_ranks_go_on_with_the_state_of_rank_0s_optimizer"],
        [REFUSED],
    ),
    "`load_state_dict()` of the optimizer afterwards": ([TABLE], [REFUSED]),
    "frozen parameters": ([FEATURES, EQUAL], [FEATURES, EQUAL]),
    "parameters that are frozen later": ([CHANGES], [CHANGES]),
    "parameters that are unfrozen later": ([TABLE], [REFUSED]),
    "parameters that no rank uses in a step": ([ABSENT], [ABSENT_ON_SERVERS]),
    "parameters that only some ranks use in a step": ([ABSENT], [ABSENT_ON_SERVERS]),
    "a step without any `backward()`": ([ABSENT], [ABSENT_ON_SERVERS]),
    "hooks on parameters, also after `DistributedOptimizer`": (
        [HOOKS, RANKS + "test_a_hook_whose_change_comes_too_late_is_told_of"],
        [HOOKS_ON_SERVERS],
    ),
    "accumulated gradients": ([FEATURES], [FEATURES]),
    "a second `backward()` without it": ([TABLE], [REFUSED]),
    "reentrant checkpoints, whole compiled graphs": ([FEATURES, EXPORTED], [FEATURES, EXPORTED]),
    "tied weights, `channels_last`": ([FEATURES], [FEATURES]),
    "buffers that are views of one another": ([SHARED], [SHARED]),
    "parameters or buffers that are views of a parameter": (
        [TABLE],
        [SERVERS + "test_what_shares_memory_with_a_weight_of_the_servers_is_named"],
    ),
    "BatchNorm's buffers": (
        [FEATURES, ONE_STEP, RANKS + "test_buffers_are_not_averaged_with_local_steps"],
        [FEATURES],
    ),
    "buffers that are equal on all ranks, such as masks": ([AVERAGED, NO_MEAN], [AVERAGED]),
    "`torch.compile`, TorchScript, `torch.save` of the model": ([EXPORTED], [EXPORTED]),
    "copies and pickles of the optimizer": ([EXPORTED], [EXPORTED]),
    "several optimizers (a GAN)": (
        [
            RANKS + "test_two_optimizers_of_one_model_step_by_turns",
            RANKS + "test_optimizers_that_publish_in_step_exchange_each_gradient_once",
            ONE_STEP,
        ],
        [REFUSED],
    ),
    "closures (`LBFGS`)": ([TABLE, REFUSALS + "test_lbfgs_is_refused_for_its_closures"], [REFUSED]),
    "weights that the script writes between steps": (
        [TABLE],
        [REFUSED, SERVERS + "test_a_write_to_weights_of_the_servers_is_named"],
    ),
    "`state_dict()` of the model": ([TABLE, CHANGES], [CHANGES]),
}


def rows_of_what_works() -> list[str]:
    """The first cells of the table's rows."""
    (_, section) = PAGE.read_text().split("\n## What works\n")
    lines = section.split("\n## ")[0].splitlines()
    rows = [line.strip("|").split(" | ")[0].strip() for line in lines if line.startswith("| ")]
    # The head, and the line beneath it.
    return [row for row in rows if row and set(row) != {"-"}]


def test_each_row_of_what_works_has_tests() -> None:
    """A row that nothing runs is no truth: a new one is named here with its tests."""
    rows = rows_of_what_works()
    assert len(rows) == len(set(rows)) > 30
    assert sorted(rows) == sorted(WHAT_WORKS)
    named = {name for places in WHAT_WORKS.values() for names in places for name in names}
    assert all(names for places in WHAT_WORKS.values() for names in places)
    for file in {name.split("::")[0] for name in named}:
        tree = ast.parse((HERE / file).read_text())
        there = {f"{file}::{one.name}" for one in tree.body if isinstance(one, ast.FunctionDef)}
        assert {name for name in named if name.startswith(file)} <= there
