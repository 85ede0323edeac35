"""What of a model or optimizer cannot be had: refused by name, before anything begins."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from strata import InvalidArgument
from strata.torch import DistributedOptimizer, _placement, _recipe, _tensors

Model = torch.nn.Module


def model() -> Model:
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))


def sgd(of: Model, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(of.parameters(), 0.1, **options)


def with_parameter(**changes: Any) -> Model:
    made = model()
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def sparse() -> Model:
    return torch.nn.Sequential(torch.nn.Embedding(10, 4, sparse=True), torch.nn.Linear(4, 2))


def expanded() -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.zeros(1, 3).expand(4, 3))


MODELS: dict[str, tuple[Callable[[], Model], str]] = {
    "float64": (
        lambda: model().double(),
        'parameter "0.weight": is of float64; .* model.float\\(\\)',
    ),
    "lazy": (lambda: torch.nn.Sequential(torch.nn.LazyLinear(3)), 'parameter "0.weight": is lazy'),
    "sparse": (sparse, 'module "0": has sparse gradients'),
    "expanded": (lambda: with_parameter(e=expanded()), 'parameter "e": its elements share memory'),
    "meta": (
        lambda: torch.nn.Sequential(torch.nn.Linear(4, 8, device="meta")),
        'parameter "0.weight": is on the device meta, .* model.to_empty',
    ),
    "negated": (
        lambda: with_parameter(n=torch.nn.Parameter(torch.ones(3, dtype=torch.cfloat).conj().imag)),
        'parameter "n": is a negated view of other memory',
    ),
    "complex": (
        lambda: with_parameter(c=torch.nn.Parameter(torch.zeros(3, dtype=torch.complex64))),
        'parameter "c": is of torch.complex64',
    ),
}


def test_a_buffer_that_cannot_be_averaged_is_named() -> None:
    made = model()
    made.register_buffer("constant", torch.zeros(1, 3).expand(4, 3))
    with pytest.raises(InvalidArgument, match='buffer "constant": its elements share memory'):
        _tensors.float_buffers(made)
    made.register_buffer("constant", torch.eye(3).to_sparse())
    with pytest.raises(InvalidArgument, match='buffer "constant": is sparse'):
        _tensors.float_buffers(made)


def test_a_buffer_without_values_is_named_and_a_conjugated_one_is_taken() -> None:
    made = model()
    numbers = torch.arange(3) + 1j
    made.register_buffer("conjugated", numbers.conj())
    found = _tensors.entries(made, [sgd(made)], None)
    (label,) = (one.label() for one in _tensors.constants(made, found, True))
    made.register_buffer("conjugated", numbers.conj().resolve_conj())
    assert label == _tensors.constants(made, found, True)[0].label()
    made.register_buffer("conjugated", numbers)
    assert label != _tensors.constants(made, found, True)[0].label()
    made.register_buffer("gone", torch.zeros(3, device="meta"))
    with pytest.raises(InvalidArgument, match='buffer "gone": is on the device meta'):
        _tensors.constants(made, found, True)


def test_what_has_no_elements_is_left_out() -> None:
    made = with_parameter(empty=torch.nn.Parameter(torch.zeros(0, 3)))
    made.register_buffer("nothing", torch.zeros(0))
    found = _tensors.entries(made, [sgd(made)], None)
    assert [one.name for one in found] == ["1.bias", "1.weight", "0.bias", "0.weight"]
    assert len(_tensors.entries(made, [sgd(made)], [*(one.name for one in found), "empty"])) == 4
    assert _tensors.constants(made, found, True) == []


@pytest.mark.parametrize("lr", [None, "none"])
def test_a_group_without_a_rate_is_named(lr: Any) -> None:
    made = model()
    optimizer = sgd(made)
    optimizer.param_groups[0]["lr"] = lr
    if lr == "none":
        del optimizer.param_groups[0]["lr"]
    with pytest.raises(InvalidArgument, match="optimizer: group 0: (lr is None|has no lr), but"):
        DistributedOptimizer(optimizer, made)


@pytest.mark.parametrize("kind", ["to_sparse", "to_sparse_csr", "contiguous"])
def test_buffers_that_must_be_equal_differ_by_their_checksums(kind: str) -> None:
    """Also those of a graph's edges, which are sparse."""

    def label(edges: torch.Tensor) -> str:
        made = model()
        made.register_buffer("edges", getattr(edges, kind)())
        (found,) = _tensors.constants(made, _tensors.entries(made, [sgd(made)], None), True)
        return found.label()

    edges = torch.eye(3)
    other = edges.clone()
    other[2, 2] = 2.0
    assert label(edges) == label(edges.clone())
    assert label(edges) != label(other)
    assert label(edges) != label(edges.roll(1, 0))


