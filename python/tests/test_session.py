"""Sessions over arrays of any library."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

import forks
import pytest
from strata import _library
from support import Result, error_lines, execute, must_finish, run_job


def alone(folder: pathlib.Path, code: str) -> Result:
    """Runs code as the one rank of a job, after the imports that all need."""
    lines = "import numpy as np, strata, threading, os, sys\nparams = {'w': np.zeros(3, 'f4')}\n"
    return execute([sys.executable, "-c", lines + code], folder)


@pytest.mark.parametrize("how", ["sgd", "mean"])
def test_ranks_learn_a_line_with_numpy_alone(tmp_path: pathlib.Path, how: str) -> None:
    result = must_finish(run_job(tmp_path, "numpy_session.py", how, ranks=2, nodes=2))
    errors = re.findall(r"largest error (\S+)", result.out)
    assert len(errors) == 2 and errors[0] == errors[1]


def test_a_script_by_itself_is_one_rank(tmp_path: pathlib.Path) -> None:
    result = must_finish(execute([sys.executable, script("numpy_session.py"), "sgd"], tmp_path))
    assert "largest error" in result.out


def script(name: str) -> str:
    return str(pathlib.Path(__file__).parent / "scripts" / name)


def test_arrays_of_every_kind_become_gradients(tmp_path: pathlib.Path) -> None:
    must_finish(
        alone(
            tmp_path,
            """
import torch
class Interface:
    def __init__(self, array):
        self.__array_interface__ = array.__array_interface__
        self.keep = array
class Capsule:
    def __init__(self, array): self.array = array
    def __dlpack__(self, **more): return self.array.__dlpack__()
    def __dlpack_device__(self): return self.array.__dlpack_device__()
one = np.array([1, 2, 3], 'f4')
kinds = [one, one.astype('f8'), one.astype('f2'), one[::-1].copy()[::-1], [1, 2, 3],
         (1.0, 2.0, 3.0), Interface(one), Capsule(one), torch.tensor([1., 2., 3.]),
         torch.tensor([1., 2., 3.]).bfloat16(),
         torch.tensor([1., 2., 3.]).half(), torch.tensor([1., 9, 2., 9, 3., 9])[::2]]
with strata.Session(params, optimizer=strata.SGD(lr=1.0)) as session:
    for kind in kinds:
        session.step({'w': kind})
assert (session.weights()['w'] == -len(kinds) * one).all(), session.weights()
""",
        )
    )


def test_weights_of_torch_params_are_torch_tensors(tmp_path: pathlib.Path) -> None:
    must_finish(
        alone(
            tmp_path,
            """
import torch
with strata.Session({'w': torch.ones(2, 3)}, optimizer=strata.SGD(lr=0.5)) as session:
    session.step({'w': torch.ones(2, 3)})
    w = session.weights()['w']
    assert isinstance(w, torch.Tensor) and torch.equal(w, torch.full((2, 3), 0.5)), w
""",
        )
    )


def test_the_learning_rate_of_a_step_is_the_optimizers_at_that_time(tmp_path: pathlib.Path) -> None:
    must_finish(
        alone(
            tmp_path,
            """
with strata.Session(params, optimizer=strata.SGD(lr=1.0)) as session:
    for lr in (1.0, 0.5, 0.0, 0.25):
        session.optimizer.lr = lr
        session.step({'w': [1, 1, 1]}, samples=np.array(2))
