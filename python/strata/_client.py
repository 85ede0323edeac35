"""This rank's client: one per process, made by the first session, ended with the process.

How it ends: `finish` says that the rank is done; an exception that nobody caught, or `fail`, gives
the job its reason; and an interpreter that exits without either finishes (see `_lifetime`).
"""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections.abc import Callable, Generator
from typing import Any

from strata import _library, errors
from strata._library import check, lib
from strata._rank import process
from strata.views import StepRanks, drops_lost, is_elastic


def _signals() -> Generator[int, object, None]:
    """Runs Python's handlers of signals each time that it is asked, now and then within calls that
    block. Answers 1 where one raised something, which ends the call and is raised by it; else 0.

    A generator: Python runs handlers as soon as it enters a function, before a `try` in it begins,
    and what they raise would be lost.
    """
    answer = 0
    while True:
        try:
            yield answer
            for _ in range(2):  # handlers run between the steps of a loop, too
                time.sleep(0)
            answer = 0
        except GeneratorExit:
            raise
        except BaseException as error:
            process.interruption = error
            answer = 1


class Client:
    """A rank's side of its job. Tensors are numbers, in the order of their registration.

    Threads: any, one at a time. Errors: `errors.JobStopped` from every call that blocks, and
    `errors.OutOfOrder` from a forked process.
    """

    def __init__(self, launch: str | None = None, alone: str = "") -> None:
        """Joins the job whose launch file is named; without one, makes a job of this rank alone.

        `alone` is that job as protobuf text, with `exchange: NONE`.
        """
        self._handle = ctypes.c_void_p()
        handle = ctypes.byref(self._handle)
        if launch:
            check(lib.strata_connect(launch.encode(), handle))
        else:
            check(lib.strata_connect_alone(alone.encode(), handle))
        self.is_alone = not launch
        self.rank: int = lib.strata_rank(self._handle)
        self.ranks: int = lib.strata_ranks(self._handle)
        self.local_ranks: int = lib.strata_local_ranks(self._handle)
        self.job: dict[str, Any] = json.loads(lib.strata_job_json(self._handle))
        self.run_dir: str = lib.strata_run_dir(self._handle).decode()
        self.steps = 0  # that were finished, also those before a checkpoint
        self.first_step = 0  # that this process makes
        self.goes_on = bool(lib.strata_goes_on(self._handle))  # from a checkpoint
        # The job writes checkpoints, or goes on from one.
        self.has_checkpoints = "checkpoint" in self.job or self.goes_on
        # Nodes may join and leave while it trains.
        self.is_elastic = is_elastic(self.job)
        # It goes on without nodes that die.
        self.drops_lost = drops_lost(self.job)
        # Nodes may join that have nothing but the job's weights and the number of the step.
        self.takes_nodes = self.is_elastic and not self.drops_lost
        # A process of the job may begin with a step that is not the first.
        self.may_begin_later = self.has_checkpoints or self.is_elastic or "replace" in self.job
        self._last: StepRanks | None = None
        self._ends_at: int | None = None  # the first step that this rank is known not to make
        self.has_started = False
        self.in_step = False
        self.stepped_in = 0  # the thread that has made the last step
        self.is_open = True
        self.on_begin: Callable[[], None] = lambda: None
        # The library keeps the function's address, so this object must live as long.
        self._signals = _signals()
        next(self._signals)
        self._check = _library.WaitCheck(self._signals.send)
        check(lib.strata_on_wait(self._handle, self._check, None))
        self._process = os.getpid()

    @property
    def handle(self) -> ctypes.c_void_p:
        """The C client. Raises `errors.OutOfOrder` if it may not be used."""
        if self.is_open:
            return self._handle
        # A fork closes the child's.
        if self._process != os.getpid():
            raise errors.OutOfOrder(
                f"process {os.getpid()} has the session of process {self._process}, which forked: "
                "only that one may use it"
            )
        raise errors.OutOfOrder("the session is closed")

    def register(
        self,
        name: str,
        shape: tuple[int, ...],
        lr_multiplier: float = 1.0,
        decay_multiplier: float = 1.0,
        averaged: bool = False,
    ) -> int:
        extents = (ctypes.c_uint64 * max(1, len(shape)))(*shape)
        tensor = _library.Tensor(
            ctypes.sizeof(_library.Tensor),
            name.encode(),
            extents,
            len(shape),
            lr_multiplier,
            decay_multiplier,
            averaged,
        )
        index = ctypes.c_int32()
        check(lib.strata_register(self.handle, ctypes.byref(tensor), ctypes.byref(index)))
        return index.value

    def allocate(self) -> None:
        check(lib.strata_allocate(self.handle))

    def start(
        self,
        optimizer: str | None,
        says_rates: bool,
        samples_per_epoch: int = 0,
        total_steps: int = 0,
        can_resume: bool = False,
        keeps_state: bool = False,
        samples_per_rank: int = 0,
        marks_absent: bool = False,
    ) -> None:
        """Offers the weights and blocks until every rank has done so. All begin with rank 0's
        weights, or with those of the checkpoint from which the job resumes."""
        facts = _library.Facts(
            ctypes.sizeof(_library.Facts),
            samples_per_epoch,
            total_steps,
            1,
            None if optimizer is None else optimizer.encode(),
            says_rates,
            can_resume and self.may_begin_later,
            keeps_state and self.may_begin_later,
            samples_per_rank,
            marks_absent,
        )
        self._call(lib.strata_start, ctypes.byref(facts))
        self.first_step = self.steps = lib.strata_first_step(self.handle)
        self.has_started = True

    def step_ranks(self, step: int) -> StepRanks:
        """Returns the ranks of a step, which do not change from then on. Blocks while a change of
        the nodes is being agreed on that may take effect with it."""
        found = _library.StepRanks(ctypes.sizeof(_library.StepRanks))
        self._call(lib.strata_ranks_at, step, ctypes.byref(found))
        return self._note(step, found)

    def step_ranks_if_known(self, step: int) -> StepRanks | None:
        """Returns the same without blocking; None: not known yet."""
        found, known = _library.StepRanks(ctypes.sizeof(_library.StepRanks)), ctypes.c_int()
        places = ctypes.byref(known), ctypes.byref(found)
        self._call(lib.strata_ranks_at_if_known, step, *places)
        return self._note(step, found) if known.value else None

    def _note(self, step: int, found: _library.StepRanks) -> StepRanks:
        # Steps before the first one were others'.
        if not found.makes_it and step >= self.first_step:
            self._ends_at = step if self._ends_at is None else min(step, self._ends_at)
        return StepRanks(
            bool(found.makes_it), found.rank, found.ranks, found.rank_steps_before
        )

    @property
    def has_left(self) -> bool:
        """Whether this rank knows that it has made its last step, while the job goes on."""
        return self._ends_at is not None and self.steps >= self._ends_at

    def leads(self) -> bool:
        """Whether this rank's measurements are the job's: it is the first one of `last_ranks`."""
        if not self.is_elastic:
            return self.rank == 0
        return not self.has_left and self.last_ranks().rank == 0

    def last_ranks(self) -> StepRanks:
        """Returns the ranks of the last step; before the first step, of that one. If dead nodes are
        dropped, returns the ranks of the next step, without those that died in the last one. Valid
        also after `finish`, and then without ranks that died before all were done."""
        if self.is_open or self._last is None:
            step = self.steps if self.drops_lost else self.steps - 1
            self._last = self.step_ranks(max(self.first_step, step))
        return self._last

    def checkpoint_due(self) -> bool:
        """Whether a checkpoint is due now and its state has not been given."""
        return bool(lib.strata_checkpoint_due(self.handle))

    def give_state(self, state: bytes) -> None:
        check(lib.strata_give_state(self.handle, state, len(state)))

    def read_state(self, rank: int) -> bytes | None:
        """Returns what a rank gave for the checkpoint from which the job resumes; None: nothing."""
        state, size = ctypes.c_void_p(), ctypes.c_size_t()
        places = ctypes.byref(state), ctypes.byref(size)
        code = lib.strata_read_state(self.handle, rank, *places)
        if code == _library.NOT_FOUND:
            return None
        check(code)
        return ctypes.string_at(state, size.value) if size.value else b""

    def weights(self, tensor: int) -> int:
        """Returns the address of the tensor in the node's weights."""
        address: int = lib.strata_weights(self.handle, tensor)
        return address

    def guard_weights(self) -> None:
        """Makes a write to the weights, which ends the process, report the tensor's name."""
        check(lib.strata_guard_weights(self.handle))

    def begin_step(self, samples: int, rate: float | None) -> None:
        self.on_begin()
        try:
            if rate is None:
                self._call(lib.strata_begin_step, samples)
            else:
                self._call(lib.strata_begin_step_at, samples, rate)
        except errors.NoMoreSteps:
            self._ends_at = self.steps
            raise
        self.in_step = True

    def wait(self, tensor: int) -> None:
        self._call(lib.strata_wait, tensor)

    def wait_all(self) -> None:
        self._call(lib.strata_wait_all)

    def publish(self, tensor: int, address: int, dtype: int, scale: float) -> None:
        self._call(lib.strata_publish_values, tensor, address, dtype, scale)

    def finish_step(self) -> None:
        self._call(lib.strata_finish_step)
        self.in_step = False
        self.steps += 1

    def finish(self) -> None:
        """Reports that this rank is done, and blocks until all are."""
        if self.has_started:
            self.last_ranks()
        self._call(lib.strata_finish)
        if self.has_started and self.drops_lost:
            self.last_ranks()

    def keep_weights(self) -> None:
        """After `finish`, on the host: makes the weights this process's own, which it may write
        to."""
        check(lib.strata_keep_weights(self.handle))

    def finish_at_exit(self) -> None:
        """Finishes once the interpreter has ended and the process exits with status 0, which is not
        known earlier."""
        check(lib.strata_finish_at_exit(self.handle))

    def fail(self, reason: str, has_diverged: bool) -> None:
        """Reports in one line why this rank fails: the job's reason. `has_diverged`: because a
        loss, gradient or measured value is not finite."""
        if has_diverged:
            lib.strata_has_diverged(self.handle)
        lib.strata_fail(self.handle, reason.encode(errors="replace"))

    def send(self, report: _library.Report) -> None:
        check(lib.strata_send_report(self.handle, ctypes.byref(report)))

    def close(self) -> None:
        """Ends all calls. Memory that tensors and arrays may be views of stays until the process
        ends, and so does the connection, by which the job notices the end."""
        self.is_open = False

    def _call(self, function: Any, *arguments: Any) -> None:
        code = function(self.handle, *arguments)
        if code:
            _library.fail(code)
