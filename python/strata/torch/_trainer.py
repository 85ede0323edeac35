"""What all ways to train have: an exchange, a step, and reports."""

from __future__ import annotations

from typing import Any, Callable

import torch

from strata import _checks, errors
from strata.reporting import Reporter
from strata.torch._exchange import Exchange


class _CountSamples:
    """A hook before a model's forward pass: the first extent of the first tensor is its samples.
    Copies of the model, in memory or in files, count nothing."""

    def __init__(self, reporter: Reporter | None = None, exchange: Exchange | None = None) -> None:
        self._reporter = reporter
        self._exchange = exchange

    def __call__(self, _: torch.nn.Module, arguments: tuple[Any, ...]) -> None:
        if self._reporter is None or self._exchange is None or not torch.is_grad_enabled():
            return
        if self._exchange.keeper is not None:
            self._exchange.keeper.capture()
        if not arguments:
            return
        first = arguments[0]
        if isinstance(first, torch.Tensor):
            self._reporter.on_samples(first.shape[0] if first.dim() else 1)

    def __reduce__(self) -> Any:
        return type(self), ()


class Trainer:
    """Stands between a wrapped optimizer and the exchange. One per process."""

    def __init__(self, exchange: Exchange, reporter: Reporter) -> None:
        self.exchange = exchange
        self._reporter = reporter
        self._frozen: list[tuple[str, Any]] = []
        self.clip_norm = 0.0

    def watch_frozen(self, frozen: list[tuple[str, Any]]) -> None:
        """Remembers parameters that are not trained, so that none is unfrozen unseen."""
        self._frozen = frozen

    def count_samples(self, model: torch.nn.Module) -> None:
        """Counts what the model's forward passes take."""
        model.register_forward_pre_hook(_CountSamples(self._reporter, self.exchange))

    def clip(self) -> None:
        """Scales the gradients down where their norm over all parameters is above `clip_norm`."""
        if self.clip_norm:
            params = [entry.param for entry in self.exchange.entries]
            torch.nn.utils.clip_grad_norm_(params, self.clip_norm)

    def check_frozen(self) -> None:
        for name, param in self._frozen:
            if param.requires_grad:
                raise errors.InvalidArgument(
                    f'parameter "{name}": was frozen when the optimizer was wrapped, and requires a'
                    " gradient now: wrap the optimizer when all that will be trained requires"
                    " gradients"
                )

    def set_samples(self, samples: int) -> None:
        """Sets how many samples this rank's gradients are means over, from the next pass on."""
        samples = _checks.samples("samples", samples)
        if samples != self.exchange.samples and (self.exchange.in_pass or self.exchange.has_passed):
            raise errors.OutOfOrder(
                f"samples: the step's gradients were given as {self.exchange.samples} samples', not"
                f" {samples}: set it before backward()"
            )
        self.exchange.samples = samples

    def exchange_gradients(self) -> None:
        """Ends the exchange of the gradients that are there, unless that has been done."""
        raise NotImplementedError

    def prepare(self, optimizer: torch.optim.Optimizer) -> None:
        """Exchanges the gradients that are there, unless this optimizer's have been."""
        self.exchange_gradients()

    def step(self, optimizer: torch.optim.Optimizer, own_step: Callable[[], Any]) -> Any:
        """Makes the step of one of the optimizers, `own_step` where that runs here."""
        raise NotImplementedError

    def count_step(self) -> None:
        self._reporter.on_step(self.exchange.samples)
        if self.exchange.keeper is not None:
            self.exchange.keeper.note()
