"""The place of tensors, and how they reach the job's arenas: on the host, or on the rank's GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from strata import _library, _torch_cuda, errors
from strata._client import Client
from strata._library import lib
from strata.torch import _tensors
from strata.torch._tensors import Entry


class Memory(Protocol):
    """How gradients are published and weights read. Calls return an error code of the library."""

    device_type: str
    marks_absent: bool
    """Whether the library was told so: gradients are given without -0.0."""

    def holds(self, tensor: Tensor) -> bool:
        """Returns whether the tensor is in the memory in which the job computes."""

    def accept(self) -> None:
        """Announces, before the arenas are created, where tensors will be."""

    def open(self, entries: Sequence[Entry]) -> None:
        """Training begins: the arenas have their final place. Raises `errors.InvalidArgument`
        naming a parameter that is elsewhere."""

    def begin(self) -> None:
        """Begins a pass."""

    def publish(self, index: int, values: Tensor, scale: float) -> int:
        """Publishes `values` times `scale` as the tensor's gradient."""

    def read(self, index: int, into: Tensor) -> int:
        """Waits for the tensor's weights and writes them to `into`."""

    def weights(self, index: int, like: Tensor) -> Tensor:
        """Returns the tensor's weights in the arena, as a tensor like another one."""


class HostMemory:
    """The arenas are in memory that the ranks of this node share."""

    device_type = "cpu"
    marks_absent = False  # the library itself writes what the host gives

    def __init__(self, client: Client) -> None:
        self._client = client

    def holds(self, tensor: Tensor) -> bool:
        return tensor.device.type == "cpu"

    def accept(self) -> None:
        pass

    def open(self, entries: Sequence[Entry]) -> None:
        pass

    def begin(self) -> None:
        pass

    def publish(self, index: int, values: Tensor, scale: float) -> int:
        code: int = lib.strata_publish_values(
            self._client.handle, index, values.data_ptr(), _tensors.DTYPES[values.dtype], scale
        )
        return code

    def read(self, index: int, into: Tensor) -> int:
        code: int = lib.strata_read_weights(
            self._client.handle, index, into.data_ptr(), _tensors.DTYPES[into.dtype]
        )
        return code

    def weights(self, index: int, like: Tensor) -> Tensor:
        return _tensors.view_at(self._client.weights(index), like)


class DeviceMemory:
    """The arenas are on the rank's GPU, where work keeps the order of PyTorch's stream."""

    device_type = "cuda"
    marks_absent = False

    def __init__(self, client: Client) -> None:
        self._client = client
        self._stream: int | None = None
        self._number = -1
        self._gradients: dict[int, Tensor] = {}
        self._weights: dict[int, Tensor] = {}

    def holds(self, tensor: Tensor) -> bool:
        return _torch_cuda.cuda.holds(tensor)

    def accept(self) -> None:
        _library.check(lib.strata_accept_device(self._client.handle))

    def open(self, entries: Sequence[Entry]) -> None:
        self._number = lib.strata_device_index(self._client.handle)
        for entry in entries:
            if _torch_cuda.cuda.number(entry.param) != self._number:
                raise errors.InvalidArgument(
                    f'parameter "{entry.name}": lies on {entry.param.device}, but this rank'
                    f' computes on GPU {self._number}: model.to("cuda:{self._number}")'
                )
        self._use_stream()

    def begin(self) -> None:
        self._use_stream()

    def _use_stream(self) -> None:
        """Uses PyTorch's current stream from now on."""
        stream = _torch_cuda.cuda.stream(self._number)
        if stream != self._stream:
            _library.check(lib.strata_compute_in(self._client.handle, stream))
            self._stream = stream

    def publish(self, index: int, values: Tensor, scale: float) -> int:
        code: int = lib.strata_wait(self._client.handle, index)
        if code:
            return code
        if index not in self._gradients:
            address = lib.strata_gradients(self._client.handle, index)
            self._gradients[index] = self._at(address, values)
        # In fp32, which the sum is in: products of half-precision numbers would be rounded.
        given = self._gradients[index].copy_(values.detach()).mul_(scale)
        if self.marks_absent:
            given.add_(0.0)
        code = lib.strata_publish(self._client.handle, index)
        return code

    def read(self, index: int, into: Tensor) -> int:
        code: int = lib.strata_wait(self._client.handle, index)
        if not code:
            with torch.no_grad():
                into.copy_(self.weights(index, into))
        return code

    def weights(self, index: int, like: Tensor) -> Tensor:
        if index not in self._weights:
            self._weights[index] = self._at(self._client.weights(index), like)
        return self._weights[index]

    def _at(self, address: int, like: Tensor) -> Tensor:
        flat: Tensor = _torch_cuda.cuda.tensor_at(address, like.numel(), self._number)
        return flat.as_strided(like.size(), like.stride())


def of(client: Client) -> Memory:
    """Returns the memory for the job: `device: GPU` or not."""
    return DeviceMemory(client) if client.job.get("device") == "GPU" else HostMemory(client)