assert (session.weights()['w'] == -1.75).all(), session.weights()
""",
        )
    )


REFUSALS = {
    "strata.Session({})": "there are no params",
    "strata.Session({'w': 'text'})": '"w": has elements of type <U4',
    "strata.Session({'w': np.zeros(3, 'i4')})": '"w": has elements of type int32',
    "import torch; strata.Session({'w': torch.zeros(3).to_sparse()})": '"w": is sparse',
    "class Gpu: __cuda_array_interface__ = {}\nstrata.Session({'w': Gpu()})": '"w": lies on a GPU',
    "strata.Session(params)": "optimizer",
    "strata.Session(params, strata.SGD(momentum=1.5))": "momentum: 1.5",
    "s = strata.Session(params, strata.SGD()); s.step({})": '"w": its gradient is missing',
    "s = strata.Session(params, strata.SGD()); s.step({'w': [1, 2]})": (
        r'"w": the gradient is \(2,\)'
    ),
    "s = strata.Session(params, strata.SGD()); s.step({'w': [1, 2, 3], 'x': 1})": (
        '"x" is none of the params'
    ),
    "s = strata.Session(params, strata.SGD()); s.step({'w': [1, 2, float('nan')]})": (
        '"w": element 2 is NaN'
    ),
    "s = strata.Session(params, strata.SGD()); s.step({'w': [1, 2, 3]}, samples=-1)": "samples: -1",
    "s = strata.Session(params, strata.SGD()); s.step({'w': [1, 2, 3]}, samples=2.5)": (
        "samples: 2.5, must be a whole number"
    ),
    "s = strata.Session(params, strata.SGD()); s.step({'w': [1, 2, 3]}, samples=2**40)": (
        "samples: 1099511627776, must be at most 4294967295"
    ),
    "s = strata.Session(params, strata.SGD()); s.step({'w': [1, 2, 3]}, loss='x')": (
        "loss: 'x' is no number"
    ),
    "strata.Session(params, strata.SGD(), total_steps=-1)": "total_steps: -1",
    "s = strata.Session(params, strata.SGD()); s.close(); s.step({'w': [1, 2, 3]})": (
        "the session is closed"
    ),
    "s = strata.Session(params, strata.SGD()); strata.Session(params)": "has a session already",
    "s = strata.Session(params, strata.Mean()); s.weights()": "the script's own",
    "strata.Session({'w': [1.0]}, strata.Mean())": '"w": rank 0.s first weights cannot be written',
    "strata.report(loss=1.0)": "no session has started",
    "s = strata.Session(params, strata.SGD()); strata.report(x='y')": "x: 'y' is no number",
    "s = strata.Session(params, strata.SGD()); strata.report(x=float('nan'))": "x",
    "s = strata.Session(params, strata.SGD()); strata.report(**{'a b': 1.0})": "a b",
    "strata.Sampler([])": "samples: 0",
}


@pytest.mark.parametrize("code", sorted(REFUSALS))
def test_what_cannot_be_is_one_line_that_names_it(tmp_path: pathlib.Path, code: str) -> None:
    result = alone(tmp_path, code)
    last = result.err.strip().splitlines()[-1]
    assert result.status == 1
    diverges = "step({'w': [1, 2, float('nan')]})" in code
    kind = "Diverged" if diverges else "InvalidArgument|OutOfOrder"
    assert re.search(rf"^strata\.({kind}): .*" + REFUSALS[code], last), result.err


def test_a_process_that_forked_cannot_use_the_session(tmp_path: pathlib.Path) -> None:
    result = must_finish(
        alone(
            tmp_path,
            """
session = strata.Session(params, strata.SGD(lr=1.0))
if os.fork() == 0:
    try:
        session.step({'w': [1, 1, 1]})
    except strata.OutOfOrder as error:
        print(error)
    sys.exit()
assert os.wait()[1] == 0
session.step({'w': [1, 1, 1]})
session.close()
assert (session.weights()['w'] == -1).all()
""",
        )
    )
    assert re.fullmatch(
        r"process \d+ has the session of process \d+, which forked: only that one may use it\n",
        result.out,
    ), result.out


@pytest.mark.parametrize("optimizer", ["SGD", "Mean"])
def test_a_write_to_what_ranks_share_is_named(tmp_path: pathlib.Path, optimizer: str) -> None:
    """NumPy's arrays say that they are read-only; PyTorch's tensors cannot."""
    path = tmp_path / "writes.py"
    path.write_text(f"""
import torch, strata
session = strata.Session({{"w": torch.zeros(3)}}, strata.{optimizer}())
shared = session.step({{"w": torch.ones(3)}}) or session.weights()
print("something else")
shared["w"].mul_(2)
""")
    result = forks.run_job(tmp_path, path)
    lines = error_lines(result)
    assert result.status == 1 and len(lines) == 1, result.err
    assert 'the program wrote to "w"' in lines[0]


def test_a_second_thread_in_a_call_is_refused(tmp_path: pathlib.Path) -> None:
    """Thread 1 waits in a step that the other rank does not make until thread 2 was refused."""
    result = must_finish(run_job(tmp_path, "two_threads.py", ranks=2))
    assert "another thread is in a call" in result.out


def test_an_exit_handler_that_closes_the_session_late_fails_nothing(
    tmp_path: pathlib.Path,
) -> None:
    """Handlers that were registered before the package's own run after them."""
    code = (
        "import atexit\natexit.register(lambda: session.close())\nimport numpy as np, strata\n"
        "session = strata.Session({'w': np.zeros(3, 'f4')}, strata.SGD(0.1))\n"
        "session.step({'w': np.ones(3, 'f4')})"
    )
    result = execute([sys.executable, "-c", code], tmp_path)
    assert result.status == 0, result.err


