"""A PyTorch optimizer in terms of the job: its kind, its constants, and a learning rate per
step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from strata import errors, optimizers
from strata.torch._tensors import Entry

_TOLERANCE = 1e-6


class Recipe:
    """The job's description of an optimizer. The groups' rates keep their initial ratios."""

    def __init__(self, optimizer: torch.optim.Optimizer, text: str) -> None:
        self.text = text
        self._optimizer = optimizer
        groups = optimizer.param_groups
        rates = [_first_rate(group) for group in groups]
        # A group whose rate is not 0 stands for all.
        self._base = max(range(len(groups)), key=lambda i: rates[i] > 0)
        base = rates[self._base] or 1.0
        self._ratios = [rate / base if rates[self._base] else 1.0 for rate in rates]
        decays = [float(group.get("weight_decay", 0.0)) for group in groups]
        largest = max(decays) or 1.0
        self._decays = [decay / largest for decay in decays]
        self._constants = [_constants(group) for group in groups]

    def multipliers(self, entry: Entry) -> tuple[float, float]:
        """Returns the multipliers of the parameter's learning rate and weight decay."""
        return self._ratios[entry.group], self._decays[entry.group]

    def rate(self) -> float:
        """Returns the step's learning rate.

        Raises `errors.InvalidArgument` naming a group whose rate has another ratio to the others'
        than at first, or of which more than the rate has changed.
        """
        groups = self._optimizer.param_groups
        now = rates(self._optimizer)
        base = now[self._base]
        for number, (group, ratio, rate) in enumerate(zip(groups, self._ratios, now)):
            for field, value in self._constants[number].items():
                if group[field] != value:
                    raise _refuse(
                        number,
                        field,
                        group[field],
                        f"was {value!r} at first: on the servers only rates change",
                    )
            if abs(rate - ratio * base) > _TOLERANCE * max(abs(rate), abs(ratio * base)):
                raise errors.InvalidArgument(
                    f"optimizer: group {number}: its learning rate {rate:g} is no longer {ratio:g}"
                    f" times group {self._base}'s, {base:g}: on the servers ratios of groups are"
                    " fixed"
                )
        return base

    def check_same_rate(self, given: float | None) -> None:
        """Raises `errors.InvalidArgument` if the rate has changed since the pass began."""
        rate = self.rate()
        if given is not None and rate != given:
            raise errors.InvalidArgument(
                f"optimizer: the learning rate became {rate:g} after gradients were given with"
                f" {given:g}: change it before backward(), or give DistributedOptimizer"
                ' publish="step"'
            )


def rates(optimizer: torch.optim.Optimizer) -> list[float]:
    """Returns the learning rates of the groups. Raises `errors.InvalidArgument` naming a group
    without one."""
    found = []
    for number, group in enumerate(optimizer.param_groups):
        try:
            found.append(float(group["lr"]))
        except (KeyError, TypeError, ValueError):
            has = f"lr is {group['lr']!r}" if "lr" in group else "has no lr"
            raise errors.InvalidArgument(
                f"optimizer: group {number}: {has}, but each step has a learning rate that all"
                f" ranks compare: set optimizer.param_groups[{number}]['lr'] to a number, also"
                " where the optimizer itself does not read it"
            ) from None
    return found


def _constants(group: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of a group that the job was told, besides the rate."""
    fields = (
        "weight_decay",
        "momentum",
        "nesterov",
        "dampening",
        "betas",
        "eps",
        "amsgrad",
        "maximize",
        "lr_decay",
        "initial_accumulator_value",
    )
    return {field: group[field] for field in fields if field in group}


def _first_rate(group: dict[str, Any]) -> float:
    # Schedulers with a warm-up begin at another rate than the one that they work towards.
    return float(group.get("initial_lr", group["lr"]))


def _refuse(number: int, field: str, value: object, why: str) -> errors.InvalidArgument:
    return errors.InvalidArgument(
        f"optimizer: group {number}: {field}={value!r} {why}; modes with the optimizer on the ranks"
        " (sync, ring, local, diloco) take it"
    )


def _same(groups: Sequence[dict[str, Any]], field: str) -> Any:
    """Returns the common value of all groups. Raises `errors.InvalidArgument` naming a group that
    differs."""
    first = groups[0].get(field)
    for number, group in enumerate(groups):
        if group.get(field) != first:
            raise _refuse(number, field, group.get(field), f"differs from group 0's {first!r}")
    return first


def of(optimizer: torch.optim.Optimizer, entries: Sequence[Entry], clip_norm: float) -> Recipe:
    """Returns the job's optimizer that has the same formula.

    Raises `errors.InvalidArgument` naming the optimizer, or the group and field, that has none.
    """
    groups = optimizer.param_groups
    for number, group in enumerate(groups):
        for field in ("amsgrad", "maximize", "dampening", "lr_decay"):
            if group.get(field):
                raise _refuse(number, field, group[field], "is not known to the servers")
    decay = max(float(group.get("weight_decay", 0.0)) for group in groups)
    made: optimizers.Optimizer
    if type(optimizer) is torch.optim.SGD:
        made = optimizers.SGD(
            weight_decay=decay,
            momentum=float(_same(groups, "momentum")),
            nesterov=bool(_same(groups, "nesterov")),
        )
    elif type(optimizer) in (torch.optim.Adam, torch.optim.AdamW):
        kind = optimizers.Adam if type(optimizer) is torch.optim.Adam else optimizers.AdamW
        # Newer versions of PyTorch have both in one class.
        if any(group.get("decoupled_weight_decay") for group in groups):
            kind = optimizers.AdamW
        beta1, beta2 = _same(groups, "betas")
        made = kind(
            weight_decay=decay,
            beta1=float(beta1),
            beta2=float(beta2),
            epsilon=float(_same(groups, "eps")),
        )
    elif type(optimizer) is torch.optim.Adagrad:
        made = optimizers.Adagrad(
            weight_decay=decay,
            epsilon=float(_same(groups, "eps")),
            initial_accumulator=float(_same(groups, "initial_accumulator_value")),
        )
    else:
        raise errors.InvalidArgument(
            f"optimizer: the servers have SGD, Adagrad, Adam and AdamW, not"
            f" {type(optimizer).__name__};"
            " modes with the optimizer on the ranks (sync, ring, local, diloco) take it"
        )
    made.clip_norm = clip_norm
    return Recipe(optimizer, made.to_text())
