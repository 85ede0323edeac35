"""Elastic samplers of all ranks of a job whose nodes come and go, each with a client that is made
up."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
import strata
import torch
from strata import elastic_sampler, views
from strata import sampler as sampler_module
from torch.utils.data import DataLoader, TensorDataset

# From which step on which ranks make steps.
STAYS = {0: [0, 1]}
CHANGES = {0: [0, 1], 3: [0, 1, 2, 3, 4], 8: [2, 3, 4], 13: [0, 2, 3, 4]}


class FakeClient:
    """A rank's client of a job whose ranks are those of some steps on."""

    def __init__(self, ranks_from: dict[int, list[int]], rank: int, first_step: int = 0) -> None:
        self._from = ranks_from
        self._rank = rank
        self.first_step = self.steps = first_step
        self.has_started = True
        self.has_checkpoints = False
        self.is_elastic = False  # as Sampler asks, of ranks that stay
        self.asked = 0  # the furthest step that was asked for
        self._ends_at = float("inf")
        self.job: dict[str, Any] = {"seed": 7}

    def step_ranks(self, step: int) -> strata.StepRanks:
        self.asked = max(step, self.asked)
        makers = self._makers(step)
        makes_it = self._rank in makers
        if not makes_it:
            self._ends_at = min(step, self._ends_at)
        before = sum(len(self._makers(other)) for other in range(step))
        rank = makers.index(self._rank) if makes_it else 0
        return strata.StepRanks(makes_it, rank, len(makers), before)

    def last_ranks(self) -> strata.StepRanks:
        return self.step_ranks(max(self.first_step, self.steps - 1))

    @property
    def has_left(self) -> bool:
        return self.steps >= self._ends_at

    def _makers(self, step: int) -> list[int]:
        return self._from[max(first for first in self._from if first <= step)]


class Processes:
    """The ranks of a job, all in this process, one after the other."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self.course: Any = None

    def begin(self, client: FakeClient | None) -> Any:
        """Begins a process that has this client; returns the state that its samplers share."""
        process = SimpleNamespace(client=client)
        self.course = sampler_module._Course()
        for module in (elastic_sampler, sampler_module):
            self._patch.setattr(module, "process", process)
        self._patch.setattr(sampler_module, "course", self.course)
        return self.course


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    return Processes(monkeypatch)


def train(
    client: FakeClient, sampler: strata.ElasticSampler, epochs: int, sets: bool = True
) -> dict[int, list[int]]:
    """A rank's training; returns what it used in each step."""
    used: dict[int, list[int]] = {}
    for epoch in range(epochs):
        if sets:
            sampler.set_epoch(epoch)
        for number, batch in enumerate(sampler):
            used.setdefault(client.steps, []).extend(batch)
            client.steps += (number + 1) % sampler.batches_per_step == 0
    return used


def used_by_all(
    processes: Processes,
    ranks_from: dict[int, list[int]],
    samples: int,
    batch: int,
    epochs: int,
    sets: bool = True,
    **how: Any,
) -> list[list[int]]:
    """What all ranks together use in each step, in the order in which they take turns."""
    steps: dict[int, list[list[int]]] = {}
    for rank in sorted({rank for makers in ranks_from.values() for rank in makers}):
        # A rank that comes back is a new process.
        stretches = sorted(ranks_from.items())
        for place, (first, makers) in enumerate(stretches):
            if rank not in makers or (place and rank in stretches[place - 1][1]):
                continue
            client = FakeClient(ranks_from, rank, first)
            processes.begin(client)
            sampler = strata.ElasticSampler(samples, batch, **how)
            for step, indices in train(client, sampler, epochs, sets).items():
                steps.setdefault(step, []).append(indices)
    assert sorted(steps) == list(range(len(steps)))
    return [[i for turn in zip(*steps[step]) for i in turn] for step in sorted(steps)]


def row(steps: list[list[int]]) -> list[int]:
    return [i for step in steps for i in step]


