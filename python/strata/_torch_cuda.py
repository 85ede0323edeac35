"""The calls of PyTorch that need CUDA. Tests on a device that is none put their own in the place of
`cuda`."""

from __future__ import annotations

from typing import Any

# The library's number for CUDA's default stream, whose own number, 0, means none.
DEFAULT_STREAM = 1


class Interface:
    """Memory of a GPU, flat, as PyTorch and CuPy take it without a copy."""

    def __init__(self, address: int, elements: int) -> None:
        self.__cuda_array_interface__ = {
            "data": (address, False),
            "shape": (elements,),
            "typestr": "<f4",
            "version": 3,
        }


class Cuda:
    """PyTorch's tensors and streams on CUDA devices."""

    def holds(self, tensor: Any) -> bool:
        """Whether the tensor lies on a CUDA device."""
        return bool(tensor.is_cuda)

    def number(self, tensor: Any) -> int:
        """Returns the device that the tensor lies on."""
        return int(tensor.device.index)

    def stream(self, number: int) -> int:
        """Returns the stream that PyTorch computes in now, on a device."""
        import torch

        stream: int = torch.cuda.current_stream(number).cuda_stream
        return stream or DEFAULT_STREAM

    def tensor_at(self, address: int, elements: int, number: int) -> Any:
        """Returns memory of a device as a flat tensor of fp32."""
        import torch

        return torch.as_tensor(Interface(address, elements), device=f"cuda:{number}")


cuda = Cuda()
