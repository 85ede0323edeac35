"""Jobs of scripts/goes_on.py that something kills, beside those that nothing disturbs."""

from __future__ import annotations

import pathlib
import re
from dataclasses import dataclass, field
from typing import Any

import torch
from forks import run_job
from support import must_finish

SCRIPT = "goes_on.py"
STEPS = 30


def checkpoints(folder: pathlib.Path, attempts: int = 3, every: int = 3) -> tuple[str, ...]:
    """Options of a job that writes checkpoints, and goes on by itself."""
    settings = [f'checkpoint={{dir: "{folder}/checkpoints" every_steps: {every}}}']
    settings += [f"restart={{attempts: {attempts}}}"] if attempts else []
    return tuple(word for setting in settings for word in ("--set", setting))


def is_alike(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return set(one) == set(other) and all(is_alike(one[key], other[key]) for key in one)
    return bool(one == other)


def expect_same_end(folder: pathlib.Path, undisturbed: pathlib.Path) -> None:
    """All that ranks have at the end is the same, and the second run has not begun anew."""
    for rank in range(2):
        one = torch.load(folder / f"rank{rank}.pt")
        other = torch.load(undisturbed / f"rank{rank}.pt")
        made = one.pop("made")
        losses = other.pop("made")
        assert 0 < len(made) < len(losses) == STEPS
        assert made == losses[-len(made) :]
        assert is_alike(one, other)


@dataclass
class Undisturbed:
    """Runs that nothing disturbs, each made once: those of one mode and place end alike, whatever
    nodes and servers there are."""

    folder: pathlib.Path
    made: dict[tuple[str, str], pathlib.Path] = field(default_factory=dict)

    def run(self, mode: str = "sync", place: str = "ranks") -> pathlib.Path:
        """Returns the folder of the run, in which ranks have left what they had at the end."""
        mode = "sync" if mode == "ring" else mode
        if (mode, place) not in self.made:
            folder = self.folder / f"{mode}-{place}"
            must_finish(run_job(folder, SCRIPT, "--place", place, mode=mode))
            self.made[mode, place] = folder
        return self.made[mode, place]


def expect_no_change_by_a_kill(
    folder: pathlib.Path, undisturbed: pathlib.Path, mode: str, *arguments: str, **how: Any
) -> str:
    """Runs a job whose rank 1 is killed: it goes on by itself, to the same end. Returns what the
    job printed."""
    die = ("--die-at", "17", "--checkpoints", str(folder / "checkpoints"))
    result = must_finish(
        run_job(folder, SCRIPT, *arguments, *die, mode=mode, options=checkpoints(folder), **how)
    )
    assert re.search(r"goes on after it failed: rank 1 .*: killed by signal 9", result.out)
    expect_same_end(folder, undisturbed)
    return result.out + result.err