@pytest.mark.parametrize("sets", [True, False])
@pytest.mark.parametrize("samples, batch", [(24, 2), (31, 2), (5, 4), (40, 1)])
@pytest.mark.parametrize("ranks_from", [STAYS, CHANGES], ids=["stay", "change"])
def test_each_sample_comes_once_in_each_epoch(
    processes: Processes, ranks_from: dict[int, list[int]], samples: int, batch: int, sets: bool
) -> None:
    epochs = 4
    steps = used_by_all(processes, ranks_from, samples, batch, epochs, sets)
    assert all(len(step) >= batch for step in steps)
    used = row(steps)
    for epoch in range(epochs):
        assert sorted(used[epoch * samples : (epoch + 1) * samples]) == list(range(samples))
    # The excess belongs to the step in which the last epoch ends.
    assert samples * epochs <= len(used) < samples * epochs + len(steps[-1])


def test_the_row_of_samples_does_not_depend_on_the_ranks(processes: Processes) -> None:
    of_two = row(used_by_all(processes, STAYS, 31, 2, 4))
    of_many = row(used_by_all(processes, CHANGES, 31, 2, 4))
    one = row(used_by_all(processes, {0: [0]}, 31, 1, 4))
    assert one == of_two[: len(one)] == of_many[: len(one)]
    assert len(one) == 4 * 31


def test_where_ranks_stay_steps_are_those_of_a_sampler(processes: Processes) -> None:
    for rank in range(2):
        client = FakeClient(STAYS, rank)
        processes.begin(client)
        used = train(client, strata.ElasticSampler(24, 3), 3)
        sampler = strata.Sampler(24, rank=rank, ranks=2, seed=7)
        others: list[int] = []
        for epoch in range(3):
            sampler.set_epoch(epoch)
            others += list(sampler)
        assert [i for step in used.values() for i in step] == others


def test_without_shuffling_samples_keep_their_own_order(processes: Processes) -> None:
    steps = used_by_all(processes, CHANGES, 31, 2, 2, shuffle=False)
    assert row(steps)[:62] == list(range(31)) * 2


def test_epochs_and_seeds_differ(processes: Processes) -> None:
    used = row(used_by_all(processes, STAYS, 24, 2, 2))
    assert used[:24] != used[24:48]
    assert row(used_by_all(processes, STAYS, 24, 2, 2, seed=8)) != used
    assert row(used_by_all(processes, STAYS, 24, 2, 2, seed=7)) == used


@pytest.mark.parametrize("ranks_from", [STAYS, CHANGES], ids=["stay", "change"])
def test_a_step_may_have_several_batches(
    processes: Processes, ranks_from: dict[int, list[int]]
) -> None:
    whole = used_by_all(processes, ranks_from, 31, 4, 3)
    assert used_by_all(processes, ranks_from, 31, 2, 3, batches_per_step=2) == whole


@pytest.mark.parametrize("first_step", [0, 1, 5, 6, 11])
def test_a_process_that_goes_on_uses_what_is_left(processes: Processes, first_step: int) -> None:
    client = FakeClient(STAYS, 1)
    processes.begin(client)
    whole = train(client, strata.ElasticSampler(24, 2), 2)
    assert len(whole) == 12
    client = FakeClient(STAYS, 1, first_step)
    course = processes.begin(client)
    reached: list[int] = []
    course.on_reached = lambda: reached.append(client.steps)
    again = train(client, strata.ElasticSampler(24, 2), 2)
    assert again == {step: used for step, used in whole.items() if step >= first_step}
    assert reached == [first_step] and course.has_drawn


def test_nothing_is_reported_of_epochs_that_others_have_made(processes: Processes) -> None:
    client = FakeClient(STAYS, 0, 7)  # in the second epoch of six steps
    course = processes.begin(client)
    sampler = strata.ElasticSampler(24, 2)
    skips = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        assert len(sampler) == [0, 5, 6][epoch]
        for _ in sampler:
            client.steps += 1
        skips.append(course.skips)
    assert skips == [True, False, False]
    # An epoch that this process has made itself is over, too.
    sampler.set_epoch(0)
    assert list(sampler) == [] and not course.skips


