"""The data order of a job: which samples each rank uses, without sharing anything but a seed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sized
from typing import Any

import numpy as np

from strata import errors
from strata._checks import whole
from strata._lifetime import process


def _count(data: Sized | int) -> int:
    if isinstance(data, (int, np.integer)):
        return whole("Sampler: samples", data, 1)
    try:
        samples = len(data)
    except TypeError:
        raise errors.InvalidArgument(
            f"Sampler: a {type(data).__name__} has no length: give a data set that has one, or the"
            " number of its samples"
        ) from None
    return whole("Sampler: samples", samples, 1)


class Sampler:
    """Gives each rank its share of an epoch's samples, as indices; a `sampler` for PyTorch's
    DataLoader.

    An epoch is one permutation of all samples (or their own order) that follows from the seed and
    the epoch's number. Of it ranks take turns: of n ranks, rank r has the places r, r + n, r + 2n
    and so on. So a step of all ranks together uses the same samples however many ranks there are,
    as long as they use equally many in all. Samples that are left over where ranks do not divide an
    epoch are not used in it; with `drop_last=False` the first ones come again in their place.

    `data` is anything that has a length, or the number of samples. `seed` is the job's by default.

    Each iteration is the epoch from its start; the first one after `load_state_dict`, what is left
    of it. Threads: any, one at a time.
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
        self.samples = _count(data)
        client, environment = process.client, os.environ
        if ranks is None:
            ranks = client.ranks if client else int(environment.get("WORLD_SIZE", "1"))
        if rank is None:
            rank = client.rank if client else int(environment.get("RANK", "0"))
        self.ranks = whole("Sampler: ranks", ranks, 1)
        self.rank = whole("Sampler: rank", rank, 0)
        if self.rank >= self.ranks:
            raise errors.InvalidArgument(
                f"Sampler: rank: {self.rank}, must be below the number of ranks, {self.ranks}"
            )
        if self.samples < self.ranks and drop_last:
            raise errors.InvalidArgument(
                f"Sampler: {self.samples} samples are too few for {self.ranks} ranks"
            )
        self.shuffle = shuffle
        self._seed = None if seed is None else whole("Sampler: seed", seed, 0)
        self.drop_last = drop_last
        self.epoch = 0
        self.consumed = 0
        """How many samples of this epoch all ranks together were given."""
        self._start = 0  # of the next iteration

    @property
    def seed(self) -> int:
        """What the order follows from: as given, else the job's. It is settled when it is first
        needed."""
        if self._seed is None:
            job = process.client.job if process.client else {}
            self._seed = int(job.get("seed", os.environ.get("STRATA_SEED", "1")))
        return self._seed

    def set_epoch(self, epoch: int) -> None:
        """Begins an epoch; the first one is 0. The same on all ranks."""
        if whole("Sampler: epoch", epoch, 0) != self.epoch:
            self.consumed = self._start = 0
        self.epoch = int(epoch)

    def order(self) -> np.ndarray[Any, Any]:
        """Returns the epoch's samples in their order, of all ranks."""
        if not self.shuffle:
            return np.arange(self.samples)
        return np.random.default_rng([self.seed, self.epoch]).permutation(self.samples)

    def __len__(self) -> int:
        """Returns how many samples the next iteration gives this rank."""
        left = self.samples - self._start
        return left // self.ranks if self.drop_last else -(-left // self.ranks)

    def __iter__(self) -> Iterator[int]:
        order, start, count, epoch = self.order(), self._start, len(self), self.epoch
        # The next iteration is the whole epoch, also where this one is left before its end.
        self.consumed, self._start = start, 0
        for turn in range(count):
            self.consumed = min(start + (turn + 1) * self.ranks, self.samples)
            yield int(order[(start + turn * self.ranks + self.rank) % self.samples])
        if epoch == self.epoch:
            # What ranks cannot share is over, too, even if fewer ranks go on from here.
            self.consumed, self._start = self.samples, 0

    def state_dict(self) -> dict[str, int]:
        """Returns where the data stands, for any number of ranks: seed, epoch, and samples
        consumed.

        After an epoch's last sample its state is that of an epoch with nothing left.
        A DataLoader with workers draws ahead of training; what it has drawn counts as consumed.
        """
        return {"seed": self.seed, "epoch": self.epoch, "consumed": self.consumed}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Goes on from a state that `state_dict` returned, at any number of ranks."""
        for name in ("seed", "epoch", "consumed"):
            if name not in state:
                raise errors.InvalidArgument(f"Sampler: the state has no {name}")
        seed, epoch, consumed = (
            whole(f"Sampler: {n}", state[n], 0) for n in ("seed", "epoch", "consumed")
        )
        if consumed > self.samples:
            raise errors.InvalidArgument(
                f"Sampler: consumed: the state has {consumed} samples, the data {self.samples}"
            )
        self._seed, self.epoch, self.consumed = seed, epoch, consumed
        self._start = consumed
