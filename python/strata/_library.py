"""The client library, libstrata_client.so.1, in Python: its functions with their types, and its
error codes as exceptions."""

from __future__ import annotations

import ctypes
import os
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int32,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, NoReturn

from strata import errors
from strata._rank import process

# The version of strata_client.h that this package needs; an older library is refused.
ABI = 10
NAME = "libstrata_client.so.1"

INVALID_ARGUMENT, FAILED_PRECONDITION, NOT_FOUND, STOPPED = 1, 2, 3, 5
INTERRUPTED, NO_MORE_STEPS = 7, 8
FLOAT32, FLOAT64, FLOAT16, BFLOAT16 = range(4)
UNIFORM, NORMAL, CONSTANT = range(3)
ROW_SGD, ROW_ADAGRAD, ROW_ROWWISE_ADAGRAD, ROW_ADAM, ROW_FTRL = range(5)

WaitCheck = CFUNCTYPE(c_int, c_void_p)


class Tensor(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("shape", POINTER(c_uint64)),
        ("dimensions", c_uint32),
        ("lr_multiplier", c_float),
        ("decay_multiplier", c_float),
        ("averaged", c_int),
    ]


class Facts(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("samples_per_epoch", c_uint64),
        ("total_steps", c_uint64),
        ("takes_first_weights", c_int),
        ("optimizer", c_char_p),
        ("says_rates", c_int),
        ("can_resume", c_int),
        ("keeps_state", c_int),
        ("samples_per_rank", c_uint32),
        ("marks_absent", c_int),
    ]


class Report(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("first_step", c_uint64),
        ("end_step", c_uint64),
        ("samples", c_uint64),
        ("loss_sum", c_double),
        ("wall_s", c_double),
        ("trained_s", c_double),
        ("has_test", c_int),
        ("test_accuracy", c_double),
        ("test_loss", c_double),
        ("final", c_int),
        ("value_names", POINTER(c_char_p)),
        ("values", POINTER(c_double)),
        ("value_count", c_uint32),
        ("samples_per_epoch", c_uint64),
        ("epochs", c_uint32),
        ("local_steps", c_uint64),
        ("local_steps_total", c_uint64),
    ]


class StateItem(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("checksum", c_uint64),
        ("value", c_char_p),
    ]


class StepRanks(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("makes_it", c_int),
        ("rank", c_uint32),
        ("ranks", c_uint32),
        ("rank_steps_before", c_uint64),
    ]


class TableSpec(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("columns", c_uint32),
        ("capacity", c_uint64),
        ("seed", c_uint64),
        ("initial", c_int),
        ("initial_scale", c_float),
        ("optimizer", c_int),
        ("weight_decay", c_float),
        ("epsilon", c_float),
        ("initial_accumulator", c_float),
        ("beta1", c_float),
        ("beta2", c_float),
        ("l1", c_float),
        ("l2", c_float),
        ("beta", c_float),
    ]


class RowCounts(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("updated", c_uint64),
        ("stored", c_uint64),
        ("refused", c_uint64),
    ]


