"""The optimizer on the servers: PyTorch's formulas, every mode, and no wait that is forgotten."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
from typing import Any

import numpy as np
import pytest
import support
import torch
from forks import run_job, run_script
from going_on import checkpoints
from support import STRATA, error_lines, execute, must_finish

MODES = ["ssp(2)", "async", "async_damped", "async_dc", "quorum(1)", "easgd", "significance"]


@pytest.mark.parametrize("kind", ["sgd", "momentum", "nesterov", "adagrad", "adam", "adamw"])
def test_an_optimizer_of_the_job_makes_pytorchs_steps(tmp_path: pathlib.Path, kind: str) -> None:
    """Two groups with rates and decays of their own, a scheduler with warm-up, 50 steps, within
    1e-6."""
    result = must_finish(run_script(tmp_path, "servers.py", kind))
    assert "as PyTorch's own formula" in result.out


SAMPLES = ("--set", "program.samples_per_rank=1")

# Ranks and nodes, and the optimizer.
JOBS = {
    "momentum-2": (2, 1, ["momentum"]),
    "adamw-2": (2, 2, ["adamw"]),
    "adam-2": (2, 2, ["adam", "overlap=forward"]),
    "momentum-4": (4, 2, ["momentum"]),
    "adam-4": (4, 2, ["adam"]),
}


@pytest.fixture(scope="module")
def of_one_process(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder in which one process has left what it trained with the gradients of all ranks,
    added up in tree order."""
    folder = tmp_path_factory.mktemp("alone")
    must_finish(run_script(folder, "servers_alone.py", *JOBS))
    return folder


