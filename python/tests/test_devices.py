"""Arrays and models on GPUs, on the fake device: the bits of a job on CPUs."""

from __future__ import annotations

import os
import pathlib
import re

import pytest
from support import Result, error_lines, must_finish, run_job

FAKE_DEVICE = os.environ.get("STRATA_FAKE_DEVICE", "")
GPU = ("--device-plugin", f"{FAKE_DEVICE},delay_us=300", "--ranks-per-gpu", "2") + (
    *("--set", "device=GPU"),
    *("--set", "chunk_elements=512"),
)
CPU = ("--set", "chunk_elements=512")


def weights(result: Result) -> list[str]:
    """What the two ranks say of their weights."""
    found = re.findall(r"rank \d weights (\w+)", must_finish(result).out)
    assert len(found) == 2, result.out
    return found


@pytest.mark.parametrize("how", ["sgd", "mean"])
def test_a_session_on_devices_has_the_bits_of_one_on_the_host(
    tmp_path: pathlib.Path, how: str
) -> None:
    script = "device_session.py"
    expected = weights(run_job(tmp_path / "host", script, "host", how, options=CPU))
    assert expected[0] == expected[1]
    for kind in ("interface", "stream", "dlpack", "mixed", "torch"):
        found = weights(run_job(tmp_path / kind, script, kind, how, options=GPU))
        assert found == expected, kind


@pytest.mark.parametrize(
    ("how", "mode"),
    [
        ("ranks", "sync"),
        ("ranks", "delay1"),
        ("ranks", "local(2)"),
        ("buffers", "sync"),
        ("scaler", "sync"),
        ("servers", "sync"),
        ("servers", "ssp(1)"),
    ],
)
def test_a_model_on_devices_has_the_bits_of_one_on_the_host(
    tmp_path: pathlib.Path, how: str, mode: str
) -> None:
    script = "device_torch.py"
    expected = weights(run_job(tmp_path / "host", script, "host", how, mode=mode, options=CPU))
    found = weights(run_job(tmp_path / "gpu", script, "device", how, mode=mode, options=GPU))
    assert found == expected


REFUSALS = {
    "strata.Session({'w': np.zeros(3, 'f4')}, strata.SGD())": (
        '"w": lies on the host, but the job computes on GPUs (device: GPU)'
    ),
    "strata.Session({'w': Array(zeros), 'x': zeros}, strata.SGD())": '"x": lies on the host',
    "s = strata.Session({'w': Array(zeros)}, strata.SGD()); s.step({'w': [1.0, 2.0, 3.0]})": (
        '"w": lies on the host'
    ),
    "strata.Session({'w': Array(zeros.astype('f2'))}, strata.SGD())": (
        '"w": has elements of type <f2 on a GPU, not float32'
    ),
    "strata.Session({'w': strided(8)}, strata.SGD())": (
        '"w": its elements do not lie one after the other on the GPU (strides (8,))'
    ),
    "strata.Session({'w': in_stream(0)}, strata.SGD())": '"w": __cuda_array_interface__ says stream 0',
    "strata.Session({'w': fake_device.Exported(zeros)}, strata.Mean())": (
        '"w": rank 0\'s first weights cannot be written there'
    ),
    "s = strata.Session({'w': Array(zeros)}, strata.SGD()); s.step({'w': Array(zeros[:2])})": (
        '"w": the gradient is (2,), the weights are (3,)'
    ),
    "Array.__mul__ = None; s = strata.Session({'w': Array(zeros)}, strata.SGD());"
    " s.step({'w': Array(zeros)}, samples=2)": '"w": samples: 2, but on a GPU only an array that',
    "Array.__dlpack_device__ = lambda _: (2, 1); strata.Session({'w': Array(zeros)}, strata.SGD())": (
        '"w": lies on GPU 1, but this rank computes on GPU 0'
    ),
    "model = torch.nn.Linear(2, 1);"
    " st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model)": (
        'parameter "bias": lies on cpu, but the job computes on cuda (device: GPU)'
    ),
}
PREFACE = """
import numpy as np, torch
import strata, strata.torch as st, fake_device
from fake_device import Array
zeros = np.zeros(3, "f4")
def strided(step):
    array = Array(zeros); array.__cuda_array_interface__["strides"] = (step,); return array
def in_stream(stream):
    array = Array(zeros); array.__cuda_array_interface__["stream"] = stream; return array
"""


def refusal_of(folder: pathlib.Path, code: str, *options: str) -> str:
    """The one line in which a job of one rank that runs the code says why it failed."""
    folder.mkdir(exist_ok=True)
    script = folder / "refused.py"
    script.write_text(PREFACE + code + "\n")
    result = run_job(folder, script, ranks=1, options=options)
    assert result.status == 1, result.out
    (line,) = error_lines(result)
    return line


@pytest.mark.parametrize("code", sorted(REFUSALS))
def test_what_cannot_be_on_a_device_is_one_line_that_names_it(
    tmp_path: pathlib.Path, code: str
) -> None:
    assert REFUSALS[code] in refusal_of(tmp_path, code, *GPU)


@pytest.mark.parametrize("kind", ["Array", "fake_device.Exported"])
def test_an_array_on_a_device_does_not_go_with_a_job_on_cpus(
    tmp_path: pathlib.Path, kind: str
) -> None:
    line = refusal_of(tmp_path, f"strata.Session({{'w': {kind}(zeros)}}, strata.SGD())")
    assert '"w": lies on a GPU, but the job computes on CPUs (device: CPU)' in line


def test_nccl_says_why_it_does_not_go_with_an_optimizer_of_the_ranks(
    tmp_path: pathlib.Path,
) -> None:
    code = "fake_device.use_for_torch(); model = torch.nn.Linear(2, 1);"
    code += " st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model)"
    settings = ("--set", "exchange=NCCL", "--set", "optimizer.mean={}")
    line = refusal_of(tmp_path, code, *GPU, *settings)
    assert "exchange: NCCL takes learning rates from schedule, but the program says them" in line
