"""Waits per tensor: the next forward pass begins while weights of later layers are still in
flight."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from strata.torch._exchange import Exchange


class _Parameters(dict[str, Any]):
    """A module's parameters, each of which is waited for when it is looked up.

    `module.weight` comes here, from wherever it is used; so does `parameters()`.
    """

    def __init__(self, own: dict[str, Any], waits: PerTensor) -> None:
        super().__init__(own)
        self._waits = waits

    def __getitem__(self, name: str) -> Any:
        param = super().__getitem__(name)
        self._waits.wait(param)
        return param

    def __reduce__(self) -> Any:
        # Copies, in memory or in files, are plain.
        return dict, (dict(super().items()),)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default

    def items(self) -> Any:
        self._waits.wait_all()
        return super().items()

    def values(self) -> Any:
        self._waits.wait_all()
        return super().values()


class _WaitForAll:
    """A hook before a module's forward pass. Copies of the module do not have it."""

    def __init__(self, waits: PerTensor) -> None:
        self._waits = waits

    def __call__(self, *_: object) -> None:
        self._waits.wait_all()

    def __reduce__(self) -> Any:
        # In copies a hook that does nothing, which needs no Strata to be loaded.
        return getattr, (contextlib.nullcontext(), "__exit__")


class PerTensor:
    """The parameters whose weights have not been waited for in this step."""

    def __init__(self, exchange: Exchange, model: torch.nn.Module) -> None:
        self._client = exchange.client
        self._indices = {id(entry.param): entry.index for entry in exchange.entries}
        self._left: set[int] = set()
        for module in model.modules():
            module._parameters = _Parameters(module._parameters, self)
            if isinstance(module, torch.nn.RNNBase):
                # Older versions of PyTorch read these by references of their own.
                module.register_forward_pre_hook(_WaitForAll(self))

    def begin(self) -> None:
        """A step has ended: all weights are in flight."""
        self._left = set(self._indices)

    def end(self) -> None:
        """No more steps come: all weights have arrived."""
        self._left.clear()

    def wait(self, param: object) -> None:
        if id(param) in self._left:
            self._left.discard(id(param))
            self._client.wait(self._indices[id(param)])

    def wait_all(self) -> None:
        if self._left:
            self._left.clear()
            self._client.wait_all()
