"""Serves a script's `strata.Task` to virtual time: `python -m strata._serve SCRIPT ARGS`, which
`strata compare --cluster` starts.

Requests and answers are lines of JSON on a socket; weights and gradients lie in memory that both
sides map. `compare/virtual_time/task_reply.proto` has the answers.
"""

from __future__ import annotations

import ctypes
import json
import math
import mmap
import os
import random
import socket
import sys
import types
from typing import Any

import numpy as np

from strata import _arrays, _lifetime, errors
from strata._rank import process
from strata.task import Serving, Step, Task

VERSION = 1
_SOCKET, _MEMORY = 3, 4
_LINE_MAX = 1 << 20
_REASON_MAX = 500


def _json_number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _find_task(names: dict[str, Any]) -> Task:
    tasks = {id(value): value for value in names.values() if isinstance(value, Task)}
    if len(tasks) == 1:
        return next(iter(tasks.values()))
    named = names.get("task")
    if isinstance(named, Task):
        return named
    if tasks:
        raise errors.InvalidArgument(
            f"it defines {len(tasks)} of strata.Task: the one to run is to be called task"
        )
    raise errors.InvalidArgument(
        "it defines no strata.Task, so it owns its loop and runs live only"
    )


def load_task(script: str) -> Task:
    """Runs a script as a module, and returns its task."""
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    module = types.ModuleType("__strata_task__")
    module.__file__ = script
    sys.modules[module.__name__] = module
    with open(script, "rb") as file:
        code = compile(file.read(), script, "exec")
    try:
        exec(code, module.__dict__)
    except Serving as serving:
        return serving.task
    return _find_task(module.__dict__)


class _Server:
    """Answers requests, one at a time. An exception is answered as the request's failure."""

    def __init__(self, script: str) -> None:
        self._script = script

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        answers = {
            "describe": self._describe,
            "attach": self._attach,
            "compute": self._compute,
            "evaluate": self._evaluate,
        }
        what = request.get("do")
        if what not in answers:
            raise errors.InvalidArgument(f"strata asks for {what!r}, which no task has")
        return answers[what](request)

    def _describe(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["version"] != VERSION:
            raise errors.InvalidArgument(
                f"this strata serves tasks of version {request['version']}, the package strata of"
                f" the script has version {VERSION}"
            )
        self._seed, self._ranks = int(request["seed"]), int(request["ranks"])
        random.seed(self._seed)
        np.random.seed(self._seed % (1 << 32))
        self._task = task = load_task(self._script)
        self._params = task.first_params(self._seed)
        memories = {name: _arrays.memory(name, array) for name, array in self._params.items()}
        tensors = [{"name": name, "shape": memory.shape} for name, memory in memories.items()]
        optimizer = task.optimizer
        described = {
            "version": VERSION,
            "tensors": tensors,
            "batch": task.batch,
            "steps_per_epoch": task.steps_per_epoch,
            "total_steps": task.steps,
            "evaluate_every": task.evaluate_every,
            "optimizer": "" if optimizer is None else optimizer.to_text(),
            "rate": 0.0 if optimizer is None else _json_number(float(optimizer.lr)),
        }
        return {"described": described}

    def _attach(self, request: dict[str, Any]) -> dict[str, Any]:
        elements = int(request["elements"])
        shared = mmap.mmap(_MEMORY, 8 * elements)
        start = ctypes.addressof(ctypes.c_char.from_buffer(shared))
        self._shared = shared
        self._weights: dict[str, Any] = {}
        self._gradients: dict[str, int] = {}
        offset = 0
        # As live, the last tensor of the forward pass comes first.
        for name, array in reversed(self._params.items()):
            memory = _arrays.memory(name, array)
            count = int(np.prod(memory.shape, dtype=np.int64))
            address = start + 4 * offset
            _arrays.write_floats(address, memory)
            self._weights[name] = _arrays.view(address, memory.shape, array)
            self._gradients[name] = address + 4 * elements
            offset += count
        if offset != elements:
            raise errors.InvalidArgument(f"strata has {elements} weights, the task {offset}")
        self._weights = {name: self._weights[name] for name in self._params}
        return {"attached": {}}

    def _compute(self, request: dict[str, Any]) -> dict[str, Any]:
        task = self._task
        step = Step(
            int(request["rank"]),
            self._ranks,
            int(request["step"]),
            self._seed,
            task.steps_per_epoch,
            task.batch,
        )
        gradients, samples, loss = task.compute(dict(self._weights), step)
        task.check(self._weights, gradients)
        for name, address in self._gradients.items():
            memory = _arrays.memory(name, gradients[name])
            _arrays.write_floats(address, memory)
            count = int(np.prod(memory.shape, dtype=np.int64))
            sums = _arrays.floats_at(address, count)
            np.multiply(sums, np.float32(samples), out=sums)
        return {"computed": {"samples": samples, "loss": _json_number(loss)}}

    def _evaluate(self, request: dict[str, Any]) -> dict[str, Any]:
        values = self._task.measure(dict(self._weights))
        return {"measured": {"values": {k: _json_number(v) for k, v in values.items()}}}


def _reason_of(error: BaseException) -> str:
    text = _lifetime.reason_of(error)
    for kind in (errors.InvalidArgument, errors.OutOfOrder):
        # The text names the thing by itself.
        if type(error) is kind:
            text = text.removeprefix(f"strata.{kind.__name__}: ")
    return " ".join(text.split())[:_REASON_MAX]


def main() -> None:
    process.serves = True
    # A script's output in each step would fill memory; errors stay.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.argv = sys.argv[1:]
    server = _Server(sys.argv[0])
    with socket.socket(fileno=_SOCKET) as channel, channel.makefile("rb") as lines:
        while line := lines.readline(_LINE_MAX):
            try:
                answer = server.answer(json.loads(line))
            except SystemExit:
                raise
            except BaseException as error:
                answer = {"failed": _reason_of(error) or type(error).__name__}
            channel.sendall(json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
