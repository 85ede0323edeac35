"""The optimizer on the ranks: each rank makes its own step with the mean gradient of all ranks."""

from __future__ import annotations

from typing import Any

import torch

from strata import _library, errors
from strata._rank import process
from strata.reporting import Reporter
from strata.torch import _placement, _recipe
from strata.torch._exchange import Exchange
from strata.torch._trainer import Trainer


def shown_rate(exchange: Exchange) -> float:
    """Returns the learning rate that the progress shows, and in which ranks must agree: the first
    group's."""
    return _recipe.rates(exchange.optimizers[0])[0]


class EveryStep(Trainer):
    """Every step's gradients are exchanged, and `param.grad` holds their mean when backward
    returns.

    So what stands between `backward()` and `step()` (clipping, GradScaler, a look at the gradients)
    sees what it would see with DistributedDataParallel. With double buffering it is the mean of the
    step before; the first step makes no update.
    """

    def __init__(self, exchange: Exchange, reporter: Reporter, job: dict[str, Any]) -> None:
        super().__init__(exchange, reporter)
        self._is_delayed = _placement.is_delayed(job)
        self._is_alone = job.get("exchange") == "NONE"
        for is_there, what in (
            (len(exchange.optimizers) > 1, "several optimizers"),
            (exchange.skips_nonfinite, "scaler"),
            (exchange.averages_buffers, 'buffers: "mean"'),
        ):
            if is_there:
                _placement.refuse_if_delayed(job, what)
        # Optimizers for which exchange() was called; the script may change their gradients before
        # step().
        self._prepared: set[int] = set()
        # Optimizers whose step a GradScaler skips, after an exchange that counts.
        self._skipped: set[int] = set()
        # Parameters that the last exchange has left without a gradient.
        self._unused: set[int] = set()
        exchange.on_backward_end = self.exchange_gradients
        exchange.on_pass_begin = self._begin_pass
        # A checkpoint has the newest means, and rank 0's state the parameters.
        if not exchange.client.first_step:
            exchange.read_into_params()
        exchange.read_buffers()
        if not self._is_alone:
            exchange.install_hooks()
            process.before_finish.append(self.check_rows_stepped)
            process.before_finish.append(lambda: self._compare_last(exchange.client.steps))

    def _begin_pass(self) -> None:
        self.exchange.rate = shown_rate(self.exchange)
        # All optimizers have made their steps.
        self._compare(self.exchange.client.steps)

    def exchange_gradients(self) -> None:
        exchange = self.exchange
        if self._is_alone or (exchange.has_passed and exchange.publishes_in_backward):
            return
        self._prepared.clear()
        self.check_rows_stepped()
        self._given_rows = self.publish_rows()
        exchange.finish_pass()
        unused = exchange.read_used()
        exchange.read_into_gradients(unused)
        self._unused = {id(entry.param) for entry in exchange.entries if entry.index in unused}
        exchange.read_buffers()
        if self._makes_no_update():
            for entry in exchange.entries:
                if entry.param.grad is not None:
                    entry.param.grad.zero_()
        self._skipped.clear()
        if exchange.read_skip():
            self._skipped = {id(optimizer) for optimizer in exchange.optimizers}
            # A GradScaler finds it, on every rank and whichever optimizer it looks at.
            for entry in exchange.entries:
                if entry.param.grad is not None:
                    entry.param.grad.fill_(float("inf"))
            exchange.has_passed = False
            if exchange.publishes_in_backward:
                exchange.unstepped.clear()
            self.count_step()
        if not exchange.publishes_in_backward:
            for entry in exchange.entries:
                _mark(entry.param.grad, exchange.passes)

    def _has_means(self, optimizer: torch.optim.Optimizer, may_have_changed: bool) -> bool:
        """Whether this optimizer's gradients are those that the last exchange brought, and it has
        made no step with them.

        Where hooks need not work, gradients themselves tell: those of another backward pass bear no
        mark, or have changed since.
        """
        exchange = self.exchange
        if id(optimizer) not in exchange.unstepped:
            return False
        if exchange.publishes_in_backward:
            return True
        trained = [p for group in optimizer.param_groups for p in group["params"]]
        # The parameter of a table has no elements, and no gradient once it was given.
        trained = [param for param in trained if param.requires_grad and param.numel()]
        marked = [
            param
            for param in trained
            if _is_marked(param.grad, exchange.passes, may_have_changed)
        ]
        rest = len(trained) - len(marked)
        # Where all are None, the gradients of another pass may have been.
        return bool(marked) and rest == sum(
            param.grad is None and id(param) in self._unused for param in trained
        )

    def prepare(self, optimizer: torch.optim.Optimizer) -> None:
        if self.exchange.publishes_in_backward or not self._has_means(optimizer, False):
            self.exchange_gradients()
        self._prepared.add(id(optimizer))

    def _makes_no_update(self) -> bool:
        """Returns whether the present means belong to no step: those before the first one's."""
        exchange = self.exchange
        return self._is_delayed and exchange.passes == 1 and not exchange.client.first_step

    def step(self, optimizer: torch.optim.Optimizer, own_step: Any) -> Any:
        exchange = self.exchange
        if id(optimizer) in self._skipped and getattr(optimizer, "found_inf", None) is not None:
            # A fused optimizer is called all the same, and skips the step itself.
            self._skipped.discard(id(optimizer))
            return own_step()
        is_new = exchange.has_passed and exchange.publishes_in_backward
        is_new = is_new or self._has_means(optimizer, id(optimizer) in self._prepared)
        if not is_new and not self._is_alone:
            if exchange.skips_nonfinite and not exchange.publishes_in_backward:
                raise errors.OutOfOrder(
                    'step: with publish="step" and a scaler call optimizer.exchange() before'
                    " scaler.step(), which looks at the gradients of all ranks"
                )
            self.exchange_gradients()
        elif not self._is_alone and self.tables and (late := self.tables.rates(optimizer)):
            raise errors.OutOfOrder(
                f'table "{next(iter(late)).table.name}": got gradients after those of the step were'
                " given: put all backward passes of a step but the last one under no_sync()"
            )
        if self._is_alone:
            rates = {} if self.tables is None else self.tables.rates(optimizer)
            samples = exchange.count_samples(bool(rates))
            if self.tables is not None:
                self.tables.step(optimizer, rates if samples else {})
            result = own_step() if samples else None
            exchange.client.steps += 1
        else:
            result = None if self._makes_no_update() else own_step()
        if exchange.has_passed or self._is_alone:
            self.count_step()
        exchange.has_passed = False
        self._given_rows = None
        exchange.unstepped.discard(id(optimizer))
        self._prepared.discard(id(optimizer))
        return result


