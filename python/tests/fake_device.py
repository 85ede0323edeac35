"""The fake device (kernels/fake_cuda) as scripts of tests use it: arrays of its memory, which this
process reads at another address, and streams, which are threads."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy as np

from strata import _torch_cuda

_library = ctypes.CDLL(os.environ["STRATA_FAKE_DEVICE"])
for _name in ("allocate", "new_stream", "host_view"):
    getattr(_library, "fake_cuda_" + _name).restype = ctypes.c_void_p


number = 0
"""The device that arrays and streams are made on."""


def use(device: int, options: str) -> None:
    """Has arrays and streams made on a device; the plugin was given these options."""
    global number
    assert _library.fake_cuda_configure(options.encode()) == 0
    number = device


def new_stream() -> int:
    assert _library.fake_cuda_use(number) == 0
    return int(_library.fake_cuda_new_stream())


def delay(stream: int, ms: int) -> None:
    """What is queued in the stream next waits for so long."""
    assert _library.fake_cuda_delay(ctypes.c_void_p(stream), ctypes.c_size_t(ms)) == 0


def copy(to: int, origin: int, size: int, stream: int) -> None:
    """Queues a copy."""
    status = _library.fake_cuda_copy(
        ctypes.c_void_p(to), ctypes.c_void_p(origin), ctypes.c_size_t(size), ctypes.c_void_p(stream)
    )
    assert status == 0


def synchronize(stream: int) -> None:
    assert _library.fake_cuda_synchronize(ctypes.c_void_p(stream)) == 0


def host_view(address: int, count: int) -> Any:
    """Returns the memory at a device's address as floats that the host may touch."""
    where = _library.fake_cuda_host_view(ctypes.c_void_p(address), ctypes.c_size_t(4 * count))
    assert where, hex(address)
    return (ctypes.c_float * count).from_address(where)


class Array:
    """An array on the device, with nothing but `__cuda_array_interface__`.

    With a stream its elements are copied there, after what else the stream has to do.
    """

    def __init__(self, values: Any, stream: int | None = None) -> None:
        self._host = np.ascontiguousarray(values)
        self._stream = stream
        assert _library.fake_cuda_use(number) == 0
        self.address = int(_library.fake_cuda_allocate(ctypes.c_size_t(self._host.nbytes)))
        copies_in = stream or new_stream()
        copy(self.address, self._host.ctypes.data, self._host.nbytes, copies_in)
        if stream is None:
            synchronize(copies_in)
        self.__cuda_array_interface__ = {
            "data": (self.address, False),
            "shape": self._host.shape,
            "typestr": self._host.dtype.str,
            "version": 2 if stream is None else 3,
            **({} if stream is None else {"stream": stream}),
        }

    def __mul__(self, factor: float) -> Array:
        # The copies of these elements may not be complete yet.
        return type(self)(self._host * np.float32(factor), self._stream)


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("dimensions", ctypes.c_int32),
        ("dtype", ctypes.c_uint8 * 4),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


class Exported(Array):
    """An array on the device that DLPack alone gives; its consumer's stream has it after `ms`."""

    ms = 0

    def __getattribute__(self, name: str) -> Any:
        if name == "__cuda_array_interface__":
            raise AttributeError(name)
        return super().__getattribute__(name)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, number

    def __dlpack__(self, *, stream: int) -> Any:
        delay(stream, self.ms)
        self._late = Array(self._host, stream)
        shape = self._host.shape
        self._shape = (ctypes.c_int64 * len(shape))(*shape)
        self._tensor = _DLTensor(
            self._late.address,
            (2, number),
            len(shape),
            (2, 32, 1, 0),
            self._shape,
            None,
            0,
            None,
            None,
        )
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self._tensor), b"dltensor", None)


def values_of(array: Any) -> np.ndarray[Any, Any]:
    """Returns what an array on the device holds, once its stream has come so far."""
    interface = array.__cuda_array_interface__
    if interface.get("stream"):
        synchronize(interface["stream"])
    count = int(np.prod(interface["shape"], dtype=np.int64))
    return np.array(host_view(interface["data"][0], count)).reshape(interface["shape"])


class PyTorch(_torch_cuda.Cuda):
    """Tensors of the CPU in place of CUDA's, and the job's over the device's memory.

    Operations are work of one stream: each waits for what the stream was given before, and what one
    writes to the job's memory is there only after some time.
    """

    LATE_MS = 2

    def __init__(self) -> None:
        self._stream = new_stream()
        self._addresses: dict[int, tuple[int, int]] = {}  # by where the host has it; size
        self._late: list[Any] = []

    def holds(self, tensor: Any) -> bool:
        return True

    def number(self, tensor: Any) -> int:
        return number

    def stream(self, number: int) -> int:
        return self._stream

    def tensor_at(self, address: int, elements: int, number: int) -> Any:
        import torch

        view = host_view(address, elements)
        self._addresses[ctypes.addressof(view)] = address, 4 * elements
        return torch.frombuffer(view, dtype=torch.float32)

    def in_order(self) -> Any:
        """Within it every operation of PyTorch is work of the stream."""
        import torch
        from torch.utils._python_dispatch import TorchDispatchMode

        device = self

        class InOrder(TorchDispatchMode):
            def __torch_dispatch__(
                self, function: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                synchronize(device._stream)
                result = function(*args, **(kwargs or {}))
                if function._schema.is_mutable and isinstance(args[0], torch.Tensor):
                    device._delay_write(args[0].data_ptr())
                return result

        return InOrder()

    def _delay_write(self, where: int) -> None:
        if where not in self._addresses:
            return
        address, size = self._addresses[where]
        written = ctypes.create_string_buffer(ctypes.string_at(where, size), size)
        ctypes.memset(where, 0xCB, size)
        delay(self._stream, self.LATE_MS)
        copy(address, ctypes.addressof(written), size, self._stream)
        self._late = [*self._late[-64:], written]


def use_for_torch() -> Any:
    """Makes strata take PyTorch's tensors for the device's, and returns what keeps their order."""
    device = PyTorch()
    _torch_cuda.cuda = device
    return device.in_order()
