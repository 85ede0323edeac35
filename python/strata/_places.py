"""The place of a session's arrays: on the host, or on the rank's GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any, Protocol

from strata import _arrays, _device_arrays, errors
from strata._client import Client
from strata._device_arrays import DeviceArray, DeviceMemory
from strata._library import check, lib


class Place(Protocol):
    """How a session passes gradients and gets weights."""

    def take(self, name: str, array: Any, samples: int) -> Any:
        """Returns an array as memory, which has a `shape`. For `publish`, of `samples` samples.

        Raises `errors.InvalidArgument` naming an array that cannot be taken or lies elsewhere."""

    def offer(self, index: int, memory: Any) -> None:
        """Makes an array's elements the first weights. Call it before training begins."""

    def begin(self, memories: Iterable[Any]) -> None:
        """Begins a step with these arrays."""

    def publish(self, index: int, memory: Any, samples: int) -> None:
        """Publishes an array, which is a mean over the samples, as a gradient."""

    def weights(self, index: int, shape: tuple[int, ...], like: Any) -> Any:
        """Returns the weights as an array of the same library as another one, once training has
        begun."""

    def is_writable(self, array: Any) -> bool:
        """Returns whether `copy_into` can write to it."""

    def copy_into(self, array: Any, values: Any) -> None:
        """Writes `weights` over an array's own."""

    def copy_of(self, values: Any) -> Any:
        """Returns a copy of `weights` that does not change."""


class OnHost:
    """The arenas are in memory that the ranks of this node share."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._views: dict[int, Any] = {}

    def take(self, name: str, array: Any, samples: int) -> _arrays.Memory:
        return _arrays.memory(name, array)

    def offer(self, index: int, memory: _arrays.Memory) -> None:
        _arrays.write_floats(self._client.weights(index), memory)

    def begin(self, memories: Iterable[_arrays.Memory]) -> None:
        pass

    def publish(self, index: int, memory: _arrays.Memory, samples: int) -> None:
        self._client.publish(index, memory.address, memory.dtype, float(samples))

    def weights(self, index: int, shape: tuple[int, ...], like: Any) -> Any:
        if index not in self._views:
            self._views[index] = _arrays.view(self._client.weights(index), shape, like)
        return self._views[index]

    def is_writable(self, array: Any) -> bool:
        return _arrays.is_writable(array)

    def copy_into(self, array: Any, values: Any) -> None:
        _arrays.copy_into(array, values)

    def copy_of(self, values: Any) -> Any:
        return _arrays.copy_of(values)


class OnDevice:
    """The arenas lie on the rank's GPU, and steps keep the order of the gradients' stream.

    Where gradients of a step are ready in several streams, or say none, calls wait for the GPU.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        check(lib.strata_accept_device(client.handle))
        self._number: int = lib.strata_device_index(client.handle)
        own = ctypes.c_void_p()
        check(lib.strata_device_stream(client.handle, ctypes.byref(own)))
        assert own.value is not None
        self._own = own.value
        self._stream: int | None = None
        # Memory of the previous step must stay until strata_begin_step has waited for its work.
        self._given: list[list[DeviceMemory]] = []

    def take(self, name: str, array: Any, samples: int) -> DeviceMemory:
        if not _arrays.is_on_device(array):
            raise errors.InvalidArgument(
                f'"{name}": lies on the host, but the job computes on GPUs (device: GPU)'
            )
        number = _device_arrays.number_of(array)
        if number not in (None, self._number):
            raise errors.InvalidArgument(
                f'"{name}": lies on GPU {number}, but this rank computes on GPU {self._number}'
            )
        times = _device_arrays.scaled(name, array, float(samples))
        return _device_arrays.memory(name, times, self._own)

    def offer(self, index: int, memory: DeviceMemory) -> None:
        # Weights are on the host until training begins.
        self._copy(self._client.weights(index), memory.address, memory.bytes, memory.stream)

    def begin(self, memories: Iterable[DeviceMemory]) -> None:
        given = list(memories)
        streams = {memory.stream for memory in given}
        only = streams.pop() if len(streams) == 1 else None
        self._compute_in(None if only == self._own else only)
        self._given = [*self._given[-1:], given]

    def _compute_in(self, stream: int | None) -> None:
        if stream != self._stream:
            check(lib.strata_compute_in(self._client.handle, stream))
            self._stream = stream

    def _copy(self, to: int, origin: int, size: int, ready_in: int | None) -> None:
        check(lib.strata_copy(self._client.handle, to, origin, size, ready_in))

    def publish(self, index: int, memory: DeviceMemory, samples: int) -> None:
        self._client.wait(index)
        to = lib.strata_gradients(self._client.handle, index)
        self._copy(to, memory.address, memory.bytes, memory.stream)
        check(lib.strata_publish(self._client.handle, index))

    def weights(self, index: int, shape: tuple[int, ...], like: Any) -> Any:
        found = DeviceArray(self._client.weights(index), shape, self._stream)
        return _device_arrays.as_array(found, like, self._number)

    def is_writable(self, array: Any) -> bool:
        return _device_arrays.is_writable(array)

    def copy_into(self, array: Any, values: Any) -> None:
        if _arrays.is_torch(array):
            _arrays.copy_into(array, values)
        elif _device_arrays.is_cupy(array):
            array[...] = values
        else:
            to = array.__cuda_array_interface__["data"][0]
            size = DeviceMemory(to, values.shape, None, array).bytes
            self._copy(to, values.address, size, self._stream)

    def copy_of(self, values: Any) -> Any:
        if _arrays.is_torch(values):
            return values.clone()
        if _device_arrays.is_cupy(values):
            return values.copy()
        size = DeviceMemory(values.address, values.shape, None, values).bytes
        memory = ctypes.c_void_p()
        check(lib.strata_device_memory(self._client.handle, size, ctypes.byref(memory)))
        assert memory.value is not None
        self._copy(memory.value, values.address, size, None)
        return DeviceArray(memory.value, values.shape, self._stream)


def of(client: Client) -> Place:
    """Returns the place for the job: `device: GPU` or not."""
    return OnDevice(client) if client.job.get("device") == "GPU" else OnHost(client)
