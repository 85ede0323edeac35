"""PyTorch calls that need CUDA. Tests with a fake device replace `cuda`."""

from __future__ import annotations

from typing import Any

# The library's number for CUDA's default stream, whose own number, 0, means none.
DEFAULT_STREAM = 1


class Interface:
    """Flat GPU memory, which PyTorch and CuPy use without a copy."""

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
        """Returns whether the tensor is on a CUDA device."""
        return bool(tensor.is_cuda)

    def number(self, tensor: Any) -> int:
        """Returns the device of the tensor."""
        return int(tensor.device.index)

    def stream(self, number: int) -> int:
        """Returns PyTorch's current stream on a device."""
        import torch

        stream: int = torch.cuda.current_stream(number).cuda_stream
        return stream or DEFAULT_STREAM

    def tensor_at(self, address: int, elements: int, number: int) -> Any:
        """Returns memory of a device as a flat tensor of fp32."""
        import torch

        return torch.as_tensor(Interface(address, elements), device=f"cuda:{number}")


cuda = Cuda()
