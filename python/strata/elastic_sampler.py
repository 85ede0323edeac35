"""The data order of a job whose nodes may join and leave while it trains."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sized
from typing import Any

import numpy as np

from strata import errors
from strata import sampler as _sampler
from strata._checks import whole
from strata._client import Client
from strata._rank import process
from strata.views import StepRanks

_NAME = "ElasticSampler"


class ElasticSampler:
    """Gives each rank its batches of an epoch, as lists of indices, whichever nodes join and leave
    the job meanwhile; a `batch_sampler` for PyTorch's DataLoader.

        sampler = strata.ElasticSampler(data, 32)
        for epoch in strata.epochs(5):
            sampler.set_epoch(epoch)
            for x, y in DataLoader(data, batch_sampler=sampler):
                ...  # one step

    The samples of a job are one long row: a permutation of all samples (or their own order) for
    each epoch, which follows from the seed and the epoch's number, one after the other. Each step
    takes the next ones, `batch_size` for each rank that makes it, which take turns. So each sample
    comes once in each epoch, also where the number of ranks changes, in a job that goes on from a
    checkpoint, and for a rank that joins. The step in which an epoch ends takes the rest of its
    samples from the next one.

    An iteration has the batches up to the epoch's end, from the step that the script makes next: of
    an epoch that was over before this process began, none; and where the one before was left in the
    middle, its rest first. Where `set_epoch` is not called, iterations count in place of epochs.
    Once this rank's node leaves the job, iterations end, and `has_left` says so.

    `data` is anything that has a length, or the number of samples. `seed` is the job's by default.
    A step takes one batch, or `batches_per_step` of them, all but the last under `no_sync()`. It
    works in any job but those with local steps. Threads: any, one at a time.

    Iterations raise `errors.OutOfOrder`: no session has started, or the script does not make one
    step with `batches_per_step` batches.
    """

    def __init__(
        self,
        data: Sized | int,
        batch_size: int,
        *,
        shuffle: bool = True,
        seed: int | None = None,
        batches_per_step: int = 1,
    ) -> None:
        self.samples = _sampler.count(_NAME, data)
        self.batch_size = whole(f"{_NAME}: batch_size", batch_size, 1)
        self.batches_per_step = whole(f"{_NAME}: batches_per_step", batches_per_step, 1)
        self.shuffle = shuffle
        self._seed = None if seed is None else whole(f"{_NAME}: seed", seed, 0)
        self.epoch = 0
        self._has_epochs = False  # set_epoch was called
        self._passes = 0  # iterations that were begun
        self._orders: dict[int, np.ndarray[Any, Any]] = {}
        _sampler.course.add_elastic(self)

    @property
    def seed(self) -> int:
        """The seed of the order: as given, otherwise the job's."""
        return _sampler.seed_of_job() if self._seed is None else self._seed

    @property
    def has_left(self) -> bool:
        """Whether this rank has made its last step while the job goes on: its weights are not the
        final ones, and the script is to end."""
        return process.client is not None and process.client.has_left

    @property
    def rank(self) -> int | None:
        """This rank's number, from 0, among those that made the last step, or, before the first
        one, make that; None once it has left. Also when the job is over. Ranks that died are not
        counted."""
        if process.client is None:
            return int(os.environ.get("RANK", "0"))
        return None if self.has_left else _started().last_ranks().rank

    @property
    def ranks(self) -> int:
        """How many ranks these are."""
        if process.client is None:
            return int(os.environ.get("WORLD_SIZE", "1"))
        return _started().last_ranks().ranks

    @property
    def samples_before(self) -> int:
        """How many samples all ranks together take before the step that this one makes next, of all
        epochs. The same on all ranks, which a learning rate that follows from it is, too."""
        if process.client is None:
            return 0
        client = _started()
        return self._begin(client.step_ranks(client.steps))

    def set_epoch(self, epoch: int) -> None:
        """Says which epoch the next iteration has; the first one is 0. The same on all ranks."""
        self.epoch = whole(f"{_NAME}: epoch", epoch, 0)
        self._has_epochs = True

    def __len__(self) -> int:
        """Returns how many batches the next iteration has if the nodes stay as they are."""
        begun, ranks = 0, self.ranks
        if process.client is not None:
            if self.has_left:
                return 0
            stands = process.client.step_ranks(process.client.steps)
            begun, ranks = self._begin(stands), stands.ranks
        left = max(0, self._end(self._next_epoch()) - begun)
        return -(-left // (ranks * self._share)) * self.batches_per_step

    def __iter__(self) -> Iterator[list[int]]:
        client = _started()
        self.epoch = self._next_epoch()
        self._passes += 1
        end, first_step, step = self._end(self.epoch), client.steps, client.steps
        used = _used_batches()
        ranks = client.step_ranks(step)
        is_over = self._begin(ranks) >= end
        _sampler.course.begin_by_step(is_over and step == client.first_step)
        while ranks.makes_it and self._begin(ranks) < end:
            for batch in range(self.batches_per_step):
                if _sampler.course.on_draw is not None:
                    _sampler.course.on_draw()
                drawn = (step - first_step) * self.batches_per_step + batch
                self._check_steps(client, first_step, used(drawn), step)
                _sampler.course.drawn += self.batch_size
                yield self._batch(ranks, batch)
            # The next iteration asks for the step after the epoch's last one.
            if self._begin(ranks) + ranks.ranks * self._share >= end:
                return
            step += 1
            ranks = client.step_ranks(step)

    @property
    def _share(self) -> int:
        """Returns the number of samples of each rank in each step."""
        return self.batch_size * self.batches_per_step

    def _next_epoch(self) -> int:
        return self.epoch if self._has_epochs else self._passes

    def _begin(self, ranks: StepRanks) -> int:
        """Returns the position of a step's first sample in the sequence of all samples."""
        return ranks.rank_steps_before * self._share

    def _end(self, epoch: int) -> int:
        return (epoch + 1) * self.samples

    def _batch(self, ranks: StepRanks, number: int) -> list[int]:
        """Returns one of this rank's batches of a step."""
        turns = number * self.batch_size + np.arange(self.batch_size)
        places = self._begin(ranks) + turns * ranks.ranks + ranks.rank
        epochs, within = np.divmod(places, self.samples)
        return [int(self._order(int(e))[i]) for e, i in zip(epochs, within)]

    def _order(self, epoch: int) -> np.ndarray[Any, Any]:
        """Returns an epoch's samples in order."""
        if epoch not in self._orders:
            # A step may reach from one epoch into the next.
            self._orders = {e: order for e, order in self._orders.items() if e == epoch - 1}
            self._orders[epoch] = _sampler.order(self.samples, self.shuffle, self.seed, epoch)
        return self._orders[epoch]

    def _check_steps(self, client: Client, first_step: int, used: int, step: int) -> None:
        """Raises `errors.OutOfOrder` if the script's steps do not match its batches, of which it
        has used this many. A batch of `step` is drawn."""
        least = first_step + used // self.batches_per_step
        if least <= client.steps <= step:
            return
        batches = "batch" if self.batches_per_step == 1 else f"{self.batches_per_step} batches"
        raise errors.OutOfOrder(
            f"{_NAME}: a batch of step {step} is drawn, but the script has made {client.steps}"
            f" steps: make one step with each {batches}, or say how many batches a step has:"
            " batches_per_step"
        )


def _started() -> Client:
    """Returns this process's client, once its job has begun."""
    client = process.client
    if client is None or not client.has_started:
        raise errors.OutOfOrder(
            f"{_NAME}: no session has started in this process:"
            " strata.torch.DistributedOptimizer or strata.Session starts one"
        )
    if client.job.get("consistency", {}).get("lazy", {}).get("local_steps"):
        raise errors.InvalidArgument(
            f"{_NAME}: does not go with local steps, of which the job counts exchanges:"
            " strata.Sampler"
        )
    return client


def _used_batches() -> Callable[[int], int]:
    """Returns a function that returns how many of the drawn batches the script has used: all of
    them, unless something draws ahead."""
    loader = _sampler.loader_that_draws()

    def used(drawn: int) -> int:
        draws_ahead = loader()
        # The one that it is about to hand out is not used yet.
        given = drawn if draws_ahead is None else max(0, int(draws_ahead._rcvd_idx) - 1)
        return max(0, given - _sampler.course.held)

    return used
