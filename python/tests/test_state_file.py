"""What ranks give to checkpoints: written without code, and read as it was."""

from __future__ import annotations

import collections
import json
import math
import random
from typing import Any

import numpy as np
import pytest
import strata
import strata.torch as st
import torch
from strata.torch import _state_file


def again(value: Any) -> Any:
    return _state_file.decode(_state_file.encode({"it": value}), "a state")["it"]


def is_same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and np.array_equal(one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return (
            type(one) is type(other)
            and len(one) == len(other)
            and all(is_same(a, b) for a, b in zip(one, other))
        )
    return type(one) is type(other) and (one == other or one != one and other != other)


VALUES: dict[str, Any] = {
    "numbers": [0, -(2**70), True, None, 0.1, 1e-310, math.inf, -math.inf, math.nan, "a/ü"],
    "containers": {"a": (1, [2.5, ()]), 3: {}, None: {"dict": 1, "tensor": "x"}},
    "tensors": {
        str(dtype): torch.arange(-3, 3).reshape(2, 3).to(dtype)
        for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16)
    },
    "whole": {
        str(dtype): torch.arange(6).reshape(3, 2).to(dtype)
        for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
    },
    "shapes": [torch.tensor(1.5), torch.zeros(0, 3), torch.arange(6.0).reshape(2, 3).t()],
    "keys": {1: torch.zeros(1), "1": torch.ones(1), "a": {"b": torch.ones(2)}, "a/b": "x"},
    "nan": torch.tensor([math.nan, -0.0]).view(torch.int32),
    "arrays": [np.arange(4.0), np.array(3, "i2")],
    "bytes": b"\0\xff",
    "python": random.getstate(),
}


@pytest.mark.parametrize("what", VALUES)
def test_what_is_read_is_what_was_written(what: str) -> None:
    assert is_same(VALUES[what], again(VALUES[what]))


def test_numpys_numbers_and_counters_become_plain_ones_and_counters() -> None:
    assert is_same(again([np.float64(0.5), np.int64(3), np.bool_(True)]), [0.5, 3, True])
    counter = again(collections.Counter([3, 3, 5]))
    assert type(counter) is collections.Counter and counter[3] == 2 and counter[4] == 0


def test_it_is_a_safetensors_file() -> None:
    content = _state_file.encode({"w": torch.tensor([1.0, 2.0]), "n": math.inf})
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    # Python's own module writes and reads numbers that JSON does not have.
    assert json.loads(header["__metadata__"]["state"], parse_constant=pytest.fail)
    assert header["state/w"] == {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    assert np.frombuffer(content, "<f4", offset=8 + length).tolist() == [1, 2]


REFUSED: dict[str, tuple[Any, str]] = {
    "code": (lambda: 0, "state/it: a function cannot be kept"),
    "object": ({"a": [object()]}, "state/it/a/0: a object cannot be kept"),
    "set": ({1, 2}, "state/it: a set cannot be kept"),
    "complex": (torch.zeros(2, dtype=torch.complex64), "a tensor of torch.complex64"),
    "sparse": (torch.zeros(2, 2).to_sparse(), "torch.sparse_coo, cannot be kept"),
    "texts": (np.array(["a"]), "an array of <U1 cannot be kept"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_kept_is_named(what: str) -> None:
    value, text = REFUSED[what]
    with pytest.raises(strata.InvalidArgument, match="checkpoint: state/it") as raised:
        again(value)
    assert text in str(raised.value) and "\n" not in str(raised.value)


def test_content_of_another_kind_is_refused_by_name() -> None:
    content = _state_file.encode({"w": torch.zeros(2)})
    for other in (b"", content[:7], content[:30], content[:-1], content[:8] + b"x" + content[9:]):
        with pytest.raises(strata.InvalidArgument, match="^that: is no state of a rank"):
            _state_file.decode(other, "that")
    with pytest.raises(strata.InvalidArgument, match="that: has format strata-rank-state-2"):
        _state_file.decode(content.replace(b"state-1", b"state-2"), "that")


def test_only_objects_with_states_are_kept_one_under_each_name() -> None:
    with pytest.raises(strata.InvalidArgument, match="keep: it: a int has no state_dict"):
        st.keep(it=3)
    model = torch.nn.Linear(1, 1)
    st.keep(it=model)
    st.keep(it=model)
    with pytest.raises(strata.InvalidArgument, match="keep: it: another object is kept"):
        st.keep(it=torch.nn.Linear(1, 1))
