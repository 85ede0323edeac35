"""The data order of a job: which samples each rank uses, without sharing anything but a seed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sized
from typing import Any

import numpy as np

from strata import errors, reporting
from strata._lifetime import process


class Sampler:
    """Gives each rank its share of an epoch's samples, as indices; a `sampler` for PyTorch's DataLoader.

    An epoch is one permutation of all samples (or their own order) that follows from the seed and the
    epoch's number. Of it ranks take turns: of n ranks, rank r has the places r, r + n, r + 2n and so on.
    So a step of all ranks together uses the same samples however many ranks there are, as long as they
    use equally many in all. Samples that are left over where ranks do not divide an epoch are not used
    in it; with `drop_last=False` the first ones come again in their place.

    `data` is anything that has a length, or the number of samples. `seed` is the job's by default.
    """

    def __init__(
        self,
        data: Sized | int,
        *,
        shuffle: bool = True,
        seed: int | None = None,
        drop_last: bool = True,
        rank: int | None = None,
        ranks: int | None = None,
    ) -> None:
        self.samples = data if isinstance(data, int) else len(data)
        if self.samples < 1:
            raise errors.InvalidArgument("Sampler: there are no samples")
        client = process.client
        environment = os.environ
        self.ranks = int(
            ranks or (client.ranks if client else environment.get("WORLD_SIZE", "1"))
        )
        own = client.rank if client else int(environment.get("RANK", "0"))
        self.rank = own if rank is None else rank
        if not 0 <= self.rank < self.ranks:
            raise errors.InvalidArgument(f"Sampler: rank {self.rank} of {self.ranks}")
        if self.samples < self.ranks and drop_last:
            raise errors.InvalidArgument(
                f"Sampler: {self.samples} samples are too few for {self.ranks} ranks"
            )
        self.shuffle = shuffle
        self.seed = int(environment.get("STRATA_SEED", "1")) if seed is None else seed
        self.drop_last = drop_last
        self.epoch = 0
        self.consumed = 0
        """How many samples of this epoch all ranks together were given before."""

    def set_epoch(self, epoch: int) -> None:
        """Begins an epoch; the first one is 0. The same on all ranks."""
        if epoch != self.epoch:
            self.consumed = 0
        self.epoch = epoch

    def order(self) -> np.ndarray[Any, Any]:
        """Returns the epoch's samples in their order, of all ranks."""
        if not self.shuffle:
            return np.arange(self.samples)
        return np.random.default_rng([self.seed, self.epoch]).permutation(self.samples)

    def __len__(self) -> int:
        """Returns how many samples are left for this rank in the epoch."""
        left = self.samples - self.consumed
        return left // self.ranks if self.drop_last else -(-left // self.ranks)

    def __iter__(self) -> Iterator[int]:
        order, first, count = self.order(), self.consumed, len(self)
        for turn in range(count):
            place = first + turn * self.ranks + self.rank
            self.consumed = first + (turn + 1) * self.ranks
            reporter = reporting.current()
            if reporter is not None:
                reporter.on_samples(1)
            yield int(order[place % self.samples])
        self.consumed = 0

    def state_dict(self) -> dict[str, int]:
        """Returns where the data stands, for any number of ranks: seed, epoch, and samples consumed.

        A DataLoader with workers draws ahead of training; what it has drawn counts as consumed.
        """
        return {"seed": self.seed, "epoch": self.epoch, "consumed": self.consumed}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Goes on from a state that `state_dict` returned, at any number of ranks."""
        for name in ("seed", "epoch", "consumed"):
            if name not in state:
                raise errors.InvalidArgument(f"Sampler: the state has no {name}")
        if not 0 <= state["consumed"] <= self.samples:
            raise errors.InvalidArgument(
                f"Sampler: {state['consumed']} samples consumed of {self.samples}"
            )
        self.seed, self.epoch, self.consumed = state["seed"], state["epoch"], state["consumed"]