def test_a_rank_that_leaves_comes_to_its_end_in_order(processes: Processes) -> None:
    client = FakeClient(CHANGES, 1)
    processes.begin(client)
    sampler = strata.ElasticSampler(40, 2)
    assert sampler.rank == 1 and sampler.ranks == 2 and not sampler.has_left
    used = train(client, sampler, 9)
    assert sorted(used) == list(range(8))
    assert sampler.has_left and sampler.rank is None and len(sampler) == 0
    assert list(sampler) == []


def test_its_rank_is_that_of_the_last_step(processes: Processes) -> None:
    client = FakeClient(CHANGES, 2, 3)
    processes.begin(client)
    sampler = strata.ElasticSampler(10**6, 2)
    assert (sampler.rank, sampler.ranks) == (2, 5)
    seen = []
    for _ in sampler:
        client.steps += 1
        seen.append((sampler.rank, sampler.ranks))
        if client.steps == 15:
            break
    assert seen == [(2, 5)] * 5 + [(0, 3)] * 5 + [(1, 4)] * 2


def test_steps_of_the_next_epoch_are_not_asked_for(processes: Processes) -> None:
    """What ranks have asked for, no node can leave or join at."""
    client = FakeClient(STAYS, 0)
    processes.begin(client)
    train(client, strata.ElasticSampler(24, 2), 2)
    assert client.steps == 12 and client.asked == 11


def test_it_tells_how_many_samples_come_before_a_step(processes: Processes) -> None:
    for rank, first_step, expected in (
        (0, 0, [0, 4, 8, 12, 22, 32]),
        (3, 3, [12, 22, 32, 42, 52, 62, 68]),
    ):
        client = FakeClient(CHANGES, rank, first_step)
        processes.begin(client)
        sampler = strata.ElasticSampler(10**6, 2)
        seen = []
        for _ in draw(sampler, 2 if rank else 0):
            seen.append(sampler.samples_before)
            client.steps += 1
            if len(seen) == len(expected):
                break
        assert seen == expected


def test_it_tells_how_many_batches_are_left_of_the_epoch(processes: Processes) -> None:
    client = FakeClient(STAYS, 0)
    processes.begin(client)
    sampler = strata.ElasticSampler(25, 2)
    assert len(sampler) == 7
    batches = iter(sampler)
    next(batches)
    client.steps += 1
    assert len(strata.ElasticSampler(25, 2)) == 6
    # The seventh step has taken three of the second epoch's samples.
    client.steps = 7
    sampler.set_epoch(1)
    assert len(sampler) == 6


def test_what_is_left_of_an_epoch_comes_first_in_the_next(processes: Processes) -> None:
    client = FakeClient(STAYS, 0)
    processes.begin(client)
    whole = train(client, strata.ElasticSampler(24, 2), 2)
    client = FakeClient(STAYS, 0)
    processes.begin(client)
    sampler = strata.ElasticSampler(24, 2)
    used = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for batch in sampler:
            used.append(batch)
            client.steps += 1
            if epoch == 0 and client.steps == 2:
                break
    assert used == list(whole.values())


@pytest.mark.parametrize("workers", [0, 2])
def test_it_is_a_data_loaders_batch_sampler(processes: Processes, workers: int) -> None:
    data = TensorDataset(torch.arange(40))
    seen: list[tuple[int, list[int]]] = []
    for rank in (0, 1):
        client = FakeClient(CHANGES, rank)
        processes.begin(client)
        sampler = strata.ElasticSampler(data, 2)
        loader = DataLoader(data, batch_sampler=cast(Any, sampler), num_workers=workers)
        assert len(loader) == 10
        for epoch in range(2):
            sampler.set_epoch(epoch)
            for (batch,) in loader:
                seen.append((client.steps, batch.tolist()))
                client.steps += 1
        assert client.steps == 8 and sampler.has_left
    alone = used_by_all(processes, CHANGES, 40, 2, 2)
    for step, batch in seen:
        assert set(batch) <= set(alone[step])
    assert sorted(i for step, batch in seen if step < 3 for i in batch) == sorted(row(alone[:3]))


