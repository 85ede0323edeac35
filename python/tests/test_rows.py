"""Tables of rows in one process: beside PyTorch's own sparse optimizers, and what is refused."""

from __future__ import annotations

import contextlib
import copy
import os
import re
import warnings

import numpy as np
import pytest
import torch

import strata.torch as st
from strata import _lifetime, errors, rows
from strata._rank import process

IDS = 40
L1 = 0.3
STEPS = 12


def end_job():
    """Ends this process's job, so that another one may begin."""
    if process.client is not None:
        with contextlib.suppress(st.StrataError):
            _lifetime.finish()
    hooks = process.hooks
    process.__init__()
    process.hooks = hooks


@pytest.fixture(autouse=True)
def own_job():
    """Each test is a job of one process."""
    yield
    end_job()


def batches(seed, ids=IDS, shape=(6, 3)):
    """Batches with repeated ids, and rows that are left out of some steps."""
    random = torch.Generator().manual_seed(seed)
    return [torch.randint(0, ids, shape, generator=random) for _ in range(STEPS)]


def torch_optimizer(kind, params):
    if kind == "sgd":
        return torch.optim.SGD(params, 0.1)
    if kind == "adagrad":
        return torch.optim.Adagrad(params, 0.1, initial_accumulator_value=0.5)
    return torch.optim.SparseAdam(params, 0.1)


OPTIMIZERS = {
    "sgd": st.RowSGD,
    "adagrad": lambda: st.RowAdagrad(initial_accumulator=0.5),
    "adam": st.RowAdam,
}


def train(module, optimizer):
    for number, ids in enumerate(batches(3)):
        optimizer.zero_grad()
        out = module(ids)
        weight = torch.linspace(-1, 1, out.numel()).view(out.shape)
        (out * weight).sum().backward()
        if number % 3 == 2:  # a second pass whose gradients add up
            module(ids.flip(0)[:2]).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("dim", [1, 7, 16, 64])
@pytest.mark.parametrize("bag", [False, True])
def test_a_converted_embedding_trains_as_pytorchs_sparse_optimizer(kind, dim, bag):
    torch.manual_seed(1)
    plain = (
        torch.nn.EmbeddingBag(IDS, dim, mode="sum", sparse=True)
        if bag
        else torch.nn.Embedding(IDS, dim, sparse=True)
    )
    table = st.convert_sparse(
        copy.deepcopy(plain), optimizer=OPTIMIZERS[kind](), keep_weights=True
    )
    train(plain, torch_optimizer(kind, plain.parameters()))
    optimizer = torch.optim.SGD(table.parameters(), 0.1)
    train(table, st.DistributedOptimizer(optimizer, table))
    found = table.table.dump()
    assert found["ids"].tolist() == list(range(IDS))
    np.testing.assert_allclose(found["weights"], plain.weight.detach(), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("dim", [1, 7, 16])
def test_sgd_has_the_bits_of_dense_gradients(dim):
    plain = torch.nn.Embedding(IDS, dim, sparse=True)
    table = st.convert_sparse(copy.deepcopy(plain), optimizer=st.RowSGD(), keep_weights=True)
    # PyTorch may fuse the product with the sum; with a power of two that changes no bits.
    rate = 0.125
    plain.sparse = False
    train(plain, torch.optim.SGD(plain.parameters(), rate))
    optimizer = torch.optim.SGD(table.parameters(), rate)
    train(table, st.DistributedOptimizer(optimizer, table))
    assert np.array_equal(table.table.dump()["weights"], plain.weight.detach().numpy())


def in_numpy(kind, weights, gradients, lr):
    """Applies the steps of one row by the formulas of docs/rows.md, in fp64."""
    w = weights.astype(np.float64)
    n = np.zeros(1 if kind == "rowwise" else len(w)) + 0.25
    z = -w * ((0.5 + np.sqrt(n)) / lr + 0.1) - np.sign(w) * L1
    for gradient in gradients:
        g = gradient.astype(np.float64)
        if kind == "rowwise":
            n = n + (g * g).mean()
            w = w - lr * g / (np.sqrt(n) + 1e-10)
        else:
            sigma = (np.sqrt(n + g * g) - np.sqrt(n)) / lr
            z = z + g - sigma * w
            n = n + g * g
            slope = (0.5 + np.sqrt(n)) / lr + 0.1
            w = np.where(np.abs(z) <= L1, 0, -(z - np.sign(z) * L1) / slope)
    return w


@pytest.mark.parametrize("kind", ["rowwise", "ftrl"])
@pytest.mark.parametrize("dim", [1, 7, 16])
def test_rowwise_adagrad_and_ftrl_follow_their_formulas(kind, dim):
    made = {
        "rowwise": st.RowwiseAdagrad(0.1, initial_accumulator=0.25),
        "ftrl": st.RowFtrl(0.1, l1=L1, l2=0.1, beta=0.5, initial_accumulator=0.25),
    }[kind]
    module = st.Embedding("items", dim, capacity=10, optimizer=made, init=st.Uniform(0.05))
    first = module(torch.tensor([4]))[0].detach().numpy().copy()
    optimizer = st.DistributedOptimizer(torch.optim.SGD(module.parameters(), 9.0), module)
    random = torch.Generator().manual_seed(2)
    gradients = [torch.randn(dim, generator=random) * 0.1 for _ in range(STEPS)]
    for gradient in gradients:
        module(torch.tensor([4])).backward(gradient[None])
        optimizer.step()
    expected = in_numpy(kind, first, [g.numpy() for g in gradients], 0.1)
    found = module(torch.tensor([4]))[0].detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)
    if kind == "ftrl":
        assert np.array_equal(found == 0, expected == 0) and (dim == 1 or (found == 0).any())


