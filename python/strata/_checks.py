"""Checks and converts numbers that scripts pass."""

from __future__ import annotations

import contextlib
import operator
from typing import Any

import numpy as np

from strata import errors

_SAMPLES_MAX = 2**32 - 1


def whole(name: str, value: object, least: int) -> int:
    """Returns a number as int. Raises `errors.InvalidArgument` naming it if it is not an integer,
    or too small."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= least:
        return int(value)
    raise errors.InvalidArgument(f"{name}: {value!r}, must be a whole number of at least {least}")


def samples(name: str, value: object) -> int:
    """Returns the number of samples of a gradient's mean as int: 0 if a rank has none."""
    with contextlib.suppress(AttributeError, TypeError):
        value = operator.index(value)  # type: ignore[arg-type]  # as PyTorch's sums of masks are
    number = whole(name, value, 0)
    if number > _SAMPLES_MAX:
        raise errors.InvalidArgument(f"{name}: {number}, must be at most {_SAMPLES_MAX}")
    return number


def real(name: str, value: Any) -> float:
    """Returns a number as float. Raises `errors.InvalidArgument` naming it if it is not a
    number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise errors.InvalidArgument(f"{name}: {value!r} is no number") from None
