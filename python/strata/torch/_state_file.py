"""A rank's state as bytes: a safetensors file with named tensors, and the rest as JSON in its
metadata. Unlike a pickle, it contains no code."""

from __future__ import annotations

import collections
import json
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from strata import errors

FORMAT = "strata-rank-state-1"
_CODES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_DTYPES = {code: dtype for dtype, code in _CODES.items()}


class _Writer:
    """Splits a tree of values: tensors by their paths, and the rest."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}

    def plain(self, value: Any, place: str) -> Any:
        """Returns a value as JSON; a value that JSON does not support becomes an object with one
        name."""
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if isinstance(value, float) and not isinstance(value, np.generic):
            return float(value) if math.isfinite(value) else {"float": repr(float(value))}
        if isinstance(value, Tensor):
            return {"tensor": self._add(value, place)}
        if isinstance(value, np.ndarray):
            return {"array": self._add_array(value, place)}
        if isinstance(value, np.generic):
            return self.plain(value.item(), place)
        if kind is bytes:
            return {"bytes": self._add(torch.tensor(list(value), dtype=torch.uint8), place)}
        if kind is list:
            return [self.plain(one, f"{place}/{i}") for i, one in enumerate(value)]
        if isinstance(value, tuple):
            return {"tuple": [self.plain(one, f"{place}/{i}") for i, one in enumerate(value)]}
        if kind in (dict, collections.OrderedDict, collections.defaultdict, collections.Counter):
            name = "counter" if kind is collections.Counter else "dict"
            return {name: [self._pair(key, one, place) for key, one in value.items()]}
        raise errors.InvalidArgument(
            f"checkpoint: {place}: a {kind.__name__} cannot be kept: numbers, texts, tensors,"
            " arrays, and lists and dicts of them can"
        )

    def _pair(self, key: Any, value: Any, place: str) -> list[Any]:
        return [self.plain(key, place), self.plain(value, f"{place}/{key}")]

    def _add(self, tensor: Tensor, place: str) -> str:
        if tensor.layout != torch.strided or tensor.dtype not in _CODES or tensor.is_quantized:
            raise errors.InvalidArgument(
                f"checkpoint: {place}: a tensor of {tensor.dtype}, {tensor.layout}, cannot be kept"
            )
        while place in self.tensors:  # keys 1 and "1"
            place += "'"
        self.tensors[place] = tensor.detach().cpu()
        return place

    def _add_array(self, array: np.ndarray[Any, Any], place: str) -> str:
        if array.dtype == np.uint32:  # which PyTorch has had for a short time only
            array = array.astype(np.int64)
        try:
            tensor = torch.from_numpy(np.array(array))
        except TypeError:
            raise errors.InvalidArgument(
                f"checkpoint: {place}: an array of {array.dtype} cannot be kept"
            ) from None
        return self._add(tensor, place)


def encode(tree: dict[str, Any]) -> bytes:
    """Returns a tree of dicts, lists, tuples, numbers, texts, tensors and arrays as bytes.

    Raises `errors.InvalidArgument` naming what cannot be kept.
    """
    writer = _Writer()
    text = json.dumps(writer.plain(tree, "state"), separators=(",", ":"))
    header: dict[str, Any] = {"__metadata__": {"format": FORMAT, "state": text}}
    values, end = [], 0
    for name, tensor in writer.tensors.items():
        flat = tensor.reshape(-1).view(torch.uint8).numpy()
        header[name] = {
            "dtype": _CODES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [end, end + flat.size],
        }
        values.append(flat.data)
        end += flat.size
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    return b"".join([len(head).to_bytes(8, "little"), head, *values])


class _Reader:
    """Rebuilds a tree."""

    def __init__(self, header: dict[str, Any], values: np.ndarray[Any, Any]) -> None:
        self._header = header
        self._values = values

    def value(self, plain: Any) -> Any:
        if isinstance(plain, list):
            return [self.value(one) for one in plain]
        if not isinstance(plain, dict):
            return plain
        ((kind, what),) = plain.items()
        if kind == "float":
            return float(what)
        if kind == "tensor":
            return self._tensor(what)
        if kind == "array":
            return self._tensor(what).numpy()
        if kind == "bytes":
            return self._tensor(what).numpy().tobytes()
        if kind == "tuple":
            return tuple(self.value(one) for one in what)
        pairs = [(self.value(key), self.value(one)) for key, one in what]
        return collections.Counter(dict(pairs)) if kind == "counter" else dict(pairs)

    def _tensor(self, name: str) -> Tensor:
        entry = self._header[name]
        begin, end = entry["data_offsets"]
        dtype = _DTYPES[entry["dtype"]]
        if begin == end:
            return torch.zeros(entry["shape"], dtype=dtype)
        return torch.from_numpy(self._values[begin:end].copy()).view(dtype).reshape(entry["shape"])


def decode(content: bytes, name: str) -> dict[str, Any]:
    """Returns the tree that `encode` has made bytes of; arrays of uint32 are int64.

    Raises `errors.InvalidArgument` naming the content as `name`, where this version does not write
    such.
    """
    try:
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
        metadata = header["__metadata__"]
        if metadata["format"] != FORMAT:
            raise errors.InvalidArgument(f"{name}: has format {metadata['format']}, not {FORMAT}")
        values = np.frombuffer(content, np.uint8, offset=8 + length)
        tree = _Reader(header, values).value(json.loads(metadata["state"]))
        assert isinstance(tree, dict)
        return tree
    except errors.InvalidArgument:
        raise
    except (AssertionError, AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise errors.InvalidArgument(f"{name}: is no state of a rank ({error})") from None