def test_ranks_whose_weights_lie_otherwise_in_memory_register_other_tensors() -> None:
    """A weight of 8 x 3 x 3 x 3 has the same shape in memory with channels_last; each rank's mean
    would be of elements that do not belong together."""

    def registered(channels: int, memory_format: torch.memory_format) -> list[Any]:
        conv = torch.nn.Conv2d(channels, 8, 3).to(memory_format=memory_format)
        (_, weight) = _tensors.entries(conv, [sgd(conv)], None)
        return [weight.memory_shape, weight.order_label]

    last = torch.channels_last
    assert registered(3, torch.contiguous_format) == [(8, 3, 3, 3), ""]
    assert registered(3, last) == [(8, 3, 3, 3), "weight (in memory by dimensions 0, 2, 3, 1)"]
    assert registered(4, last) == [(8, 3, 3, 4), ""]


ARGUMENTS: dict[str, tuple[Callable[[Model], tuple[Any, Any]], str]] = {
    "horovod's": (
        lambda m: (sgd(m), m.named_parameters()),
        "model: is a generator, not a torch.nn.Module: DistributedOptimizer(optimizer, model)",
    ),
    "swapped": (
        lambda m: (m, sgd(m)),
        "optimizer: is a Sequential, not a torch.optim.Optimizer or a list of them:"
        " DistributedOptimizer(optimizer, model)",
    ),
    "none": (
        lambda m: (None, m),
        "optimizer: is None, not a torch.optim.Optimizer or a list of them:"
        " DistributedOptimizer(optimizer, model)",
    ),
    "class": (
        lambda m: (sgd(m), Model),
        "model: is a type, not a torch.nn.Module: DistributedOptimizer(optimizer, model)",
    ),
    "empty": (
        lambda m: ([], m),
        "optimizer: is an empty list: DistributedOptimizer(optimizer, model)",
    ),
    "element": (
        lambda m: ([sgd(m), 0.1], m),
        "optimizer: element 1 is a float, not a torch.optim.Optimizer:"
        " DistributedOptimizer(optimizer, model)",
    ),
}


@pytest.mark.parametrize("kind", sorted(ARGUMENTS))
def test_an_argument_that_is_something_else_is_named_with_what_it_must_be(kind: str) -> None:
    make, text = ARGUMENTS[kind]
    with pytest.raises(InvalidArgument) as raised:
        DistributedOptimizer(*make(model()))
    assert str(raised.value) == text


@pytest.mark.parametrize("kind", sorted(MODELS))
def test_a_tensor_that_cannot_be_trained_is_named(kind: str) -> None:
    make, text = MODELS[kind]
    made = make()
    optimizer = torch.optim.SGD(made.parameters(), 0.1)
    with pytest.raises(InvalidArgument, match=text):
        DistributedOptimizer(optimizer, made)


def test_a_parameter_of_another_model_is_named_by_its_place() -> None:
    with pytest.raises(
        InvalidArgument, match=r"parameter 0 of group 0, of shape \(8, 4\), is none of"
    ):
        DistributedOptimizer(sgd(model()), model())


def test_a_parameter_in_two_optimizers_is_named() -> None:
    made = model()
    with pytest.raises(InvalidArgument, match='"0.weight": is in two optimizers'):
        DistributedOptimizer([sgd(made), sgd(made)], made)


def test_an_order_that_is_not_the_models_is_named() -> None:
    made = model()
    with pytest.raises(InvalidArgument, match='order: "nothing" is no parameter'):
        DistributedOptimizer(sgd(made), made, order=["nothing"])
    with pytest.raises(InvalidArgument, match='order: "0.weight" is missing'):
        DistributedOptimizer(sgd(made), made, order=["1.weight", "1.bias", "0.bias"])


NUMBERS: dict[str, tuple[dict[str, Any], str]] = {
    "negative": ({"clip_norm": -1.0}, "clip_norm: -1, must be 0 or more"),
    "nan": ({"clip_norm": float("nan")}, "clip_norm: nan, must be 0 or more"),
    "none": ({"clip_norm": None}, "clip_norm: None is no number"),
    "half": ({"total_steps": 2.5}, "total_steps: 2.5, must be a whole number"),
    "below": ({"samples_per_epoch": -5}, "samples_per_epoch: -5, must be a whole number"),
}


@pytest.mark.parametrize("kind", sorted(NUMBERS))
def test_an_option_that_is_no_such_number_is_named(kind: str) -> None:
    options, text = NUMBERS[kind]
    made = model()
    with pytest.raises(InvalidArgument, match=text):
        DistributedOptimizer(sgd(made), made, **options)


def test_lbfgs_is_refused_for_its_closures() -> None:
    made = model()
    with pytest.raises(InvalidArgument, match="LBFGS: needs closures"):
        DistributedOptimizer(torch.optim.LBFGS(made.parameters()), made)


def recipe(optimizer: torch.optim.Optimizer, of: Model) -> _recipe.Recipe:
    return _recipe.of(optimizer, _tensors.entries(of, [optimizer], None), 0.0)


def groups(of: Model, **second: Any) -> list[dict[str, Any]]:
    layers = list(of.children())
    return [{"params": layers[0].parameters()}, {"params": layers[1].parameters(), **second}]


