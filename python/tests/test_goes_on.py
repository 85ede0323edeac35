"""Scripts whose ranks, or whose whole job, are killed: they go on by themselves, with the bits of a
run that nothing disturbed."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import time
from typing import Any

import numpy as np
import pytest
import torch
from support import (
    HERE,
    environment,
    error_lines,
    execute,
    job_words,
    must_finish,
    processes_of,
    run_job,
)

SCRIPT = "goes_on.py"


def checkpoints(folder: pathlib.Path, attempts: int = 3) -> tuple[str, ...]:
    settings = [f'checkpoint={{dir: "{folder}/checkpoints" every_steps: 3}}']
    settings += [f"restart={{attempts: {attempts}}}"] if attempts else []
    return tuple(word for setting in settings for word in ("--set", setting))


def is_alike(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return set(one) == set(other) and all(is_alike(one[key], other[key]) for key in one)
    return bool(one == other)


def expect_same_end(folder: pathlib.Path, undisturbed: pathlib.Path) -> None:
    """All that ranks have at the end is the same, and the second run has not begun anew."""
    for rank in range(2):
        one = torch.load(folder / f"rank{rank}.pt")
        other = torch.load(undisturbed / f"rank{rank}.pt")
        made = one.pop("made")
        losses = other.pop("made")
        assert 0 < len(made) < len(losses) == 30
        assert made == losses[-len(made) :]
        assert is_alike(one, other)


CASES: dict[str, tuple[str, list[str], dict[str, Any]]] = {
    "on-ranks": ("sync", ["--place", "ranks"], {}),
    "on-servers": ("sync", ["--place", "servers"], {}),
    "without-servers": ("sync", [], {"servers": None}),
    "ring": ("ring", [], {"nodes": 2}),
    "loader-with-workers": ("sync", ["--place", "ranks", "--workers", "2"], {}),
    "local-steps": ("local(2)", [], {}),
    "delayed": ("delay1", [], {}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_rank_that_is_killed_changes_no_bit(tmp_path: pathlib.Path, case: str) -> None:
    mode, arguments, how = CASES[case]
    must_finish(run_job(tmp_path / "whole", SCRIPT, *arguments, mode=mode, **how))
    folder = tmp_path / "killed"
    arguments = [*arguments, "--die-at", "17", "--checkpoints", str(folder / "checkpoints")]
    result = must_finish(
        run_job(folder, SCRIPT, *arguments, mode=mode, options=checkpoints(folder), **how)
    )
    assert re.search(r"goes on after it failed: rank 1 .*: killed by signal 9", result.out)
    expect_same_end(folder, tmp_path / "whole")


def test_each_rank_makes_its_steps_in_modes_where_none_waits(tmp_path: pathlib.Path) -> None:
    arguments = ["--die-at", "17", "--checkpoints", str(tmp_path / "checkpoints")]
    must_finish(
        run_job(tmp_path, SCRIPT, *arguments, mode="async", options=checkpoints(tmp_path), nodes=2)
    )
    made = [len(torch.load(tmp_path / f"rank{rank}.pt")["made"]) for rank in range(2)]
    assert made[0] == made[1] < 30


def test_a_job_that_is_killed_as_a_whole_goes_on_by_resume(tmp_path: pathlib.Path) -> None:
    must_finish(run_job(tmp_path / "whole", SCRIPT))
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
    options = (*checkpoints(second), "--resume", str(first / "checkpoints"))
    must_finish(run_job(second, SCRIPT, options=options))
    expect_same_end(second, tmp_path / "whole")
    # Another one that goes on from there, and writes no checkpoints of its own.
    third = tmp_path / "third"
    must_finish(run_job(third, SCRIPT, options=options[-2:]))
    expect_same_end(third, tmp_path / "whole")


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
    at = script.index("for epoch in range(5)")
    hook = "model.register_forward_pre_hook(die)\n\n"
    (folder / "train.py").write_text(script[:at] + die + hook + script[at:] + end)
    must_finish(run_job(whole, whole / "train.py"))
    options = (
        *("--set", f'checkpoint={{dir: "{folder}/checkpoints" every_steps: 50}}'),
        *("--set", "restart={attempts: 1}"),
    )
    result = must_finish(run_job(folder, folder / "train.py", options=options))
    assert "goes on after it failed" in result.out
    for rank in range(2):
        name = f"rank{rank}.pt"
        assert is_alike(torch.load(folder / name), torch.load(whole / name))


def test_a_session_gives_and_reads_a_state_of_its_own(tmp_path: pathlib.Path) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    script = "session_goes_on.py"
    must_finish(run_job(whole, script, str(whole), "-1"))
    result = must_finish(
        run_job(folder, script, str(folder / "checkpoints"), "8", options=checkpoints(folder))
    )
    (first,) = set(re.findall(r"first step (\d+)", result.out))
    assert int(first) in (3, 6)
    for rank in range(2):
        one, other = (np.load(place / f"rank{rank}.npy") for place in (folder, whole))
        assert one.tobytes() == other.tobytes()


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
    result = execute(
        job_words(tmp_path / "script.py", ranks=1, options=checkpoints(tmp_path, attempts=0)),
        tmp_path,
    )
    lines = error_lines(result)
    assert result.status == 1 and len(lines) == 1 and reason in lines[0], result.err
