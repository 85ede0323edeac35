"""Scripts whose ranks, or whose whole job, are killed: they go on by themselves, with the bits of a
run that nothing disturbed."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import forks
import pytest
import torch
from going_on import SCRIPT, Undisturbed, checkpoints, expect_no_change_by_a_kill
from going_on import expect_same_end, is_alike
from support import (
    HERE,
    STRATA,
    environment,
    error_lines,
    execute,
    job_words,
    must_finish,
    processes_of,
    run_job,
)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return Undisturbed(tmp_path_factory.mktemp("undisturbed"))


@pytest.mark.parametrize(
    "place, workers, loop", [("ranks", "2", "epochs"), ("servers", "0", "range")]
)
def test_a_rank_that_is_killed_changes_no_bit(
    tmp_path: pathlib.Path, place: str, workers: str, loop: str, undisturbed: Undisturbed
) -> None:
    """With workers of the DataLoader, too, which draw ahead."""
    words = ("--place", place, "--workers", workers, "--loop", loop)
    said = expect_no_change_by_a_kill(tmp_path, undisturbed.run(place=place), "sync", *words)
    warnings = [line for line in said.splitlines() if "in place of `range(N)`" in line]
    assert bool(warnings) == (loop == "range"), said
    assert all("goes_on.py:" in line for line in warnings)


def test_a_job_that_is_killed_as_a_whole_goes_on_by_resume(
    tmp_path: pathlib.Path, undisturbed: Undisturbed
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    arguments = ["--hang-at", "17", "--checkpoints", str(first / "checkpoints")]
    words = job_words(SCRIPT, *arguments, options=checkpoints(first, attempts=0))
    with subprocess.Popen(words, cwd=first, env=environment()) as running:
        deadline = time.monotonic() + 100
        while not (first / "met").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        # Every process of it, the command among them.
        while processes_of(first):
            for process in processes_of(first):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        running.wait()
    assert running.returncode == -signal.SIGKILL and (first / "met").exists()
    # Only the same program may go on, so not one that forks.
    options = (*checkpoints(second), "--resume", str(first / "checkpoints"))
    must_finish(run_job(second, SCRIPT, options=options))
    expect_same_end(second, undisturbed.run())
    expect_export(second)
    # Another one that goes on from there, and writes no checkpoints of its own.
    third = tmp_path / "third"
    must_finish(run_job(third, SCRIPT, options=options[-2:]))
    expect_same_end(third, undisturbed.run())


def expect_export(folder: pathlib.Path) -> None:
    """The weights that ranks have are exported by their names, with rank 0's buffers of fp32."""
    words = ["checkpoint", "export", "checkpoints", "weights.safetensors", "--optimizer"]
    said = must_finish(execute([STRATA, *words], folder)).out
    assert said.startswith("step 30 of job "), said
    assert "an optimizer of its own, whose state is not exported" in said
    content = bytearray((folder / "weights.safetensors").read_bytes())
    begin = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:begin])
    del header["__metadata__"]
    model = torch.load(folder / "rank0.pt")["model"]
    assert set(header) == {name for name in model if name != "1.num_batches_tracked"}
    for name, entry in header.items():
        start, end = entry["data_offsets"]
        flat = torch.frombuffer(
            content, dtype=torch.float32, offset=begin + start, count=(end - start) // 4
        )
        assert torch.equal(flat.reshape(entry["shape"]), model[name]), name