def test_rows_are_stored_when_they_are_trained_and_begin_alike_for_a_seed_and_a_name(monkeypatch):
    def first(name="a", seed=None):
        module = st.Embedding(name, 4, capacity=100, seed=seed)
        return module(torch.tensor([5, 2**62, 0])).detach()

    assert torch.equal(first(), first())
    assert not torch.equal(first(), first("b"))
    assert not torch.equal(first(), first(seed=2))
    monkeypatch.setenv("STRATA_SEED", "2")
    assert torch.equal(first(), first(seed=2))
    module = st.Embedding("items", 4, capacity=100)
    module(torch.tensor([1, 2, 3]))
    assert len(module.table) == 0
    optimizer = st.DistributedOptimizer(torch.optim.SGD(module.parameters(), 1.0), module)
    module(torch.tensor([1, 2, 2])).sum().backward()
    optimizer.step()
    assert module.table.dump()["ids"].tolist() == [1, 2]


def test_the_rate_is_the_groups_unless_the_table_has_one():
    tables = torch.nn.ModuleDict(
        {
            "own": st.Embedding(
                "own", 1, capacity=9, optimizer=st.RowSGD(0.5), init=st.Constant(1.0)
            ),
            "groups": st.Embedding(
                "groups", 1, capacity=9, optimizer=st.RowSGD(), init=st.Constant(1.0)
            ),
        }
    )
    optimizer = st.DistributedOptimizer(torch.optim.SGD(tables.parameters(), 0.25), tables)
    for factor, rates in ((1, (0.5, 0.25)), (2, (0.5, 0.125))):
        for name, rate in zip(("own", "groups"), rates):
            before = tables[name](torch.tensor([3])).item()
            tables[name](torch.tensor([3])).sum().backward()
            optimizer.step()
            assert tables[name](torch.tensor([3])).item() == before - rate, (factor, name)
        optimizer.param_groups[0]["lr"] = 0.125


def test_zero_grad_no_samples_and_frozen_tables_change_nothing():
    module = st.Embedding("items", 2, capacity=9, init=st.Constant(1.0))
    optimizer = st.DistributedOptimizer(torch.optim.SGD(module.parameters(), 1.0), module)
    ids = torch.tensor([1])
    module(ids).sum().backward()
    optimizer.zero_grad()
    optimizer.step()
    assert len(module.table) == 0
    module(ids).sum().backward()
    optimizer.step(samples=0)
    optimizer.step(samples=1)
    assert len(module.table) == 0
    frozen = st.Embedding("frozen", 2, capacity=9)
    torch.nn.Sequential(frozen).requires_grad_(False)
    assert not frozen(ids).requires_grad
    with torch.no_grad():
        assert not module(ids).requires_grad


