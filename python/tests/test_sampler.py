"""Samplers of several ranks, all made in this process."""

from __future__ import annotations

from typing import Any, cast

import pytest
import strata
import torch
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
