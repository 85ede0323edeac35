"""Samplers of several ranks, all made in this process."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
import strata
import torch
from strata import reporting
from strata import sampler as sampler_module
from torch.utils.data import DataLoader, TensorDataset


def of_all(ranks: int, samples: int = 24, **how: Any) -> list[strata.Sampler]:
    return [strata.Sampler(samples, rank=rank, ranks=ranks, seed=7, **how) for rank in range(ranks)]


def steps(samplers: list[strata.Sampler], batch: int) -> list[set[int]]:
    """What all ranks together use in each step, of `batch` samples for each rank."""
    shares = [list(sampler) for sampler in samplers]
    made = range(len(shares[0]) // batch)
    return [{i for share in shares for i in share[n * batch : (n + 1) * batch]} for n in made]


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_shares_of_ranks_are_disjoint_and_complete(ranks: int) -> None:
    shares = [list(sampler) for sampler in of_all(ranks)]
    assert sorted(i for share in shares for i in share) == list(range(24))
    assert {len(share) for share in shares} == {24 // ranks}


def test_steps_use_the_same_samples_on_1_2_and_4_ranks() -> None:
    one = steps(of_all(1), 4)
    assert len(one) == 6 and steps(of_all(2), 2) == one and steps(of_all(4), 1) == one


def test_epochs_differ_and_follow_from_the_seed() -> None:
    sampler, same = of_all(1)[0], of_all(1)[0]
    first = list(sampler)
    assert list(sampler) == first == list(same)
    sampler.set_epoch(1)
    second = list(sampler)
    assert second != first and sorted(second) == sorted(first)
    other = strata.Sampler(24, rank=0, ranks=1, seed=8)
    assert list(other) != first


@pytest.mark.parametrize("before, after", [(1, 4), (4, 2), (2, 3)])
def test_another_number_of_ranks_goes_on_where_the_first_stopped(before: int, after: int) -> None:
    whole = list(of_all(1)[0])
    samplers = of_all(before)
    iterators = [iter(sampler) for sampler in samplers]
    used = {next(iterator) for iterator in iterators for _ in range(12 // before)}
    assert used == set(whole[:12])
    states = [sampler.state_dict() for sampler in samplers]
    assert states == [{"seed": 7, "epoch": 0, "consumed": 12}] * before
    others = [strata.Sampler(24, rank=rank, ranks=after) for rank in range(after)]
    for sampler in others:
        sampler.load_state_dict(states[0])
        sampler.set_epoch(0)
        assert len(sampler) == 12 // after
    shares = [list(sampler) for sampler in others]
    assert [shares[i % after][i // after] for i in range(12)] == whole[12:]
    for sampler in others:
        assert len(sampler) == 24 // after


def test_the_state_after_an_epochs_last_sample_has_nothing_left_in_it() -> None:
    sampler = strata.Sampler(10, rank=0, ranks=4, seed=1)
    assert len(list(sampler)) == 2
    other = strata.Sampler(10, rank=0, ranks=2)
    other.load_state_dict(sampler.state_dict())
    assert list(other) == []
    other.set_epoch(1)
    assert len(list(other)) == 5


def test_a_look_at_one_batch_takes_nothing_from_the_epoch() -> None:
    sampler = of_all(2)[0]
    first = next(iter(sampler))
    assert sampler.state_dict()["consumed"] == 2
    assert len(sampler) == 12
    share = list(sampler)
    assert share[0] == first and len(share) == 12


def test_samples_that_are_left_over_are_dropped_or_followed_by_the_first_ones() -> None:
    dropped = [list(sampler) for sampler in of_all(4, 10, shuffle=False)]
    assert dropped == [[0, 4], [1, 5], [2, 6], [3, 7]]
    samplers = of_all(4, 10, shuffle=False, drop_last=False)
    assert [len(sampler) for sampler in samplers] == [3] * 4
    assert [list(sampler) for sampler in samplers] == [[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]]
    for sampler in samplers:
        sampler.load_state_dict(sampler.state_dict())


@pytest.mark.parametrize("workers", [0, 2])
def test_it_is_a_data_loaders_sampler(workers: int) -> None:
    data = TensorDataset(torch.arange(24))
    seen: list[int] = []
    for rank in range(2):
        sampler = strata.Sampler(data, rank=rank, ranks=2, seed=7)
        loader = DataLoader(data, 4, sampler=sampler, num_workers=workers)
        assert len(loader) == 3
        batches = [batch.tolist() for (batch,) in loader]
        assert sum(batches, []) == list(of_all(2)[rank])
        seen += sum(batches, [])
    assert sorted(seen) == list(range(24))


def test_rank_ranks_and_seed_are_the_environments_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setenv("STRATA_SEED", "7")
    assert list(strata.Sampler(range(24))) == list(of_all(3)[2])


@pytest.mark.parametrize(
    "make, named",
    [
        (lambda: strata.Sampler(0), "samples: 0"),
        (lambda: strata.Sampler(-3), "samples: -3"),
        (lambda: strata.Sampler([]), "samples: 0"),
        (lambda: strata.Sampler(cast(Any, iter([1]))), "list_iterator has no length"),
        (lambda: strata.Sampler(8, ranks=0), "ranks: 0"),
        (lambda: strata.Sampler(8, rank=2, ranks=2), "rank: 2"),
        (lambda: strata.Sampler(8, rank=-1, ranks=2), "rank: -1"),
        (lambda: strata.Sampler(3, rank=0, ranks=4), "3 samples are too few for 4 ranks"),
        (lambda: strata.Sampler(8, seed=-1), "seed: -1"),
        (lambda: strata.Sampler(8, seed=1.5), "seed: 1.5"),  # type: ignore[arg-type]
        (lambda: strata.Sampler(8).set_epoch(-1), "epoch: -1"),
        (lambda: strata.Sampler(8).load_state_dict({"seed": 1, "epoch": 0}), "no consumed"),
        (
            lambda: strata.Sampler(8).load_state_dict({"seed": 1, "epoch": 0, "consumed": 9}),
            "consumed: the state has 9 samples, the data 8",
        ),
    ],
)
def test_bad_input_is_named_in_one_line(make: Any, named: str) -> None:
    with pytest.raises(strata.InvalidArgument) as raised:
        make()
    assert named in str(raised.value) and "\n" not in str(raised.value)


class Goes:
    """A process's samplers that go on from those of another one, in one process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self.reached: list[str] = []

    def process(self, state: dict[str, Any] | None = None) -> Any:
        course = sampler_module._Course()
        self._patch.setattr(sampler_module, "course", course)
        course.on_reached = lambda: self.reached.append("reached")
        if state is not None:
            course.go_on(state)
        return course


