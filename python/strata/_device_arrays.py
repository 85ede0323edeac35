"""Arrays on the rank's GPU as memory, and memory there as arrays.

Arrays are taken by what they offer: `__cuda_array_interface__` (CuPy, Numba and others), DLPack of
a CUDA device (JAX), or PyTorch's own methods.
"""

from __future__ import annotations

import ctypes
import math
import sys
from dataclasses import dataclass
from typing import Any

from strata import _arrays, _torch_cuda, errors

_FLOAT = 2  # DLDataTypeCode


@dataclass
class DeviceMemory:
    """The elements of an fp32 array in consecutive memory."""

    address: int
    shape: tuple[int, ...]
    stream: int | None
    """The stream after whose work they are there; None: they are."""
    owner: object
    """What keeps the memory alive."""

    @property
    def bytes(self) -> int:
        return 4 * math.prod(self.shape)


class DeviceArray:
    """Weights or mean gradients on the rank's GPU: fp32, dense, not to be written to.

    CuPy, Numba and PyTorch take it without a copy, by `__cuda_array_interface__`.
    """

    dtype = "float32"

    def __init__(self, address: int, shape: tuple[int, ...], stream: int | None) -> None:
        self.shape = shape
        self.address = address
        self.__cuda_array_interface__ = {
            "data": (address, False),
            "shape": shape,
            "typestr": "<f4",
            "strides": None,
            "stream": stream,
            "version": 3,
        }

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, address={self.address:#x})"


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("dimensions", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def is_cupy(array: object) -> bool:
    """Returns whether it is a CuPy array, without importing CuPy."""
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(array, cupy.ndarray)


def number_of(array: Any) -> int | None:
    """Returns the device of an array; None: it does not say."""
    if _arrays.is_torch(array):
        return _torch_cuda.cuda.number(array)
    if is_cupy(array):
        return int(array.device.id)
    if hasattr(array, "__dlpack_device__"):
        return int(array.__dlpack_device__()[1])
    return None


def scaled(name: str, array: Any, factor: float) -> Any:
    """Returns an array times a number, in fp32, by the array's own multiplication."""
    if _arrays.is_torch(array):
        array = array.detach().float()
    elif is_cupy(array):
        array = array.astype("f4", copy=False)
    try:
        return array if factor == 1 else array * factor
    except TypeError as error:
        raise errors.InvalidArgument(
            f'"{name}": samples: {factor:g}, but on a GPU only an array that can be multiplied may'
            f" count more than once: {error}"
        ) from None


def memory(name: str, array: Any, stream: int) -> DeviceMemory:
    """Returns where the elements lie, for use in any stream; producers of DLPack have them ready in
    `stream`.

    Raises `errors.InvalidArgument` naming the array: not dense, or not of fp32, unless its library
    is PyTorch or CuPy, which make such a copy.
    """
    if _arrays.is_torch(array):
        return _memory_of_torch(name, array)
    if is_cupy(array):
        array = sys.modules["cupy"].ascontiguousarray(array, "f4")
    if hasattr(array, "__cuda_array_interface__"):
        return _memory_of_interface(name, array)
    return _memory_of_dlpack(name, array, stream)


def _memory_of_torch(name: str, tensor: Any) -> DeviceMemory:
    if not tensor.is_floating_point() or str(tensor.layout) != "torch.strided":
        raise errors.InvalidArgument(
            f'"{name}": has elements of type {tensor.dtype} ({tensor.layout}), not dense floats'
        )
    dense = tensor.detach().float().contiguous()
    stream = _torch_cuda.cuda.stream(_torch_cuda.cuda.number(tensor))
    return DeviceMemory(dense.data_ptr(), tuple(dense.shape), stream, dense)


def _check(name: str, typestr: str, shape: tuple[int, ...], strides: Any, item: int) -> None:
    if typestr not in ("<f4", "=f4"):
        raise errors.InvalidArgument(
            f'"{name}": has elements of type {typestr} on a GPU, not float32'
        )
    if strides is None:
        return
    expected = item
    for extent, stride in zip(reversed(shape), reversed(tuple(strides))):
        if extent > 1 and stride != expected:
            raise errors.InvalidArgument(
                f'"{name}": its elements do not lie one after the other on the GPU (strides'
                f" {tuple(strides)})"
            )
        expected *= extent


def _memory_of_interface(name: str, array: Any) -> DeviceMemory:
    interface = array.__cuda_array_interface__
    shape = tuple(interface["shape"])
    if interface.get("mask") is not None:
        raise errors.InvalidArgument(f'"{name}": has a mask')
    _check(name, interface["typestr"], shape, interface.get("strides"), 4)
    stream = interface.get("stream")
    if stream == 0:
        raise errors.InvalidArgument(
            f'"{name}": __cuda_array_interface__ says stream 0, which stands for none: 1 is the'
            " default stream"
        )
    return DeviceMemory(interface["data"][0], shape, stream, array)


def _memory_of_dlpack(name: str, array: Any, stream: int) -> DeviceMemory:
    try:
        capsule = array.__dlpack__(stream=stream)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise errors.InvalidArgument(f'"{name}": DLPack gives no array: {error}') from None
    # The capsule is only looked at: it gives the memory back when it goes.
    tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    shape = tuple(tensor.shape[: tensor.dimensions])
    kind = f"{tensor.code}, of {tensor.bits} bits times {tensor.lanes}"
    is_fp32 = (tensor.code, tensor.bits, tensor.lanes) == (_FLOAT, 32, 1)
    strides = tensor.strides[: tensor.dimensions] if tensor.strides else None
    _check(name, "<f4" if is_fp32 else kind, shape, strides, 1)
    return DeviceMemory(tensor.data + tensor.byte_offset, shape, stream, (array, capsule))


def is_writable(array: Any) -> bool:
    """Returns whether `copy_into` can write to it."""
    if _arrays.is_torch(array):
        return True
    interface = getattr(array, "__cuda_array_interface__", None)
    return interface is not None and not interface["data"][1]


def as_array(found: DeviceArray, like: Any, number: int) -> Any:
    """Returns device memory as an array of the same library as `like`, without a copy."""
    if _arrays.is_torch(like):
        flat = _torch_cuda.cuda.tensor_at(found.address, math.prod(found.shape), number)
        return flat.view(found.shape)
    if is_cupy(like):
        return sys.modules["cupy"].asarray(found)
    return found
