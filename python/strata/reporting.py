"""Ranks' reports to the job: steps, samples and losses for its progress, and a script's
measurements."""

from __future__ import annotations

import ctypes
import math
import threading
import time
from collections.abc import Callable

from strata import _library, errors, sampler
from strata._checks import real
from strata._client import Client
from strata._rank import process

_DEFAULT_EVERY = 50


class _Use:
    """How many of the samples that a script has drawn its steps have used.

    Most scripts draw what a step needs before it, but some draw a whole epoch before its first
    step. The latter is known by steps before which nothing was drawn: those use a batch each, where
    it is known how large one is, else as many as the steps before did.
    """

    def __init__(self) -> None:
        self._drawn = 0  # since the last step
        self._batch = 0  # the first one of these; 0: it is not known
        self._filled = 0  # what was drawn before the steps that are counted now
        self._used = 0  # of these
        self._steps = 0
        self._each = 0.0  # what a step uses
        self._is_guess = False
        self._seen = 0.0  # what steps have used before

    def draw(self, samples: int, batch: int = 0) -> None:
        """The script has drawn this many samples, in a batch of the given size."""
        self._batch = self._batch if self._drawn else batch
        self._drawn += samples

    def step(self, said: int) -> int:
        """A step with this many samples was made. Returns how many samples were used since the last
        one."""
        used = 0
        if self._drawn:
            if self._steps == 1 or self._is_guess:
                used = self._filled - self._used
                self._seen = self._filled / max(1, self._steps)
            self._each = max(self._seen, self._batch)
            self._is_guess = not self._each
            self._each = self._each or said
            self._filled, self._used, self._steps = self._drawn, 0, 0
            self._drawn = self._batch = 0
        self._steps += 1
        return used + self._use(min(self._filled, int(self._each * self._steps)))

    def end(self) -> int:
        """No more steps come. Returns how many additional samples the last one has used."""
        is_of_one_step = self._filled < 2 * self._each
        return self._use(self._filled if self._is_guess or is_of_one_step else self._used)

    def _use(self, used: int) -> int:
        before, self._used = self._used, used
        return used - before


class Reporter:
    """Sends a report every so many steps (`metrics { every_steps }` of the job), and at the end.

    The samples of a step are those that PyTorch's DataLoaders hand out for it (`on_samples`), else
    those that samplers draw, else those that the step says.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._every = int(client.job.get("metrics", {}).get("every_steps", _DEFAULT_EVERY))
        self._first_step = client.steps
        self._samples = 0
        self._batches, self._draws = _Use(), _Use()
        self._taken = self._drawn = 0
        self._drawn_before = sampler.course.drawn
        self._loss_sum = 0.0
        self._losses = 0
        self._made = 0  # steps of this rank, of which some may be one of the job's
        self._start = self._window_start = self._step_end = time.monotonic()
        self.local_steps: Callable[[], int] | None = None
        """With local steps, whose exchanges the job counts: how many this rank has made."""
        self.local_steps_total = 0

    def on_samples(self, samples: int) -> None:
        """A batch of this many samples has been taken for training."""
        self._batches.draw(samples, samples)

    def on_loss(self, loss: float) -> None:
        """Notes the mean loss of a step's samples."""
        self._loss_sum += loss
        self._losses += 1

    def on_step(self, samples: int) -> None:
        """A step of this many samples has been made."""
        self._client.stepped_in = threading.get_ident()
        self._samples += samples
        drawn = sampler.course.drawn
        self._draws.draw(drawn - self._drawn_before)
        self._drawn_before = drawn
        self._taken += self._batches.step(samples)
        self._drawn += self._draws.step(samples)
        self._step_end = time.monotonic()
        self._made += 1
        if self._made >= self._every and self._client.steps > self._first_step:
            self.send_window()

    def send_window(self) -> None:
        """Sends the data since the last window. All ranks' windows end at the same steps."""
        now = time.monotonic()
        report = self._new_report(self._first_step, now)
        report.samples = self._taken or self._drawn or self._samples
        report.loss_sum = self._loss_sum / max(1, self._losses) * report.samples
        report.wall_s = now - self._window_start
        self._client.send(report)
        self._window_start = self._step_end = now
        self._first_step = self._client.steps
        self._samples = self._taken = self._drawn = self._losses = 0
        # Windows of a rank that joins end with those of the others.
        self._made = self._first_step % self._every if self._client.is_elastic else 0
        self._loss_sum = 0.0

    def send_last(self) -> None:
        """Sends the last window: no more steps come."""
        self._taken += self._batches.end()
        self._drawn += self._draws.end()
        self.send_window()

    def send_values(self, values: dict[str, float], is_final: bool = False) -> None:
        """Sends values that were just measured. The time since the last step was the measurement,
        not training."""
        report = self._new_report(self._client.steps, self._step_end)
        report.final = is_final
        rest = dict(values)
        if "test_accuracy" in rest or "test_loss" in rest:
            report.has_test = 1
            report.test_accuracy = rest.pop("test_accuracy", math.nan)
            report.test_loss = rest.pop("test_loss", math.nan)
        if rest:
            report.value_names = (ctypes.c_char_p * len(rest))(*(name.encode() for name in rest))
            report.values = (ctypes.c_double * len(rest))(*rest.values())
            report.value_count = len(rest)
        self._client.send(report)
        measuring = time.monotonic() - self._step_end
        self._start += measuring
        self._window_start += measuring
        self._step_end += measuring

    def _new_report(self, first_step: int, now: float) -> _library.Report:
        report = _library.Report()
        report.size = ctypes.sizeof(_library.Report)
        report.first_step, report.end_step = first_step, self._client.steps
        report.samples_per_epoch = sampler.course.samples_per_epoch
        report.epochs = sampler.course.epochs_in_all
        report.trained_s = now - self._start
        if self.local_steps is not None:
            report.local_steps = self.local_steps()
            report.local_steps_total = self.local_steps_total
        return report


