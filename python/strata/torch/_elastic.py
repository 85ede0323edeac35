"""Restrictions on a model and its script if nodes may join and leave the job while it trains: a
joining rank has the job's weights and the number of the step, and nothing else."""

from __future__ import annotations

import torch
from torch.nn.modules.batchnorm import _NormBase

from strata import views
from strata.sampler import course


def check_model(model: torch.nn.Module, buffers: str | None, kept: list[str]) -> None:
    """Raises `errors.InvalidArgument` naming a buffer that training changes and each rank would
    have for itself, or state kept in checkpoints."""
    refuse_kept(kept)
    if buffers is not None:
        return
    for name, module in model.named_modules():
        if isinstance(module, _NormBase) and module.running_mean is not None:
            prefix = f"{name}." if name else ""
            views.refuse(
                f'buffer "{prefix}running_mean"',
                "each rank has its own, and one that joins has none: give DistributedOptimizer"
                ' buffers="mean"',
            )


def refuse_kept(names: list[str]) -> None:
    """Raises `errors.InvalidArgument` naming an object that checkpoints must keep."""
    for name in names:
        views.refuse(
            f"keep: {name}",
            "ranks keep nothing of their own, as one that joins has none: bring it to the step"
            " optimizer.first_step",
        )


def check_script(knows_first_step: bool) -> None:
    """Called at the first gradient: the script must know its first step. Raises
    `errors.InvalidArgument` if it does not."""
    if not (knows_first_step or course.has_drawn):
        views.refuse(
            "this script's data",
            "a rank that joins would begin them anew: use strata.torch.ElasticSampler, or begin"
            " with the step optimizer.first_step and ask optimizer.step_ranks",
        )