_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "strata_client_abi": (c_uint32, []),
    "strata_version": (c_char_p, []),
    "strata_error_text": (c_char_p, []),
    "strata_connect": (c_int, [c_char_p, POINTER(c_void_p)]),
    "strata_connect_alone": (c_int, [c_char_p, POINTER(c_void_p)]),
    "strata_close": (None, [c_void_p]),
    "strata_rank": (c_uint32, [c_void_p]),
    "strata_ranks": (c_uint32, [c_void_p]),
    "strata_local_ranks": (c_uint32, [c_void_p]),
    "strata_job_json": (c_char_p, [c_void_p]),
    "strata_run_dir": (c_char_p, [c_void_p]),
    "strata_register": (c_int, [c_void_p, POINTER(Tensor), POINTER(c_int32)]),
    "strata_allocate": (c_int, [c_void_p]),
    "strata_start": (c_int, [c_void_p, POINTER(Facts)]),
    "strata_goes_on": (c_int, [c_void_p]),
    "strata_first_step": (c_uint64, [c_void_p]),
    "strata_ranks_at": (c_int, [c_void_p, c_uint64, POINTER(StepRanks)]),
    "strata_ranks_at_if_known": (
        c_int,
        [c_void_p, c_uint64, POINTER(c_int), POINTER(StepRanks)],
    ),
    "strata_checkpoint_due": (c_int, [c_void_p]),
    "strata_give_state": (c_int, [c_void_p, c_char_p, c_size_t]),
    "strata_read_state": (c_int, [c_void_p, c_uint32, POINTER(c_void_p), POINTER(c_size_t)]),
    "strata_checksum": (c_uint64, [c_void_p, c_size_t]),
    "strata_send_state": (c_int, [c_void_p, c_uint64, POINTER(StateItem), c_uint32]),
    "strata_guard_weights": (c_int, [c_void_p]),
    "strata_gradients": (c_void_p, [c_void_p, c_int32]),
    "strata_accept_device": (c_int, [c_void_p]),
    "strata_device_index": (c_int32, [c_void_p]),
    "strata_compute_in": (c_int, [c_void_p, c_void_p]),
    "strata_device_stream": (c_int, [c_void_p, POINTER(c_void_p)]),
    "strata_copy": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_void_p]),
    "strata_device_memory": (c_int, [c_void_p, c_size_t, POINTER(c_void_p)]),
    "strata_publish": (c_int, [c_void_p, c_int32]),
    "strata_weights": (c_void_p, [c_void_p, c_int32]),
    "strata_begin_step": (c_int, [c_void_p, c_uint32]),
    "strata_begin_step_at": (c_int, [c_void_p, c_uint32, c_double]),
    "strata_wait": (c_int, [c_void_p, c_int32]),
    "strata_wait_all": (c_int, [c_void_p]),
    "strata_publish_values": (c_int, [c_void_p, c_int32, c_void_p, c_int, c_double]),
    "strata_read_weights": (c_int, [c_void_p, c_int32, c_void_p, c_int]),
    "strata_finish_step": (c_int, [c_void_p]),
    "strata_finish": (c_int, [c_void_p]),
    "strata_keep_weights": (c_int, [c_void_p]),
    "strata_finish_at_exit": (c_int, [c_void_p]),
    "strata_send_report": (c_int, [c_void_p, POINTER(Report)]),
    "strata_fail": (None, [c_void_p, c_char_p]),
    "strata_has_diverged": (None, [c_void_p]),
    "strata_error_has_diverged": (c_int, []),
    "strata_on_wait": (c_int, [c_void_p, WaitCheck, c_void_p]),
    "strata_table_create": (c_int, [POINTER(TableSpec), POINTER(c_void_p)]),
    "strata_table_destroy": (None, [c_void_p]),
    "strata_table_rows": (c_uint64, [c_void_p]),
    "strata_table_bytes": (c_uint64, [c_void_p]),
    "strata_table_state_columns": (c_uint32, [c_void_p]),
    "strata_table_steps": (c_uint64, [c_void_p]),
    "strata_distinct_ids": (
        c_int,
        [c_void_p, c_void_p, c_uint64, c_void_p, c_void_p, POINTER(c_uint64)],
    ),
    "strata_lookup_rows": (c_int, [c_void_p, c_void_p, c_uint64, c_void_p]),
    "strata_take_rows": (c_int, [c_void_p, c_void_p, c_uint64, c_void_p]),
    "strata_push_rows": (c_int, [c_void_p, c_void_p, c_uint64, c_void_p]),
    "strata_spread_bags": (
        c_int,
        [c_void_p, c_void_p, c_void_p, c_uint64, c_void_p, c_void_p, c_uint64],
    ),
    "strata_forget_rows": (c_int, [c_void_p]),
    "strata_step_rows": (c_int, [c_void_p, c_double, POINTER(RowCounts)]),
    "strata_join_table": (c_int, [c_void_p, c_void_p]),
    "strata_publish_rows": (c_int, [c_void_p, c_double, c_double]),
    "strata_want_rows": (c_int, [c_void_p, c_void_p, c_uint64]),
    "strata_rows_lookahead": (c_uint32, [c_void_p]),
    "strata_stored_ids": (c_int, [c_void_p, c_void_p, c_uint64, POINTER(c_uint64)]),
    "strata_read_row_state": (c_int, [c_void_p, c_void_p, c_uint64, c_void_p]),
    "strata_store_rows": (
        c_int,
        [c_void_p, c_void_p, c_uint64, c_void_p, c_void_p, POINTER(RowCounts)],
    ),
    "strata_set_table_steps": (c_int, [c_void_p, c_uint64]),
}


def _open() -> ctypes.CDLL:
    """Opens the library from $STRATA_CLIENT_LIBRARY, this package, or the system, in this order."""
    named = os.environ.get("STRATA_CLIENT_LIBRARY")
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_lib", NAME)
    path = named or (own if os.path.exists(own) else NAME)
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        hint = "" if named else "; $STRATA_CLIENT_LIBRARY says where it is"
        raise errors.LibraryMissing(f"the client library cannot be loaded: {error}{hint}") from None
    if not hasattr(library, "strata_client_abi"):
        raise errors.LibraryMissing(
            f"{path}: is no client library of Strata: it has no strata_client_abi"
        )
    library.strata_client_abi.restype = c_uint32
    abi = library.strata_client_abi()
    if abi < ABI:
        raise errors.LibraryMissing(f"{path}: has ABI {abi}, this package needs {ABI}")
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name, None)
        if function is None:
            raise errors.LibraryMissing(f"{path}: has no {name}, which this package needs")
        function.restype = result
        function.argtypes = arguments
    return library


lib = _open()


def version() -> str:
    """Returns the version of the client library, as "0.1.0"."""
    text: bytes = lib.strata_version()
    return text.decode()


def fail(code: int) -> NoReturn:
    """Raises the exception for the error code of the library's last call in this thread."""
    text = lib.strata_error_text().decode(errors="replace")
    if code == INTERRUPTED:
        interruption, process.interruption = process.interruption, None
        raise KeyboardInterrupt if interruption is None else interruption
    if code == NO_MORE_STEPS:
        raise errors.NoMoreSteps(
            f"{text.partition(':')[0]}: the script's loop is to end there, as strata.ElasticSampler"
            " and step_ranks say"
        )
    if code == STOPPED:
        raise errors.JobStopped(text)
    if code == INVALID_ARGUMENT and lib.strata_error_has_diverged():
        raise errors.Diverged(text)
    if code in (INVALID_ARGUMENT, NOT_FOUND):
        raise errors.InvalidArgument(text)
    if code == FAILED_PRECONDITION:
        raise errors.OutOfOrder(text)
    raise errors.StrataError(text)


def check(code: int) -> None:
    """Raises the exception for an error code; returns if there was no error."""
    if code:
        fail(code)