def draw(sampler: strata.ElasticSampler, workers: int = 0) -> Iterator[Any]:
    data = TensorDataset(torch.arange(sampler.samples))
    yield from DataLoader(data, batch_sampler=cast(Any, sampler), num_workers=workers)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("every", [0, 2])
def test_steps_that_do_not_fit_the_batches_are_named(
    processes: Processes, every: int, workers: int
) -> None:
    client = FakeClient(STAYS, 0)
    processes.begin(client)
    with pytest.raises(strata.OutOfOrder, match="make one step with each batch, or say how many"):
        for number, _ in enumerate(draw(strata.ElasticSampler(10**4, 2), workers)):
            client.steps += every > 0 and number % every == 0


def test_more_steps_than_batches_are_named(processes: Processes) -> None:
    client = FakeClient(STAYS, 0)
    processes.begin(client)
    sampler = strata.ElasticSampler(100, 2, batches_per_step=2)
    with pytest.raises(strata.OutOfOrder, match="step 0 is drawn, .* made 1 steps: .* each 2 batc"):
        for _ in sampler:
            client.steps += 1


def test_it_needs_a_session_that_has_started(processes: Processes) -> None:
    processes.begin(None)
    sampler = strata.ElasticSampler(24, 2)
    with pytest.raises(strata.OutOfOrder, match="ElasticSampler: no session has started"):
        list(sampler)
    client = FakeClient(STAYS, 0)
    client.has_started = False
    processes.begin(client)
    with pytest.raises(strata.OutOfOrder, match="ElasticSampler: no session has started"):
        list(sampler)


def test_local_steps_are_refused(processes: Processes) -> None:
    client = FakeClient(STAYS, 0)
    client.job["consistency"] = {"lazy": {"local_steps": 8}}
    processes.begin(client)
    with pytest.raises(strata.InvalidArgument, match="does not go with local steps"):
        list(strata.ElasticSampler(24, 2))


def test_rank_ranks_and_length_are_the_environments_before_the_session(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes.begin(None)
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    sampler = strata.ElasticSampler(range(25), 2)
    assert (sampler.rank, sampler.ranks, len(sampler)) == (2, 3, 5)
    assert not sampler.has_left and sampler.samples_before == 0


@pytest.mark.parametrize(
    "make, named",
    [
        (lambda: strata.ElasticSampler(0, 1), "ElasticSampler: samples: 0"),
        (lambda: strata.ElasticSampler(cast(Any, iter([1])), 1), "list_iterator has no length"),
        (lambda: strata.ElasticSampler(8, 0), "ElasticSampler: batch_size: 0"),
        (lambda: strata.ElasticSampler(8, cast(Any, 1.5)), "batch_size: 1.5"),
        (lambda: strata.ElasticSampler(8, 1, seed=-1), "seed: -1"),
        (lambda: strata.ElasticSampler(8, 1, batches_per_step=0), "batches_per_step: 0"),
        (lambda: strata.ElasticSampler(8, 1).set_epoch(-1), "epoch: -1"),
    ],
)
def test_bad_input_is_named_in_one_line(make: Any, named: str) -> None:
    with pytest.raises(strata.InvalidArgument) as raised:
        make()
    assert named in str(raised.value) and "\n" not in str(raised.value)


def test_a_sampler_of_ranks_that_stay_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views._rendezvous, "is_elastic", lambda: True)
    with pytest.raises(strata.InvalidArgument, match="Sampler: does not go with ranks_min"):
        strata.Sampler(24)
    assert len(strata.Sampler(24, rank=0, ranks=1)) == 24  # of one's own ranks
