"""Where a job's optimizer runs: on its ranks, as with DDP, or with the job's weights."""

from __future__ import annotations

from typing import Any

from strata import errors, views

RANKS, SERVERS = "ranks", "servers"


def local_steps(job: dict[str, Any]) -> int:
    """Returns the number of steps between two exchanges; 0: every step is exchanged."""
    return int(job["consistency"].get("lazy", {}).get("local_steps", 0))


def is_delayed(job: dict[str, Any]) -> bool:
    """Returns whether the mean gradient of a step arrives one step later (double buffering)."""
    return bool(job["consistency"].get("lazy", {}).get("double_buffering", False))


def refuse_if_delayed(job: dict[str, Any], what: str) -> None:
    """Raises `errors.InvalidArgument` naming what needs the gradients of its own step."""
    if is_delayed(job):
        raise errors.InvalidArgument(
            f"{what}: does not go with double buffering (delay1), where gradients are those of the"
            " step before"
        )


def _refuse_codecs(job: dict[str, Any], what: str, but: tuple[str, ...], why: str) -> None:
    for field in ("push", "pull"):
        codec = job.get(field, {}).get("codec", "FP32")
        if codec not in but:
            raise errors.InvalidArgument(f"{what}: does not go with {field}.codec: {codec}, {why}")


def refuse_if_lossy(job: dict[str, Any], what: str) -> None:
    """Raises `errors.InvalidArgument` naming what needs complete means, if the job's codec omits
    parts of them."""
    why = "which leaves parts of means out: FP32, FP16 and BF16 do not"
    _refuse_codecs(job, what, ("FP32", "FP16", "BF16"), why)


def refuse_if_encoded(job: dict[str, Any], what: str) -> None:
    """Raises `errors.InvalidArgument` naming what needs bit-exact means: with a codec the rounding
    error of one step is part of the next."""
    why = (
        "by which what is left of one step's overflow would count in the next: use FP32, or"
        " bfloat16 autocast"
    )
    _refuse_codecs(job, what, ("FP32",), why)


def marks_used(job: dict[str, Any]) -> bool:
    """Returns whether ranks tell each other which gradients they have: if means are bit-exact. With
    a codec, its residual of earlier steps is part of each mean."""
    if job.get("exchange") == "NONE":
        return False
    return all(job.get(way, {}).get("codec", "FP32") == "FP32" for way in ("push", "pull"))


def mode_name(job: dict[str, Any]) -> str:
    """Returns the name of the job's mode, for errors."""
    consistency = job["consistency"]
    if "sync" in consistency:
        return "sync"
    if "async" in consistency:
        return "async"
    lazy = consistency.get("lazy", {})
    for field in ("quorum", "significance", "double_buffering", "local_steps"):
        if lazy.get(field):
            return field
    return f"lazy with staleness {lazy.get('staleness', 0)}"


def ranks_may_optimize(job: dict[str, Any]) -> bool:
    """Returns whether all nodes see the same gradients, so that the ranks' own optimizers stay
    equal."""
    consistency = job["consistency"]
    if "sync" in consistency:
        return True
    lazy = consistency.get("lazy")
    if lazy is None or lazy.get("significance") or lazy.get("quorum"):
        return False
    return bool(lazy.get("local_steps") or lazy.get("double_buffering"))


def choose(job: dict[str, Any], wanted: str | None) -> str:
    """Returns where the optimizer runs: as wanted, else as the job's mode has it.

    Raises `errors.InvalidArgument` where the mode does not go with what is wanted.
    """
    if wanted not in (None, RANKS, SERVERS):
        raise errors.InvalidArgument(f'optimizer_on: "{wanted}", must be "ranks" or "servers"')
    if views.is_elastic(job) and not views.drops_lost(job):
        if wanted == RANKS:
            views.refuse(
                'optimizer_on: "ranks"',
                "one that joins has neither weights nor the optimizer's state: they are the"
                " servers'",
            )
        return SERVERS
    own = RANKS if ranks_may_optimize(job) else SERVERS
    if wanted == RANKS and own == SERVERS:
        raise errors.InvalidArgument(
            f'optimizer_on: "ranks" does not go with mode {mode_name(job)}, where ranks see'
            " different gradients: the optimizer is the servers'"
        )
    return wanted or own
