"""The one line that makes a PyTorch script data-parallel: an optimizer, wrapped."""

from __future__ import annotations

import copyreg
import math
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Callable, TypeVar, Union, overload

import torch

from strata import _checks, _heap, _lifetime, errors, reporting
from strata._client import Client
from strata._rank import process
from strata.torch import (
    _elastic,
    _first_state,
    _keeper,
    _on_ranks,
    _on_servers,
    _placement,
    _recipe,
    _tensors,
    embedding,
)
from strata.torch._exchange import Exchange
from strata.torch._trainer import Trainer
from strata.views import StepRanks

_Optimizer = TypeVar("_Optimizer", bound=torch.optim.Optimizer)


class Distributed:
    """What a wrapped optimizer has besides what its own class has."""

    _strata_trainer: Trainer
    _strata_kind: type[torch.optim.Optimizer]

    def no_sync(self) -> AbstractContextManager[None]:
        """Within it backward passes only add up gradients: for all passes of a step but the last
        one."""
        return self._strata_trainer.exchange.no_sync()

    def exchange(self) -> None:
        """Exchanges the gradients that are there, so that `param.grad` is the mean of all ranks.

        Needed with `publish="step"` alone, where something looks at gradients before `step()`; of
        several optimizers each is called, and the first call exchanges the gradients of all.
        """
        self._strata_trainer.prepare(self)  # type: ignore[arg-type]

    @property
    def first_step(self) -> int:
        """The first step that this process makes: 0, but where the job goes on from a checkpoint,
        or this rank joins while it trains.

        A script that takes its data from a `Sampler` need not ask; others begin with it, as in
        `for step in range(optimizer.first_step, 1000)`.
        """
        trainer = self._strata_trainer
        exchange = trainer.exchange
        exchange.knows_first_step = True
        keeper = exchange.keeper
        first = exchange.client.first_step if keeper is None else keeper.first_step()
        return first * trainer.steps_per_exchange

    def step_ranks(self, step: int) -> StepRanks:
        """Returns who makes a step, which does not change from then on.

        In a job with `ranks_min` or `ranks_max` it blocks while a change of the nodes is agreed
        upon that may come with the step. Where this rank does not make it, the script ends its
        loop; `step()` then raises `errors.NoMoreSteps`. A script that takes its data from an
        `ElasticSampler` need not ask.
        """
        client = self._strata_trainer.exchange.client
        return client.step_ranks(_checks.whole("step_ranks: step", step, 0))

    @property
    def samples(self) -> int:
        """How many samples this rank's gradients are means over; 0: it has none in this step.

        Set it before `backward()`, in each step where it changes. It holds for one step; a step for
        which it is not set has as many as the one before, or none, where this rank has no gradient
        or, in a script that sets it, has not called the model and has gradients of zeros.
        """
        return self._strata_trainer.exchange.samples

    @samples.setter
    def samples(self, samples: int) -> None:
        self._strata_trainer.set_samples(samples)

    def step(self, closure: Callable[[], Any] | None = None, *, samples: int | None = None) -> Any:
        """Makes the step, for which it exchanges the gradients unless the backward pass has.

        `samples` weighs this rank's gradients among those of all ranks; by default all weigh alike,
        but a rank without any gradient, which counts nothing. A parameter of which no rank has a
        gradient stays as it is, and so does all where no rank has samples.
        With `publish="backward"` gradients are given before this call: set the property `samples`
        before `backward()` in its place.
        Raises `errors.InvalidArgument`: a closure, which would need an exchange for each of its
        calls; `errors.NoMoreSteps`: this rank has made its last step.
        """
        if closure is not None:
            raise errors.InvalidArgument(
                "step: closures are not taken: gradients are exchanged once a step"
            )
        # Both kinds of PyTorch's schedulers check these, to warn of a missing step.
        self._opt_called = True
        self._step_count = getattr(self, "_step_count", 0) + 1
        trainer = self._strata_trainer
        trainer.check_frozen()
        if trainer.tables is not None and sys._getframe(1).f_code.co_name == "_maybe_opt_step":
            trainer.tables.refuse_scaler()  # a GradScaler calls
        if samples is not None:
            trainer.set_samples(samples)
        own_step = super().step  # type: ignore[misc]

        def clip_and_step() -> Any:
            trainer.clip()
            return own_step()

        return trainer.step(self, clip_and_step)  # type: ignore[arg-type]

    step._with_counter = True  # type: ignore[attr-defined]
    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    # The class that it is wrapped in calls hooks of steps; load_state_dict would add them again.
    step.hooked = True  # type: ignore[attr-defined]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients, also those that were exchanged and led to no step."""
        exchange = self._strata_trainer.exchange
        exchange.check_ended()
        self._strata_trainer.check_rows_stepped()
        exchange.forget_pass(self)
        if self._strata_trainer.tables is not None:
            self._strata_trainer.tables.forget(self)  # type: ignore[arg-type]
        super().zero_grad(set_to_none)  # type: ignore[misc]

    def load_state_dict(self, state_dict: Any) -> None:
        """Raises `errors.InvalidArgument` with the optimizer on the servers, for a state that is
        not empty: theirs would stay."""
        self._strata_trainer.check_load(state_dict)
        super().load_state_dict(state_dict)  # type: ignore[misc]

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Copies, in memory or in files, are the optimizer that was wrapped: they train alone, and
        need no Strata to be loaded."""
        state = self.__getstate__()
        make: Any = copyreg._reconstructor  # type: ignore[attr-defined]
        return make, (self._strata_kind, object, None), state

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Raises `errors.InvalidArgument`: the job's tensors were settled when the optimizer was
        wrapped."""
        if hasattr(self, "_strata_trainer"):
            number = len(self.param_groups)  # type: ignore[attr-defined]
            raise errors.InvalidArgument(
                f"add_param_group: group {number} comes after the optimizer was wrapped: give all"
                " groups before"
            )
        super().add_param_group(param_group)  # type: ignore[misc]


