"""What `strata checkpoint export` writes goes on in PyTorch, by the lines of docs/faults.md."""

from __future__ import annotations

import os
import pathlib
import re

import pytest
from forks import run_script
from support import HERE, STRATA, execute, must_finish

PAGE = HERE.parents[1] / "docs" / "faults.md"
MAKE = os.environ.get("STRATA_MAKE_CHECKPOINTS", "make_checkpoints")
# The model of the checkpoints that MAKE makes (cli/commands/made_checkpoints.h).
MODEL = """
import torch


class Net(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2, bias=False))
        self.scale = torch.nn.Parameter(torch.zeros(1))
        self.register_buffer("running", torch.zeros(4))
"""
# The fifth step with the gradient that MAKE gives, and how far its weights are from those of MAKE.
STEP = """
offsets = {"0.weight": 0, "0.bias": 12, "1.weight": 20, "scale": 29}
assert missing == [] and sorted(params) == sorted(offsets)
for name, param in params.items():
    at = offsets[name] + torch.arange(param.numel())
    param.grad = (0.125 * ((5 * 5 + at * 3) % 11) - 0.5).reshape(param.shape)
optimizer.step()
after = load_file("after.safetensors")
print("distance", max((after[n] - p.detach()).abs().max().item() for n, p in params.items()))
print("moved", min((weights[n] - after[n]).abs().max().item() for n in params))
print("bias", *weights["0.bias"].shape, "running", model.running.equal(weights["running"]))
"""
ADAMW = "torch.optim.AdamW(model.parameters(), 0.1)"
CASES = {
    "adamw {}": ADAMW,
    "adam { beta2: 0.99 }": "torch.optim.Adam(model.parameters(), 0.1, (0.9, 0.99))",
    "momentum_sgd {}": "torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)",
    "nesterov { weight_decay: 0.1 }": (
        "torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=0.1)"
    ),
    "rmsprop_warmup { rms_lr: 0.1 center_epochs: 1000 }": (
        "torch.optim.RMSprop(model.parameters(), 0.1, 0.99, momentum=0.9)"
    ),
}


def script() -> str:
    """The lines of the page."""
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    assert ADAMW in block
    return str(block)


@pytest.mark.parametrize("kind", CASES, ids=[kind.split()[0] for kind in CASES])
def test_a_step_in_pytorch_goes_on_from_the_exported_state(
    tmp_path: pathlib.Path, kind: str
) -> None:
    must_finish(
        execute([MAKE, str(tmp_path / "all"), f"optimizer {{ {kind} }}", "4", "5"], tmp_path)
    )
    for step, out in (("4", "weights.safetensors"), ("5", "after.safetensors")):
        words = ["checkpoint", "export", "all", out, "--step", step, "--optimizer"]
        must_finish(execute([STRATA, *words], tmp_path))
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "load.py").write_text(script().replace(ADAMW, CASES[kind]) + STEP)
    result = must_finish(run_script(tmp_path, tmp_path / "load.py"))
    (distance,) = re.findall(r"^distance (\S+)$", result.out, re.M)
    (moved,) = re.findall(r"^moved (\S+)$", result.out, re.M)
    assert float(distance) < 1e-6 < 1e-3 < float(moved)
    assert "bias 4 running True" in result.out


def test_without_the_state_the_step_is_another_one(tmp_path: pathlib.Path) -> None:
    """So that the case above proves something."""
    must_finish(
        execute([MAKE, str(tmp_path / "all"), "optimizer { adamw {} }", "4", "5"], tmp_path)
    )
    for step, out in (("4", "weights.safetensors"), ("5", "after.safetensors")):
        words = ["checkpoint", "export", "all", out, "--step", step]
        must_finish(execute([STRATA, *words], tmp_path))
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "load.py").write_text(script() + STEP)
    result = must_finish(run_script(tmp_path, tmp_path / "load.py"))
    (distance,) = re.findall(r"^distance (\S+)$", result.out, re.M)
    assert float(distance) > 1e-2
