"""Where tensors lie, and how they reach the job's arenas: on the host, or on the rank's GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from strata import _library, errors
from strata._client import Client
from strata._library import lib
from strata.torch import _tensors
from strata.torch._tensors import Entry

# What the library takes for CUDA's default stream, whose own number, 0, means none.
_DEFAULT_STREAM = 1


class Memory(Protocol):
    """How gradients are given and weights taken. Calls return an error code of the library."""

    device_type: str

    def accept(self) -> None:
        """Says before the arenas are made where tensors will lie."""

    def open(self, entries: Sequence[Entry]) -> None:
        """Training begins: the arenas are where they stay. Raises `errors.InvalidArgument` naming a
        parameter that lies elsewhere."""

    def begin(self) -> None:
        """A pass begins."""

    def publish(self, index: int, values: Tensor, scale: float) -> int:
        """Gives `values` times `scale` as the tensor's gradient."""

    def read(self, index: int, into: Tensor) -> int:
        """Waits for the tensor's weights and writes them over `into`."""

    def weights(self, index: int, like: Tensor) -> Tensor:
        """Returns the tensor's weights in the arena, as a tensor like another one."""


class HostMemory:
    """The arenas are memory that the ranks of this node share."""

    device_type = "cpu"

    def __init__(self, client: Client) -> None:
        self._client = client

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


class _CudaArray:
    """Memory of a GPU, as PyTorch takes it without a copy."""

    def __init__(self, address: int, elements: int) -> None:
        self.__cuda_array_interface__ = {
            "data": (address, False),
            "shape": (elements,),
            "typestr": "<f4",
            "version": 3,
        }


class DeviceMemory:
    """The arenas lie on the rank's GPU, where work keeps the order of PyTorch's stream."""

    device_type = "cuda"

    def __init__(self, client: Client) -> None:
        self._client = client
        self._stream: int | None = None
        self._device = torch.device("cpu")
        self._gradients: dict[int, Tensor] = {}
        self._weights: dict[int, Tensor] = {}

    def accept(self) -> None:
        _library.check(lib.strata_accept_device(self._client.handle))

    def open(self, entries: Sequence[Entry]) -> None:
        number = lib.strata_device_index(self._client.handle)
        for entry in entries:
            if entry.param.device.index != number:
                raise errors.InvalidArgument(
                    f'parameter "{entry.name}": lies on {entry.param.device}, but this rank'
                    f' computes on GPU {number}: model.to("cuda:{number}")'
                )
        self._device = entries[0].param.device
        self._use_stream()

    def begin(self) -> None:
        self._use_stream()

    def _use_stream(self) -> None:
        """Follows the stream that PyTorch computes in now."""
        stream: int = torch.cuda.current_stream(self._device).cuda_stream or _DEFAULT_STREAM
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
        self._gradients[index].copy_(values.detach()).mul_(scale)
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
        flat = torch.as_tensor(_CudaArray(address, like.numel()), device=self._device)
        return flat.as_strided(like.size(), like.stride())


def of(client: Client) -> Memory:
    """Returns what fits the job: `device: GPU` or not."""
    return DeviceMemory(client) if client.job.get("device") == "GPU" else HostMemory(client)
