"""The client library beside PyTorch in one process: neither sees the other's symbols."""

import ctypes
import os
import subprocess
import sys

import pytest

LIBRARY = os.environ["STRATA_CLIENT_LIBRARY"]
LOAD = """
import ctypes
library = ctypes.CDLL({library!r})
library.strata_version.restype = ctypes.c_char_p
library.strata_error_text.restype = ctypes.c_char_p
library.strata_connect_alone.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
assert library.strata_version().decode().count(".") == 2
"""
# Protobuf reads the job, and says what is wrong with it: the library's own copy works.
PARSE = """
client = ctypes.c_void_p()
assert library.strata_connect_alone(b"name: 7", ctypes.byref(client)) != 0
assert b"job" in library.strata_error_text(), library.strata_error_text()
"""
TORCH = """
import torch
model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(72, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
model(torch.ones(3, 1, 8, 8)).square().sum().backward()
optimizer.step()
assert all(torch.isfinite(p).all() for p in model.parameters())
"""


def run(*parts):
    code = "".join(parts).replace("{library!r}", repr(LIBRARY))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param((LOAD, PARSE, TORCH, PARSE), id="library first"),
        pytest.param((TORCH, LOAD, PARSE, TORCH), id="torch first"),
    ],
)
def test_works_beside_torch(parts):
    run(*parts)


def test_shows_only_its_own_functions():
    shown = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True)
    names = [line.split()[-1].split("@")[0] for line in shown.stdout.splitlines()]
    # Templates of the C++ library are everybody's.
    others = [name for name in names if not name.startswith(("strata_", "STRATA_", "_ZNSt"))]
    assert names and not others


def test_its_functions_are_in_no_global_scope():
    ctypes.CDLL(LIBRARY)
    with pytest.raises(AttributeError):
        ctypes.CDLL(None).strata_version