@pytest.mark.parametrize("case", JOBS)
def test_ranks_have_the_bits_of_one_process_that_adds_in_tree_order(
    tmp_path: pathlib.Path, case: str, of_one_process: pathlib.Path
) -> None:
    """And make PyTorch's steps; after the end the weights are each rank's own."""
    ranks, nodes, words = JOBS[case]
    result = must_finish(
        run_job(
            tmp_path, "servers.py", *words, ranks=ranks, nodes=nodes, servers=nodes, options=SAMPLES
        )
    )
    assert result.out.count("as PyTorch's own formula") == ranks
    expected = torch.load(of_one_process / f"{case}.0")
    for rank in range(ranks):
        for one, other in zip(result.load(f"trained.{rank}"), expected, strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("samples", [0, 8])
def test_the_norm_over_servers_clips_as_pytorch_does(tmp_path: pathlib.Path, samples: int) -> None:
    """In a job whose ranks are started as a user's are, and that says their samples or not."""
    options = ("--set", f"program.samples_per_rank={samples}") if samples else ()
    words = ("momentum", "clip_norm=0.05")
    result = must_finish(
        support.run_job(tmp_path, "servers.py", *words, nodes=2, servers=2, options=options)
    )
    assert result.out.count("as PyTorch's own formula") == 2


@pytest.mark.parametrize("mode", MODES)
def test_losses_fall_in_modes_with_the_optimizer_on_servers(
    tmp_path: pathlib.Path, mode: str
) -> None:
    result = must_finish(run_job(tmp_path, "falls.py", ranks=2, nodes=2, servers=2, mode=mode))
    assert result.out.count("the loss falls") == 2
    first, second = result.load("final.0"), result.load("final.1")
    for name in first:
        assert torch.equal(first[name], second[name]), name


@pytest.mark.parametrize("read", ["step", "forward", "recurrent"])
def test_no_wait_is_forgotten_where_one_answer_comes_200_ms_late(
    tmp_path: pathlib.Path, read: str
) -> None:
    chunks = ("--set", "chunk_elements=256")
    result = must_finish(run_job(tmp_path, "waits.py", read, ranks=2, nodes=2, options=chunks))
    assert result.out.count("every weight was new") == 2


@pytest.mark.parametrize(
    "mode, words", [("sync", ["ranks"]), ("ring", ["ranks"]), ("ssp(2)", ["servers", "2"])]
)
def test_nor_is_one_with_the_optimizer_on_ranks_in_a_ring_and_with_a_staleness(
    tmp_path: pathlib.Path, mode: str, words: list[str]
) -> None:
    how: dict[str, Any] = {"mode": mode, "options": ("--set", "chunk_elements=256"), "nodes": 2}
    result = must_finish(run_job(tmp_path, "waits.py", "step", *words, **how))
    assert result.out.count("every weight was new") == 2


REFUSALS = {
    "clip": 'the gradient of parameter "(weight|bias)" was changed after .* clip_norm=',
    "scaler": "scaler: the optimizer is on the servers",
    "bfloat16": (
        'parameter "(weight|bias)": is of torch.bfloat16; on the servers weights are float32'
    ),
    "rate": "the learning rate became 0.2 after gradients were given with 0.1",
    "two": "2 optimizers: on the servers a job has one",
    "ranks": 'optimizer_on: "ranks" does not go with mode async',
    "rmsprop": "the servers have SGD, Adagrad, Adam and AdamW, not RMSprop",
    "closure": "closures are not taken",
    "again": 'parameter "(weight|bias)": got a second gradient before step',
    "rebound": (
        'parameter "weight": other memory was put in its place .* change by gradients alone:'
        " set weights before DistributedOptimizer, or have the optimizer on the ranks"
    ),
    "no step": r"the last backward\(\) had no step\(\)",
    "unfrozen": 'parameter "bias": was frozen when the optimizer was wrapped',
    "group": "add_param_group: group 1 comes after",
    "state": r'has state of parameter "weight" \(momentum_buffer\) before it is wrapped',
    "double": 'parameter "(weight|bias)": (has become torch.float64 since|other memory was put)',
    "load": "load_state_dict: the optimizer's state is on the servers",
}


@pytest.mark.parametrize("what", sorted(REFUSALS))
def test_what_servers_cannot_do_is_refused_by_name(tmp_path: pathlib.Path, what: str) -> None:
    result = run_job(tmp_path, "refused.py", what, ranks=1, mode="async")
    assert result.status == 1
    assert re.search(
        r"strata.(InvalidArgument|OutOfOrder): .*" + REFUSALS[what], error_lines(result)[0]
    )


@pytest.mark.parametrize(
    "what, text",
    [
        ("weight", 'buffer "view": shares memory with parameter "layer.weight"'),
        ("parameter", 'parameter "layer.weight": shares memory with parameter "other"'),
    ],
)
def test_what_shares_memory_with_a_weight_of_the_servers_is_named(
    tmp_path: pathlib.Path, what: str, text: str
) -> None:
    """It would keep the old memory, as the weights move to the job's."""
    result = run_job(tmp_path, "shared_memory.py", what)
    assert result.status == 1 and text in error_lines(result)[0], result.err


def test_a_write_to_weights_of_the_servers_is_named(tmp_path: pathlib.Path) -> None:
    result = run_job(tmp_path, "refused.py", "write", ranks=1, mode="async")
    assert result.status == 1
    assert re.search(
        'wrote to "weight", .* change by gradients alone; set weights before training starts,'
        " or have the optimizer on the ranks",
        error_lines(result)[0],
    ), result.err


@pytest.mark.parametrize(
    "what, kind",
    [
        ("unused", "momentum"),
        ("unused", "decay"),
        ("unused", "adamw"),
        ("nothing", "decay"),
        ("nothing", "adamw"),
        ("without", "momentum"),
        ("skip", "momentum"),
        ("dummy", "momentum"),
        ("zero", "adamw"),
        ("empty", "adamw"),
        ("assigned", "momentum"),
        ("rest", "momentum"),
    ],
)
def test_what_no_rank_uses_is_left_alone_and_a_rank_without_samples_counts_nothing(
    tmp_path: pathlib.Path, what: str, kind: str
) -> None:
    result = must_finish(run_job(tmp_path, "absent.py", what, kind, "servers", nodes=2))
    assert result.out.count("as one process") == 2


def test_a_hook_that_comes_after_the_wrapping_counts(tmp_path: pathlib.Path) -> None:
    what = "tensor" if torch.__version__.startswith("1.") else "post"
    result = must_finish(run_job(tmp_path, "hooks.py", what, "servers", nodes=2))
    assert result.out.count("as one process") == 2


def test_rows_on_servers_have_the_bits_of_one_process(tmp_path: pathlib.Path) -> None:
    """One rank, whose pushes come one after the other also in async."""
    must_finish(run_script(tmp_path, "rows.py", "alone"))
    alone = np.load(tmp_path / "rows.alone.npz")
    for mode in ("async", "sync"):
        how = {"ranks": 1, "servers": 2, "mode": mode, "options": ("--set", "rows.buckets=8")}
        must_finish(run_job(tmp_path, "rows.py", mode, **how))
        served = np.load(tmp_path / f"rows.{mode}.npz")
        for table in alone.files:
            assert np.array_equal(alone[table], served[table]), (mode, table)
            assert alone[table].std() > 0


PREFETCH = ("prefetch",)


def test_rows_in_sync_have_the_same_bits_wherever_ranks_and_rows_are(
    tmp_path: pathlib.Path,
) -> None:
    """Beside dense weights, whose optimizer is on the ranks; and whether rows are looked up or come
    with the answers to the last gradients."""
    must_finish(run_script(tmp_path, "rows.py", "shared", "alone"))
    alone = np.load(tmp_path / "rows.alone.npz")
    first = None
    cases = ((4, 1, 8, ()), (2, 2, 16, PREFETCH), (1, 2, 2, PREFETCH))
    for nodes, servers, buckets, words in cases:
        how = {"ranks": 4, "nodes": nodes, "servers": servers, "mode": "sync"}
        how["options"] = ("--set", f"rows.buckets={buckets}")
        must_finish(run_job(tmp_path, "rows.py", "shared", str(nodes), *words, **how))
        rows = np.load(tmp_path / f"rows.{nodes}.npz")
        first = first or rows
        for name in first.files:
            assert np.array_equal(first[name], rows[name]), (nodes, name)
            assert np.allclose(alone[name], rows[name], rtol=1e-3, atol=1e-5), (nodes, name)
            assert not np.array_equal(alone[name], 0 * alone[name])


@pytest.mark.parametrize(
    "nodes, ranks_of_node, mode",
    [(2, 1, "async"), (2, 2, "async"), (2, 1, "sync"), (2, 2, "ssp(2)")],
)
def test_each_push_of_rows_counts_once(
    tmp_path: pathlib.Path, nodes: int, ranks_of_node: int, mode: str
) -> None:
    how = {"ranks": nodes * ranks_of_node, "nodes": nodes, "servers": 2, "mode": mode}
    words = ("counts", str(nodes), str(ranks_of_node), mode)
    result = must_finish(run_job(tmp_path, "rows.py", *words, **how))
    assert result.out.count("each push counts once") == nodes * ranks_of_node


def test_rows_go_on_from_a_checkpoint_with_the_bits_of_an_undisturbed_run(
    tmp_path: pathlib.Path,
) -> None:
    """By itself after a rank's death; then as another job on other servers. Exported rows are those
    of the last step."""
    how: dict[str, Any] = {"ranks": 4, "nodes": 2, "mode": "sync"}
    for name, servers, words, options in (
        ("undisturbed", 2, (), ()),
        ("died", 2, ("die",), checkpoints(tmp_path, attempts=2, every=5)),
    ):
        words = ("shared", name, *words)
        result = must_finish(
            run_job(tmp_path, "rows.py", *words, servers=servers, options=options, **how)
        )
    assert re.search(r"goes on after it failed: rank 3 .*: killed by signal 9", result.out)
    undisturbed, died = (np.load(tmp_path / f"rows.{name}.npz") for name in ("undisturbed", "died"))
    for name in undisturbed.files:
        assert np.array_equal(undisturbed[name], died[name]), name
    exported = export_table(tmp_path, "items")
    order = np.argsort(exported["ids"])
    ids = exported["ids"][order] // 10**15
    assert len(ids) > 10 and np.array_equal(exported["weights"][order], undisturbed["items"][ids])

    # From the one before, on one server.
    shutil.rmtree(tmp_path / f"checkpoints/clock-{20:020}")
    options = ("--resume", str(tmp_path / "checkpoints"))
    must_finish(run_job(tmp_path, "rows.py", "shared", "moved", servers=1, options=options, **how))
    moved = np.load(tmp_path / "rows.moved.npz")
    for name in undisturbed.files:
        assert np.array_equal(undisturbed[name], moved[name]), name


@pytest.mark.parametrize("every, lookahead", [(3, 1), (5, 1), (3, 3)])
def test_batches_that_were_fetched_ahead_have_their_turn_after_a_restart(
    tmp_path: pathlib.Path, every: int, lookahead: int
) -> None:
    """Also where the checkpoint is of an epoch's end, or just before it."""
    how: dict[str, Any] = {"ranks": 2, "nodes": 2, "servers": 1}
    how["mode"] = "sync" if lookahead == 1 else "async"
    options = ("--set", f"rows.lookahead={lookahead}") if lookahead > 1 else ()
    words = ("sampled", "undisturbed")
    must_finish(run_job(tmp_path, "rows.py", *words, options=options, **how))
    words = ("sampled", "died", "die")
    options = (*options, *checkpoints(tmp_path, attempts=2, every=every))
    result = must_finish(run_job(tmp_path, "rows.py", *words, options=options, **how))
    assert "goes on after it failed" in result.out
    undisturbed, died = (np.load(tmp_path / f"rows.{name}.npz") for name in ("undisturbed", "died"))
    left = len(died["used"])
    assert len(undisturbed["used"]) == 20 and 0 < left < 20 and (20 - left) % every == 0
    assert np.array_equal(undisturbed["used"][-left:], died["used"])
    if lookahead == 1:
        assert np.array_equal(undisturbed["users"], died["users"])


def export_table(folder: pathlib.Path, table: str) -> dict[str, Any]:
    words = ["checkpoint", "export", "checkpoints", "rows.safetensors", "--table", table]
    must_finish(execute([STRATA, *words, "--optimizer"], folder))
    must_finish(execute([STRATA, "checkpoint", "verify", "checkpoints"], folder))
    content = (folder / "rows.safetensors").read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    tensors = json.loads(content[8:begin])
    del tensors["__metadata__"]
    kinds = {"I64": np.int64, "F32": np.float32, "I32": np.int32}
    found = {}
    for name, tensor in tensors.items():
        first, last = (begin + offset for offset in tensor["data_offsets"])
        values = np.frombuffer(content[first:last], kinds[tensor["dtype"]])
        found[name] = values.reshape(tensor["shape"])
    assert set(found) == {"ids", "weights", "state", "clocks"}
    return found


@pytest.mark.parametrize("mode", ["async", "ssp(2)"])
def test_each_push_of_rows_counts_once_though_a_rank_dies(
    tmp_path: pathlib.Path, mode: str
) -> None:
    how: dict[str, Any] = {"ranks": 2, "nodes": 2, "servers": 2, "mode": mode}
    words = ("counts", "2", "1", mode, "die")
    options = checkpoints(tmp_path, attempts=2, every=5)
    result = must_finish(run_job(tmp_path, "rows.py", *words, options=options, **how))
    assert "goes on after it failed" in result.out
    assert result.out.count("each push counts once") == 2


def test_a_pass_whose_rows_no_step_can_use_is_an_error(tmp_path: pathlib.Path) -> None:
    result = must_finish(run_job(tmp_path, "rows.py", "misused", ranks=1, servers=1, mode="sync"))
    assert "misuse is an error" in result.out


ROWS_REFUSED = {
    "stored": (1, "async", 'table "items": has 1 rows of its own, which servers do not take over'),
    "save": (1, "async", 'table "items": its rows are on the job\'s servers, which do not save'),
    "capacity": (
        2,
        "async",
        "ranks (0 and 1|1 and 0) registered other tables:"
        ' table "items": capacity (100 and 200|200 and 100)',
    ),
    "optimizers": (1, "sync", r'table "items": its rows are on servers, .* one optimizer, not 2'),
    "ring": (1, "ring", r'table "items": lies on servers, but the job has none \(exchange: RING\)'),
    "diloco": (2, "diloco(2)", 'table "items": does not go with consistency.lazy.local_steps'),
    "easgd": (2, "easgd", 'table "items": does not go with consistency.async.elastic'),
}


@pytest.mark.parametrize("what", sorted(ROWS_REFUSED))
def test_what_rows_on_servers_cannot_do_is_refused_by_table(
    tmp_path: pathlib.Path, what: str
) -> None:
    ranks, mode, pattern = ROWS_REFUSED[what]
    does = what if what in ("stored", "save", "capacity", "optimizers") else "other"
    result = run_job(tmp_path, "rows.py", does, ranks=ranks, mode=mode)
    assert result.status == 1
    assert re.search(pattern, error_lines(result)[0]), result.err


def test_a_field_for_rows_is_refused_without_tables(tmp_path: pathlib.Path) -> None:
    options = ("--set", "rows.buckets=8")
    result = run_job(tmp_path, "falls.py", ranks=1, mode="async", options=options)
    assert result.status == 1
    assert "rows: the program has no tables" in error_lines(result)[0], result.err
