"""What ranks tell the job: steps, samples and losses for its progress, and what a script
measures."""

from __future__ import annotations

import ctypes
import math
import time

from strata import _library, errors, sampler
from strata._checks import real
from strata._client import Client
from strata._lifetime import process

_DEFAULT_EVERY = 50


class Reporter:
    """Sends a report every so many steps (`metrics { every_steps }` of the job), and at the end.

    The samples of a step are those that a model's forward passes took, where somebody counts them
    (`on_samples`), else those that the step says.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._every = int(client.job.get("metrics", {}).get("every_steps", _DEFAULT_EVERY))
        self._first_step = client.steps
        self._samples = 0
        self._taken = 0
        self._loss_sum = 0.0
        self._losses = 0
        self._made = 0  # steps of this rank, of which some may be one of the job's
        self._start = self._window_start = self._step_end = time.monotonic()

    def on_samples(self, samples: int) -> None:
        """A forward pass has taken so many samples."""
        self._taken += samples

    def on_loss(self, loss: float) -> None:
        """The mean loss of a step's samples."""
        self._loss_sum += loss
        self._losses += 1

    def on_step(self, samples: int) -> None:
        """A step of so many samples has been made."""
        self._samples += samples
        self._step_end = time.monotonic()
        self._made += 1
        if self._made >= self._every and self._client.steps > self._first_step:
            self.send_window()

    def send_window(self) -> None:
        """Sends what has come since the last window. All ranks' windows end at the same steps."""
        now = time.monotonic()
        report = self._new_report(self._first_step, now)
        report.samples = self._taken or self._samples
        report.loss_sum = self._loss_sum / max(1, self._losses) * report.samples
        report.wall_s = now - self._window_start
        self._client.send(report)
        self._window_start = self._step_end = now
        self._first_step = self._client.steps
        self._samples = self._taken = self._losses = 0
        # Windows of a rank that joins end with those of the others.
        self._made = self._first_step % self._every if self._client.is_elastic else 0
        self._loss_sum = 0.0

    def send_values(self, values: dict[str, float], is_final: bool = False) -> None:
        """Sends values that were measured just now. What came after the last step was the
        measurement, which is not training."""
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
        report.trained_s = now - self._start
        return report


class _Current:
    reporter: Reporter | None = None


_current = _Current()


def begin(client: Client) -> Reporter:
    """Makes the reporter of this process's client, which has started."""
    _current.reporter = Reporter(client)
    process.before_finish.append(_send_rest)
    if client.first_step:
        _current.reporter.send_window()  # says where this rank goes on
    return _current.reporter


def current() -> Reporter | None:
    """Returns the reporter, None before a session has started."""
    return _current.reporter


def _send_rest() -> None:
    reporter, client = _current.reporter, process.client
    if reporter is not None and client is not None and client.is_open:
        reporter.send_window()


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
    reporter, client = _current.reporter, process.client
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
