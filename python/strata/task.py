"""Training as two functions: of a step's gradients, and of what weights are worth.

A script that says no more than this can be run as a job, and on a cluster that need not exist:
`strata compare SCRIPT --cluster FILE` computes its gradients in virtual time.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from strata import errors, reporting
from strata._checks import real, whole
from strata._rank import process
from strata.optimizers import Mean, Optimizer
from strata.sampler import Sampler
from strata.session import Session
from strata.views import refuse_in_elastic

Params = Mapping[str, Any]
Gradients = tuple[Mapping[str, Any], int, float]
_MEASUREMENTS = 25
_NAME = re.compile(r"[A-Za-z0-9._/-]{1,64}")


@dataclass(frozen=True)
class Step:
    """One step of one rank: all that its gradients may depend on besides the weights."""

    rank: int
    ranks: int
    number: int
    """The step's number, from 0."""
    seed: int
    """The run's, for the order of data and what is drawn at random."""
    steps_per_epoch: int
    batch: int

    @property
    def epoch(self) -> int:
        """The epoch's number, from 0."""
        return self.number // self.steps_per_epoch

    def random(self) -> np.random.Generator:
        """Returns numbers at random that this rank has in this step alone, the same each time."""
        return np.random.default_rng([self.seed, self.rank, self.number])

    def samples(self, data: Any) -> np.ndarray[Any, Any]:
        """Returns the indices of this rank's `batch` samples of `data`, or of so many samples, in
        the order of `strata.Sampler`: ranks share an epoch's permutation, and begin anew where it
        ends before the epoch does."""
        order = _order(data if isinstance(data, int) else len(data), self.seed, self.epoch)
        first = (self.number % self.steps_per_epoch) * self.batch
        places = (first + np.arange(self.batch)) * self.ranks + self.rank
        chosen: np.ndarray[Any, Any] = order[places % len(order)]
        return chosen


class _Order:
    key: tuple[int, int, int] = (0, 0, 0)
    order: np.ndarray[Any, Any] = np.arange(0)


_last = _Order()


def _order(samples: int, seed: int, epoch: int) -> np.ndarray[Any, Any]:
    if _last.key != (samples, seed, epoch):
        sampler = Sampler(samples, seed=seed, drop_last=False, rank=0, ranks=1)
        sampler.set_epoch(epoch)
        _last.order, _last.key = sampler.order(), (samples, seed, epoch)
    return _last.order


def _place(function: Any) -> str:
    """Returns a function's name and position: "gradients (task.py:12)"."""
    name = getattr(function, "__name__", type(function).__name__)
    code = getattr(function, "__code__", None)
    if code is None:
        return str(name)
    return f"{name} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"