def test_the_script_of_the_readme_goes_on_as_it_is(tmp_path: pathlib.Path) -> None:
    """The one with two lines more than a script for one process."""
    text = (HERE.parents[1] / "README.md").read_text()
    (script,) = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    end = "\nst.finish()\ntorch.save(model.state_dict(), f'rank{sampler.rank}.pt')\n"
    die = (
        "import glob, os, pathlib, signal, time\n"
        "def die(_, arguments, mark=pathlib.Path('met')):\n"
        "    if sampler.epoch == 2 and sampler.rank == 1 and not mark.exists():\n"
        "        while not glob.glob('checkpoints/*/manifest.json'):\n"
        "            time.sleep(0.02)\n"
        "        mark.touch()\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    for place in (whole, folder):
        place.mkdir()
    (whole / "train.py").write_text(script + end)
    at = script.index("for epoch in st.epochs(5)")
    hook = "model.register_forward_pre_hook(die)\n\n"
    # Ordinary scripts' work at an epoch's end needs an epoch that is not empty.
    end_of_epoch = "    with torch.no_grad():\n"
    assert script.count(end_of_epoch) == 1
    script = script.replace(end_of_epoch, f"    print('epoch', epoch, float(loss))\n{end_of_epoch}")
    (folder / "train.py").write_text(script[:at] + die + hook + script[at:] + end)
    must_finish(forks.run_job(whole, whole / "train.py"))
    options = (
        *("--set", f'checkpoint={{dir: "{folder}/checkpoints" every_steps: 50}}'),
        *("--set", "restart={attempts: 1}"),
    )
    # Where ranks are started as a user's are.
    result = must_finish(run_job(folder, folder / "train.py", options=options))
    assert "goes on after it failed" in result.out
    for rank in range(2):
        name = f"rank{rank}.pt"
        assert is_alike(torch.load(folder / name), torch.load(whole / name))


REFUSED = {
    "scheduler": (
        "import strata.torch as st, torch\n"
        "model = torch.nn.Linear(2, 2)\n"
        "optimizer = st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model)\n"
        "torch.optim.lr_scheduler.StepLR(optimizer, 3)\n"
        "for step in range(optimizer.first_step, 5):\n"
        "    model(torch.ones(1, 2)).sum().backward()\n",
        "the optimizer has a learning rate scheduler, which is to go on, too: call"
        " strata.torch.keep(scheduler=scheduler)",
    ),
    "position": (
        "import strata.torch as st, torch\n"
        "model = torch.nn.Linear(2, 2)\n"
        "optimizer = st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model)\n"
        "for step in range(5):\n"
        "    model(torch.ones(1, 2)).sum().backward()\n",
        "the job could not go on where it was in the data: use strata.torch.Sampler, or begin with"
        " the step optimizer.first_step",
    ),
    "code": (
        "import strata.torch as st, torch\n"
        "class Own:\n"
        "    state_dict = lambda self: {'rule': print}\n"
        "    load_state_dict = print\n"
        "st.keep(own=Own())\n"
        "model = torch.nn.Linear(2, 2)\n"
        "optimizer = st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model)\n"
        "for step in range(optimizer.first_step, 5):\n"
        "    model(torch.ones(1, 2)).sum().backward()\n",
        "checkpoint: state/kept/own/rule: a builtin_function_or_method cannot be kept",
    ),
    "several": (
        "import strata.torch as st, torch\n"
        "a, b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)\n"
        "both = [torch.optim.SGD(one.parameters(), 0.1) for one in (a, b)]\n"
        "st.DistributedOptimizer(both, torch.nn.Sequential(a, b))\n",
        "does not go with 2 optimizers yet",
    ),
    "session": (
        "import numpy, strata\nstrata.Session({'w': numpy.zeros(2)}, strata.SGD(lr=1))\n",
        "the program does not say that it can go on from a step that is not its first (can_resume)",
    ),
    "means": (
        "import numpy, strata\n"
        "strata.Session({'w': numpy.zeros(2)}, strata.Mean(), can_resume=True)\n",
        "with strata.Mean() the weights are the script's, which checkpoints hold with"
        " keeps_state=True alone",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_script_that_could_not_go_on_is_refused_at_once(
    tmp_path: pathlib.Path, what: str
) -> None:
    code, reason = REFUSED[what]
    (tmp_path / "script.py").write_text(code)
    run = forks.run_job if "torch" in code else run_job
    options = checkpoints(tmp_path, attempts=0)
    result = run(tmp_path, tmp_path / "script.py", ranks=1, options=options)
    lines = error_lines(result)
    assert result.status == 1 and len(lines) == 1 and reason in lines[0], result.err