def test_padding_is_zeros_and_is_not_trained():
    ids = torch.tensor([[2, 1], [2, 2]])
    plain = torch.nn.Embedding(8, 3, sparse=True, padding_idx=2)
    table = st.convert_sparse(copy.deepcopy(plain), keep_weights=True)
    assert torch.equal(table(ids), plain(ids))
    for made, out in (
        (st.Embedding("a", 3, capacity=9, padding_idx=2), [[0.0] * 3] * 2),
        (st.EmbeddingBag("b", 3, capacity=9, padding_idx=2, mode="mean"), [0.0] * 3),
    ):
        end_job()
        optimizer = st.DistributedOptimizer(torch.optim.SGD(made.parameters(), 0.1), made)
        made(ids).square().sum().backward()
        optimizer.step()
        assert made(ids)[1].tolist() == out
        assert made.table.dump()["ids"].tolist() == [1]
    bags = torch.nn.EmbeddingBag(8, 3, mode="mean", sparse=True, padding_idx=2)
    table = st.convert_sparse(copy.deepcopy(bags), keep_weights=True)
    assert torch.equal(table(ids), bags(ids))


def test_bags_take_offsets_and_weights_as_pytorchs():
    bags = torch.nn.EmbeddingBag(8, 3, mode="sum", sparse=True, include_last_offset=True)
    table = st.convert_sparse(
        copy.deepcopy(bags), optimizer=st.RowSGD(0.125), keep_weights=True
    )
    bags.sparse = False
    optimizer = st.DistributedOptimizer(torch.optim.SGD(table.parameters(), 1.0), table)
    ids = torch.tensor([5, 1, 5, 0], dtype=torch.int32)
    offsets = torch.tensor([0, 3, 3, 4], dtype=torch.int32)
    scales = torch.tensor([1.0, 2.0, 0.5, 3.0], requires_grad=True)
    again = scales.detach().clone().requires_grad_()
    out, expected = table(ids, offsets, scales), bags(ids, offsets, again)
    assert torch.equal(out, expected)
    out.square().sum().backward()
    expected.square().sum().backward()
    assert torch.allclose(scales.grad, again.grad)
    optimizer.step()
    rows = (bags.weight - 0.125 * bags.weight.grad).detach().numpy()
    np.testing.assert_allclose(table.table.dump()["weights"], rows, rtol=2e-6, atol=2e-6)
    none = ids[:0]
    empty = st.EmbeddingBag("no", 3, capacity=9, include_last_offset=True)
    assert empty(none.view(0, 1)).shape == (0, 3)
    assert empty(none, torch.tensor([0])).shape == (0, 3)
    assert empty(none, torch.tensor([0, 0])).tolist() == [[0.0] * 3]


def test_rows_are_fp32_of_the_host_whatever_pytorchs_default_is():
    module = items(init=st.Constant(0.5))
    for default in (torch.float64, torch.bfloat16):
        torch.set_default_dtype(default)
        try:
            assert module(torch.tensor([3])).tolist() == [[0.5, 0.5]]
        finally:
            torch.set_default_dtype(torch.float32)
    assert module.to(torch.bfloat16)(torch.tensor([3])).dtype == torch.bfloat16


def test_a_table_counts_the_steps_in_which_it_has_gradients():
    plain = torch.nn.Embedding(8, 3, sparse=True)
    other = torch.nn.Linear(3, 1)
    table = st.convert_sparse(copy.deepcopy(plain), optimizer=st.RowAdam(0.1), keep_weights=True)
    model = torch.nn.ModuleList([table, other])
    optimizer = st.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model)
    adam = torch.optim.SparseAdam(plain.parameters(), 0.1)
    for step in range(6):
        optimizer.zero_grad()
        out = other(torch.ones(3))
        if step % 2:
            out = out + table(torch.tensor([1, 2])).square().sum()
            adam.zero_grad()
            plain(torch.tensor([1, 2])).square().sum().backward()
            adam.step()
        out.sum().backward()
        optimizer.step()
    assert table.table.steps == 3
    np.testing.assert_allclose(
        table.table.dump()["weights"], plain.weight.detach(), rtol=2e-6, atol=2e-6
    )


