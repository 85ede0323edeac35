"""The Python scripts in README.md and docs/python.md run as they stand there."""

from __future__ import annotations

import pathlib
import re
import sys

import forks
import pytest
from support import HERE, execute, free_port, must_finish, run_job

ROOT = HERE.parents[1]
README, PAGE = ROOT / "README.md", ROOT / "docs" / "python.md"
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
