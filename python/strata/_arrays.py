"""Arrays of any library as memory: where their elements lie, of which type, and in which order.

Arrays are taken by what they offer: the buffer protocol or `__array_interface__` (NumPy),
`__dlpack__` (JAX, CuPy, TensorFlow and others), or PyTorch's own methods; lists of numbers are
copied.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from strata import _library, _torch_cuda, errors

_DTYPES = {
    np.dtype(np.float32): _library.FLOAT32,
    np.dtype(np.float64): _library.FLOAT64,
    np.dtype(np.float16): _library.FLOAT16,
}


_CUDA_IN_DLPACK = (2, 13)  # DLDeviceType: kDLCUDA, kDLCUDAManaged


@dataclass
class Memory:
    """The elements of an array in consecutive memory."""

    address: int
    dtype: int
    shape: tuple[int, ...]
    owner: object
    """What keeps the memory alive."""


def is_torch(array: object) -> bool:
    """Returns whether it is a PyTorch tensor, without importing PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def is_on_device(array: Any) -> bool:
    """Returns whether an array is on a CUDA device."""
    if is_torch(array):
        return _torch_cuda.cuda.holds(array)
    if hasattr(array, "__cuda_array_interface__"):
        return True
    if not hasattr(array, "__dlpack_device__"):
        return False
    return int(array.__dlpack_device__()[0]) in _CUDA_IN_DLPACK


def _memory_of_torch(name: str, tensor: Any) -> Memory:
    import torch

    if tensor.device.type != "cpu":
        raise errors.InvalidArgument(
            f'"{name}": lies on {tensor.device}, but the job computes on CPUs (device: CPU)'
        )
    if tensor.layout != torch.strided:
        raise errors.InvalidArgument(f'"{name}": is sparse ({tensor.layout}); gradients are dense')
    dtypes = {
        torch.float32: _library.FLOAT32,
        torch.float64: _library.FLOAT64,
        torch.float16: _library.FLOAT16,
        torch.bfloat16: _library.BFLOAT16,
    }
    if tensor.dtype not in dtypes:
        raise errors.InvalidArgument(
            f'"{name}": has elements of type {tensor.dtype}, not of floats'
        )
    dense = tensor.detach().contiguous()
    return Memory(dense.data_ptr(), dtypes[dense.dtype], tuple(dense.shape), dense)


def _as_numpy(name: str, array: Any) -> np.ndarray[Any, Any]:
    if not isinstance(array, np.ndarray) and is_on_device(array):
        raise errors.InvalidArgument(
            f'"{name}": lies on a GPU, but the job computes on CPUs (device: CPU)'
        )
    if hasattr(array, "__array_interface__") or not hasattr(array, "__dlpack__"):
        try:
            return np.asarray(array)
        except (TypeError, ValueError) as error:
            raise errors.InvalidArgument(f'"{name}": is no array: {error}') from None
    try:
        return np.from_dlpack(array)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise errors.InvalidArgument(f'"{name}": DLPack gives no host array: {error}') from None


def memory(name: str, array: object) -> Memory:
    """Returns where the elements lie; of an array that is not dense, where a copy's do.

    Raises `errors.InvalidArgument` naming the array: not an array of floats, or not on the host.
    """
    if is_torch(array):
        return _memory_of_torch(name, array)
    found = _as_numpy(name, array)
    if found.dtype not in _DTYPES:
        if isinstance(array, (list, tuple, int, float)) and found.dtype.kind in "iu":
            found = found.astype(np.float64)
        else:
            raise errors.InvalidArgument(
                f'"{name}": has elements of type {found.dtype}, not float32, float64, float16 or'
                " bfloat16"
            )
    dense = np.ascontiguousarray(found).reshape(found.shape)
    return Memory(dense.ctypes.data, _DTYPES[dense.dtype], dense.shape, dense)


def floats_at(address: int, count: int) -> np.ndarray[Any, Any]:
    """Returns the fp32 memory at an address."""
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))


def view(address: int, shape: tuple[int, ...], like: object) -> Any:
    """Returns the fp32 memory at an address as an array of the kind of `like`: of PyTorch or NumPy.

    NumPy's is read-only; a tensor of PyTorch cannot be, and must not be written to.
    """
    count = int(np.prod(shape, dtype=np.int64))
    if is_torch(like):
        import torch

        buffer = (ctypes.c_float * count).from_address(address)
        return torch.frombuffer(buffer, dtype=torch.float32).view(shape)
    array = floats_at(address, count).reshape(shape)
    array.flags.writeable = False
    return array


def write_floats(address: int, memory: Memory) -> None:
    """Writes an array's elements to an address, as fp32."""
    owner: Any = memory.owner
    source = owner.float().numpy() if is_torch(owner) else owner
    count = int(np.prod(memory.shape, dtype=np.int64))
    np.copyto(floats_at(address, count), np.asarray(source, dtype=np.float32).reshape(-1))


def is_writable(array: object) -> bool:
    """Returns whether `copy_into` can write to it."""
    return is_torch(array) or (isinstance(array, np.ndarray) and array.flags.writeable)


def copy_into(array: Any, values: Any) -> None:
    """Writes values over an array's own; PyTorch does not note it for autograd."""
    if is_torch(array):
        import torch

        with torch.no_grad():
            array.copy_(values)
    else:
        np.copyto(array, values)


def copy_of(array: Any) -> Any:
    """Returns a copy in its own memory."""
    return array.clone() if is_torch(array) else np.array(array)