def begin(client: Client) -> Reporter:
    """Creates the reporter of this process's client, which has started."""
    process.reporter = Reporter(client)
    process.before_finish.append(_send_rest)
    if client.first_step:
        process.reporter.send_window()  # says where this rank goes on
    return process.reporter


def current() -> Reporter | None:
    """Returns the reporter, None before a session has started."""
    return process.reporter


def _send_rest() -> None:
    reporter, client = process.reporter, process.client
    if reporter is not None and client is not None and client.is_open:
        reporter.send_last()


def report(*, loss: float | None = None, **values: float) -> None:
    """Reports what the script has measured, to the job's progress, `metrics.jsonl`, and `strata
    compare`.

    `loss` is the mean loss of the last step's samples, of every rank that says it. All other values
    are those of rank 0, so every rank may call this: `report(test_accuracy=0.97, test_loss=0.1,
    perplexity=12.5)`. Where nodes join and leave, they are those of the first rank that made the
    last step. `test_accuracy` is a share, from 0 to 1.

    In a job that goes on from a checkpoint nothing is reported of epochs that a `Sampler` leaves
    out.

    Raises `errors.OutOfOrder` before a session has started, `errors.InvalidArgument` naming a value
    that is no finite number.
    """
    reporter, client = process.reporter, process.client
    if reporter is None or client is None or not client.is_open:
        raise errors.OutOfOrder(
            "report: no session has started in this process, or it is closed:"
            " strata.torch.DistributedOptimizer or strata.Session starts one"
        )
    if sampler.course.skips:
        return  # it has been said, before the checkpoint
    numbers: dict[str, float] = {}
    for name, value in values.items():
        numbers[name] = real(f"report: {name}", value)
        if not math.isfinite(numbers[name]):
            raise errors.InvalidArgument(f"report: {name}: {value!r} is not finite")
    if not 0 <= numbers.get("test_accuracy", 0) <= 1:
        raise errors.InvalidArgument(
            f"report: test_accuracy: {numbers['test_accuracy']:g} is no share, from 0 to 1"
        )
    if loss is not None:
        reporter.on_loss(real("report: loss", loss))
    if numbers and client.leads():
        reporter.send_values(numbers)
        if client.is_alone:
            shown = "  ".join(f"{name} {number:.6g}" for name, number in numbers.items())
            print(f"step {client.steps}  {shown}", flush=True)