def test_a_zero_grad_of_the_model_drops_gradients_of_rows():
    module = items(init=st.Constant(1.0), optimizer=st.RowSGD(0.5))
    optimizer = st.DistributedOptimizer(torch.optim.SGD(module.parameters(), 1.0), module)
    module(torch.tensor([1])).sum().backward()
    module.zero_grad(set_to_none=True)
    module(torch.tensor([2])).sum().backward()
    optimizer.step()
    assert module.table.dump()["ids"].tolist() == [2]
    assert module.rows.grad is None


@pytest.mark.parametrize("change", ["zero", "halve"])
def test_gradients_that_change_in_place_between_passes_are_an_error(change):
    module = st.Embedding("items", 2, capacity=10, optimizer=st.RowSGD(1.0))
    st.DistributedOptimizer(torch.optim.SGD(module.parameters(), 1.0), module)
    module(torch.tensor([1])).sum().backward()
    if change == "zero":
        module.zero_grad(set_to_none=False)
    else:
        module.rows.grad.div_(2)
    with pytest.raises(errors.OutOfOrder, match='table "items": gradients were changed in place'):
        module(torch.tensor([1])).sum().backward()


def test_ftrl_keeps_the_weight_when_the_rate_changes():
    module = items(init=st.Constant(1.0), optimizer=st.RowFtrl(0.1))
    optimizer = st.DistributedOptimizer(torch.optim.SGD(module.parameters(), 1.0), module)
    ids = torch.tensor([1])
    for rate in (0.1, 0.01, 0.0, 1.0):
        module.table.optimizer.lr = rate
        module(ids).backward(torch.full((1, 2), 1e-6))
        optimizer.step()
        assert torch.allclose(module(ids), torch.ones(1, 2), atol=1e-4)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("last", [False, True])
def test_gradients_of_bags_are_pytorchs(mode, last):
    bags = torch.nn.EmbeddingBag(IDS, 5, mode=mode, sparse=mode != "max", include_last_offset=last)
    bags.sparse = True
    table = st.convert_sparse(copy.deepcopy(bags), optimizer=st.RowSGD(), keep_weights=True)
    bags.sparse = False
    optimizer = st.DistributedOptimizer(torch.optim.SGD(table.parameters(), 0.125), table)
    plain = torch.optim.SGD(bags.parameters(), 0.125)
    offsets = torch.tensor([0, 0, 7, 11, *([18] if last else [])])
    for ids in batches(4, shape=(18,)):
        for module, steps in ((table, optimizer), (bags, plain)):
            steps.zero_grad()
            out = module(ids, offsets)
            (out * torch.linspace(-1, 1, out.numel()).view(out.shape)).sum().backward()
            steps.step()
    np.testing.assert_allclose(
        table.table.dump()["weights"], bags.weight.detach(), rtol=2e-6, atol=2e-6
    )


def test_the_state_of_a_model_has_its_rows_and_their_optimizers_state():
    def made():
        return st.EmbeddingBag("items", 3, capacity=50, optimizer=st.RowAdam(0.1), mode="sum")

    module = made()
    optimizer = st.DistributedOptimizer(torch.optim.SGD(module.parameters(), 1.0), module)
    train(module, optimizer)
    loaded = made()
    loaded.load_state_dict(module.state_dict())
    for other in (loaded, copy.deepcopy(module)):
        for key, value in module.table.dump().items():
            assert np.array_equal(other.table.dump()[key], value), key
    before = loaded.table.dump()
    bad = {**module.get_extra_state(), "weights": torch.zeros(1, 3)}
    for wrong, text in (
        (bad, "weights have the shape"),
        ({**bad, "ids": None}, "state: has no tensor ids"),
        ([], "state: is list, not a dict"),
    ):
        with pytest.raises(st.InvalidArgument, match=f'table "items": {text}'):
            loaded.set_extra_state(wrong)
    assert all(np.array_equal(loaded.table.dump()[key], before[key]) for key in before)
    narrow = st.EmbeddingBag("items", 2, capacity=50, optimizer=st.RowAdam(0.1))
    with pytest.raises(st.InvalidArgument, match=r'table "items": weights have the shape'):
        narrow.set_extra_state(module.get_extra_state())
    small = st.EmbeddingBag("items", 3, capacity=5, optimizer=st.RowAdam(0.1))
    with pytest.raises(st.InvalidArgument, match="rows that are loaded have no room: capacity"):
        small.set_extra_state(module.get_extra_state())


