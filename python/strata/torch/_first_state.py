"""Optimizer state that exists before the optimizer is wrapped, such as loaded state: rank 0's state
becomes that of all ranks, like its weights."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from strata import _rendezvous, errors
from strata._client import Client
from strata._rank import process
from strata.torch import _state_file, _tensors
from strata.torch._tensors import Entry

ELSEWHERE = (
    "leave its state out, or have the optimizer on the ranks (sync, ring, local, diloco; in sync"
    ' optimizer_on="ranks")'
)
_FILE = "optimizer-state.safetensors"
# By rank 0's end of so many exchanges every rank has made one, before which it has read the file:
# double buffering lets a rank be one ahead.
_EXCHANGES = 3


def is_there(state: Mapping[Any, Any]) -> bool:
    """Returns whether an optimizer's state, by parameter, is of steps that it has made."""
    return any(_parts(of_param) and not _is_first(of_param) for of_param in state.values())


def _is_first(of_param: Any) -> bool:
    """Returns whether the state is Adagrad's before its first step, which it is made with."""
    if not isinstance(of_param, Mapping) or set(of_param) != {"step", "sum"}:
        return False
    return int(of_param["step"]) == 0


def _parts(of_param: Any) -> list[str]:
    if not isinstance(of_param, Mapping):
        return ["state"]
    return [str(key) for key, value in of_param.items() if value is not None]


def refuse_on_servers(
    client: Client, optimizer: torch.optim.Optimizer, entries: Sequence[Entry]
) -> None:
    """Raises `errors.InvalidArgument` naming the first parameter with state: the servers begin
    without any, unless they resume from a checkpoint, whose state counts."""
    names = {id(entry.param): entry.name for entry in entries}
    for param, of_param in optimizer.state.items():
        parts = _parts(of_param)
        if parts and not _is_first(of_param) and not client.goes_on:
            raise errors.InvalidArgument(
                f'optimizer: has state of parameter "{names.get(id(param), "?")}"'
                f" ({', '.join(parts)}) before it is wrapped, which the servers would not go on"
                f" from: {ELSEWHERE}"
            )
    # Adagrad never makes its first state again.
    for param in [one for one, its in optimizer.state.items() if not _is_first(its)]:
        del optimizer.state[param]


class FirstState:
    """Gives all ranks rank 0's state: ranks on one host by a file in the run directory, which rank
    0 writes before it says that it is ready to start. Ranks on several hosts must have the same
    state already, which the labels of tensors compare.
    """

    def __init__(
        self,
        client: Client,
        optimizers: Sequence[torch.optim.Optimizer],
        entries: Sequence[Entry],
    ) -> None:
        self._client = client
        self._optimizers = optimizers
        self._entries = entries
        self._path = os.path.join(client.run_dir, _FILE) if _is_one_host(client) else ""

    def labels(self) -> list[str]:
        """Returns what ranks on several hosts compare: names of state, with checksums.

        A job that goes on from a checkpoint has the checkpoint's, whatever the script has loaded.
        """
        client = self._client
        if self._path or client.is_alone or client.ranks == 1 or client.has_checkpoints:
            return []
        found = []
        for entry in self._entries:
            for optimizer in self._optimizers:
                of_param = optimizer.state.get(entry.param, {})
                if parts := _parts(of_param):
                    values = [of_param[key] for key in of_param if of_param[key] is not None]
                    found.append(
                        f"{entry.name} (optimizer's {', '.join(parts)}, checksum"
                        f" {_tensors.checksum(values):08x}; load it on every rank)"
                    )
        return found

    def offer(self) -> None:
        """On rank 0, before the start: leaves its state for the others."""
        if not self._path or self._client.rank != 0:
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)  # of the attempt before
        states = [of_param for one in self._optimizers for of_param in one.state.values()]
        if not any(_parts(of_param) for of_param in states):
            return
        try:
            content = _state_file.encode(
                {"optimizers": [optimizer.state_dict() for optimizer in self._optimizers]}
            )
        except errors.InvalidArgument as error:
            raise errors.InvalidArgument(
                f"optimizer: its state cannot go to all ranks: {str(error).partition(': ')[2]}"
            ) from None
        part = f"{self._path}.part"
        with open(part, "wb") as file:
            file.write(content)
        os.rename(part, self._path)
        process.first_state = self._path

    def take(self) -> None:
        """On the other ranks, once all have started: replaces their state by rank 0's."""
        if not self._path or self._client.rank == 0:
            return
        try:
            with open(self._path, "rb") as file:
                content = file.read()
        except FileNotFoundError:
            for optimizer in self._optimizers:
                optimizer.state.clear()
            return
        states = _state_file.decode(content, "the optimizer's state of rank 0")["optimizers"]
        for optimizer, state in zip(self._optimizers, states):
            optimizer.load_state_dict(state)
            _keep_dtypes(optimizer, state)


def _is_one_host(client: Client) -> bool:
    if client.is_alone or client.ranks == 1:
        return False
    try:
        return bool(_rendezvous.find().folder)
    except errors.StrataError:
        return False


def _keep_dtypes(optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Loading converts state to the parameter's type, which rank 0's need not have."""
    params = [param for group in optimizer.param_groups for param in group["params"]]
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    for number, param in zip(numbers, params):
        for key, value in state["state"].get(number, {}).items():
            loaded = optimizer.state[param].get(key)
            if isinstance(loaded, torch.Tensor) and loaded.dtype != value.dtype:
                optimizer.state[param][key] = value.to(loaded.device)


def forget(client: Client) -> None:
    """A step has been made: removes the file once every rank has read it."""
    if process.first_state and client.steps - client.first_step >= _EXCHANGES:
        with contextlib.suppress(OSError):
            os.unlink(process.first_state)
        process.first_state = ""
