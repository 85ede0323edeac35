"""PyTorch Lightning over a job: `Trainer(strategy=StrataStrategy(), devices=1)` in a script that
`strata run` starts.

    import lightning as L
    from strata.lightning import StrataStrategy

    trainer = L.Trainer(strategy=StrataStrategy(), devices=1, max_epochs=5)
    trainer.fit(module, loader)

`strata run -n 4 train.py` makes four ranks of it; `python train.py` is one. The package is
`lightning`, 2.x.
"""

# Checked with and without Lightning installed.
# mypy: disable-error-code="import-not-found,misc,unused-ignore,no-any-return"

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from strata import _presence, _rendezvous, errors, reporting
from strata._rank import process
from strata.sampler import Sampler
from strata.torch._on_servers import Served
from strata.torch.optimizer import Distributed, DistributedOptimizer
from strata.torch.process_group import init_process_group
from strata.views import refuse_in_elastic

try:
    from lightning.fabric.plugins import ClusterEnvironment
    from lightning.fabric.utilities.distributed import (
        _all_gather_ddp_if_available,
        _sync_ddp_if_available,
    )
    from lightning.fabric.utilities.rank_zero import rank_zero_only
    from lightning.pytorch.strategies import ParallelStrategy, StrategyRegistry
    from lightning.pytorch.trainer.states import TrainerFn
except ImportError as error:
    if error.name is not None and error.name.split(".")[0] != "lightning":
        raise
    raise ImportError(
        "strata.lightning: needs PyTorch Lightning 2: pip install lightning", name=error.name
    ) from None


class StrataEnvironment(ClusterEnvironment):
    """The job's answers to Lightning's questions about processes."""

    @property
    def creates_processes_externally(self) -> bool:
        return True

    @property
    def main_address(self) -> str:
        return os.environ.get("MASTER_ADDR", "127.0.0.1")

    @property
    def main_port(self) -> int:
        return int(os.environ.get("MASTER_PORT", "0"))

    @staticmethod
    def detect() -> bool:
        return "STRATA_LAUNCH" in os.environ

    def world_size(self) -> int:
        return _rendezvous.ranks()

    def set_world_size(self, size: int) -> None:
        """Does nothing: the size is the job's."""

    def global_rank(self) -> int:
        return _rendezvous.rank()

    def set_global_rank(self, rank: int) -> None:
        """Does nothing: a rank's number is the job's."""

    def local_rank(self) -> int:
        return int(os.environ.get("LOCAL_RANK", "0"))

    def node_rank(self) -> int:
        return _rendezvous.node()


class _TakesClosures:
    """A distributed optimizer that runs Lightning's closure, once, before its step."""

    def step(self, closure: Callable[[], Any] | None = None, **how: Any) -> Any:
        result = None
        if closure is not None:
            with torch.enable_grad():
                result = closure()
        super().step(**how)  # type: ignore[misc]
        return result


# Schedulers, which were made before, look for their own mark, and warn where it is gone.
_TakesClosures.step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]


