"""Checks whether ranks that change weights by their own optimizers still agree: the job compares
checksums of weights, and options of optimizers."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from strata import _library
from strata._client import Client
from strata._library import lib
from strata.torch._tensors import Entry

_ITEMS_MAX = 4096
_OPTIONS_MAX = 1024
_VALUE_MAX = 64  # bytes


class Agreement:
    """Tells the job now and then what this rank has, which fails where ranks differ.

    A rank whose weights have gone another way, by a step that it left out or an option that only it
    has, would else train on, and the job would end well. Calls send, and wait for nobody.
    """

    def __init__(
        self,
        client: Client,
        entries: Sequence[Entry],
        optimizers: Sequence[torch.optim.Optimizer],
        every: int,
    ) -> None:
        self._client = client
        self._entries = entries
        self._optimizers = optimizers
        self._every = every if client.ranks > 1 and not client.is_alone else 0
        self._compared = client.first_step

    def at(self, step: int, is_due: bool = False) -> None:
        """Compares the state after a step if the step's number requires it, or it is due anyway.
        All ranks call it after the same steps."""
        if not self._every or step <= self._compared:
            return
        if is_due or step // self._every > self._compared // self._every:
            self.compare(step)

    def compare(self, step: int) -> None:
        """Compares the state after this many steps, of which the job has made the newest."""
        if not self._every or step <= self._compared:
            return
        self._compared = step
        items = _options(self._optimizers)
        items += _checksums(self._entries, _ITEMS_MAX - len(items))
        array = (_library.StateItem * len(items))(*items)
        _library.check(lib.strata_send_state(self._client.handle, step, array, len(items)))


def _checksum(data: bytes) -> int:
    number: int = lib.strata_checksum(data, len(data))
    return number


def _options(optimizers: Sequence[torch.optim.Optimizer]) -> list[Any]:
    """Returns the options of all groups: numbers, strings, and tuples of them."""
    found: list[tuple[str, str]] = []
    for place, optimizer in enumerate(optimizers):
        of = f"optimizer {place}, " if len(optimizers) > 1 else ""
        for number, group in enumerate(optimizer.param_groups):
            for name, value in group.items():
                text = _text(value) if name != "params" else None
                if text is not None:
                    found.append((f"{name} (of {of}group {number})", text))
    # Options beyond the limit share one item.
    rest = found[_OPTIONS_MAX:]
    del found[_OPTIONS_MAX:]
    if rest:
        found.append((f"the options from {rest[0][0]} on:", "; ".join(text for _, text in rest)))
    return [_item(name, _checksum(text.encode()), text) for name, text in found]


def _text(value: Any) -> str | None:
    """Returns an option as text; None: it cannot be compared."""
    if isinstance(value, Tensor):
        return repr(value.tolist()) if value.numel() <= 16 and not value.is_meta else None
    if isinstance(value, (tuple, list)):
        parts = [_text(one) for one in value]
        return None if None in parts else f"({', '.join(map(str, parts))})"
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    return None


def _item(name: str, checksum: int, value: str | None) -> Any:
    text = None if value is None else (value.encode()[:_VALUE_MAX] or b"''")
    return _library.StateItem(name.encode(errors="replace"), checksum, text)


def _checksums(entries: Sequence[Entry], most: int) -> list[Any]:
    """Returns an item for each tensor; the last one covers all tensors beyond the limit."""
    if not entries:
        return []
    params = [entry.param.detach() for entry in entries]
    on_host = params[0].device.type == "cpu"
    sums = [_of_memory(p) for p in params] if on_host else _on_device(params)
    named = [(entry.name, one) for entry, one in zip(entries, sums)]
    if len(named) > most:
        rest = b"".join(one.to_bytes(8, "little") for one in sums[most - 1 :])
        name = f"{named[most - 1][0]}, or a tensor after it"
        named[most - 1 :] = [(name, _checksum(rest))]
    return [_item(name, one, None) for name, one in named]


def _of_memory(tensor: Tensor) -> int:
    """Returns the checksum of a dense tensor's elements, in memory order."""
    size = tensor.numel() * tensor.element_size()
    number: int = lib.strata_checksum(tensor.data_ptr(), size)
    return number


def _on_device(tensors: Sequence[Tensor]) -> list[int]:
    """Returns checksums of sums that the GPU computes over the bits; all of them come in one
    copy."""
    parts = []
    for tensor in tensors:
        flat = tensor.as_strided((tensor.numel(),), (1,))
        bits = flat.view(torch.int32 if tensor.element_size() == 4 else torch.int16)
        # The second one changes, too, where elements have changed places.
        mixed = bits[::2].sum(dtype=torch.int64) * 3 + bits[::3].sum(dtype=torch.int64)
        parts.append(torch.stack([bits.sum(dtype=torch.int64), mixed]))
    together = torch.stack(parts).cpu()
    return [_of_memory(pair) for pair in together]
