"""Numbers that scripts give, as what they are taken for."""

from __future__ import annotations

from typing import Any

import numpy as np

from strata import errors


def whole(name: str, value: object, least: int) -> int:
    """Returns a number as int. Raises `errors.InvalidArgument` naming it where it is none, or too
    small."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= least:
        return int(value)
    raise errors.InvalidArgument(f"{name}: {value!r}, must be a whole number of at least {least}")


def real(name: str, value: Any) -> float:
    """Returns a number as float. Raises `errors.InvalidArgument` naming it where it is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise errors.InvalidArgument(f"{name}: {value!r} is no number") from None
