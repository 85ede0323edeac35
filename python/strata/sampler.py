"""The data order of a job: which samples each rank uses, without sharing anything but a seed."""

from __future__ import annotations

import collections
import os
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sized
from typing import Any

import numpy as np

from strata import _rendezvous, errors
from strata._checks import whole
from strata._client import Client
from strata._rank import process
from strata.views import refuse


def count(who: str, data: Sized | int) -> int:
    """Returns the number of samples of a sampler with this name: at least 1."""
    if isinstance(data, (int, np.integer)):
        return whole(f"{who}: samples", data, 1)
    try:
        samples = len(data)
    except TypeError:
        raise errors.InvalidArgument(
            f"{who}: a {type(data).__name__} has no length: give a data set that has one, or the"
            " number of its samples"
        ) from None
    return whole(f"{who}: samples", samples, 1)


def seed_of_job() -> int:
    job = process.client.job if process.client else {}
    return int(job.get("seed", os.environ.get("STRATA_SEED", "1")))


def order(samples: int, shuffle: bool, seed: int, epoch: int) -> np.ndarray[Any, Any]:
    """Returns an epoch's samples of all ranks, in order."""
    if not shuffle:
        return np.arange(samples)
    return np.random.default_rng([seed, epoch]).permutation(samples)


class Ahead:
    """Batches that were drawn and have not had their turn, and where samplers were before each."""

    def __init__(self) -> None:
        self._batches: collections.deque[dict[int, dict[str, Any]]] = collections.deque()

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def positions(self) -> dict[int, dict[str, Any]]:
        """By number: where a sampler was before the oldest batch that was drawn from it."""
        positions: dict[int, dict[str, Any]] = {}
        for batch in reversed(self._batches):
            positions.update(batch)
        return positions

    def draw(self, batches: Iterator[Any]) -> Any:
        """Returns the next batch. Raises StopIteration: there is none."""
        client = process.client
        keeps = client is not None and client.has_checkpoints
        before = course.positions() if keeps else []
        batch = next(batches)
        drawn_from: dict[int, dict[str, Any]] = {}
        for number, now in enumerate(course.positions() if keeps else []):
            old = before[number] if number < len(before) else None
            if now is None or now == old:
                continue
            is_first = old is None or old["pass"] != now["pass"]
            begin = course.begin_of_pass(number)
            drawn_from[number] = {**now, "position": begin} if is_first or old is None else old
        self._batches.append(drawn_from)
        return batch

    def take(self) -> None:
        """The oldest batch has its turn."""
        self._batches.popleft()