def _mark(gradient: Any, number: int) -> None:
    """Marks a gradient as the result of an exchange."""
    if gradient is not None:
        gradient._strata_mean = (number, gradient._version)


def _is_marked(gradient: Any, number: int, may_have_changed: bool) -> bool:
    marked, version = getattr(gradient, "_strata_mean", (0, 0))
    return bool(marked == number and (may_have_changed or version == gradient._version))


class LocalSteps(Trainer):
    """Ranks make some steps by themselves; then all take what the job makes of their changes.

    A rank gives by how much its weights have become smaller since the last exchange, and all go on
    from the weights that come back.
    """

    def __init__(self, exchange: Exchange, reporter: Reporter, job: dict[str, Any]) -> None:
        super().__init__(exchange, reporter)
        self._every = self.steps_per_exchange = _placement.local_steps(job)
        self._made = 0
        self._samples = 0
        if exchange.skips_nonfinite:
            raise errors.InvalidArgument(
                "scaler: with local steps each rank would skip steps of its own: use bfloat16"
                " autocast"
            )
        exchange.read_into_params()
        # Steps of this process, or of the job if it resumes from a checkpoint.
        self._steps = exchange.client.first_step * self._every
        self._starts = [entry.param.detach().clone() for entry in exchange.entries]
        reporter.local_steps = lambda: self._steps
        # Before the last report, which has those steps.
        process.before_finish.insert(0, self._exchange_rest)

    def exchange_gradients(self) -> None:
        """Does nothing: gradients stay on the rank."""

    def step(self, optimizer: torch.optim.Optimizer, own_step: Any) -> Any:
        exchange = self.exchange
        exchange.meet_checkpoint()
        # Calls of several optimizers are one step, which the last one ends.
        is_last = optimizer is exchange.optimizers[-1]
        samples = exchange.count_samples() if is_last else None
        result = None if samples == 0 else own_step()
        if not is_last:
            return result
        self._made += 1
        self._steps += 1
        self._samples += exchange.pass_samples
        if self._made == self._every:
            self._exchange_changes()
        self.count_step()
        return result

    def _exchange_changes(self) -> None:
        exchange, client = self.exchange, self.exchange.client
        samples = self._samples
        exchange.check_places()
        exchange.memory.begin()
        client.begin_step(samples, shown_rate(exchange))
        with torch.no_grad():
            for entry, start in zip(exchange.entries, self._starts):
                change = start.sub_(entry.param)
                _library.check(exchange.memory.publish(entry.index, change, float(samples)))
            client.finish_step()
            for entry, start in zip(exchange.entries, self._starts):
                _library.check(exchange.memory.read(entry.index, entry.param.detach()))
                start.copy_(entry.param)
        self._made = self._samples = 0
        # Between exchanges weights are each rank's own.
        self._compare(self._steps)

    def _exchange_rest(self) -> None:
        if self._made:
            self._exchange_changes()
        self._compare_last(self._steps)
