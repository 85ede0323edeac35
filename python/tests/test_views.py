"""Scripts of jobs whose nodes come and go: they learn who makes a step, end in order, and what
would need ranks that stay is refused by name."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import strata
import strata.torch as st
import torch
from elastic_job import FakeLibrary, Ranks, ranks  # noqa: F401
from strata import _rank, _rendezvous, sampler
from strata.torch import _on_servers, _placement
from torch.utils.data import DataLoader, TensorDataset

HAS_LIGHTNING = importlib.util.find_spec("lightning") is not None
comm_hook_module = importlib.import_module("strata.torch.comm_hook")
# From which step on which ranks make steps.
CHANGES = {0: [0, 1], 3: [0, 1, 2, 3], 7: [2, 3]}


@pytest.fixture(autouse=True)
def own_course(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sampler.course, "has_drawn", False)
    yield
    # An older PyTorch keeps the graph of a pass that failed until the next pass, and a process
    # cannot end with it.
    torch.nn.Linear(1, 1)(torch.ones(1, 1)).sum().backward()


def session(**how: Any) -> strata.Session:
    options: dict[str, Any] = {"optimizer": strata.SGD(lr=0.5), "can_resume": True, **how}
    return strata.Session({"w": np.zeros(2, "f4")}, **options)


def test_a_session_says_who_makes_a_step(ranks: Ranks) -> None:  # noqa: F811
    library = ranks.join(CHANGES, 2, first_step=3, unknown_from=5)
    made = session()
    assert made.first_step == 3 and library.started == [(True, False)]
    assert made.step_ranks(3) == strata.StepRanks(True, 2, 4, 6)
    assert made.step_ranks(8) == strata.StepRanks(True, 0, 2, 24)
    assert made.step_ranks_if_known(4) == strata.StepRanks(True, 2, 4, 10)
    assert made.step_ranks_if_known(5) is None
    # Before it came it made none, which is no end.
    assert not made.step_ranks(2).makes_it
    client = _rank.process.client
    assert client is not None and not client.has_left
    with pytest.raises(strata.InvalidArgument, match="step_ranks: step: -1"):
        made.step_ranks(-1)


def test_a_session_whose_rank_leaves_ends_in_order(ranks: Ranks) -> None:  # noqa: F811
    library = ranks.join(CHANGES, 1)
    steps = []
    with session() as made:
        for step in range(made.first_step, 100):
            if not made.step_ranks(step).makes_it:
                break
            steps.append(step)
            made.step({"w": np.ones(2, "f4")})
    assert steps == list(range(7)) and library.finished == 1
    assert made.weights()["w"].tolist() == [-3.5, -3.5]


def test_a_loop_that_does_not_ask_is_told_that_it_is_over(ranks: Ranks) -> None:  # noqa: F811
    library = ranks.join(CHANGES, 1)
    made = session()
    with pytest.raises(strata.NoMoreSteps) as raised:
        for _ in range(100):
            made.step({"w": np.ones(2, "f4")})
    assert str(raised.value) == (
        "rank 1 leaves the job before step 7: the script's loop is to end there, as"
        " strata.ElasticSampler and step_ranks say"
    )
    client = _rank.process.client
    assert client is not None and client.has_left and client.steps == 7
    made.close()
    assert library.finished == 1


@pytest.mark.parametrize(
    "rank, first_step, measured", [(0, 0, range(1, 8)), (1, 0, []), (2, 3, range(8, 11))]
)
def test_what_the_first_rank_of_a_step_measures_counts(
    ranks: Ranks, rank: int, first_step: int, measured: Any  # noqa: F811
) -> None:
    library = ranks.join(CHANGES, rank, first_step=first_step)
    made = session()
    for step in range(first_step, 10):
        if not made.step_ranks(step).makes_it:
            break
        made.step({"w": np.ones(2, "f4")})
        strata.report(test_accuracy=(step + 1) / 100)
    strata.report(test_accuracy=1.0)  # of one that has left, of another model than the job's
    expected = [step / 100 for step in measured]
    assert library.measured == expected + ([1.0] if rank == 2 else [])


def test_windows_of_a_rank_that_joins_end_with_those_of_the_others(
    ranks: Ranks,  # noqa: F811
) -> None:
    library = ranks.join(CHANGES, 2, first_step=3, metrics={"every_steps": 5})
    made = session()
    for _ in range(3, 12):
        made.step({"w": np.ones(2, "f4")})
    made.close()
    assert library.windows == [(3, 3), (3, 5), (5, 10), (10, 12)]


# A job that continues without dead nodes: by step 3 it has lost the first one.
LOST = {0: [0, 1], 3: [1]}


def test_who_died_with_the_last_step_leads_no_more(ranks: Ranks) -> None:  # noqa: F811
    library = ranks.join(LOST, 1, on_loss="DROP")
    made = session(optimizer=strata.Mean(), can_resume=False)
    for step in range(3):
        strata.report(test_accuracy=(step + 1) / 100)  # node 0 does that
        made.step({"w": np.ones(2, "f4")})
    client = _rank.process.client
    assert client is not None and client.leads()
    assert client.last_ranks() == strata.StepRanks(True, 0, 1, 6)
    strata.report(test_accuracy=0.5)
    strata.finish()
    assert client.last_ranks().rank == 0
    assert library.measured == [0.5]


def test_where_nodes_are_only_lost_ranks_may_keep_what_all_have(
    ranks: Ranks,  # noqa: F811
) -> None:
    ranks.join(LOST, 0, on_loss="DROP")
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    optimizer = distribute(net)
    st.keep(scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 7))
    assert not isinstance(optimizer._strata_trainer, _on_servers.Served)
    net(torch.ones(2, 2)).sum().backward()  # also with data of the script's own


def model() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Linear(4, 2))


def train(data: TensorDataset, epochs: int) -> tuple[Any, st.ElasticSampler, list[int]]:
    """A script as its user writes it; returns what it used."""
    net = model()
    optimizer = st.DistributedOptimizer(torch.optim.SGD(net.parameters(), 1e-4), net)
    batches = st.ElasticSampler(data, 2)
    used: list[int] = []
    for epoch in range(epochs):
        batches.set_epoch(epoch)
        for (x,) in DataLoader(data, batch_sampler=cast(Any, batches)):
            used += x[:, 0].int().tolist()
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()
    return optimizer, batches, used


@pytest.mark.parametrize("rank, first_step, steps", [(0, 0, 7), (2, 3, 8), (3, 3, 8)])
def test_a_pytorch_script_trains_the_steps_that_are_its_ranks(
    ranks: Ranks, rank: int, first_step: int, steps: int  # noqa: F811
) -> None:
    library = ranks.join(CHANGES, rank, first_step=first_step)
    data = TensorDataset(torch.arange(32).float().reshape(16, 2))
    # 12 of 48 samples are used in 3 steps, 32 in the next 4, and 4 in the last one.
    optimizer, batches, used = train(data, 3)
    assert isinstance(optimizer._strata_trainer, _on_servers.Served)
    assert library.started == [(True, False)]
    assert optimizer.first_step == first_step
    assert _rank.process.client.steps == steps  # type: ignore[union-attr]
    assert len(used) == 2 * (steps - first_step)
    assert batches.has_left == (rank == 0)
    assert optimizer.step_ranks(3) == strata.StepRanks(True, rank, 4, 6)
    strata.finish()
    assert library.finished == 1
    # The rank that saves the model asks when everything is over.
    assert (batches.rank, batches.ranks) == {0: (None, 4), 2: (0, 2), 3: (1, 2)}[rank]


@pytest.mark.parametrize("publish", ["backward", "step"])
def test_a_step_of_a_rank_that_has_left_says_so(
    ranks: Ranks, publish: str  # noqa: F811
) -> None:
    library = ranks.join({0: [0, 1], 1: [1]}, 0)
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    optimizer = st.DistributedOptimizer(optimizer, net, publish=publish)
    assert optimizer.first_step == 0
    for step in range(3):
        optimizer.zero_grad()
        net(torch.ones(1, 2)).sum().backward()
        if step == 0:
            optimizer.step()
            continue
        with pytest.raises(strata.NoMoreSteps, match="rank 0 leaves the job before step 1"):
            optimizer.step()
    strata.finish()
    assert library.finished == 1


def test_a_script_that_would_begin_its_data_anew_is_refused(ranks: Ranks) -> None:  # noqa: F811
    ranks.join(CHANGES, 0)
    net = model()
    st.DistributedOptimizer(torch.optim.SGD(net.parameters(), 0.1), net)
    with pytest.raises(strata.InvalidArgument, match="use strata.torch.ElasticSampler, or begin"):
        net(torch.ones(1, 2)).sum().backward()


def distribute(net: torch.nn.Module, **options: Any) -> Any:
    return st.DistributedOptimizer(torch.optim.SGD(net.parameters(), 0.1), net, **options)


def keeps() -> None:
    optimizer = distribute(model())
    st.keep(scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 7))


def kept_before() -> None:
    st.keep(one=torch.nn.Linear(1, 1))
    distribute(model())


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "the optimizer on the ranks": (
        lambda: distribute(model(), optimizer_on="ranks"),
        'optimizer_on: "ranks": does not go .* neither weights nor',
    ),
    "a GradScaler": (lambda: distribute(model(), scaler=object()), "scaler: .* on the servers"),
    "statistics of BatchNorm": (
        lambda: distribute(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))),
        'buffer "1.running_mean": .* buffers="mean"',
    ),
    "a kept scheduler": (keeps, "keep: scheduler: .* optimizer.first_step"),
    "what was kept before": (kept_before, "keep: one: "),
    "a Sampler": (
        lambda: distribute(model()) and st.Sampler(8),
        "Sampler: does not go .* strata.ElasticSampler does",
    ),
    "DDP's hook": (lambda: st.state(model()), "comm_hook: does not go .* DDP's ranks stay"),
    "mean gradients": (
        lambda: session(optimizer=strata.Mean()),
        r"Session: strata.Mean\(\): does not go",
    ),
    "a state of its own": (lambda: session(keeps_state=True), "Session: keeps_state=True: "),
    "a session that cannot begin later": (
        lambda: session(can_resume=False),
        "Session: can_resume=False: .* must say can_resume=True",
    ),
}


@pytest.mark.parametrize("call, named", REFUSED.values(), ids=REFUSED.keys())
def test_what_needs_ranks_that_stay_is_refused_in_one_line(
    ranks: Ranks, call: Callable[[], Any], named: str  # noqa: F811
) -> None:
    ranks.join(CHANGES, 0)
    with pytest.raises(strata.InvalidArgument, match=named) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_averaged_statistics_and_norms_without_any_are_taken(ranks: Ranks) -> None:  # noqa: F811
    ranks.join(CHANGES, 0)
    norms = (torch.nn.BatchNorm1d(2), torch.nn.LayerNorm(2))
    optimizer = distribute(torch.nn.Sequential(*norms), buffers="mean")
    assert optimizer.first_step == 0


def test_norms_without_statistics_are_taken(ranks: Ranks) -> None:  # noqa: F811
    ranks.join(CHANGES, 0)
    distribute(torch.nn.Sequential(torch.nn.BatchNorm1d(2, track_running_stats=False)))


@pytest.mark.parametrize("checkpoints", [False, True])
def test_its_ranks_keep_nothing_in_checkpoints(
    ranks: Ranks, checkpoints: bool  # noqa: F811
) -> None:
    more = {"checkpoint": {"dir": "/nowhere", "every_steps": 2}} if checkpoints else {}
    library = ranks.join(CHANGES, 0, **more)
    distribute(model())
    assert library.started == [(True, False)]


def test_jobs_with_nodes_that_stay_are_as_ever() -> None:
    job = {"consistency": {"sync": {}}}
    assert _placement.choose(job, None) == _placement.RANKS
    assert _placement.choose({**job, "ranks_min": 2}, None) == _placement.SERVERS
    lost = {**job, "ranks_min": 2, "on_loss": "DROP"}
    assert _placement.choose(lost, None) == _placement.RANKS
    comm_hook_module._check_mode(job)


LAUNCH = 'record {\n  job {\n    name: "ranks_max: 4"\n%s  }\n}\nrun_dir: "/nowhere"\n'


@pytest.mark.parametrize("field", ["", "    ranks_min: 2\n", "    ranks_max: 16\n"])
def test_the_launch_file_says_whether_nodes_come_and_go(
    field: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "launch").write_text(LAUNCH % field)
    monkeypatch.setenv("STRATA_LAUNCH", str(tmp_path / "launch"))
    assert _rendezvous.is_elastic() == bool(field)


def test_a_process_by_itself_has_no_nodes_that_come_and_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("STRATA_LAUNCH", raising=False)
    assert not _rendezvous.is_elastic()


def run_task() -> None:
    strata.Task(
        params={"w": np.zeros(1, "f4")},
        gradients=lambda weights, step: ({"w": np.zeros(1, "f4")}, 1, 0.0),
        batch=1,
        steps_per_epoch=1,
    ).run()


def fit() -> None:
    from strata.lightning import StrataStrategy

    strategy = StrataStrategy()
    strategy.parallel_devices = [torch.device("cpu")]
    strategy.setup_environment()


@pytest.mark.parametrize(
    "call, named",
    [
        pytest.param(run_task, "Task: does not go .* strata.ElasticSampler", id="a task"),
        pytest.param(st.init_process_group, "process group: does not go", id="a process group"),
        pytest.param(
            fit,
            "StrataStrategy: does not go .* Lightning divides data",
            id="Lightning",
            marks=pytest.mark.skipif(not HAS_LIGHTNING, reason="needs lightning"),
        ),
    ],
)
def test_it_is_refused_before_the_job_begins(
    call: Callable[[], Any], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_rendezvous, "is_elastic", lambda: True)
    monkeypatch.setattr(_rank.process, "client", SimpleNamespace(ranks=2, rank=0))
    with pytest.raises(strata.InvalidArgument, match=named) as raised:
        call()
    assert "\n" not in str(raised.value)
