"""Tables of rows: embeddings by id, each row with its optimizer's state.

A row has its initial values until its first update; until then it takes no memory. Ids are whole
numbers from 0 to 2^63 - 1, in any order and with any gaps.
"""

from __future__ import annotations

import ctypes
import math
import os
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from strata import _checks, _library, errors, optimizers

_NAME_BYTES_MAX = 256
_DIM_MAX = 4096


@dataclass(frozen=True)
class Uniform:
    """Initial values in [-scale, scale)."""

    scale: float = 0.01


@dataclass(frozen=True)
class Normal:
    """Initial values of mean 0 and standard deviation `scale`; none is beyond 6 of them."""

    scale: float = 1.0


@dataclass(frozen=True)
class Constant:
    """All initial values are `value`."""

    value: float = 0.0


class RowOptimizer:
    """How the rows of a table are updated: use one of those below.

    Only rows with a gradient change: others do not decay, and their moments stay.

    - `lr`: the learning rate, at least 0. It may be changed between steps. None: that of the
      wrapped PyTorch optimizer's group which has the table's parameter.
    - `weight_decay`: times the weight, added to the gradient.
    """

    _kind: int

    def __init__(self, lr: float | None, weight_decay: float) -> None:
        self.lr = lr
        self.weight_decay = weight_decay

    def _constants(self) -> dict[str, float]:
        return {"weight_decay": self.weight_decay}

    def __repr__(self) -> str:
        constants = ", ".join(f"{name}={value!r}" for name, value in self._constants().items())
        return f"{type(self).__name__}(lr={self.lr!r}, {constants})"


class RowSGD(RowOptimizer):
    """Stochastic gradient descent."""

    _kind = _library.ROW_SGD

    def __init__(self, lr: float | None = None, *, weight_decay: float = 0.0) -> None:
        super().__init__(lr, weight_decay)


