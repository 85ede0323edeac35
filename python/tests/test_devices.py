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


def weights(result: Result, ranks: int = 2) -> list[str]:
    """What the ranks say of their weights."""
    found = re.findall(r"rank \d weights \w+", must_finish(result).out)
    assert len(found) == ranks, result.out
    return sorted(found)


@pytest.mark.parametrize("how", ["sgd", "mean"])
def test_a_session_on_devices_has_the_bits_of_one_on_the_host(
    tmp_path: pathlib.Path, how: str
) -> None:
    script = "device_session.py"
    expected = weights(run_job(tmp_path / "host", script, "host", how, options=CPU))
    assert expected[0].split()[-1] == expected[1].split()[-1]
    for kind in ("interface", "stream", "dlpack", "mixed", "torch"):
        found = weights(run_job(tmp_path / kind, script, kind, how, options=GPU))
        assert found == expected, kind


@pytest.mark.parametrize(
    ("script", "kind", "how"),
    [
        ("device_session.py", "stream", "sgd"),
        ("device_session.py", "dlpack", "sgd"),
        ("device_torch.py", "device", "ranks"),
        ("device_torch.py", "device", "servers"),
    ],
)
def test_a_rank_alone_on_a_device_has_the_bits_of_one_on_the_host(
    tmp_path: pathlib.Path, script: str, kind: str, how: str
) -> None:
    alone = ("--set", "exchange=NONE")
    expected = run_job(tmp_path / "host", script, "host", how, ranks=1, options=(*CPU, *alone))
    found = run_job(tmp_path / "gpu", script, kind, how, ranks=1, options=(*GPU, *alone))
    assert weights(found, ranks=1) == weights(expected, ranks=1)


TWO_GPUS = ("--device-plugin", f"{FAKE_DEVICE},devices=2", "--set", "device=GPU")
OPTIMIZER = (
    *CPU[:2],
    "--set",
    "optimizer.momentum_sgd={momentum: 0.5}",
    "--set",
    "schedule.base_lr=0.125",
)


@pytest.mark.parametrize("kind", ["interface", "stream", "torch"])
def test_a_session_whose_gpus_add_up_by_nccl_has_the_bits_of_one_on_the_host(
    tmp_path: pathlib.Path, kind: str
) -> None:
    script = "device_session.py"
    expected = weights(run_job(tmp_path / "host", script, "host", "job", options=OPTIMIZER))
    options = (*TWO_GPUS, *OPTIMIZER, "--set", "node_sum=NCCL")
    found = weights(run_job(tmp_path / "gpu", script, kind, "job", options=options))
    assert found == expected


def test_a_model_whose_gpus_add_up_by_nccl_has_the_bits_of_one_on_the_host(
    tmp_path: pathlib.Path,
) -> None:
    script = "device_torch.py"
    expected = weights(run_job(tmp_path / "host", script, "host", "ranks", options=CPU))
    options = (*TWO_GPUS, *CPU, "--set", "node_sum=NCCL")
    found = weights(run_job(tmp_path / "gpu", script, "own_device", "ranks", options=options))
    assert found == expected


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
    "strata.Session({'w': in_stream(0)}, strata.SGD())": (
        '"w": __cuda_array_interface__ says stream 0'
    ),
    "strata.Session({'w': fake_device.Exported(zeros)}, strata.Mean())": (
        '"w": rank 0\'s first weights cannot be written there'
    ),
    "s = strata.Session({'w': Array(zeros)}, strata.SGD()); s.step({'w': Array(zeros[:2])})": (
        '"w": the gradient is (2,), the weights are (3,)'
    ),
    "Array.__mul__ = None; s = strata.Session({'w': Array(zeros)}, strata.SGD());"
    " s.step({'w': Array(zeros)}, samples=2)": '"w": samples: 2, but on a GPU only an array that',
    "Array.__dlpack_device__ = lambda _: (2, 1);"
    " strata.Session({'w': Array(zeros)}, strata.SGD())": (
        '"w": lies on GPU 1, but this rank computes on GPU 0'
    ),
    "long = np.zeros(99, 'f4'); s = strata.Session({'w': Array(long)}, strata.SGD());"
    " s.step({'w': Array(long + np.nan)}); s.weights()": "chunk 0 clock 0: NaN or infinity",
    "model = torch.nn.Linear(2, 1);"
    " st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model)": (
        'parameter "bias": lies on cpu, but the job computes on cuda (device: GPU)'
    ),
}
PREFACE = """
import os
import numpy as np, torch
import strata, strata.torch as st, fake_device
from fake_device import Array
zeros = np.zeros(3, "f4")
def strided(step):
    array = Array(zeros); array.__cuda_array_interface__["strides"] = (step,); return array
def in_stream(stream):
    array = Array(zeros); array.__cuda_array_interface__["stream"] = stream; return array
"""


def refusal_of(folder: pathlib.Path, code: str, *options: str, ranks: int = 1) -> str:
    """The one line in which a job that runs the code says why it failed."""
    folder.mkdir(exist_ok=True)
    script = folder / "refused.py"
    script.write_text(PREFACE + code + "\n")
    result = run_job(folder, script, ranks=ranks, options=options)
    assert result.status != 0, result.out
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


GPU_SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "gpu"


@pytest.mark.parametrize("place", ["ranks", "servers"])
def test_the_model_that_a_real_gpu_trains_is_learnt_on_the_host(
    tmp_path: pathlib.Path, place: str
) -> None:
    result = must_finish(run_job(tmp_path, GPU_SCRIPTS / "lenet5.py", "cpu", place))
    (accuracy,) = re.findall(r"accuracy (\S+)", result.out)
    assert float(accuracy) >= 0.95


def test_the_arrays_that_a_real_gpu_trains_are_the_same_whoever_adds_first(
    tmp_path: pathlib.Path,
) -> None:
    script = GPU_SCRIPTS / "arrays.py"
    found = [
        re.findall(r"weights \w+", must_finish(run_job(tmp_path, script, "cpu", nodes=nodes)).out)
        for nodes in (1, 2)
    ]
    assert found[0] == found[1] and len(found[0]) == 1


NCCL = {
    # As strata run has it; with the optimizer on the ranks; with first weights of rank 0's.
    "": "optimizer.from_program: exchange: NCCL has to know the optimizer before the program runs",
    "optimizer.mean={}": "exchange: NCCL takes learning rates from schedule, but the program says",
    "optimizer.sgd={}": "exchange: NCCL: ranks offer the same first weights, and do not take rank",
}


@pytest.mark.parametrize("optimizer", sorted(NCCL))
def test_exchange_nccl_says_why_it_does_not_go_with_a_rank_in_python(
    tmp_path: pathlib.Path, optimizer: str
) -> None:
    code = "strata.Session({'w': Array(zeros)})"
    if "mean" in optimizer:
        code = "fake_device.use_for_torch(); model = torch.nn.Linear(2, 1);"
        code += " st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model)"
    if "sgd" in optimizer:
        code = "fake_device.use(int(os.environ['LOCAL_RANK']), 'devices=2'); " + code
    options = (*TWO_GPUS, "--set", "exchange=NCCL", *(("--set", optimizer) if optimizer else ()))
    ranks = 2 if "sgd" in optimizer else 1
    assert NCCL[optimizer] in refusal_of(tmp_path, code, *options, ranks=ranks)