OPTIMIZERS: dict[str, tuple[Callable[[Model], torch.optim.Optimizer], str]] = {
    "rmsprop": (
        lambda m: torch.optim.RMSprop(m.parameters()),
        "servers have SGD, Adagrad, Adam and AdamW, not RMSprop",
    ),
    "amsgrad": (lambda m: torch.optim.Adam(m.parameters(), amsgrad=True), "group 0: amsgrad=True"),
    "maximize": (lambda m: sgd(m, maximize=True), "group 0: maximize=True"),
    "dampening": (lambda m: sgd(m, momentum=0.9, dampening=0.1), "group 0: dampening=0.1"),
    "betas": (
        lambda m: torch.optim.Adam(groups(m, betas=(0.8, 0.9))),
        r"group 1: betas=\(0.8, 0.9\) differs from group 0's",
    ),
    "momentum": (
        lambda m: torch.optim.SGD(groups(m, momentum=0.5), 0.1),
        "group 1: momentum=0.5 differs",
    ),
}


@pytest.mark.parametrize("kind", sorted(OPTIMIZERS))
def test_an_optimizer_that_servers_do_not_have_is_named(kind: str) -> None:
    make, text = OPTIMIZERS[kind]
    made = model()
    with pytest.raises(InvalidArgument, match=text):
        recipe(make(made), made)


def test_groups_become_multipliers_of_rate_and_decay() -> None:
    made = model()
    optimizer = torch.optim.AdamW(groups(made, lr=0.03, weight_decay=0.0), 0.1, weight_decay=0.2)
    found = recipe(optimizer, made)
    assert re.match(
        r"adamw \{ beta1: 0.9 beta2: 0.999 epsilon: 1e-08 weight_decay: 0.2 \}", found.text
    )
    multipliers = {
        entry.name: found.multipliers(entry) for entry in _tensors.entries(made, [optimizer], None)
    }
    assert multipliers["0.weight"] == (1.0, 1.0)
    assert multipliers["1.bias"] == (pytest.approx(0.3), 0.0)
    assert found.rate() == 0.1


def test_a_group_whose_ratio_changes_is_named() -> None:
    made = model()
    optimizer = torch.optim.SGD(groups(made, lr=0.2), 0.1)
    found = recipe(optimizer, made)
    for group in optimizer.param_groups:
        group["lr"] *= 0.5
    assert found.rate() == 0.05
    optimizer.param_groups[1]["lr"] = 0.2
    with pytest.raises(
        InvalidArgument, match="group 1: its learning rate 0.2 is no longer 2 times"
    ):
        found.rate()


def test_a_warm_up_from_zero_keeps_the_ratios_of_the_rates_it_works_towards() -> None:
    made = model()
    optimizer = torch.optim.SGD(groups(made, lr=0.2), 0.1)
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 10)
    found = recipe(optimizer, made)
    assert found.rate() == 0.0
    assert [found.multipliers(e)[0] for e in _tensors.entries(made, [optimizer], None)] == [
        2,
        2,
        1,
        1,
    ]


@pytest.mark.parametrize("field", ["push", "pull"])
@pytest.mark.parametrize("codec", ["FP16", "BF16", "INT8", "ONE_BIT", "TOP_K"])
def test_what_needs_means_to_the_bit_is_refused_with_each_codec(field: str, codec: str) -> None:
    with pytest.raises(InvalidArgument, match=f"scaler: does not go with {field}.codec: {codec}"):
        _placement.refuse_if_encoded({field: {"codec": codec}}, "scaler")
    _placement.refuse_if_encoded({field: {"codec": "FP32"}}, "scaler")


JOBS: dict[str, tuple[dict[str, Any], str]] = {
    "sync": ({"sync": {}}, "ranks"),
    "delay1": ({"lazy": {"double_buffering": True}}, "ranks"),
    "local": ({"lazy": {"local_steps": 4}}, "ranks"),
    "significance": ({"lazy": {"local_steps": 1, "significance": {"threshold": 0.01}}}, "servers"),
    "ssp": ({"lazy": {"staleness": 3}}, "servers"),
    "quorum": ({"lazy": {"quorum": {"nodes": 2}}}, "servers"),
    "async": ({"async": {}}, "servers"),
}


@pytest.mark.parametrize("mode", sorted(JOBS))
def test_the_mode_says_where_the_optimizer_runs(mode: str) -> None:
    consistency, place = JOBS[mode]
    assert _placement.choose({"consistency": consistency}, None) == place
    assert _placement.choose({"consistency": consistency}, "servers") == "servers"
    if place == "servers":
        with pytest.raises(InvalidArgument, match='optimizer_on: "ranks" does not go with mode'):
            _placement.choose({"consistency": consistency}, "ranks")
    with pytest.raises(InvalidArgument, match='optimizer_on: "moon"'):
        _placement.choose({"consistency": consistency}, "moon")
