"""DistributedDataParallel over a job: DDP stays, and its gradients go through the job in place of
Gloo or NCCL.

    strata.torch.init_process_group()
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    ddp.register_comm_hook(strata.torch.state(ddp.module), strata.torch.comm_hook)

For code that makes the DDP module itself. Other scripts are better off without DDP: with
`DistributedOptimizer`, which needs no process group, no buckets, and knows all modes.
"""

# Annotations are not postponed here, as DDP looks at those of its hook.

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel

from strata import _checks, _library, _lifetime, errors, reporting, views
from strata._rank import process
from strata.reporting import Reporter
from strata.torch import _placement, _tensors
from strata.torch._exchange import Exchange
from strata.torch._tensors import Entry
from strata.torch._trainer import Trainer


@dataclass
class _Bucket:
    """A bucket whose gradients were given, and that waits for their means."""

    buffer: Tensor
    gradients: list[tuple[Entry, Tensor]] = field(default_factory=list)
    future: Any = field(default_factory=torch.futures.Future)


class HookState(Trainer):
    """What `comm_hook` keeps between its calls. One per process.

    Threads: those of backward passes, one at a time.
    """

    def __init__(self, exchange: Exchange, reporter: Reporter, job: dict[str, Any]) -> None:
        super().__init__(exchange, reporter)
        self._entries = {id(entry.param): entry for entry in exchange.entries}
        self._given: list[_Bucket] = []
        self._is_alone = job.get("exchange") == "NONE"
        # With double buffering the first pass has no means to give.
        self._gives_zeros = _placement.is_delayed(job)
        exchange.on_pass_begin = lambda: self._compare(exchange.client.steps)
        process.before_finish.append(lambda: self._compare_last(exchange.client.steps))

    @property
    def samples(self) -> int:
        """How many samples this rank's gradients are means over; by default all ranks weigh
        alike."""
        return self.exchange.samples

    @samples.setter
    def samples(self, samples: int) -> None:
        self.set_samples(samples)

    def take(self, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        """Gives a bucket's gradients to the job; the pass's last bucket waits for all means."""
        taken = _Bucket(bucket.buffer())
        if self._is_alone:
            taken.future.set_result(taken.buffer)
            if bucket.is_last():
                self.count_step()
            return taken.future  # type: ignore[no-any-return]
        if bucket.index() == 0 and self.exchange.in_pass:
            raise errors.OutOfOrder(
                "comm_hook: a backward pass began before the one before had given all gradients"
            )
        if not self.exchange.in_pass:
            self.exchange.begin_pass(next(iter(bucket.gradients()), None))
        self._given.append(taken)
        for param, gradient in zip(bucket.parameters(), bucket.gradients()):
            entry = self._entries.get(id(param))
            if not param.numel():
                continue
            if entry is None:
                raise errors.InvalidArgument(
                    f"comm_hook: a parameter of shape {tuple(param.shape)} is none of those that"
                    " the model trained when strata.torch.state() was called: give it the module"
                    " that DDP wraps"
                )
            self.exchange.give(entry, gradient)
            taken.gradients.append((entry, gradient))
        if bucket.is_last():
            self._finish()
        return taken.future  # type: ignore[no-any-return]

    def _finish(self) -> None:
        """Ends the pass, writes the means over the gradients of all its buckets, and completes
        those."""
        exchange = self.exchange
        exchange.finish_pass()
        exchange.read_used()
        exchange.has_passed = False
        for bucket in self._given:
            for entry, gradient in bucket.gradients:
                _library.check(exchange.memory.read(entry.index, gradient))
            if self._gives_zeros or exchange.was_empty:
                bucket.buffer.zero_()
        if exchange.read_skip():
            # A GradScaler finds it, on every rank, and makes no step.
            for bucket in self._given:
                bucket.buffer.fill_(float("inf"))
        self._gives_zeros = False
        given, self._given = self._given, []
        self.count_step()
        for bucket in given:
            bucket.future.set_result(bucket.buffer)


def _trained(model: torch.nn.Module) -> torch.optim.Optimizer:
    """Returns the parameters that DDP exchanges, as an optimizer has them."""
    ignored = set(getattr(model, "_ddp_params_and_buffers_to_ignore", ()))
    params = [p for n, p in model.named_parameters() if p.requires_grad and n not in ignored]
    if not params:
        raise errors.InvalidArgument("state: no parameter of the model requires a gradient")
    return torch.optim.SGD(params, lr=0.0)


def _check_mode(job: dict[str, Any]) -> None:
    if views.is_elastic(job):
        views.refuse("comm_hook", "DDP's ranks stay, and have weights of their own")
    if not _placement.ranks_may_optimize(job) or _placement.local_steps(job):
        raise errors.InvalidArgument(
            f"comm_hook: does not go with mode {_placement.mode_name(job)}: DDP makes its"
            " optimizer's step with each pass's mean gradient (sync, ring, delay1);"
            " DistributedOptimizer knows all modes"
        )


def state(
    model: torch.nn.Module,
    *,
    scaler: Any = None,
    samples_per_epoch: int = 0,
    total_steps: int = 0,
    check_every: int = 100,
) -> HookState:
    """Makes this process a rank of its job, to which `comm_hook` gives the gradients of `model`.

    `model` is the module that DDP wraps, `ddp.module`. Blocks until every rank has come here; all
    go on with rank 0's parameters. `scaler`: the GradScaler in use; without one a gradient that is
    not finite is an error, which names the parameter. `samples_per_epoch` (of all ranks) and
    `total_steps` (of each) are for the progress line. `check_every`: as of `DistributedOptimizer`;
    only weights are compared.

    In mode `delay1` the means of the first pass are zeros, of which the optimizer makes a step; one
    with weight decay shrinks the weights in it. `DistributedOptimizer` leaves this step out.

    Raises `errors.InvalidArgument`: a mode other than sync, ring and delay1, a job with `ranks_min`
    or `ranks_max`, or a parameter that cannot be exchanged, by name; `errors.JobStopped` where
    ranks disagree, with the tensor's name.
    """
    if isinstance(model, DistributedDataParallel):
        model = model.module
    entries = _tensors.entries(model, [_trained(model)], None)
    check_every = _checks.whole("check_every", check_every, 0)
    client = _lifetime.connect()
    _check_mode(client.job)
    if scaler is not None:
        _placement.refuse_if_delayed(client.job, "scaler")
        _placement.refuse_if_encoded(client.job, "scaler")
    exchange = Exchange(client, entries, "backward", scaler is not None)
    exchange.gives_means = True
    exchange.marks_used = _placement.marks_used(client.job)
    exchange.lag = int(_placement.is_delayed(client.job))
    exchange.register(model, None)
    facts = {
        "samples_per_epoch": _checks.whole("samples_per_epoch", samples_per_epoch, 0),
        "total_steps": _checks.whole("total_steps", total_steps, 0),
    }
    exchange.start("mean {}", False, facts)
    made = HookState(exchange, reporting.begin(client), client.job)
    exchange.read_into_params()
    made.compare_ranks(check_every)
    return made


def comm_hook(state: HookState, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """What `DistributedDataParallel.register_comm_hook` takes, with what `state` returned.

    Each gradient goes to the job while the backward pass goes on; after the last one the pass waits
    for the means. Works with all of DDP's options but `sparse` gradients and its `join`.
    """
    return state.take(bucket)
