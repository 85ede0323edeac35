"""The optimizer on the servers, or in the ring: parameters are in memory that the ranks of a node
share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from strata import errors, reporting
from strata._rank import process
from strata.reporting import Reporter
from strata.torch import _first_state, _recipe, _tensors, _waits
from strata.torch._exchange import Exchange
from strata.torch._recipe import Recipe
from strata.torch._tensors import Entry
from strata.torch._trainer import Trainer
from strata.torch.embedding import Tables


class Served(Trainer):
    """Gradients go to the job, and new weights come back into the parameters, in place.

    The PyTorch optimizer makes no step of its own; its groups say the learning rate, which
    schedulers change as ever.
    """

    def __init__(
        self,
        exchange: Exchange,
        reporter: Reporter,
        recipe: Recipe,
        overlap: str | None,
        model: torch.nn.Module,
    ) -> None:
        super().__init__(exchange, reporter)
        self._recipe = recipe
        self._versions: dict[int, int] = {}
        self._places: dict[int, int] = {}
        self._waits = _waits.PerTensor(exchange, model) if overlap == "forward" else None
        exchange.on_pass_begin = self._begin
        for entry in exchange.entries:
            entry.param.data = exchange.memory.weights(entry.index, entry.param.detach())
            self._places[entry.index] = entry.param.data_ptr()
        if exchange.memory.device_type == "cpu":
            exchange.client.guard_weights()
        if exchange.client.is_elastic:
            exchange.client.wait_all()  # of a rank that joins, the weights come with its first step
        exchange.read_buffers()
        exchange.install_hooks()
        exchange.on_published = self._note
        process.before_finish.append(exchange.check_ended)
        process.after_finish.append(self._keep_final)

    def _begin(self) -> None:
        self.exchange.rate = self._recipe.rate()
        self._versions.clear()

    def _note(self, entry: Entry) -> None:
        assert entry.param.grad is not None
        self._versions[entry.index] = entry.param.grad._version

    def check_load(self, state: Mapping[str, Any]) -> None:
        if _first_state.is_there(state.get("state", {})):
            raise errors.InvalidArgument(
                "load_state_dict: the optimizer's state is on the servers, which keep their own:"
                f" {_first_state.ELSEWHERE}"
            )

    def exchange_gradients(self) -> None:
        raise errors.InvalidArgument(
            "exchange: the optimizer is on the servers, where gradients go one way"
        )

    def step(self, optimizer: torch.optim.Optimizer, own_step: Any) -> None:
        exchange = self.exchange
        if exchange.in_pass:
            self._recipe.check_same_rate(exchange.rate)
        for entry in exchange.entries:
            if entry.param.data_ptr() != self._places[entry.index]:
                raise errors.InvalidArgument(
                    f'parameter "{entry.name}": other memory was put in its place (param.data ='
                    " ..., model.to(...)), but its weights are the servers' and change by gradients"
                    " alone: set weights before DistributedOptimizer, or have the optimizer on the"
                    ' ranks (sync, ring, local, diloco; in sync optimizer_on="ranks")'
                )
            gradient, version = entry.param.grad, self._versions.get(entry.index)
            if version is not None and (gradient is None or gradient._version != version):
                raise errors.InvalidArgument(
                    f'the gradient of parameter "{entry.name}" was changed after it was given: use '
                    "clip_norm= for clip_grad_norm_, bfloat16 autocast for a GradScaler"
                )
        self.publish_rows()
        exchange.finish_pass()
        self._versions.clear()
        exchange.has_passed = False
        if self._waits is not None:
            self._waits.begin()
        else:
            exchange.client.wait_all()
        exchange.read_buffers()
        self.count_step()

    def _keep_final(self) -> None:
        """The final weights have arrived: from now on they are this process's own."""
        if self._waits is not None:
            self._waits.end()
        if self.exchange.memory.device_type == "cpu":
            self.exchange.client.keep_weights()
            return
        for entry in self.exchange.entries:
            entry.param.data = entry.param.data.clone(memory_format=torch.preserve_format)


def begin(
    exchange: Exchange,
    model: torch.nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    buffers: str | None,
    overlap: str | None,
    clip_norm: float,
    facts: dict[str, Any],
    tables: Tables | None,
) -> Served:
    """Starts the training of a model whose optimizer is the job's."""
    if len(optimizers) > 1:
        raise errors.InvalidArgument(
            f"{len(optimizers)} optimizers: on the servers a job has one; a mode with the optimizer"
            " on the ranks (sync, ring, local, diloco) takes a list"
        )
    if exchange.skips_nonfinite:
        raise errors.InvalidArgument(
            "scaler: the optimizer is on the servers, which cannot skip a step: use bfloat16"
            " autocast"
        )
    for entry in exchange.entries:
        if entry.param.dtype != torch.float32:
            raise errors.InvalidArgument(
                f'parameter "{entry.name}": is of {entry.param.dtype}; on the servers weights are'
                " float32"
            )
    _tensors.refuse_shared(model, exchange.entries)
    recipe = _recipe.of(optimizers[0], exchange.entries, clip_norm)
    _first_state.refuse_on_servers(exchange.client, optimizers[0], exchange.entries)
    # Clipping must know it; jobs that need not take any number in each step.
    facts["samples_per_rank"] = exchange.samples
    # A parameter without a gradient on any rank is unchanged.
    facts["marks_absent"] = exchange.memory.marks_absent = True
    if tables is not None:
        tables.join(exchange.client)
    exchange.register(model, buffers, recipe.multipliers)
    exchange.start(recipe.text, True, facts)
    return Served(exchange, reporting.begin(exchange.client), recipe, overlap, model)