class RowAdagrad(RowOptimizer):
    """Adagrad (Duchi, Hazan & Singer 2011), as PyTorch's.

    - `epsilon`: is added to the root, above 0.
    - `initial_accumulator`: the sum of squares of a new row, at least 0.
    """

    _kind = _library.ROW_ADAGRAD

    def __init__(
        self,
        lr: float | None = None,
        *,
        epsilon: float = 1e-10,
        initial_accumulator: float = 0.0,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(lr, weight_decay)
        self.epsilon = epsilon
        self.initial_accumulator = initial_accumulator

    def _constants(self) -> dict[str, float]:
        return {
            "epsilon": self.epsilon,
            "initial_accumulator": self.initial_accumulator,
            **super()._constants(),
        }


class RowwiseAdagrad(RowAdagrad):
    """Adagrad with one accumulator for each row, the sum of its mean squared gradients, as
    FBGEMM's. A row has 4 bytes of state."""

    _kind = _library.ROW_ROWWISE_ADAGRAD


class RowAdam(RowOptimizer):
    """Adam (Kingma & Ba 2015) of rows with a gradient alone, as PyTorch's SparseAdam.

    - `beta1`, `beta2`: the decays of the moments, at least 0 and below 1.
    - `epsilon`: is added to the root, above 0.
    """

    _kind = _library.ROW_ADAM

    def __init__(
        self,
        lr: float | None = None,
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(lr, weight_decay)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def _constants(self) -> dict[str, float]:
        moments = {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}
        return {**moments, **super()._constants()}


class RowFtrl(RowOptimizer):
    """FTRL-Proximal (McMahan et al. 2013, "Ad Click Prediction", algorithm 1), in a form that keeps
    the weight when the rate changes, and begins with the initial values.

    - `l1`, `l2`: the regularization, at least 0. With `l1`, weights become exactly 0.
    - `beta`: above 0.
    - `initial_accumulator`: the sum of squares of a new row, at least 0.
    """

    _kind = _library.ROW_FTRL

    def __init__(
        self,
        lr: float | None = None,
        *,
        l1: float = 0.0,
        l2: float = 0.0,
        beta: float = 1.0,
        initial_accumulator: float = 0.0,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(lr, weight_decay)
        self.l1 = l1
        self.l2 = l2
        self.beta = beta
        self.initial_accumulator = initial_accumulator

    def _constants(self) -> dict[str, float]:
        return {
            "l1": self.l1,
            "l2": self.l2,
            "beta": self.beta,
            "initial_accumulator": self.initial_accumulator,
            **super()._constants(),
        }


_INITIAL = {
    Uniform: _library.UNIFORM,
    Normal: _library.NORMAL,
    Constant: _library.CONSTANT,
}


def _address(array: Any) -> int:
    return int(array.ctypes.data)


class Table:
    """A table in this process, or, once it has joined a job, on the job's servers. Threads: one at
    a time.

    - `name`: 1 to 256 bytes; no other table of the model has it.
    - `dim`: weights in a row, 1 to 4096.
    - `capacity`: as many rows are sure to be stored, and up to a fifth more. A further row that is
      trained is refused: it keeps its initial values.
    - `seed`: of the initial values; None: $STRATA_SEED, which differs between the runs of a
      comparison, else 1. Tables with different names have different values all the same.

    Raises `errors.InvalidArgument` naming the table and the field.
    """

    def __init__(
        self,
        name: str,
        dim: int,
        *,
        capacity: int,
        optimizer: RowOptimizer | None = None,
        init: Uniform | Normal | Constant | None = None,
        seed: int | None = None,
    ) -> None:
        if not isinstance(name, str) or not 1 <= len(name.encode()) <= _NAME_BYTES_MAX:
            raise errors.InvalidArgument(
                f"table: name: {name!r} is not a text of 1 to {_NAME_BYTES_MAX} bytes"
            )
        what = f'table "{name}"'
        optimizer = RowwiseAdagrad() if optimizer is None else optimizer
        if not isinstance(optimizer, RowOptimizer):
            hint = ""
            if isinstance(optimizer, optimizers.Optimizer):
                hint = "; rows have their own"
            raise errors.InvalidArgument(
                f"{what}: optimizer: {type(optimizer).__name__} is none of RowSGD, RowAdagrad,"
                f" RowwiseAdagrad, RowAdam, RowFtrl{hint}"
            )
        init = Uniform() if init is None else init
        if type(init) not in _INITIAL:
            raise errors.InvalidArgument(
                f"{what}: init: {type(init).__name__} is none of Uniform, Normal, Constant"
            )
        if seed is None:
            text = os.environ.get("STRATA_SEED", "1")
            if not text.isdecimal():
                raise errors.InvalidArgument(f"STRATA_SEED: {text!r} is not a whole number")
            seed = int(text)
        self.name = name
        self.dim = _checks.whole(f"{what}: dim", dim, 1)
        self.capacity = _checks.whole(f"{what}: capacity", capacity, 1)
        if self.dim > _DIM_MAX:
            raise errors.InvalidArgument(f"{what}: dim: {dim} is not in 1 to {_DIM_MAX}")
        if self.capacity >= 2**63:
            raise errors.InvalidArgument(f"{what}: capacity: {capacity} is too large")
        self.optimizer = optimizer
        self.init = init
        self.seed = _checks.whole(f"{what}: seed", seed, 0)
        self._handle = ctypes.c_void_p()
        self._client: Any = None
        self._create()

    def _create(self) -> None:
        scale = self.init.value if isinstance(self.init, Constant) else self.init.scale
        constants = {
            name: _checks.real(f'table "{self.name}": optimizer: {name}', value)
            for name, value in self.optimizer._constants().items()
        }
        spec = _library.TableSpec(
            size=ctypes.sizeof(_library.TableSpec),
            name=self.name.encode(),
            columns=self.dim,
            capacity=self.capacity,
            # Tables of one job have the same rows only if they have the same name.
            seed=(self.seed ^ (zlib.crc32(self.name.encode()) << 32)) % 2**64,
            initial=_INITIAL[type(self.init)],
            initial_scale=_checks.real(f'table "{self.name}": init', scale),
            optimizer=self.optimizer._kind,
            **constants,
        )
        _library.check(_library.lib.strata_table_create(spec, ctypes.byref(self._handle)))

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle:
            _library.lib.strata_table_destroy(handle)
            handle.value = None

    def join(self, client: Any) -> None:
        """The servers of the client's job have the rows, from its start on.

        Raises `errors.OutOfOrder`: the table has stored rows, or has joined a job before.
        """
        _library.check(_library.lib.strata_join_table(client.handle, self._handle))
        self._client = client

    @property
    def has_joined(self) -> bool:
        """Whether the rows are on a job's servers, where nothing here can count or save them."""
        return self._client is not None

    def publish(self, lr: float, scale: float) -> None:
        """Within a step of the job, gives its servers the gradients that were pushed, times
        `scale`: sums over this rank's samples."""
        _library.check(_library.lib.strata_publish_rows(self._handle, lr, scale))

    def __len__(self) -> int:
        """The number of rows stored here."""
        return int(_library.lib.strata_table_rows(self._handle))

    @property
    def memory_bytes(self) -> int:
        """The bytes that stored rows and their index take."""
        return int(_library.lib.strata_table_bytes(self._handle))

    @property
    def state_columns(self) -> int:
        """The numbers of optimizer state in each row."""
        return int(_library.lib.strata_table_state_columns(self._handle))

    @property
    def steps(self) -> int:
        """The steps that the table has made."""
        return int(_library.lib.strata_table_steps(self._handle))

    def _distinct(self, ids: int, count: int, distinct: int, places: int) -> int:
        """Writes the distinct ids, ascending, and each id's place among them. Returns their number.
        All arrays are addresses of `count` int64."""
        found = ctypes.c_uint64()
        _library.check(
            _library.lib.strata_distinct_ids(
                self._handle, ids, count, distinct, places, ctypes.byref(found)
            )
        )
        return found.value

    def _want(self, ids: int, count: int) -> None:
        """Says which rows are looked up `_lookahead` steps after the next. `ids`: the address of
        `count` int64. No effect on a table in this process."""
        _library.check(_library.lib.strata_want_rows(self._handle, ids, count))

    @property
    def _lookahead(self) -> int:
        return int(_library.lib.strata_rows_lookahead(self._handle))

    def lookup(self, ids: Any) -> Any:
        """Returns the rows of a NumPy array of ids, [n] int64, in any order: [n, dim] fp32.

        Raises `errors.InvalidArgument` naming an id below 0.
        """
        ids = self._ids(ids)
        rows = np.empty((len(ids), self.dim), np.float32)
        self._lookup(_address(ids), len(ids), _address(rows))
        return rows

    def _ids(self, ids: Any) -> Any:
        array = np.asarray(ids)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise errors.InvalidArgument(
                f'table "{self.name}": ids: {array.dtype} of {array.ndim} dimensions, must be'
                " integers of one"
            )
        if array.size and int(array.max()) >= 2**63:
            raise errors.InvalidArgument(f'table "{self.name}": id {array.max()} is not below 2^63')
        return np.ascontiguousarray(array, np.int64)

    def _lookup(self, ids: int, count: int, to: int) -> None:
        """Writes the rows to `to`, an address of count x dim fp32. `ids`: an address of int64."""
        _library.check(_library.lib.strata_lookup_rows(self._handle, ids, count, to))

    def _take(self, ids: int, count: int, to: int) -> None:
        """The same for a step, whose rows may have come already."""
        _library.check(_library.lib.strata_take_rows(self._handle, ids, count, to))

    def _spread(
        self, bags: int, ends: int, bag_count: int, places: int, to: int, rows: int
    ) -> None:
        """Adds each bag, an address of bag_count x dim fp32, to those of the rows at `to` whose
        places it has: from the end of the bag before up to its own."""
        _library.check(
            _library.lib.strata_spread_bags(
                self._handle, bags, ends, bag_count, places, to, rows
            )
        )

    def _push(self, ids: int, count: int, gradients: int) -> None:
        """Adds gradients, an address of count x dim fp32, to this step's. `ids` ascend, each once.

        Raises `errors.Diverged` naming an id whose gradient is NaN or infinite.
        """
        _library.check(_library.lib.strata_push_rows(self._handle, ids, count, gradients))

    def forget(self) -> None:
        """Drops the gradients that were pushed since the last step."""
        _library.check(_library.lib.strata_forget_rows(self._handle))

    def step(self, lr: float) -> int:
        """Updates the rows that were pushed. Returns how many had no room."""
        counts = _library.RowCounts(size=ctypes.sizeof(_library.RowCounts))
        _library.check(_library.lib.strata_step_rows(self._handle, lr, counts))
        return int(counts.refused)

    def store(self, ids: Any, weights: Any, state: Any = None) -> int:
        """Stores rows with these values, NumPy arrays: ids [n] int64, ascending, each once; weights
        [n, dim] and state [n, state_columns] of fp32. Returns how many had no room.

        Raises `errors.InvalidArgument`: an array has another shape, or ids do not ascend.
        """
        ids = self._ids(ids)
        weights = np.ascontiguousarray(weights, np.float32)
        shapes = [("weights", weights, self.dim)]
        if state is not None:
            state = np.ascontiguousarray(state, np.float32)
            shapes.append(("state", state, self.state_columns))
        for what, array, columns in shapes:
            if array.shape != (len(ids), columns):
                raise errors.InvalidArgument(
                    f'table "{self.name}": {what} have the shape {tuple(array.shape)}, not'
                    f" {(len(ids), columns)}"
                )
        counts = _library.RowCounts(size=ctypes.sizeof(_library.RowCounts))
        _library.check(
            _library.lib.strata_store_rows(
                self._handle,
                _address(ids),
                len(ids),
                _address(weights),
                _address(state) if state is not None and state.size else None,
                counts,
            )
        )
        return int(counts.refused)

    def dump(self) -> dict[str, Any]:
        """Returns all stored rows: ids [n], ascending, weights [n, dim], state [n, state_columns],
        and the number of steps.

        Raises `errors.OutOfOrder`: the rows are on a job's servers."""
        if self.has_joined:
            raise errors.OutOfOrder(
                f'table "{self.name}": its rows are on the job\'s servers, which do not save them'
                " as yet"
            )
        count = len(self)
        found = ctypes.c_uint64()
        ids = np.empty(count, np.int64)
        state = np.empty((count, self.state_columns), np.float32)
        library = _library.lib
        _library.check(
            library.strata_stored_ids(self._handle, _address(ids), count, ctypes.byref(found))
        )
        _library.check(
            library.strata_read_row_state(self._handle, _address(ids), count, _address(state))
        )
        return {"ids": ids, "weights": self.lookup(ids), "state": state, "steps": self.steps}

    def load(self, dumped: dict[str, Any]) -> None:
        """Replaces all rows by those that `dump` returned.

        Raises `errors.InvalidArgument`: it is from a table of another dim or optimizer, or has more
        rows than this table has room for. The rows are then as before.
        """
        what = f'table "{self.name}"'
        if self.has_joined:
            raise errors.OutOfOrder(f"{what}: its rows are on the job's servers")
        missing = [key for key in ("ids", "weights", "state", "steps") if key not in dumped]
        if missing:
            raise errors.InvalidArgument(f"{what}: what is loaded has no {missing[0]}")
        steps = _checks.whole(f"{what}: steps", dumped["steps"], 0)
        before, self._handle = self._handle, ctypes.c_void_p()
        try:
            self._create()
            _library.check(_library.lib.strata_set_table_steps(self._handle, steps))
            refused = self.store(dumped["ids"], dumped["weights"], dumped["state"])
            if refused:
                raise errors.InvalidArgument(
                    f"{what}: {refused} of {len(dumped['ids'])} rows that are loaded have no room:"
                    f" capacity is {self.capacity}"
                )
        except BaseException:
            before, self._handle = self._handle, before
            raise
        finally:
            _library.lib.strata_table_destroy(before)

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in self.__dict__.items() if name != "_handle"}
        return {**kept, "rows": self.dump()}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        rows = kept.pop("rows")
        self.__dict__.update(kept)
        self._handle = ctypes.c_void_p()
        self._create()
        self.load(rows)


def check_rate(table: str, lr: float) -> float:
    """Returns a learning rate. Raises `errors.InvalidArgument` naming the table if it is negative,
    infinite or no number."""
    rate = _checks.real(f'table "{table}": lr', lr)
    if not 0 <= rate < math.inf:
        raise errors.InvalidArgument(f'table "{table}": lr: {lr!r} is not at least 0 and finite')
    return rate
