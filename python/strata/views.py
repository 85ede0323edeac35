"""Who makes which step of a job whose nodes may join and leave while it trains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from strata import _rendezvous, errors


@dataclass(frozen=True)
class StepRanks:
    """Who makes a step. In jobs with `ranks_min` or `ranks_max` each step has ranks of its own;
    elsewhere all ranks make every step.

    - `makes_it`: whether this rank does; else it has made its last step.
    - `rank`: this rank's number among those that make the step, from 0; 0 where it does not.
    - `ranks`: how many they are.
    - `rank_steps_before`: how many steps all ranks together have made before, each rank's counted.
    """

    makes_it: bool
    rank: int
    ranks: int
    rank_steps_before: int


def is_elastic(job: Mapping[str, Any]) -> bool:
    """Whether nodes may join and leave the job, or be lost to it, which is given by the field names
    of job.proto."""
    return bool(job.get("ranks_min") or job.get("ranks_max"))


def drops_lost(job: Mapping[str, Any]) -> bool:
    """Whether the job goes on without nodes that die. It is elastic, and no node joins it: what all
    ranks have alike, those that are left have."""
    return bool(job.get("on_loss") == "DROP")


def refuse(what: str, why: str) -> NoReturn:
    """Raises `errors.InvalidArgument`: `what` needs ranks that stay, because of `why`."""
    raise errors.InvalidArgument(
        f"{what}: does not go with ranks_min, ranks_max or on_loss: DROP, by which nodes come or go"
        f" while the job trains: {why}"
    )


def refuse_in_elastic(what: str, why: str) -> None:
    """Does so where this process is a rank of such a job, also before it has joined it."""
    if _rendezvous.is_elastic():
        refuse(what, why)