class StrataStrategy(ParallelStrategy):
    """Trains with all ranks of the job, in whichever mode it has.

    `options` are those of `strata.torch.DistributedOptimizer`: `buffers`, `publish`,
    `optimizer_on`, `clip_norm`, `overlap`, `order`.

    Gradients, weights and averaged buffers are the job's to exchange. For barriers, metrics and
    checkpoint paths, which a job does not carry, it makes a process group
    (`strata.torch.init_process_group`). Rank 0 writes checkpoints. A process fits once.
    """

    strategy_name = "strata"

    if TYPE_CHECKING:  # properties that Lightning has set by the time they are used
        accelerator: Any
        lightning_module: Any
        model: Any
        optimizers: Any
        parallel_devices: Any

    def __init__(
        self, checkpoint_io: Any = None, precision_plugin: Any = None, **options: Any
    ) -> None:
        super().__init__(
            cluster_environment=StrataEnvironment(),
            checkpoint_io=checkpoint_io,
            precision_plugin=precision_plugin,
        )
        self._options = options
        self.num_nodes = 1  # the Trainer writes what it was given

    # Called by the Trainer before and outside of training.

    @property
    def is_distributed(self) -> bool:
        return self.world_size > 1

    @property
    def root_device(self) -> torch.device:
        return self.parallel_devices[0]

    @property
    def distributed_sampler_kwargs(self) -> dict[str, Any]:
        return {"num_replicas": self.world_size, "rank": self.global_rank}

    def set_world_ranks(self) -> None:
        """Tells Lightning which process is rank 0."""
        rank_zero_only.rank = self.global_rank  # type: ignore[attr-defined]

    def setup_environment(self) -> None:
        if len(self.parallel_devices) != 1 or self.num_nodes != 1:
            raise errors.InvalidArgument(
                f"Trainer: devices: {len(self.parallel_devices)}, num_nodes: {self.num_nodes}: a"
                " rank has one device: give devices=1, num_nodes=1, and run: strata run -n RANKS"
                " --nodes NODES SCRIPT"
            )
        refuse_in_elastic(
            "StrataStrategy", "Lightning divides data and reduces metrics by ranks that stay"
        )
        super().setup_environment()
        if self.is_distributed:
            init_process_group()
        atexit.register(_presence.take_part_if_none_was)

    def process_dataloader(self, dataloader: Any) -> Any:
        inner = getattr(getattr(dataloader, "sampler", None), "dataset", None)
        if isinstance(getattr(inner, "_sampler", None), Sampler):
            raise errors.InvalidArgument(
                "Trainer: a data loader has a strata.Sampler, whose share Lightning would divide"
                " again: give the Trainer use_distributed_sampler=False, or the loader no sampler"
            )
        return dataloader

    # Training.

    def setup(self, trainer: Any) -> None:
        if self._layer_sync is not None:
            raise errors.InvalidArgument(
                'Trainer: sync_batchnorm: is not there; StrataStrategy(buffers="mean") averages'
                " buffers"
            )
        self.accelerator.setup(trainer)
        self.model = self.precision_plugin.convert_module(self.model)
        self.model_to_device()
        if trainer.state.fn == TrainerFn.FITTING:
            self.setup_optimizers(trainer)
            self._distribute(trainer)
        self.setup_precision_plugin()

    def _distribute(self, trainer: Any) -> None:
        """Joins the job with the module's optimizers, which stay the objects that schedulers
        have."""
        if process.client is not None:
            raise errors.OutOfOrder(
                "fit: this process has trained already; a process is one rank of one job"
            )
        given = self.optimizers
        if not given or not all(isinstance(one, torch.optim.Optimizer) for one in given):
            raise errors.InvalidArgument("configure_optimizers: returned no optimizer")
        process.loop_of = "PyTorch Lightning"
        made = DistributedOptimizer(
            given,
            self.lightning_module,
            scaler=getattr(self.precision_plugin, "scaler", None),
            total_steps=max(0, trainer.max_steps),
            **self._options,
        )
        for optimizer in made:
            kind = type(optimizer)
            optimizer.__class__ = type(
                kind.__name__, (_TakesClosures, kind), {"__module__": kind.__module__}
            )
            optimizer._opt_called = True  # type: ignore[attr-defined]
        self.optimizers = made  # which wraps them anew

    def backward(self, closure_loss: Any, *rest: Any, **how: Any) -> Any:
        reporter = reporting.current()
        if (
            reporter is not None
            and isinstance(closure_loss, torch.Tensor)
            and closure_loss.numel() == 1
        ):
            module = self.lightning_module
            parts = module.trainer.accumulate_grad_batches if module.automatic_optimization else 1
            reporter.on_loss(float(closure_loss.detach()) * parts)
        return super().backward(closure_loss, *rest, **how)

    @contextmanager
    def block_backward_sync(self) -> Iterator[None]:
        """Within it gradients only accumulate, as for all batches of an accumulation except the
        last."""
        first = self.optimizers[0]
        assert isinstance(first, Distributed)
        with first.no_sync():
            yield

    def load_optimizer_state_dict(self, checkpoint: Any) -> None:
        for optimizer in self.optimizers:
            if isinstance(optimizer._strata_trainer, Served):
                raise errors.InvalidArgument(
                    "ckpt_path: the optimizer's state is on the servers, so a checkpoint has none"
                    " to go on from: load the weights alone, with load_from_checkpoint, or use"
                    " sync, ring, local or diloco"
                )
        super().load_optimizer_state_dict(checkpoint)

    # Communication outside of the job's exchange.

    def barrier(self, name: str | None = None) -> None:
        if dist.is_initialized():
            dist.barrier()

    def broadcast(self, obj: Any, src: int = 0) -> Any:
        if not dist.is_initialized():
            return obj
        objects = [obj]
        dist.broadcast_object_list(objects, src)
        return objects[0]

    def reduce(self, tensor: Any, group: Any = None, reduce_op: Any = "mean") -> Any:
        if not isinstance(tensor, torch.Tensor):
            return tensor
        return _sync_ddp_if_available(tensor, group, reduce_op=reduce_op)

    def all_gather(self, tensor: Any, group: Any = None, sync_grads: bool = False) -> Any:
        return _all_gather_ddp_if_available(tensor, group=group, sync_grads=sync_grads)

    def model_to_device(self) -> None:
        self.model.to(self.root_device)

    @classmethod
    def register_strategies(cls, strategy_registry: Any) -> None:
        strategy_registry.register(
            cls.strategy_name, cls, description="Ranks of a Strata job, in whichever mode it has"
        )


StrataStrategy.register_strategies(StrategyRegistry)
