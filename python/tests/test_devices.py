"""Arrays and models on GPUs, on the fake device: the bits of a job on CPUs."""

from __future__ import annotations

import functools
import os
import pathlib
import re
from collections.abc import Callable
from typing import Any

import forks
import pytest
import support
from support import Result, error_lines, must_finish

FAKE_DEVICE = os.environ.get("STRATA_FAKE_DEVICE", "")
GPU = ("--device-plugin", f"{FAKE_DEVICE},delay_us=300", "--ranks-per-gpu", "2") + (
    *("--set", "device=GPU"),
    *("--set", "chunk_elements=512"),
)
CPU = ("--set", "chunk_elements=512")


def run_job(folder: pathlib.Path, script: str, kind: str, *arguments: str, **how: Any) -> Result:
    """Runs a script as a job; ranks are forked from what has imported PyTorch where they need it
    alone."""
    run = forks.run_job if script == "device_torch.py" or kind == "torch" else support.run_job
    return run(folder, script, kind, *arguments, **how)


def weights(result: Result, ranks: int = 2) -> list[str]:
    """What the ranks say of their weights."""
    found = re.findall(r"rank \d weights \w+", must_finish(result).out)
    assert len(found) == ranks, result.out
    return sorted(found)


OnHost = Callable[..., "list[str]"]


@pytest.fixture(scope="module")
def on_host(tmp_path_factory: pytest.TempPathFactory) -> OnHost:
    """What the ranks of a job on CPUs say of their weights; runs each job once."""

    @functools.cache
    def run(script: str, how: str, mode: str = "sync") -> list[str]:
        folder = tmp_path_factory.mktemp("host")
        return weights(run_job(folder, script, "host", how, mode=mode, options=CPU))

    return run


@pytest.mark.parametrize("how", ["sgd", "mean"])
def test_a_session_on_devices_has_the_bits_of_one_on_the_host(
    tmp_path: pathlib.Path, on_host: OnHost, how: str
) -> None:
    script = "device_session.py"
    expected = on_host(script, how)
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
    found = weights(run_job(tmp_path / "gpu", script, kind, "job", "own_device", options=options))
    assert found == expected


def test_a_model_whose_gpus_add_up_by_nccl_has_the_bits_of_one_on_the_host(
    tmp_path: pathlib.Path, on_host: OnHost
) -> None:
    script = "device_torch.py"
    options = (*TWO_GPUS, *CPU, "--set", "node_sum=NCCL")
    # In a job whose ranks are started as a user's are.
    job = support.run_job(tmp_path / "gpu", script, "own_device", "ranks", options=options)
    assert weights(job) == on_host(script, "ranks")


BY_NCCL = (*TWO_GPUS, *CPU, "--set", "exchange=NCCL")


@pytest.mark.parametrize(
    ("kind", "how"), [("stream", "sgd"), ("torch", "sgd"), ("mixed", "mean"), ("torch", "mean")]
)
def test_a_session_whose_exchange_is_nccl_has_the_bits_of_one_on_the_host(
    tmp_path: pathlib.Path, on_host: OnHost, kind: str, how: str
) -> None:
    script = "device_session.py"
    found = run_job(tmp_path, script, kind, how, "own_device", servers=None, options=BY_NCCL)
    assert weights(found) == on_host(script, how)


@pytest.mark.parametrize("how", ["ranks", "buffers", "scaler", "servers"])
def test_a_model_whose_exchange_is_nccl_has_the_bits_of_one_on_the_host(
    tmp_path: pathlib.Path, on_host: OnHost, how: str
) -> None:
    script = "device_torch.py"
    found = run_job(tmp_path, script, "own_device", how, servers=None, options=BY_NCCL)
    assert weights(found) == on_host(script, how)


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
    tmp_path: pathlib.Path, on_host: OnHost, how: str, mode: str
) -> None:
    script = "device_torch.py"
    found = weights(run_job(tmp_path / "gpu", script, "device", how, mode=mode, options=GPU))
    assert found == on_host(script, how, mode)


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
    "import torch, strata.torch as st; model = torch.nn.Linear(2, 1);"
    " st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model)": (
        'parameter "bias": lies on cpu, but the job computes on cuda (device: GPU)'
    ),
}
PREFACE = """
import os
import numpy as np
import strata, fake_device
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
    run = forks.run_job if "import torch" in code else support.run_job
    result = run(folder, script, ranks=ranks, options=options)
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
    result = must_finish(forks.run_job(tmp_path, GPU_SCRIPTS / "lenet5.py", "cpu", place))
    (accuracy,) = re.findall(r"accuracy (\S+)", result.out)
    assert float(accuracy) >= 0.95


def test_the_arrays_that_a_real_gpu_trains_are_the_same_whoever_adds_first(
    tmp_path: pathlib.Path,
) -> None:
    script = GPU_SCRIPTS / "arrays.py"
    results = [forks.run_job(tmp_path, script, "cpu", nodes=nodes) for nodes in (1, 2)]
    found = [re.findall(r"weights \w+", must_finish(result).out) for result in results]
    assert found[0] == found[1] and len(found[0]) == 1


NCCL = {
    # On either rank, whichever is heard first.
    "s = strata.Session({'w': Array(zeros)}, strata.SGD(0.25 + 0.25 * int(os.environ['RANK'])));"
    " s.step({'w': Array(zeros)}); s.weights()": "at step 0, another rank another one",
    "s = strata.Session({'w': Array(zeros)}, strata.SGD(0.25));"
    " [(s.step({'w': Array(zeros)}), s.weights()) for _ in range(1 + int(os.environ['RANK']))];"
    " s.close()": "another rank ",
    "strata.Session({'w': Array(zeros)}, strata.SGD(0.25, clip_norm=1.0))": (
        "optimizer.clip_norm: needs exchange: PARAMETER_SERVER or RING"
    ),
}


@pytest.mark.parametrize("code", sorted(NCCL))
def test_what_does_not_go_with_exchange_nccl_is_one_line_that_says_why(
    tmp_path: pathlib.Path, code: str
) -> None:
    use = "fake_device.use(int(os.environ['LOCAL_RANK']), 'devices=2'); "
    assert NCCL[code] in refusal_of(tmp_path, use + code, *BY_NCCL, ranks=2)