def _make_distributed(optimizer: torch.optim.Optimizer, trainer: Trainer) -> None:
    """Gives the optimizer a class of its own: it stays the same object, which schedulers may
    have."""
    kind = type(optimizer)
    # A scheduler that was made before has put a counting `step` of the old class in front.
    optimizer.__dict__.pop("step", None)
    optimizer.__class__ = type(kind.__name__, (Distributed, kind), {"__module__": kind.__module__})
    optimizer._strata_trainer = trainer  # type: ignore[attr-defined]
    optimizer._strata_kind = kind  # type: ignore[attr-defined]


def _limit_threads(client: Client) -> None:
    """A worker tells its ranks by OMP_NUM_THREADS how many threads they have. Ranks of mpirun that
    share a host have one each, as under torchrun."""
    if client.local_ranks > 1 and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)


_CALL = "DistributedOptimizer(optimizer, model)"


def _optimizers_of(optimizer: Any) -> list[torch.optim.Optimizer]:
    """Returns the optimizers that were given: one, or a sequence of them."""
    if isinstance(optimizer, torch.optim.Optimizer):
        return [optimizer]
    if not isinstance(optimizer, Sequence) or isinstance(optimizer, str):
        raise errors.InvalidArgument(
            f"optimizer: is {_kind_of(optimizer)}, not a torch.optim.Optimizer or a list of them:"
            f" {_CALL}"
        )
    if not optimizer:
        raise errors.InvalidArgument(f"optimizer: is an empty list: {_CALL}")
    for place, one in enumerate(optimizer):
        if not isinstance(one, torch.optim.Optimizer):
            raise errors.InvalidArgument(
                f"optimizer: element {place} is {_kind_of(one)}, not a torch.optim.Optimizer:"
                f" {_CALL}"
            )
    return list(optimizer)


def _check_model(model: Any) -> None:
    if not isinstance(model, torch.nn.Module):
        raise errors.InvalidArgument(
            f"model: is {_kind_of(model)}, not a torch.nn.Module: {_CALL}"
        )


def _kind_of(value: Any) -> str:
    if value is None:
        return "None"
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def _check_kind(optimizer: torch.optim.Optimizer) -> None:
    if isinstance(optimizer, Distributed):
        raise errors.OutOfOrder("DistributedOptimizer: the optimizer is wrapped already")
    if isinstance(optimizer, torch.optim.LBFGS):
        raise errors.InvalidArgument(
            "LBFGS: needs closures, which are not taken: gradients are exchanged once a step"
        )


def _keeper_of(exchange: Exchange, model: torch.nn.Module, place: str) -> _keeper.Keeper | None:
    """Returns what keeps this rank's state in checkpoints; None: the job has none."""
    client = exchange.client
    if not client.has_checkpoints or client.is_elastic:
        return None
    if process.loop_of:
        raise errors.InvalidArgument(
            f"checkpoint: {process.loop_of} has the loop, and cannot go on in the middle"
            " of it"
        )
    if len(exchange.optimizers) > 1:
        raise errors.InvalidArgument(
            f"checkpoint: does not go with {len(exchange.optimizers)} optimizers yet: it may come"
            " between their steps"
        )
    keeper = _keeper.Keeper(client, exchange, model)
    on_ranks, steps = place == _placement.RANKS, _placement.local_steps(client.job)
    # With local steps weights are the job's when a checkpoint comes, and each rank has an optimizer
    # of its own.
    keeper.keeps_params = keeper.shares_optimizer = on_ranks and not steps
    return keeper