class _Course:
    """The positions of all samplers of this process, for checkpoints, by the order of their
    creation."""

    def __init__(self) -> None:
        self._samplers: list[weakref.ref[Sampler]] = []
        self._saved: list[dict[str, Any] | None] = []
        self._current = -1
        self._awaited = -1
        self.on_draw: Callable[[], None] | None = None
        """Called before a sample is drawn, where a checkpoint waits for that."""
        self.on_reached: Callable[[], None] = lambda: None
        """Called when the sampler that was in use comes to where the checkpoint has it."""
        self.has_drawn = False
        self._ahead: list[Ahead] = []
        self.drawn = 0
        """How many samples this process has drawn for training."""
        self._is_over = False  # what a sampler goes through was made before this process began
        self._has_reached = False
        self._late = 0
        self._loops = 0  # calls of epochs() whose first epoch was asked for
        self._loop: tuple[int, int] | None = None  # number and epoch of the one that is under way
        self._first: tuple[int, int] | None = None  # the same, as the checkpoint has it
        self._current_saved = -1  # the sampler that was in use, as the checkpoint has it
        self._elastic: weakref.ref[Any] | None = None
        self.epochs_in_all = 0
        """How many epochs there are; 0: not known."""
        self._has_warned = False

    @property
    def skips(self) -> bool:
        """Whether the script is still before the position of the checkpoint from which it
        resumes."""
        return self._awaited >= 0 or self._is_over

    def add(self, sampler: Sampler) -> int:
        """Adds a sampler, and returns its number."""
        self._samplers.append(weakref.ref(sampler))
        return len(self._samplers) - 1

    def saved(self, number: int) -> dict[str, Any] | None:
        """Returns the checkpoint's position of this sampler; None: it has none."""
        return self._saved[number] if number < len(self._saved) else None

    def begin(self, number: int, has_reached: bool) -> None:
        """A sampler begins a pass, at the checkpoint's position or elsewhere."""
        self._current = number
        self.has_drawn = True
        if has_reached and number == self._awaited:
            self._awaited = -1
            self.on_reached()

    @property
    def loop(self) -> tuple[int, int] | None:
        """Number and epoch of the running loop by `epochs`; None: there is none."""
        return self._loop

    def epochs(self, count: int) -> Iterator[int]:
        """Yields the remaining epochs of a loop; see `strata.epochs`."""
        number = self._loops
        self._loops += 1
        first = self._first_epoch(number, count)
        # How many epochs several loops have together is not known.
        self.epochs_in_all = count if number == 0 else 0
        for epoch in range(first, count):
            self._enter(number, epoch)
            yield epoch
        self._enter(number, max(first, count))

    def _enter(self, number: int, epoch: int) -> None:
        self._loop = (number, epoch)
        for reference in self._samplers:
            sampler = reference()
            if sampler is not None:
                sampler._begin_epoch((number, epoch))

    def _first_epoch(self, number: int, count: int) -> int:
        """Returns the first epoch of a loop."""
        if self._first is not None:
            loop, epoch = self._first
            return count if number < loop else epoch if number == loop else 0
        if number > 0:
            return 0
        saved = self.saved(self._current_saved) if self._current_saved >= 0 else None
        if saved is not None and saved["has_epochs"]:
            return int(saved["epoch"])  # a checkpoint of a script without such a loop
        elastic = None if self._elastic is None else self._elastic()
        if elastic is not None and process.client is not None and process.client.first_step:
            return int(elastic.samples_before) // int(elastic.samples)
        loaded = [s for s in (r() for r in self._samplers) if s is not None and s._is_loaded]
        # A state that was loaded says it; where it has nothing left, the next epoch is due.
        return min((s._epoch + (s.consumed >= s.samples) for s in loaded), default=0)

    @property
    def samples_per_epoch(self) -> int:
        """Returns how many samples of all ranks an epoch of the training's sampler has; 0:
        unknown."""
        if self._current >= 0:
            sampler = self._samplers[self._current]()
            return 0 if sampler is None else sampler.samples // sampler.ranks * sampler.ranks
        elastic = None if self._elastic is None else self._elastic()
        return 0 if elastic is None else int(elastic.samples)

    def add_elastic(self, sampler: Any) -> None:
        """Adds a sampler whose position follows from the number of the step."""
        self._elastic = weakref.ref(sampler)

    def warn_of_loop(self, what: str) -> None:
        """Warns, once, of a loop that does not begin at the checkpoint's position."""
        if self._has_warned or self._loops:
            return
        self._has_warned = True
        warnings.warn_explicit(
            f"{what}: write `for epoch in strata.epochs(N)` (strata.torch.epochs) in place of"
            " `range(N)` for the loop over epochs",
            UserWarning,
            *_script_place(),
        )

    def begin_by_step(self, is_over: bool) -> None:
        """A sampler whose position follows from the number of the step begins a pass, over an epoch
        that had ended before this process began, or not."""
        self.has_drawn = True
        self._is_over = is_over
        if not is_over and not self._has_reached and self._awaited < 0:
            self._has_reached = True
            self.on_reached()

    def use_late(self, place: tuple[str, int]) -> None:
        """A sampler created after the job's first step, at this file and line, is used for training
        in a job with checkpoints."""
        self._late += 1
        if self._late == 2:
            warnings.warn_explicit(
                "a second Sampler was made after the first step, as in a loop over epochs: this"
                " script cannot go on from a checkpoint: make a Sampler once, before the loop",
                UserWarning,
                *place,
            )

    def state(self, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Returns the positions of all samplers, and which one is in use. `before`: their positions
        at the end of the last step, which hold for those that have begun no pass since."""
        positions = self.positions()
        for ahead in self._ahead:
            for number, drawn_from in ahead.positions.items():
                here = positions[number]
                if here is not None and here["pass"] == drawn_from["pass"]:
                    positions[number] = drawn_from
        for number, old in enumerate(before["samplers"] if before else []):
            new = positions[number]
            if old is not None and (new is None or new["pass"] == old["pass"]):
                positions[number] = old
        state: dict[str, Any] = {"samplers": positions, "current": self._current}
        if self._loop is not None:
            state["loop"] = list(self._loop)
        return state

    def positions(self) -> list[dict[str, Any] | None]:
        """Returns where each sampler is, with what was drawn ahead."""
        samplers = [reference() for reference in self._samplers]
        return [None if sampler is None else sampler._position() for sampler in samplers]

    def begin_ahead(self) -> Ahead:
        """Something begins to draw batches before their turn, until `end_ahead`."""
        self._ahead.append(Ahead())
        return self._ahead[-1]

    def end_ahead(self, ahead: Ahead) -> None:
        self._ahead = [one for one in self._ahead if one is not ahead]

    @property
    def held(self) -> int:
        """How many batches were drawn and have not had their turn."""
        return sum(len(ahead) for ahead in self._ahead)

    def begin_of_pass(self, number: int) -> int:
        """Returns the sample that a sampler's newest pass has begun with."""
        sampler = self._samplers[number]()
        return 0 if sampler is None else sampler._first

    def go_on(self, state: Mapping[str, Any]) -> None:
        """Makes samplers continue from a state, including samplers created later."""
        self._saved = list(state["samplers"])
        if "loop" in state:
            number, epoch = state["loop"]
            self._first = (int(number), int(epoch))
        current = self._current_saved = int(state["current"])
        # Where nothing is left out, there is nothing to wait for.
        self._awaited = current if current >= 0 and self.saved(current) is not None else -1
        for reference in self._samplers:
            sampler = reference()
            if sampler is not None:
                sampler._go_on()


course = _Course()


def epochs(count: int) -> Iterator[int]:
    """Gives the numbers of a job's epochs, 0 to `count` - 1, for the loop over them:

        for epoch in strata.epochs(5):
            sampler.set_epoch(epoch)
            for x, y in loader:
                ...

    In a job that goes on from a checkpoint the loop begins with the epoch that the checkpoint is
    in, where the `Sampler` gives what is left of it; so no epoch is empty, and what the script does
    at the end of an epoch is not done twice. For a rank that joins an elastic job, it begins with
    the epoch that the job is in; after `Sampler.load_state_dict`, with the epoch of that state. A
    script may have several such loops, one after the other. The progress shows how many epochs
    there are.

    Raises `errors.InvalidArgument` where `count` is no whole number from 0.
    """
    return course.epochs(whole("epochs", count, 0))


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
    of it. In a job that goes on from a checkpoint epochs before the checkpoint's have nothing, and
    that one what is left of it; `epoch` is the checkpoint's at first. Where `set_epoch` is not
    called, passes count in place of epochs. Threads: any, one at a time.
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
        self.samples = count("Sampler", data)
        client, environment = process.client, os.environ
        is_elastic = client.is_elastic if client else _rendezvous.is_elastic()
        if is_elastic and (rank is None or ranks is None):
            refuse("Sampler", "strata.ElasticSampler does")
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
        self._epoch = 0
        self._is_asked = False  # the script has looked at `epoch`
        self._is_loaded = False  # the script has given it a state
        self.consumed = 0
        """How many samples of this epoch all ranks together were given."""
        self._start = 0  # of the next iteration
        self._has_epochs = False  # set_epoch was called
        self._passes = 0  # iterations that were begun
        self._epoch_passes = 0  # those before the epoch that a loop by `epochs` is in
        self._loop: tuple[int, int] | None = None  # the epochs() that the newest iteration is of
        self._is_in_pass = False
        self._trains = False  # in the newest iteration
        self._first = 0  # sample of the newest iteration
        self._loader: Callable[[], Any] = lambda: None  # what draws ahead, where something does
        self._saved: dict[str, Any] | None = None  # where it goes on; None: where it stands
        self._made_late = None if client is None else _place_if_late(client)
        self._number = course.add(self)
        self._go_on()

    @property
    def seed(self) -> int:
        """The seed of the order: as given, otherwise the job's. It is settled when it is first
        needed."""
        if self._seed is None:
            self._seed = seed_of_job()
        return self._seed

    @property
    def epoch(self) -> int:
        """The epoch's number, from 0; at first the checkpoint's that the job goes on from."""
        self._is_asked = True
        return self._epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._epoch = int(epoch)

    def set_epoch(self, epoch: int) -> None:
        """Begins an epoch; the first one is 0. The same on all ranks."""
        before = self._epoch
        if whole("Sampler: epoch", epoch, 0) != before:
            self.consumed = self._start = 0
        self._epoch = int(epoch)
        self._check_loop(before)
        self._has_epochs = True

    def _check_loop(self, before: int) -> None:
        """Warns of a loop over epochs that begins with the first one in every process."""
        if self._saved is not None and self._epoch < int(self._saved["epoch"]):
            course.warn_of_loop(
                f"Sampler: epoch {self._epoch} is over, so nothing is left of it: the job goes on"
                f" in epoch {self._saved['epoch']}"
            )
        elif self._has_epochs and self._epoch == before + 1 == 1 and not self._is_asked:
            client = process.client
            if client is not None and client.has_checkpoints:
                course.warn_of_loop(
                    "Sampler: after a restart from a checkpoint this loop would run through the"
                    " epochs before it once more, without samples"
                )

    def _begin_epoch(self, loop: tuple[int, int]) -> None:
        """A loop by `epochs` begins an epoch. If passes are counted, those of skipped epochs have
        ended."""
        saved = self._saved
        if saved is not None and not saved["has_epochs"] and "loop" in saved:
            there = tuple(saved["loop"])
            if there == loop:
                self._passes = int(saved["first_pass"])
            elif there < loop:
                self._saved = {**saved, "pass": int(saved["pass"]) + 1, "position": 0}
                self._passes = self._saved["pass"]
        self._epoch_passes = self._passes

    def order(self) -> np.ndarray[Any, Any]:
        """Returns the epoch's samples in their order, of all ranks."""
        return order(self.samples, self.shuffle, self.seed, self._epoch)

    def __len__(self) -> int:
        """Returns how many samples the next iteration gives this rank."""
        left = self.samples - self._begins_at()[0]
        return left // self.ranks if self.drop_last else -(-left // self.ranks)

    def __iter__(self) -> Iterator[int]:
        count, epoch = len(self), self._epoch
        start, has_reached = self._begins_at()
        self._first = start
        self._passes += 1
        self._loop = course.loop
        if self._saved is not None and not has_reached and not self._has_epochs:
            course.warn_of_loop(
                "Sampler: the first passes over the data are over, so nothing is left of them: the"
                " job goes on in a later one"
            )
        # The next iteration is the whole epoch, also where this one is left before its end.
        self.consumed, self._start = start, 0
        self._loader = loader_that_draws()
        self._trains = _is_training()
        if has_reached:
            self._saved = None
        if self._trains:
            if self._made_late is not None:
                course.use_late(self._made_late)
                self._made_late = None
            course.begin(self._number, has_reached)
        order = self.order() if count else None
        self._is_in_pass = True
        try:
            for turn in range(count):
                if course.on_draw is not None:
                    course.on_draw()
                self.consumed = min(start + (turn + 1) * self.ranks, self.samples)
                assert order is not None
                course.drawn += self._trains
                yield int(order[(start + turn * self.ranks + self.rank) % self.samples])
        finally:
            self._is_in_pass = False
        if epoch == self._epoch:
            # The rest, which ranks cannot share, is over, too, even if fewer ranks continue.
            self.consumed, self._start = self.samples, 0

    def _go_on(self) -> None:
        """Takes the checkpoint's position of this sampler, if the job resumes from one."""
        self._saved = course.saved(self._number)
        if self._saved is None:
            return
        if self._saved["position"] > self.samples:
            raise errors.InvalidArgument(
                f"Sampler: the checkpoint has {self._saved['position']} samples of an epoch, the"
                f" data {self.samples}"
            )
        self._seed, self._epoch = int(self._saved["seed"]), int(self._saved["epoch"])

    def _begins_at(self) -> tuple[int, bool]:
        """Returns the sample with which the next iteration begins, and whether it is at or after
        the checkpoint's position of this sampler."""
        saved = self._saved
        if saved is None:
            return self._start, False
        by_epoch = bool(saved["has_epochs"])
        here, there = (self._epoch, saved["epoch"]) if by_epoch else (self._passes, saved["pass"])
        if here < there:
            return self.samples, False
        return int(saved["position"]) if here == there else self._start, True

    def _position(self) -> dict[str, Any] | None:
        """Returns the position of training in the data, without samples that were only drawn ahead;
        None: training does not use this sampler."""
        if self._saved is not None:
            return self._saved  # it has not come there yet
        if not self._trains:
            return None
        position, is_ahead = self.consumed, False
        loader = self._loader()
        if loader is not None:
            returned = loader._rcvd_idx * _batch_size(loader) * self.ranks
            is_ahead = self._first + returned < position
            position = min(self._first + returned, position)
        if not self._is_in_pass and not is_ahead:
            position = self.samples  # also of one that was left before its end
        state: dict[str, Any] = {
            "seed": self.seed,
            "epoch": self._epoch,
            "has_epochs": self._has_epochs,
            "pass": self._passes - 1,
            "position": position,
        }
        if self._loop is not None:
            state["loop"], state["first_pass"] = list(self._loop), self._epoch_passes
        return state

    def state_dict(self) -> dict[str, int]:
        """Returns where the data stands, for any number of ranks: seed, epoch, and samples
        consumed.

        After an epoch's last sample its state is that of an epoch with nothing left.
        A DataLoader with workers draws ahead of training; what it has drawn counts as consumed.
        """
        return {"seed": self.seed, "epoch": self._epoch, "consumed": self.consumed}

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
        self._seed, self._epoch, self.consumed = seed, epoch, consumed
        self._start = consumed
        self._is_loaded = True


def _place_if_late(client: Client) -> tuple[str, int] | None:
    """Returns where the calling script creates the sampler, if that is after the first step of a
    job with checkpoints."""
    if not client.has_checkpoints or client.steps <= client.first_step:
        return None
    script = sys._getframe(2)
    return script.f_code.co_filename, script.f_lineno


def _script_place() -> tuple[str, int]:
    """Returns the file and line of the script that calls into this package."""
    own = os.path.dirname(os.path.abspath(__file__))
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(own):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def _is_training() -> bool:
    """Returns whether samples drawn now are for training: with PyTorch, evaluations need no
    gradients."""
    torch = sys.modules.get("torch")
    return torch is None or bool(torch.is_grad_enabled())


def loader_that_draws() -> Callable[[], Any]:
    """Returns a weak reference to the iterator, with workers, of PyTorch's DataLoader that begins
    to draw samples now: it draws ahead. The reference is empty if there is none."""
    frame = sys._getframe(1)
    for _ in range(8):
        if frame.f_back is None:
            break
        frame = frame.f_back
        owner = frame.f_locals.get("self")
        if hasattr(owner, "_rcvd_idx") and hasattr(owner, "_index_sampler"):
            return weakref.ref(owner)
    return lambda: None


def _batch_size(loader: Any) -> int:
    size = getattr(loader._index_sampler, "batch_size", None)
    if isinstance(loader._index_sampler, Sampler):
        return 1
    if isinstance(size, int):
        return size
    raise errors.InvalidArgument(
        "Sampler: a DataLoader with workers has a batch_sampler without batch_size, so that a"
        " checkpoint cannot know what is drawn ahead: num_workers=0"
    )