class Serving(BaseException):
    """Ends a script that trains its task when it is read for virtual time."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task = task


class Task:
    """What a job trains, as functions that own no loop.

        def gradients(weights, step):
            x, y = batch(step.samples(data))
            e = x @ weights["w"] - y
            return {"w": x.T @ e / len(x)}, len(x), float((e * e).mean())

        def evaluate(weights):
            return {"error": ...}

        task = strata.Task(params={"w": np.zeros(8, "f4")}, gradients=gradients, evaluate=evaluate,
                           batch=32, steps_per_epoch=100, optimizer=strata.SGD(lr=0.1))
        if __name__ == "__main__":
            task.run()

    `strata run -n 4 SCRIPT` trains it live; `strata compare` and `strata sweep` do so live, or with
    `--cluster FILE` in virtual time.

    `params`: arrays in the order of the forward pass, as `strata.Session` takes them, or a function
    of a seed that returns them. `gradients` is given the weights by name, which it must not write
    to, and the `Step`; it returns the mean gradients over its samples by name, the number of
    samples, and their mean loss. `evaluate` is given weights, and returns finite values by name,
    such as "test_accuracy" (a share, from 0 to 1) with or without "test_loss", or any other. Both
    depend on nothing but what they are given, else runs in virtual time are not those of live
    ranks. `optimizer` is one of this package; None takes the job's.

    `batch` is the number of a rank's samples in a step, `steps_per_epoch` and `epochs` say how far
    each rank goes; `steps`, where given, ends it before. `evaluate_every` is in steps; without it,
    weights are measured about 25 times. The last ones always are.
    """

    def __init__(
        self,
        *,
        params: Params | Callable[[int], Params],
        gradients: Callable[[dict[str, Any], Step], Gradients],
        evaluate: Callable[[dict[str, Any]], Mapping[str, float]] | None = None,
        batch: int,
        steps_per_epoch: int,
        epochs: int = 1,
        steps: int | None = None,
        optimizer: Optimizer | None = None,
        evaluate_every: int | None = None,
    ) -> None:
        """Raises `errors.InvalidArgument` naming the argument."""
        for name, function in (("gradients", gradients), ("evaluate", evaluate)):
            if function is not None and not callable(function):
                raise errors.InvalidArgument(f"Task: {name}: {function!r} is no function")
        if isinstance(optimizer, Mean):
            raise errors.InvalidArgument("Task: optimizer: with Mean() the script owns the loop")
        self._params = params
        self._gradients = gradients
        self._evaluate = evaluate
        self.optimizer = optimizer
        self.batch = whole("Task: batch", batch, 1)
        self.steps_per_epoch = whole("Task: steps_per_epoch", steps_per_epoch, 1)
        self.steps = self.steps_per_epoch * whole("Task: epochs", epochs, 1)
        if steps is not None:
            self.steps = min(self.steps, whole("Task: steps", steps, 1))
        self.evaluate_every = max(1, self.steps // _MEASUREMENTS)
        if evaluate_every is not None:
            self.evaluate_every = whole("Task: evaluate_every", evaluate_every, 1)
        if evaluate is None:
            self.evaluate_every = 0

    def first_params(self, seed: int) -> dict[str, Any]:
        """Returns the first weights of a run. Raises `errors.InvalidArgument` if there are none."""
        params = self._params(seed) if callable(self._params) else self._params
        if not isinstance(params, Mapping) or not params:
            raise errors.InvalidArgument("Task: params: there are none, by name")
        return dict(params)

    def compute(self, weights: dict[str, Any], step: Step) -> Gradients:
        """Calls `gradients`, and checks its results except the arrays. Raises
        `errors.InvalidArgument` naming the invalid result."""
        returned = self._gradients(weights, step)
        if not isinstance(returned, tuple) or len(returned) != 3:
            raise errors.InvalidArgument(
                f"{_place(self._gradients)}: returns {type(returned).__name__}, not (gradients,"
                " samples, loss)"
            )
        gradients, samples, loss = returned
        if not isinstance(gradients, Mapping):
            raise errors.InvalidArgument(
                f"{_place(self._gradients)}: the gradients are a {type(gradients).__name__}, not by"
                " name"
            )
        if not isinstance(samples, (int, np.integer)) or not 1 <= samples <= 65536:
            raise errors.InvalidArgument(
                f"{_place(self._gradients)}: samples: {samples!r}, must be from 1 to 65536"
            )
        return gradients, int(samples), real(f"{_place(self._gradients)}: loss", loss)

    def measure(self, weights: dict[str, Any]) -> dict[str, float]:
        """Calls `evaluate`, and checks its results; returns {} without one. Raises
        `errors.InvalidArgument` naming a value that is not a number."""
        if self._evaluate is None:
            return {}
        values = self._evaluate(weights)
        where = _place(self._evaluate)
        if not isinstance(values, Mapping) or not values:
            raise errors.InvalidArgument(f"{where}: returns {values!r}, not values by name")
        for name in values:
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise errors.InvalidArgument(
                    f"{where}: {name!r}: a name has 1 to 64 letters, digits and characters of ._-/"
                )
        if "test_loss" in values and "test_accuracy" not in values:
            raise errors.InvalidArgument(
                f"{where}: test_loss comes with test_accuracy; by itself it needs another name"
            )
        return {name: real(f"{where}: {name}", value) for name, value in values.items()}

    def check(self, weights: Mapping[str, Any], gradients: Mapping[str, Any]) -> None:
        """Raises `errors.InvalidArgument` naming a gradient that is missing or has another
        shape."""
        where = _place(self._gradients)
        for name in gradients:
            if name not in weights:
                raise errors.InvalidArgument(f'{where}: "{name}" is none of the params')
        for name, weight in weights.items():
            if name not in gradients:
                raise errors.InvalidArgument(f'{where}: "{name}": its gradient is missing')
            shape = tuple(np.shape(gradients[name]))
            if shape != tuple(weight.shape):
                raise errors.InvalidArgument(
                    f'{where}: "{name}": the gradient is {shape}, the weights are'
                    f" {tuple(weight.shape)}"
                )

    def run(self) -> dict[str, Any]:
        """Trains as a rank of the job that runs this process, or alone; returns the final weights.

        Rank 0 measures and reports. Raises as `strata.Session` does.
        """
        if process.serves:
            raise Serving(self)
        refuse_in_elastic(
            "Task", "its steps are of all ranks: strata.Session with strata.ElasticSampler"
        )
        all_ranks = int(os.environ.get("WORLD_SIZE", "1"))
        with Session(
            self.first_params(int(os.environ.get("STRATA_SEED", "1"))),
            self.optimizer,
            samples_per_epoch=self.steps_per_epoch * self.batch * all_ranks,
            total_steps=self.steps,
        ) as session:
            process.after_finish.append(lambda: self._report(session, self.steps, True))
            for number in range(self.steps):
                if number and self.evaluate_every and number % self.evaluate_every == 0:
                    self._report(session, number)
                self._make_step(session, number)
        return session.weights()

    def _make_step(self, session: Session, number: int) -> None:
        seed = int(session.job.get("seed", 1))
        step = Step(session.rank, session.ranks, number, seed, self.steps_per_epoch, self.batch)
        gradients, samples, loss = self.compute(session.weights(), step)
        if not math.isfinite(loss):
            what = "NaN" if math.isnan(loss) else "infinite"
            raise errors.Diverged(f"loss is {what} at step {number}")
        session.step(gradients, samples=samples, loss=loss)

    def _report(self, session: Session, steps: int, is_final: bool = False) -> None:
        reporter = reporting.current()
        if session.rank == 0 and reporter is not None:
            values = self.measure(session.weights())
            for name, value in values.items():
                if not math.isfinite(value):
                    raise errors.Diverged(f"evaluate: {name} is not finite at step {steps}")
            if values:
                reporter.send_values(values, is_final)