def _tables_of(
    model: torch.nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    client: Client,
    place: str,
) -> embedding.Tables | None:
    """Returns the model's tables; None: it has none."""
    tables = embedding.Tables(model, optimizers)
    if not len(tables):
        return None
    for one in optimizers:
        tables.rates(one)
    what = f'table "{tables.name}"'
    if client.is_alone:
        if place != _placement.RANKS:
            raise errors.InvalidArgument(
                f'{what}: does not go with optimizer_on="servers" in one process'
            )
    elif len(optimizers) > 1:
        raise errors.InvalidArgument(
            f"{what}: its rows are on servers, which apply the gradients of a backward pass"
            " whichever optimizer makes a step: give DistributedOptimizer one optimizer, not"
            f" {len(optimizers)}"
        )
    return tables


@overload
def DistributedOptimizer(
    optimizer: _Optimizer,
    model: torch.nn.Module,
    *,
    publish: str = ...,
    overlap: str | None = ...,
    buffers: str | None = ...,
    scaler: Any = ...,
    optimizer_on: str | None = ...,
    clip_norm: float = ...,
    order: Iterable[str] | None = ...,
    samples_per_epoch: int = ...,
    total_steps: int = ...,
    check_every: int = ...,
) -> _Optimizer: ...


@overload
def DistributedOptimizer(
    optimizer: Sequence[torch.optim.Optimizer],
    model: torch.nn.Module,
    *,
    publish: str = ...,
    overlap: str | None = ...,
    buffers: str | None = ...,
    scaler: Any = ...,
    optimizer_on: str | None = ...,
    clip_norm: float = ...,
    order: Iterable[str] | None = ...,
    samples_per_epoch: int = ...,
    total_steps: int = ...,
    check_every: int = ...,
) -> list[torch.optim.Optimizer]: ...