@pytest.fixture
def goes(monkeypatch: pytest.MonkeyPatch) -> Goes:
    return Goes(monkeypatch)


def epoch_of(sampler: strata.Sampler, epoch: int) -> list[int]:
    sampler.set_epoch(epoch)
    length = len(sampler)
    got = list(sampler)
    assert len(got) == length
    return got


@pytest.mark.parametrize("drawn", [0, 1, 5, 12])
def test_a_process_that_goes_on_has_what_is_left_of_the_epoch(goes: Goes, drawn: int) -> None:
    first = goes.process()
    (sampler, _) = of_all(2)
    whole = [epoch_of(sampler, epoch) for epoch in range(4)]
    sampler.set_epoch(2)
    iterator = iter(sampler)
    used = [next(iterator) for _ in range(drawn)]
    sampler.set_epoch(2)
    state = first.state() if drawn else None
    if state is None:  # before the first sample of an epoch is drawn
        first.on_draw = lambda: seen.append(first.state())
        seen: list[Any] = []
        next(iterator)
        state, first.on_draw = seen[0], None
    second = goes.process(state)
    (again, _) = of_all(2)
    assert second.skips and again.epoch == 2
    assert [epoch_of(again, epoch) for epoch in range(2)] == [[], []]
    assert second.skips and goes.reached == []
    again.set_epoch(2)
    assert len(again) == 12 - drawn
    assert used + list(again) == whole[2]
    assert not second.skips and goes.reached == ["reached"]
    assert epoch_of(again, 3) == whole[3]


def test_where_no_epochs_are_set_passes_count(goes: Goes) -> None:
    first = goes.process()
    sampler = strata.Sampler(10, rank=0, ranks=1, seed=7)
    list(sampler)
    iterator = iter(sampler)
    used = [next(iterator) for _ in range(4)]
    goes.process(first.state())
    again = strata.Sampler(10, rank=0, ranks=1, seed=7)
    assert list(again) == []
    assert used + list(again) == list(sampler) == list(again)


def test_samplers_of_evaluations_have_all_samples_in_each_pass(goes: Goes) -> None:
    first = goes.process()
    trains, tests = (strata.Sampler(10, rank=0, ranks=1, seed=7) for _ in range(2))
    iterator = iter(trains)
    next(iterator)
    with torch.no_grad():
        assert len(list(tests)) == 10
    second = goes.process(first.state())
    trains, tests = (strata.Sampler(10, rank=0, ranks=1, seed=7) for _ in range(2))
    with torch.no_grad():
        assert len(list(tests)) == 10
    assert second.skips and len(list(trains)) == 9 and not second.skips


