"""Buffers that are averaged over ranks: `buffers="mean"`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from strata import _library, errors
from strata._client import Client
from strata._library import lib
from strata.torch import _tensors
from strata.torch._memory import Memory

# Sums over ranks and samples of larger numbers may not be numbers of fp32.
_LARGEST = 1e28
# Half of a unit in the last place, relative, of fp32, and of what values travel as.
_HALF_UNITS = {"FP32": 2.0**-24, "FP16": 2.0**-11, "BF16": 2.0**-8}
# Buffers of fewer elements may be as near their mean by chance.
_ELEMENTS_MIN = 4


@dataclass
class _Place:
    """A model's buffer, and its range in the joint vector."""

    name: str
    owner: torch.nn.Module
    own_name: str
    index: int = -1
    begin: int = 0
    end: int = 0

    def now(self) -> Tensor:
        buffer: Tensor = getattr(self.owner, self.own_name)
        return buffer


class Averaged:
    """The buffers of fp32 of a model, which become their mean over ranks in each exchange.

    Values that are equal on all ranks stay exactly as they are, although their mean, which is a
    rounded sum, need not be equal to them. An element stays what it was first for as long as the
    mean is within rounding of that, which all ranks see alike; and a buffer stays this rank's where
    all its elements are within rounding of the mean, as where all ranks have changed it alike.
    Buffers with values that have no mean, such as a mask of -inf, must
    be the same on all ranks, and stay so.

    Threads: as Exchange.
    """

    def __init__(self, memory: Memory, client: Client) -> None:
        self._memory = memory
        self._client = client
        self._places: list[_Place] = []
        self._fixed: list[tuple[_Place, Tensor, int]] = []
        codecs = [client.job.get(field, {}).get("codec", "FP32") for field in ("push", "pull")]
        # How far the mean of equal values may be from them, relative: each rank's is multiplied by
        # its samples, all are added up in pairs, and the sum is divided; both codecs round once.
        roundings = 3 + math.ceil(math.log2(client.ranks))
        self._rounding = _HALF_UNITS["FP32"] * roundings + sum(
            _HALF_UNITS.get(codec, 0.0) for codec in codecs if codec != "FP32"
        )
        self._keeps_own = set(codecs) == {"FP32"}
        # All elements, one buffer after the other.
        self._own = self._mean = self._first = self._numbers = torch.empty(0)
        self._is_first = self._may_keep = torch.empty(0)
        self._parts: list[tuple[Tensor, Tensor]] = []
        self._has_begun = False

    def __bool__(self) -> bool:
        return bool(self._places)

    def register(self, model: torch.nn.Module) -> None:
        """Registers the model's buffers with the client.

        Raises `errors.InvalidArgument` naming one that cannot be averaged.
        """
        for name, owner, own_name in _tensors.float_buffers(model):
            place = _Place(name, owner, own_name)
            buffer = place.now()
            if bool((buffer.abs() <= _LARGEST).all()):
                place.index = self._client.register(name, tuple(buffer.shape), averaged=True)
                place.begin = self._places[-1].end if self._places else 0
                place.end = place.begin + buffer.numel()
                self._places.append(place)
            else:
                label = _tensors.Constant(name, buffer, "buffer").label()
                self._client.register(label, (1,), 0.0, 0.0)
                self._fixed.append((place, buffer.detach().clone(), buffer._version))
        if not self._places:
            return
        device = self._places[0].now().device
        count = self._places[-1].end
        self._own, self._mean, self._first = (torch.zeros(count, device=device) for _ in range(3))
        sizes = torch.tensor([place.end - place.begin for place in self._places], device=device)
        self._numbers = torch.repeat_interleave(torch.arange(len(sizes), device=device), sizes)
        self._is_first = torch.ones(count, dtype=torch.bool, device=device)
        self._may_keep = sizes >= _ELEMENTS_MIN
        for place in self._places:
            shape = place.now().shape
            self._parts.append(
                (
                    self._own[place.begin : place.end].view(shape),
                    self._mean[place.begin : place.end].view(shape),
                )
            )

    def write_first(self) -> None:
        """Writes the first values to the job's memory."""
        for place in self._places:
            _tensors.write_floats(self._client.weights(place.index), place.now().contiguous())

    def now(self) -> Iterator[tuple[int, Tensor]]:
        """Yields the client's number of each buffer, and the model's present buffer."""
        for place in self._places:
            yield place.index, place.now()

    def publish(self, samples: int) -> None:
        """Publishes the buffers, weighted by this many samples."""
        self._check_fixed()
        self._copy_own()
        for place, (own, _) in zip(self._places, self._parts):
            code = self._memory.publish(place.index, own, float(samples))
            if code == _library.INVALID_ARGUMENT:
                text = lib.strata_error_text().decode(errors="replace")
                raise errors.InvalidArgument(
                    f'buffer "{place.name}": has come to have no mean ({text}): leave'
                    ' buffers="mean" out, or keep it finite'
                )
            _library.check(code)

    def _check_fixed(self) -> None:
        for place, first, version in self._fixed:
            buffer = place.now()
            if buffer._version == version and buffer.shape == first.shape:
                continue
            same = buffer.shape == first.shape and torch.equal(
                buffer.detach().contiguous().view(torch.int32), first.contiguous().view(torch.int32)
            )
            if not same:
                raise errors.InvalidArgument(
                    f'buffer "{place.name}": had values that have no mean (not finite, or above'
                    f" {_LARGEST:g}) when the optimizer was wrapped, and has changed: leave"
                    ' buffers="mean" out, or begin with finite values'
                )

    def _copy_own(self) -> None:
        with torch.no_grad():
            for place, (own, _) in zip(self._places, self._parts):
                buffer = place.now()
                if buffer.shape != own.shape:
                    raise errors.InvalidArgument(
                        f'buffer "{place.name}": has shape {tuple(buffer.shape)}, and had'
                        f" {tuple(own.shape)} when the optimizer was wrapped"
                    )
                own.copy_(buffer)

    def read(self) -> None:
        """Waits for the means and writes them to the model's buffers."""
        if not self._places:
            return
        if not self._has_begun:
            self._copy_own()
            self._first.copy_(self._own)
        for place, (_, mean) in zip(self._places, self._parts):
            _library.check(self._memory.read(place.index, mean))
        with torch.no_grad():
            # At the start all take rank 0's, to the bit. Where a rank begins later it has made
            # again what stays, and the job has its mean.
            if self._has_begun or self._client.first_step:
                self._keep_equal()
            if not self._has_begun:
                self._first.copy_(self._mean)
            self._has_begun = True
            for place, (_, mean) in zip(self._places, self._parts):
                place.now().copy_(mean)

    def _keep_equal(self) -> None:
        """Replaces means by the values that stay."""
        self._is_first &= self._is_near(self._first)
        settled = torch.where(self._is_first, self._first, self._mean)
        if self._has_begun and self._keeps_own:
            far = torch.zeros(len(self._places), device=self._mean.device)
            far.index_add_(0, self._numbers, (~self._is_near(self._own)).float())
            keeps = ((far == 0) & self._may_keep)[self._numbers]
            settled = torch.where(keeps, self._own, settled)
        self._mean.copy_(settled)

    def _is_near(self, values: Tensor) -> Tensor:
        return (self._mean - values).abs_() <= values.abs() * self._rounding