def test_a_full_table_says_once_that_it_refuses_rows():
    module = st.Embedding("items", 2, capacity=3, optimizer=st.RowSGD(0.5))
    optimizer = st.DistributedOptimizer(torch.optim.SGD(module.parameters(), 1.0), module)
    with pytest.warns(UserWarning, match=r'"items": has no room for 2 new rows.*capacity is 3'):
        module(torch.arange(5)).sum().backward()
        optimizer.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module(torch.arange(5)).sum().backward()
        optimizer.step()
    assert module.table.dump()["ids"].tolist() == [0, 1, 2]


def items(**changed):
    return st.Embedding(**{"name": "items", "dim": 2, "capacity": 9, **changed})


BAD_TABLES = {
    "name": (lambda: items(name=""), "table: name: '' is not a text of 1 to 256 bytes"),
    "dim": (lambda: items(dim=5000), 'table "items": dim: 5000 is not in 1 to 4096'),
    "dim 0": (lambda: items(dim=0), 'table "items": dim: 0, must be a whole number'),
    "capacity": (lambda: items(capacity=0), 'table "items": capacity: 0, must be a whole number'),
    "optimizer": (
        lambda: items(optimizer=torch.optim.Adam),
        'table "items": optimizer: type is none of RowSGD',
    ),
    "init": (lambda: items(init=0.1), 'table "items": init: float is none of Uniform'),
    "scale": (
        lambda: items(init=st.Uniform(float("nan"))),
        'table "items": init: its scale is not finite',
    ),
    "epsilon": (
        lambda: items(optimizer=st.RowAdagrad(epsilon=0)),
        'table "items": optimizer: epsilon: 0 is not above 0 and finite',
    ),
    "beta1": (
        lambda: items(optimizer=st.RowAdam(beta1=1)),
        'table "items": optimizer: beta1: 1 is not at least 0 and below 1',
    ),
    "beta1 text": (
        lambda: items(optimizer=st.RowAdam(beta1="x")),
        "table \"items\": optimizer: beta1: 'x' is no number",
    ),
    "mode": (
        lambda: st.EmbeddingBag("items", 2, capacity=9, mode="min"),
        'table "items": mode: \'min\', must be "sum"',
    ),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_bad_table_is_refused_with_its_name_and_field(case):
    make, text = BAD_TABLES[case]
    with pytest.raises(st.InvalidArgument, match="^" + re.escape(text)):
        make()


def test_bad_ids_are_refused_with_the_tables_name():
    module = items()
    for ids, text in (
        (torch.tensor([1.0]), 'table "items": ids: are of torch.float32, not of int64 or int32'),
        (torch.tensor([3, -7]), 'table "items": id -7 is below 0'),
        ([1, 2], 'table "items": ids: list is not a tensor'),
    ):
        with pytest.raises(st.InvalidArgument, match="^" + re.escape(text)):
            module(ids)
    bags = st.EmbeddingBag("items", 2, capacity=9)
    for ids, offsets, text in (
        (torch.arange(3), torch.tensor([1, 2]), "offsets: must begin with 0"),
        (torch.arange(3), torch.tensor([0, 3, 2]), "offsets: must ascend to 3, the number of ids"),
        (torch.arange(3), torch.tensor([0, 4]), "offsets: must ascend to 3, the number of ids"),
        (torch.arange(3), torch.tensor([0.0]), "offsets: must be a tensor of int64 or int32"),
        (torch.arange(3), None, "ids: have 1 dimensions"),
        (torch.zeros(2, 2, dtype=torch.int64), torch.tensor([0]), "ids: have 2 dimensions"),
    ):
        with pytest.raises(st.InvalidArgument, match=f'table "items": {text}'):
            bags(ids, offsets)
    table = st.convert_sparse(torch.nn.Embedding(8, 3, sparse=True))
    with pytest.raises(st.InvalidArgument, match='table "embedding": id 8 is not below 8'):
        table(torch.tensor([7, 8]))


def test_what_a_table_cannot_do_is_refused():
    module = items()
    with pytest.raises(st.OutOfOrder, match=r'table "items": backward\(\) before'):
        module(torch.tensor([1])).sum().backward()
    twice = torch.nn.Sequential(items(), items())
    with pytest.raises(st.InvalidArgument, match='"items": modules "0" and "1" have the same name'):
        st.DistributedOptimizer(torch.optim.SGD(twice.parameters(), 1.0), twice)
    end_job()
    model = torch.nn.ModuleList([torch.nn.Linear(2, 2), items()])
    with pytest.raises(st.InvalidArgument, match='"items": has no learning rate'):
        st.DistributedOptimizer(torch.optim.SGD(model[0].parameters(), 1.0), model)
    for made, field in (
        (torch.nn.Embedding(4, 2, sparse=True, max_norm=1.0), "max_norm"),
        (torch.nn.EmbeddingBag(4, 2, sparse=True, scale_grad_by_freq=True), "scale_grad_by_freq"),
    ):
        with pytest.raises(st.InvalidArgument, match=f'table "embedding": {field} is not'):
            st.convert_sparse(made)
    class Own(torch.nn.Embedding):
        pass

    with pytest.raises(st.InvalidArgument, match='module "": is a Own, whose forward'):
        st.convert_sparse(Own(4, 2, sparse=True))
    hooked = torch.nn.Sequential(torch.nn.Embedding(4, 2, sparse=True))
    hooked[0].register_forward_hook(lambda *_: None)
    with pytest.raises(st.InvalidArgument, match='module "0": has hooks'):
        st.convert_sparse(hooked)
    tied = torch.nn.ModuleDict(
        {"a": torch.nn.Embedding(4, 2, sparse=True), "b": torch.nn.Linear(2, 4, bias=False)}
    )
    tied["b"].weight = tied["a"].weight
    with pytest.raises(st.InvalidArgument, match='module "a": shares its weight with module "b"'):
        st.convert_sparse(tied)


def test_a_gradient_that_is_not_finite_names_table_and_id():
    module = items()
    st.DistributedOptimizer(torch.optim.SGD(module.parameters(), 1.0), module)
    out = module(torch.tensor([4, 6]))
    with pytest.raises(errors.Diverged, match='"items": id 6: the gradient of column 1 is inf'):
        out.backward(torch.tensor([[0.0, 0.0], [0.0, float("inf")]]))
    assert len(module.table) == 0


class Scaler:
    """What is asked of a GradScaler."""

    def __init__(self, enabled):
        self.enabled = enabled

    def is_enabled(self):
        return self.enabled


def test_servers_and_scalers_are_refused_and_clipping_says_what_it_leaves_out():
    module = torch.nn.Sequential(items())

    def wrap(**options):
        end_job()
        return st.DistributedOptimizer(
            torch.optim.SGD(module.parameters(), 1.0), module, **options
        )

    with pytest.raises(st.InvalidArgument, match='table "items": does not go with optimizer_on'):
        wrap(optimizer_on="servers")
    with pytest.raises(st.InvalidArgument, match='scaler: does not go with table "items"'):
        wrap(scaler=Scaler(True))
    wrap(scaler=Scaler(False))
    with pytest.warns(UserWarning, match="clip_norm: leaves the rows of tables out"):
        optimizer = wrap(clip_norm=1.0)

    def _maybe_opt_step():  # as PyTorch's GradScaler calls it
        optimizer.step()

    with pytest.raises(st.InvalidArgument, match='scaler: does not go with table "items"'):
        _maybe_opt_step()


def test_a_row_table_says_what_it_holds():
    table = rows.Table("items", 16, capacity=1000)
    refused = table.store(np.arange(1000), np.ones((1000, 16), np.float32))
    assert (refused, len(table), table.steps, table.state_columns) == (0, 1000, 0, 1)
    # docs/rows.md: a row of dim 16 takes at most 1.7 times its weights and state.
    assert table.memory_bytes < 1.7 * 1000 * (16 + 1) * 4
    assert table.lookup([5, 5, 999]).tolist() == [[1.0] * 16] * 3
    for ids in ([1.5], [[1]], np.array([2**63], np.uint64)):
        with pytest.raises(st.InvalidArgument, match='table "items": id'):
            table.lookup(ids)
    # Few rows of a large table take little more than they have.
    sparse = rows.Table("sparse", 16, capacity=10**9)
    sparse.store(np.arange(10_000) * 10**12, np.ones((10_000, 16), np.float32))
    assert sparse.memory_bytes < 5 * 10_000 * (16 + 1) * 4
    assert os.environ.get("STRATA_SEED") or table.seed == 1