def test_what_a_loader_with_workers_draws_ahead_is_not_used_yet(goes: Goes) -> None:
    data = TensorDataset(torch.arange(40))
    first = goes.process()
    sampler = strata.Sampler(data, rank=0, ranks=1, seed=7)
    sampler.set_epoch(0)
    loader = DataLoader(data, 4, sampler=sampler, num_workers=2)
    batches = iter(loader)
    used = [int(i) for _ in range(3) for i in next(batches)[0]]
    assert sampler.consumed > 12
    state = first.state()
    assert state["samplers"][0]["position"] == 12
    del batches
    goes.process(state)
    again = strata.Sampler(data, rank=0, ranks=1, seed=7)
    again.set_epoch(0)
    assert used + list(again) == list(sampler.order())


def test_data_that_became_fewer_are_refused(goes: Goes) -> None:
    first = goes.process()
    sampler = strata.Sampler(10, rank=0, ranks=1)
    list(sampler)
    goes.process(first.state())
    with pytest.raises(strata.InvalidArgument, match="has 10 samples of an epoch, the data 9"):
        strata.Sampler(9, rank=0, ranks=1)


def test_samplers_that_are_made_in_the_loop_over_epochs_are_warned_of_once(
    goes: Goes, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes.process()
    client = SimpleNamespace(
        has_checkpoints=True, is_elastic=False, steps=5, first_step=5, rank=0, ranks=1, job={}
    )
    monkeypatch.setattr(sampler_module.process, "client", client)
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        list(strata.Sampler(10))
        client.steps = 8
        with torch.no_grad():  # of evaluations any may be made
            for _ in range(3):
                list(strata.Sampler(10))
        list(strata.Sampler(10))  # of another part of the training
        assert not met
        for _ in range(3):
            list(strata.Sampler(10))
        assert len(met) == 1 and met[0].filename == __file__
        assert "a second Sampler was made after the first step" in str(met[0].message)
        assert "cannot go on from a checkpoint" in str(met[0].message)
        # In a job without checkpoints any may be made.
        goes.process()
        client.has_checkpoints = False
        for _ in range(3):
            list(strata.Sampler(10))
        assert len(met) == 1


def trained(
    epochs: Iterator[int], sampler: strata.Sampler, sets_epoch: bool = True
) -> Iterator[tuple[int, int]]:
    """A loop over epochs: yields each epoch's number with each of its samples."""
    for epoch in epochs:
        if sets_epoch:
            sampler.set_epoch(epoch)
        for sample in sampler:
            yield epoch, sample


@pytest.mark.parametrize("sets_epoch", [True, False])
@pytest.mark.parametrize("steps", [1, 9, 10, 11, 29, 30])
def test_a_loop_over_epochs_goes_on_with_what_is_left_and_has_no_empty_epoch(
    goes: Goes, steps: int, sets_epoch: bool
) -> None:
    first = goes.process()
    sampler = strata.Sampler(10, rank=0, ranks=1, seed=7)
    whole = list(trained(first.epochs(4), sampler, sets_epoch))
    assert [epoch for epoch, _ in whole] == sorted(list(range(4)) * 10)
    first = goes.process()
    sampler = strata.Sampler(10, rank=0, ranks=1, seed=7)
    loop = trained(first.epochs(4), sampler, sets_epoch)
    for _ in range(steps):
        next(loop)
    # The state of a step's end is taken when the next sample is drawn, or the job ends.
    stood, states = first.state(), []
    first.on_draw = lambda: states.append(first.state(stood))
    next(loop)
    goes_on = goes.process(states[0])
    sampler = strata.Sampler(10, rank=0, ranks=1, seed=7)
    seen = list(trained(goes_on.epochs(4), sampler, sets_epoch))
    assert seen == whole[steps:] and goes.reached == ["reached"] and not goes_on.skips


def test_a_loop_that_was_over_is_left_out_and_the_next_one_goes_on(goes: Goes) -> None:
    def script(course: Any, seen: list[Any], stop: int) -> Any:
        warm, main = (strata.Sampler(6, rank=0, ranks=1, seed=seed) for seed in (1, 2))
        for sampler, count in ((warm, 2), (main, 3)):
            for one in trained(course.epochs(count), sampler):
                if len(seen) == stop:
                    return course.state()
                seen.append((sampler.seed, *one))
        return course.state()

    whole: list[Any] = []
    script(goes.process(), whole, -1)
    assert len(whole) == 30
    before: list[Any] = []
    state = script(goes.process(), before, 20)
    after: list[Any] = []
    goes_on = goes.process(state)
    script(goes_on, after, -1)
    # The sample that was drawn last was not used.
    assert before + whole[20:21] + after == whole and not goes_on.skips
    over = goes.process(script(goes.process(), [], -1))
    assert list(over.epochs(2)) == [] and list(over.epochs(3)) == []


def test_a_loop_over_epochs_begins_where_a_loaded_state_is(goes: Goes) -> None:
    goes.process()
    sampler = strata.Sampler(10, rank=0, ranks=1, seed=7)
    sampler.load_state_dict({"seed": 7, "epoch": 2, "consumed": 4})
    seen = list(trained(strata.epochs(4), sampler))
    assert [epoch for epoch, _ in seen] == [2] * 6 + [3] * 10
    assert list(strata.epochs(2)) == [0, 1]
    goes.process()
    sampler = strata.Sampler(10, rank=0, ranks=1, seed=7)
    sampler.load_state_dict({"seed": 7, "epoch": 2, "consumed": 10})
    assert list(strata.epochs(4)) == [3]
    with pytest.raises(strata.InvalidArgument, match="epochs: -1"):
        strata.epochs(-1)


def test_a_loop_over_range_is_warned_of_where_a_checkpoint_meets_it(
    goes: Goes, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive: list[strata.Sampler] = []

    def loop(epochs: Any, asks: bool = False) -> list[str]:
        sampler = strata.Sampler(4, rank=0, ranks=1, seed=7)
        alive.append(sampler)
        with warnings.catch_warnings(record=True) as met:
            warnings.simplefilter("always")
            for epoch in range(sampler.epoch, 3) if asks else epochs:
                sampler.set_epoch(epoch)
                list(sampler)
        assert all(one.filename == __file__ for one in met)
        return [str(one.message) for one in met]

    client = SimpleNamespace(
        has_checkpoints=True, is_elastic=False, steps=5, first_step=5, rank=0, ranks=1, job={}
    )
    monkeypatch.setattr(sampler_module.process, "client", client)
    goes.process()
    (told,) = loop(range(3))
    assert "after a restart" in told and "for epoch in strata.epochs(N)" in told
    assert goes.process() and loop(range(3), asks=True) == []
    assert goes.process() and loop(strata.epochs(3)) == []
    client.has_checkpoints = False
    first = goes.process()
    assert loop(range(3)) == []
    state = first.state()
    goes.process(state)
    (told,) = loop(range(3))
    assert "epoch 0 is over" in told and "goes on in epoch 2" in told
    assert goes.process(state) and loop(range(3), asks=True) == []


class Windows:
    """A rank that reports every other step, and the samples of its windows."""

    def __init__(self) -> None:
        job = {"metrics": {"every_steps": 2}}
        self.samples: list[int] = []
        self._client = SimpleNamespace(
            job=job, steps=0, is_elastic=False, stepped_in=0, send=self._take
        )
        self._reporter = reporting.Reporter(cast(Any, self._client))

    def _take(self, report: Any) -> None:
        self.samples.append(int(report.samples))

    def take(self, samples: int) -> None:
        """A DataLoader hands a batch out."""
        self._reporter.on_samples(samples)

    def step(self, said: int = 1) -> None:
        self._client.steps += 1
        self._reporter.on_step(said)

    def end(self) -> list[int]:
        self._reporter.send_last()
        return self.samples


def test_batches_that_are_listed_before_the_first_step_count_step_by_step() -> None:
    windows = Windows()
    for _ in range(2):
        for _ in range(6):
            windows.take(32)
        for _ in range(6):
            windows.step()
    assert windows.end()[:6] == [64] * 6


def test_batches_that_a_step_adds_up_all_count_for_it() -> None:
    windows = Windows()
    for _ in range(4):
        for _ in range(3):
            windows.take(32)
        windows.step()
    samples = windows.end()
    assert sum(samples) == 12 * 32 and samples[1] == 6 * 32


def test_what_a_sampler_draws_at_once_counts_as_steps_of_the_epoch_before_say() -> None:
    windows, sampler = Windows(), strata.Sampler(24, rank=0, ranks=1, seed=7)
    for _ in range(2):
        assert len(list(sampler)) == 24
        for _ in range(6):
            windows.step()
    # How large a batch is can be seen once the second epoch begins.
    assert windows.end()[:6] == [2, 2, 2, 18 + 4 + 4, 8, 8]


def test_what_a_sampler_draws_at_once_counts_as_steps_say() -> None:
    windows, sampler = Windows(), strata.Sampler(24, rank=0, ranks=1, seed=7)
    assert len(list(sampler)) == 24
    for _ in range(6):
        windows.step(said=4)
    assert windows.end()[:3] == [8] * 3


def test_what_a_sampler_draws_step_by_step_counts_for_its_step() -> None:
    windows = Windows()
    sampler = iter(strata.Sampler(24, rank=0, ranks=1, seed=7))
    for _ in range(6):
        for _ in range(4):
            next(sampler)
        windows.step()
    samples = windows.end()
    assert sum(samples) == 24 and samples[:3] == [8] * 3