def DistributedOptimizer(
    optimizer: Union[torch.optim.Optimizer, Sequence[torch.optim.Optimizer]],
    model: torch.nn.Module,
    *,
    publish: str = "backward",
    overlap: str | None = None,
    buffers: str | None = None,
    scaler: Any = None,
    optimizer_on: str | None = None,
    clip_norm: float = 0.0,
    order: Iterable[str] | None = None,
    samples_per_epoch: int = 0,
    total_steps: int = 0,
    check_every: int = 100,
) -> Any:
    """Makes this process a rank of its job, and `optimizer` the one that trains `model` with all
    ranks.

    Blocks until every rank has come here; all go on with rank 0's parameters. Returns the same
    optimizer, whose `step()` is the whole job's from now on; of a sequence of optimizers (a GAN's)
    a list.

    - `publish`: "backward" gives each gradient to the job once it is complete; "step" all of them
      in `step()`, for models whose hooks do not work (reentrant checkpoints, whole compiled
      graphs).
    - `overlap`: "forward" lets the next forward pass wait for each tensor, in place of `step()` for
      all. With the optimizer on the servers alone. A parameter is waited for when its module is
      asked for it, not where the script keeps it in a variable of its own.
    - `buffers`: None: each rank has its own, which begin alike; "mean": those of fp32 are averaged,
      and what is equal on all ranks stays as it is.
    - `scaler`: the GradScaler in use. Where one rank's gradients are not finite, none makes the
      step.
    - `optimizer_on`: "ranks" or "servers"; None: as the mode has it (docs/python.md).
    - `clip_norm`: the largest norm of the gradient over all parameters, wherever the optimizer
      runs; 0: it stays as it is. With local steps it is of each rank's own gradient.
    - `order`: names of all trained parameters in the order in which backward finishes them; by
      default the reverse of `model.named_parameters()`.
    - `samples_per_epoch` (of all ranks) and `total_steps` (of each) are for the progress line.
    - `check_every`: with the optimizer on the ranks, after how many steps ranks compare their
      weights and the options of their optimizers, as they also do at checkpoints and at the end.
      Where they differ the job fails, and names the tensor or the option, both ranks and the step.
      0: never, for scripts whose ranks have weights of their own.

    An optimizer may have state already, as one that was loaded. All ranks go on with rank 0's; on
    the servers, which cannot take it, it is refused.

    In a job with `checkpoint` the script goes on by itself after any death, from the parameters,
    buffers, optimizer, random numbers and data that it had (docs/faults.md); what else it needs,
    `strata.torch.keep` keeps.

    In a job with `ranks_min` or `ranks_max` nodes join and leave while it trains. There the
    optimizer is on the servers, `buffers="mean"` averages the statistics of BatchNorm, and data
    comes from an `ElasticSampler`.

    Raises `errors.InvalidArgument` naming the parameter, group or option that cannot be had;
    `errors.JobStopped` where ranks disagree, with the tensor's name.
    """
    optimizers = _optimizers_of(optimizer)
    _check_model(model)
    for one in optimizers:
        _check_kind(one)
        _recipe.rates(one)
    clip_norm = _checks.real("clip_norm", clip_norm)
    if not 0 <= clip_norm < math.inf:
        raise errors.InvalidArgument(f"clip_norm: {clip_norm:g}, must be 0 or more, and finite")
    facts: dict[str, Any] = {
        "samples_per_epoch": _checks.whole("samples_per_epoch", samples_per_epoch, 0),
        "total_steps": _checks.whole("total_steps", total_steps, 0),
    }
    check_every = _checks.whole("check_every", check_every, 0)
    entries = _tensors.entries(model, optimizers, order, embedding.are_in(model))
    client = _lifetime.connect()
    _limit_threads(client)
    _heap.keep()
    place = _placement.choose(client.job, optimizer_on)
    tables = _tables_of(model, optimizers, client, place)
    if tables is not None:
        if scaler is not None and scaler.is_enabled():
            tables.refuse_scaler()
        if clip_norm:
            warnings.warn("clip_norm: leaves the rows of tables out", stacklevel=2)
    exchange = Exchange(client, entries, publish, scaler is not None)
    exchange.optimizers = optimizers
    keeper = _keeper_of(exchange, model, place)
    if client.takes_nodes:
        _elastic.check_model(model, buffers, _keeper.kept())
    facts["keeps_state"] = keeper is not None
    facts["can_resume"] = keeper is not None or client.is_elastic
    if overlap not in (None, "forward"):
        raise errors.InvalidArgument(f'overlap: "{overlap}", must be None or "forward"')
    trainer: Trainer
    if place == _placement.RANKS:
        if overlap is not None:
            raise errors.InvalidArgument(
                'overlap: "forward" is for the optimizer on the servers: here step() needs all'
                " gradients"
            )
        if clip_norm and scaler is not None:
            raise errors.InvalidArgument(
                "clip_norm: would clip gradients that the scaler has scaled: call scaler.unscale_"
                " and torch.nn.utils.clip_grad_norm_"
            )
        steps = _placement.local_steps(client.job)
        if steps and buffers is not None:
            raise errors.InvalidArgument(
                f'buffers: "{buffers}" does not go with local steps, in which ranks give changes of'
                " weights: leave it out"
            )
        if scaler is not None:
            _placement.refuse_if_encoded(client.job, "scaler")
        if tables is not None and not client.is_alone:
            tables.join(client)
        if buffers == "mean":
            _placement.refuse_if_lossy(client.job, 'buffers: "mean"')
        # The job counts exchanges.
        facts["total_steps"] = -(-total_steps // max(1, steps))
        exchange.gives_means = not steps
        exchange.marks_used = exchange.gives_means and _placement.marks_used(client.job)
        exchange.lag = int(_placement.is_delayed(client.job))
        first = _first_state.FirstState(client, optimizers, entries)
        exchange.register(model, buffers, labels=first.labels())
        first.offer()
        exchange.start("mean {}", True, facts)
        first.take()
        kind = _on_ranks.LocalSteps if steps else _on_ranks.EveryStep
        reporter = reporting.begin(client)
        reporter.local_steps_total = total_steps if steps else 0
        trainer = kind(exchange, reporter, client.job)
        trainer.clip_norm = clip_norm
        trainer.compare_ranks(check_every)
    else:
        trainer = _on_servers.begin(
            exchange, model, optimizers, buffers, overlap, clip_norm, facts, tables
        )
    trainer.watch_frozen([(n, p) for n, p in model.named_parameters() if not p.requires_grad])
    trainer.watch_batches()
    trainer.tables = tables
    if tables is not None:
        tables.claim()
    for one in optimizers:
        _make_distributed(one, trainer)
    if keeper is not None:
        exchange.keeper = keeper
        if scaler is not None:
            _keeper.keep(scaler=scaler)
        keeper.begin()
        process.before_finish.append(keeper.capture)
    return optimizers[0] if isinstance(optimizer, torch.optim.Optimizer) else optimizers