def test_an_end_within_a_step_is_named(tmp_path: pathlib.Path) -> None:
    result = alone(
        tmp_path,
        "session = strata.Session(params, strata.SGD(0.1))\n"
        "try:\n    session.step({'w': np.full(3, np.nan, 'f4')})\n"
        "except strata.InvalidArgument:\n    pass",
    )
    assert result.status == 1
    assert "the end came within step 0, not all of whose gradients were given" in result.err


def test_a_loss_that_is_no_number_is_refused_before_the_step(tmp_path: pathlib.Path) -> None:
    result = alone(
        tmp_path,
        "session = strata.Session(params, strata.SGD(0.1))\n"
        "try:\n    session.step({'w': np.ones(3, 'f4')}, loss='x')\n"
        "except strata.InvalidArgument:\n    print(session.weights()['w'][0])",
    )
    assert result.status == 0 and result.out.strip() == "0.0", result.err


def test_a_measurement_leaves_the_windows_of_the_progress_as_they_are(
    tmp_path: pathlib.Path,
) -> None:
    must_finish(run_job(tmp_path, "measures.py"))
    (metrics,) = tmp_path.rglob("metrics.jsonl")
    records = [json.loads(line) for line in metrics.read_text().splitlines()]
    windows = [(one["step"], one["samples"]) for one in records if "samples" in one]
    assert windows == [(50, 2000), (100, 4000), (150, 6000), (200, 8000)]
    (measured,) = (one for one in records if "test_accuracy" in one)
    assert measured["step"] == 60


def test_every_report_of_a_step_is_kept(tmp_path: pathlib.Path) -> None:
    must_finish(run_job(tmp_path, "reports.py"))
    (metrics,) = tmp_path.rglob("metrics.jsonl")
    records = [json.loads(line) for line in metrics.read_text().splitlines()]
    measured = [
        (one["step"], one.get("test_accuracy"), one.get("test_loss"), one.get("values", {}))
        for one in records
        if "samples" not in one
    ]
    assert measured == [
        (0, None, None, {"before": 0.5}),
        (10, None, None, {"train_loss": 0.1}),
        (10, 0.25, None, {}),
        (10, None, 2.0, {}),
        (10, None, None, {"train_loss": 0.1}),
        (10, None, None, {"train_loss": 0.2}),
    ]
    assert [one["step"] for one in records if "samples" in one][:1] == [20]


def test_without_a_cluster_several_ranks_are_told_what_to_run(tmp_path: pathlib.Path) -> None:
    result = alone(tmp_path, "os.environ['WORLD_SIZE'] = '4'; strata.Session(params)")
    assert "run: strata run -n 4" in result.err.splitlines()[-1]


def refused_library(folder: pathlib.Path, library: str) -> str:
    """Returns why the package refuses a client library, which must be one line."""
    code = f"import os; os.environ['STRATA_CLIENT_LIBRARY'] = {library!r}; import strata"
    result = execute([sys.executable, "-c", code], folder)
    last = result.err.splitlines()[-1]
    assert result.status == 1 and last.startswith("strata.LibraryMissing: "), result.err
    return last


def test_a_library_that_is_missing_or_is_another_is_named(tmp_path: pathlib.Path) -> None:
    assert "nowhere.so" in refused_library(tmp_path, "/nowhere.so")
    other = refused_library(tmp_path, "libc.so.6")
    assert "libc.so.6: is no client library of Strata: it has no strata_client_abi" in other


def test_a_library_that_is_too_old_is_named_with_both_versions(tmp_path: pathlib.Path) -> None:
    def library(abi: int) -> str:
        path = tmp_path / f"libold{abi}.so"
        text = f"unsigned strata_client_abi(void) {{ return {abi}; }}"
        words = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(path)]
        subprocess.run(words, input=text, text=True, check=True)
        return str(path)

    needed = _library.ABI
    refused = refused_library(tmp_path, library(needed - 1))
    assert f"libold{needed - 1}.so: has ABI {needed - 1}, this package needs {needed}" in refused
    # It says that it has what it has not.
    refused = refused_library(tmp_path, library(needed))
    assert f"libold{needed}.so: has no strata_version" in refused
