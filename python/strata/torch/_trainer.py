"""The common parts of all ways to train: an exchange, a step, and reports."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any, Callable

import torch
from torch.utils.data import dataloader

from strata import _checks, errors
from strata._rank import process
from strata.reporting import Reporter
from strata.torch import _first_state as first_state
from strata.torch._agreement import Agreement
from strata.torch._exchange import Exchange
from strata.torch.embedding import Tables


class _Batches:
    """Sees what PyTorch's DataLoaders hand out for training: the samples of steps, and the moment
    when the next step begins. Nothing of it is on the model, which compilers and exporters read.

    One per process. Batches that are taken without gradients are for evaluation.
    """

    def __init__(self) -> None:
        self._reporter: Reporter | None = None
        self._exchange: Exchange | None = None

    def watch(self, reporter: Reporter, exchange: Exchange) -> None:
        """Tells these trainers of each batch from now on."""
        if self._reporter is None:
            iterator = dataloader._BaseDataLoaderIter
            setattr(iterator, "__next__", self._telling(iterator.__next__))
        self._reporter, self._exchange = reporter, exchange

    def _telling(self, take: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(take)
        def take_and_tell(loader: Any) -> Any:
            batch = take(loader)
            if torch.is_grad_enabled():
                self._on_batch(batch)
            return batch

        return take_and_tell

    def _on_batch(self, batch: Any) -> None:
        if process.forked_from or self._reporter is None or self._exchange is None:
            return
        if self._exchange.keeper is not None:
            self._exchange.keeper.capture()
        self._reporter.on_samples(_samples_in(batch))


def _samples_in(batch: Any) -> int:
    """Returns the first dimension of a batch's first tensor; 0: it has none."""
    if isinstance(batch, torch.Tensor):
        return batch.shape[0] if batch.dim() else 1
    parts: Iterable[Any] = ()
    if isinstance(batch, Mapping):
        parts = batch.values()
    elif isinstance(batch, (list, tuple)):
        parts = batch
    return next((count for count in map(_samples_in, parts) if count), 0)


_batches = _Batches()


class Trainer:
    """Connects a wrapped optimizer with the exchange. One per process."""

    def __init__(self, exchange: Exchange, reporter: Reporter) -> None:
        self.exchange = exchange
        self._reporter = reporter
        self._frozen: list[tuple[str, Any]] = []
        self._agreement: Agreement | None = None
        self._is_due = False  # a checkpoint has come, with which ranks are compared
        self.tables: Tables | None = None  # None: the model has none
        self._given_rows: str | None = None  # a table whose gradients have led to no step() yet
        self.clip_norm = 0.0
        self.steps_per_exchange = 1

    def compare_ranks(self, every: int) -> None:
        """Compares ranks every so many steps, at checkpoints and at the end; 0: never."""
        exchange = self.exchange
        self._agreement = Agreement(exchange.client, exchange.entries, exchange.optimizers, every)

    def _compare(self, steps: int) -> None:
        """Ranks may be compared now, after this many steps."""
        if self._agreement is not None:
            self._agreement.at(steps, self._is_due)
        self._is_due = False

    def _compare_last(self, steps: int) -> None:
        """Compares ranks for the last time: no more steps come."""
        if self._agreement is not None:
            self._agreement.compare(steps)

    def watch_frozen(self, frozen: list[tuple[str, Any]]) -> None:
        """Remembers parameters that are not trained, to detect one that is unfrozen later."""
        self._frozen = frozen

    def watch_batches(self) -> None:
        """Counts the batches of DataLoaders."""
        _batches.watch(self._reporter, self.exchange)

    def clip(self) -> None:
        """Scales the gradients down if their norm over all parameters exceeds `clip_norm`."""
        if self.clip_norm:
            params = [entry.param for entry in self.exchange.entries]
            torch.nn.utils.clip_grad_norm_(params, self.clip_norm)

    def publish_rows(self) -> str | None:
        """Begins the step, if it has not begun, and gives the servers the gradients of its rows.
        Returns the first table that has some; None: none has."""
        exchange = self.exchange
        if self.tables is None:
            return None
        (optimizer,) = exchange.optimizers  # the only one where servers have rows
        rates = self.tables.rates(optimizer)
        first = next((module.table.name for module in rates), None)
        if not exchange.in_pass:
            exchange.begin_pass(exchange.first_gradient, has_rows=bool(rates))
        samples = exchange.pass_samples
        if rates and exchange.takes_samples_for_none:
            raise errors.InvalidArgument(
                f'table "{first}": has gradients in a step for which no samples were said, and'
                " whose first dense gradient is zero: set optimizer.samples before backward() in"
                " each step"
            )
        self.tables.publish(optimizer, rates if samples else {}, samples)
        return first

    def check_rows_stepped(self) -> None:
        """Raises `errors.OutOfOrder` if rows' gradients were given to the servers and no step
        followed."""
        if self._given_rows is not None:
            raise errors.OutOfOrder(
                f'table "{self._given_rows}": the last backward() gave its gradients to the'
                " servers, and no step() followed: where a batch may be left out, give"
                ' DistributedOptimizer publish="step"'
            )

    def check_frozen(self) -> None:
        for name, param in self._frozen:
            if param.requires_grad:
                raise errors.InvalidArgument(
                    f'parameter "{name}": was frozen when the optimizer was wrapped, and requires a'
                    " gradient now: wrap the optimizer when all that will be trained requires"
                    " gradients"
                )

    def set_samples(self, samples: int) -> None:
        """Sets the number of samples over which this rank's gradients are means, from the next pass
        on."""
        self.exchange.set_samples(_checks.samples("samples", samples))

    def check_load(self, state: Mapping[str, Any]) -> None:
        """Raises `errors.InvalidArgument` if the optimizer cannot continue from such a state."""

    def exchange_gradients(self) -> None:
        """Exchanges the present gradients, unless that has been done."""
        raise NotImplementedError

    def prepare(self, optimizer: torch.optim.Optimizer) -> None:
        """Exchanges the present gradients, unless this optimizer's have been."""
        self.exchange_gradients()

    def step(self, optimizer: torch.optim.Optimizer, own_step: Callable[[], Any]) -> Any:
        """Makes the step of one of the optimizers, by `own_step` if it runs here."""
        raise NotImplementedError

    def count_step(self) -> None:
        self._reporter.on_step(self.exchange.pass_samples)
        first_state.forget(self.exchange.client)
        if self.exchange.keeper is not None:
            self._is_due |= self.exchange.keeper.note()
