"""Embeddings whose rows lie in a table of Strata: of any size, and only rows of a batch are read,
moved and updated."""

from __future__ import annotations

import collections
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Callable, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from strata import _checks, errors
from strata.rows import Constant, Normal, RowOptimizer, Table, Uniform, check_rate
from strata.sampler import course

_KINDS = (torch.int64, torch.int32)
Batch = TypeVar("Batch")


class _Bags(torch.autograd.Function):
    """Sums or means of rows by bags. PyTorch's own backward pass of a dense table takes several
    times as long."""

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, table: Table, places: Tensor, ends: Tensor, is_mean: bool
    ) -> Tensor:
        starts = torch.cat((ends.new_zeros(1), ends))
        ctx.table, ctx.rows = table, len(values)
        ctx.save_for_backward(places, ends, starts.diff() if is_mean else None)
        mode = "mean" if is_mean else "sum"
        return F.embedding_bag(places, values, starts, mode=mode, include_last_offset=True)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        places, ends, sizes = ctx.saved_tensors
        bags = gradients[0]
        if sizes is not None:
            bags = bags / sizes.clamp(min=1)[:, None]
        bags = bags.contiguous()
        rows = torch.zeros(ctx.rows, ctx.table.dim, dtype=torch.float32, device="cpu")
        ctx.table._spread(
            bags.data_ptr(),
            ends.data_ptr(),
            len(ends),
            places.data_ptr(),
            rows.data_ptr(),
            len(rows),
        )
        return rows, None, None, None, None


class TableModule(torch.nn.Module):
    """The common part of `Embedding` and `EmbeddingBag`.

    `table` has the rows. The parameter `rows` has no elements. It says whether the table is trained
    (`requires_grad`), on which device and in which type its rows come, whether they have gradients,
    and, if the table's optimizer has no `lr`, which group of the wrapped optimizer has it.
    """

    def __init__(
        self,
        name: str,
        dim: int,
        *,
        capacity: int,
        optimizer: RowOptimizer | None = None,
        init: Uniform | Normal | Constant | None = None,
        seed: int | None = None,
        padding_idx: int | None = None,
    ) -> None:
        super().__init__()
        _keep_compilers_out()
        self.table = Table(
            name, dim, capacity=capacity, optimizer=optimizer, init=init, seed=seed
        )
        if padding_idx is not None:
            padding_idx = _checks.whole(f'table "{name}": padding_idx', padding_idx, 0)
        self.padding_idx = padding_idx
        self.ids_end: int | None = None
        """Ids must be below it; None: any id is taken."""
        self.rows = torch.nn.Parameter(torch.empty(0, dim))
        self._is_claimed = False
        self._version = 0  # of the gradient of `rows`

    def extra_repr(self) -> str:
        table = self.table
        return f'"{table.name}", dim={table.dim}, capacity={table.capacity}, {table.optimizer}'

    def _checked(self, ids: Tensor) -> Tensor:
        what = f'table "{self.table.name}": ids'
        if not isinstance(ids, Tensor):
            raise errors.InvalidArgument(f"{what}: {type(ids).__name__} is not a tensor")
        if ids.dtype not in _KINDS:
            raise errors.InvalidArgument(f"{what}: are of {ids.dtype}, not of int64 or int32")
        return ids.detach().reshape(-1).to("cpu", torch.int64).contiguous()

    def _place_of_padding(self, distinct: Tensor) -> int | None:
        if self.padding_idx is None:
            return None
        place = int(torch.searchsorted(distinct, self.padding_idx))
        is_there = place < len(distinct) and int(distinct[place]) == self.padding_idx
        return place if is_there else None

    def _pushing(self, distinct: Tensor, padding: int | None) -> Callable[[Tensor], None]:
        """Returns the hook of a batch's rows, which are those of the ids but the one of padding."""
        table = self.table

        def push(gradient: Tensor) -> None:
            if not self._is_claimed:
                raise errors.OutOfOrder(
                    f'table "{table.name}": backward() before'
                    " strata.torch.DistributedOptimizer(optimizer, model), which updates its rows"
                )
            if self.rows.grad is None:
                # None after a zero_grad(), whoever called it.
                table.forget()
                self.rows.grad = torch.zeros_like(self.rows)
                self._version = self.rows.grad._version
            if self.rows.grad._version != self._version:
                raise errors.OutOfOrder(
                    f'table "{table.name}": gradients were changed in place between two backward'
                    " passes of a step (zero_grad(set_to_none=False), clipping, a division), which"
                    " those of rows do not follow: use zero_grad(), and change gradients after the"
                    " last pass"
                )
            ids, values = distinct, gradient.detach().to("cpu", torch.float32)
            if padding is not None:
                ids = torch.cat((ids[:padding], ids[padding + 1 :]))
                values = torch.cat((values[:padding], values[padding + 1 :]))
            values = values.contiguous()
            table._push(ids.data_ptr(), len(ids), values.data_ptr())

        return push

    def get_extra_state(self) -> dict[str, Any]:
        """The stored rows, with their optimizer's state: a part of `state_dict()`."""
        dumped = self.table.dump()
        arrays = {key: torch.from_numpy(dumped[key]) for key in ("ids", "weights", "state")}
        return {**arrays, "steps": dumped["steps"]}

    def set_extra_state(self, state: Any) -> None:
        """Replaces all rows.

        Raises `errors.InvalidArgument`: it is not such a state, or is of a table of another dim or
        optimizer, or has more rows than there is room for. The rows are then as before.
        """
        what = f'table "{self.table.name}": state'
        if not isinstance(state, dict):
            raise errors.InvalidArgument(f"{what}: is {type(state).__name__}, not a dict")
        arrays: dict[str, Any] = {"steps": state.get("steps")}
        kinds = {"ids": torch.int64, "weights": torch.float32, "state": torch.float32}
        for key, kind in kinds.items():
            if not isinstance(state.get(key), Tensor):
                raise errors.InvalidArgument(f"{what}: has no tensor {key}")
            arrays[key] = state[key].detach().to("cpu", kind).numpy()
        self.table.load(arrays)

    def __getstate__(self) -> dict[str, Any]:
        # A copy is no part of the job.
        return {**self.__dict__, "_is_claimed": False}


def _gather(self: TableModule, ids: Tensor) -> tuple[Tensor, Tensor, int | None]:
    """Returns the distinct rows of a batch, a leaf whose gradient is pushed; for each id the
    place of its row among them; and the place of `padding_idx`, None: it is not there."""
    flat = self._checked(ids)
    count = flat.numel()
    distinct, places = torch.empty_like(flat), torch.empty_like(flat)
    distinct = distinct[
        : self.table._distinct(flat.data_ptr(), count, distinct.data_ptr(), places.data_ptr())
    ]
    if self.ids_end is not None and len(distinct) and int(distinct[-1]) >= self.ids_end:
        raise errors.InvalidArgument(
            f'table "{self.table.name}": id {int(distinct[-1])} is not below {self.ids_end}'
        )
    values = torch.empty(len(distinct), self.table.dim, dtype=torch.float32, device="cpu")
    # In training rows of this step may have come with earlier answers; after eval() they are asked
    # for.
    look = self.table._take if self.training else self.table._lookup
    look(distinct.data_ptr(), len(distinct), values.data_ptr())
    padding = self._place_of_padding(distinct)
    if torch.is_grad_enabled() and self.rows.requires_grad:
        values.requires_grad_()
        push = self._pushing(distinct, padding)
        values.register_hook(push)  # type: ignore[no-untyped-call]
    return values.to(self.rows), places.view(ids.shape).to(ids.device), padding


def _keep_compilers_out() -> None:
    """Has `torch.compile` run `_gather`, which calls the client library, as it is. With the first
    table, since this imports PyTorch's compiler, which takes a second. PyTorch 1.13 has none."""
    global _gather
    if hasattr(torch, "compiler") and not hasattr(_gather, "_torchdynamo_disable"):
        _gather = torch.compiler.disable(_gather)  # type: ignore[no-untyped-call]


class Embedding(TableModule):
    """Looks up a row for each id, as `torch.nn.Embedding`, from a table of any size.

    - `padding_idx`: an id whose row is zeros, and which is not trained.

    The other arguments are those of `strata.rows.Table`.
    """

    def forward(self, ids: Tensor) -> Tensor:
        """`ids`: int64 or int32 of any shape, at least 0. Returns their rows, [*ids.shape, dim]."""
        values, places, padding = _gather(self, ids)
        if padding is not None:
            with torch.no_grad():
                values[padding] = 0.0
        return F.embedding(places, values, padding)


class EmbeddingBag(TableModule):
    """Reduces the rows of each bag to one, as `torch.nn.EmbeddingBag`, from a table of any size.

    - `mode`: "sum", "mean" or "max".
    - `include_last_offset`: `offsets` has the end of the last bag, too.
    - `padding_idx`: an id that bags leave out.

    The other arguments are those of `strata.rows.Table`.
    """

    def __init__(
        self,
        name: str,
        dim: int,
        *,
        capacity: int,
        mode: str = "mean",
        optimizer: RowOptimizer | None = None,
        init: Uniform | Normal | Constant | None = None,
        seed: int | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> None:
        super().__init__(
            name,
            dim,
            capacity=capacity,
            optimizer=optimizer,
            init=init,
            seed=seed,
            padding_idx=padding_idx,
        )
        if mode not in ("sum", "mean", "max"):
            raise errors.InvalidArgument(
                f'table "{name}": mode: {mode!r}, must be "sum", "mean" or "max"'
            )
        self.mode = mode
        self.include_last_offset = include_last_offset

    def forward(
        self,
        ids: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        """`ids`: [bags, ids of each], or [ids] with the `offsets` where bags begin. Returns
        [bags, dim]. `per_sample_weights`, shaped as `ids`, needs mode "sum"."""
        values, places, padding = _gather(self, ids)
        ends = self._ends(places, offsets)
        is_plain = self.mode != "max" and padding is None and per_sample_weights is None
        if is_plain and values.dtype == torch.float32 and values.device.type == "cpu":
            apply: Any = _Bags.apply
            out: Tensor = apply(values, self.table, places.reshape(-1), ends, self.mode == "mean")
            return out
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
        return F.embedding_bag(
            places.reshape(-1),
            values,
            torch.cat((ends.new_zeros(1), ends)),
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=True,
            padding_idx=padding,
        )

    def _ends(self, places: Tensor, offsets: Tensor | None) -> Tensor:
        """Returns where each bag ends, [bags] int64."""
        what = f'table "{self.table.name}": '
        if offsets is None:
            if places.dim() != 2:
                raise errors.InvalidArgument(
                    f"{what}ids: have {places.dim()} dimensions: [bags, ids of each], or [ids] with"
                    " offsets"
                )
            bags, each = places.shape
            return torch.arange(1, bags + 1, device=places.device) * each
        if places.dim() != 1:
            raise errors.InvalidArgument(
                f"{what}ids: have {places.dim()} dimensions: with offsets they have one"
            )
        if not isinstance(offsets, Tensor) or offsets.dim() != 1 or offsets.dtype not in _KINDS:
            raise errors.InvalidArgument(
                f"{what}offsets: must be a tensor of int64 or int32 with one dimension"
            )
        offsets = offsets.to(places)
        count = len(places)
        if not self.include_last_offset:
            offsets = torch.cat((offsets, offsets.new_tensor([count])))
        if int(offsets[0] if len(offsets) else 1) != 0:
            # Without any bag there are no ids.
            raise errors.InvalidArgument(f"{what}offsets: must begin with 0")
        ends = offsets[1:].contiguous()
        if bool((offsets.diff() < 0).any()) or int(offsets[-1]) != count:
            raise errors.InvalidArgument(
                f"{what}offsets: must ascend to {count}, the number of ids"
            )
        return ends


_trained: weakref.WeakValueDictionary[str, TableModule] = weakref.WeakValueDictionary()
"""The tables that this process trains, by name."""


def prefetch(
    loader: Iterable[Batch], ids: Callable[[Batch], Mapping[str, Tensor]]
) -> Iterator[Batch]:
    """Yields the batches of `loader`, and has their rows fetched before their turn: they come with
    the answers to the gradients of the batch before, so that `forward` need not ask for them; with
    the job's `rows.lookahead` above 1, of the batch so many before.

    `ids` returns the ids of a batch by the table's name. One batch is one step. Batches are drawn
    so many steps before their turn. A checkpoint has the position of the batches that had their
    turn. A resumed job draws the others again, with new random numbers where a batch uses this
    process's. Raises `errors.InvalidArgument` naming a table that is not trained.
    """
    held: collections.deque[Batch] = collections.deque()
    drawn = course.begin_ahead()
    try:
        batches = iter(loader)
        while True:
            try:
                batch = drawn.draw(batches)
            except StopIteration:
                break
            held.append(batch)
            steps = max((module.table._lookahead for module in _trained.values()), default=1)
            for name, wanted in ids(batch).items():
                if name not in _trained:
                    raise errors.InvalidArgument(
                        f'prefetch: table "{name}" is none of those that are trained'
                    )
                if len(held) > steps:
                    flat = _trained[name]._checked(wanted)
                    _trained[name].table._want(flat.data_ptr(), flat.numel())
            if len(held) > steps:
                drawn.take()
                yield held.popleft()
        while held:
            drawn.take()
            yield held.popleft()
    finally:
        course.end_ahead(drawn)


class Tables:
    """The tables of a model that is trained: their steps, beside the wrapped optimizers'."""

    def __init__(
        self, model: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer]
    ) -> None:
        """Raises `errors.InvalidArgument` naming a table that is there twice."""
        self._modules: list[TableModule] = []
        self._optimizers = list(optimizers)
        self._is_warned: set[str] = set()
        names: dict[str, str] = {}
        for path, module in model.named_modules():
            if not isinstance(module, TableModule):
                continue
            name = module.table.name
            if name in names:
                raise errors.InvalidArgument(
                    f'table "{name}": modules "{names[name]}" and "{path}" have the same name: a'
                    " module that is used twice shares its rows"
                )
            names[name] = path
            self._modules.append(module)

    def claim(self) -> None:
        """From now on backward passes may push gradients."""
        for module in self._modules:
            module._is_claimed = True
            _trained[module.table.name] = module

    def __len__(self) -> int:
        return len(self._modules)

    @property
    def name(self) -> str:
        """The first table's name."""
        return self._modules[0].table.name

    def _place(self, module: TableModule) -> tuple[torch.optim.Optimizer, dict[str, Any] | None]:
        """Returns the optimizer with which the table makes its steps, and its group there."""
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                if any(param is module.rows for param in group["params"]):
                    return optimizer, group
        return self._optimizers[0], None

    def _rate(self, module: TableModule) -> float:
        table = module.table
        if table.optimizer.lr is not None:
            return check_rate(table.name, table.optimizer.lr)
        group = self._place(module)[1]
        if group is None:
            raise errors.InvalidArgument(
                f'table "{table.name}": has no learning rate: give its optimizer an lr, or the'
                " wrapped optimizer the table's parameter, as model.parameters() does"
            )
        return check_rate(table.name, group["lr"])

    def _of(self, optimizer: torch.optim.Optimizer) -> list[TableModule]:
        return [module for module in self._modules if self._place(module)[0] is optimizer]

    def rates(self, optimizer: torch.optim.Optimizer) -> dict[TableModule, float]:
        """Returns the learning rates of tables that go with this optimizer and have gradients, or,
        before the first backward pass, will have.

        Raises `errors.InvalidArgument` naming a table that has no rate.
        """
        return {
            module: self._rate(module)
            for module in self._of(optimizer)
            if module.rows.requires_grad
            and (module.rows.grad is not None or not module._is_claimed)
        }

    def step(self, optimizer: torch.optim.Optimizer, rates: dict[TableModule, float]) -> None:
        """Updates the rows that have gradients, of tables with rates; drops those of others."""
        for module, rate in rates.items():
            table = module.table
            refused = table.step(rate)
            if refused and table.name not in self._is_warned:
                self._is_warned.add(table.name)
                warnings.warn(
                    f'table "{table.name}": has no room for {refused} new rows of this step, which'
                    f" keep their initial values: {len(table)} rows are stored, capacity is"
                    f" {table.capacity}",
                    stacklevel=2,
                )
        self.forget(optimizer)

    def join(self, client: Any) -> None:
        """The servers of the client's job have the rows of all tables."""
        for module in self._modules:
            module.table.join(client)

    def publish(
        self, optimizer: torch.optim.Optimizer, rates: dict[TableModule, float], samples: int
    ) -> None:
        """Gives the gradients of tables with rates to the servers: means over so many samples."""
        for module, rate in rates.items():
            module.table.publish(rate, float(samples))
        self.forget(optimizer)

    def forget(self, optimizer: torch.optim.Optimizer) -> None:
        """Drops the gradients of tables that go with this optimizer."""
        for module in self._of(optimizer):
            module.table.forget()
            # The wrapped optimizer has nothing to do with it.
            module.rows.grad = None

    def refuse_scaler(self) -> None:
        """Raises `errors.InvalidArgument`: gradients are scaled."""
        raise errors.InvalidArgument(
            f'scaler: does not go with table "{self.name}", whose gradients it would not unscale:'
            " use bfloat16 autocast"
        )


def are_in(model: torch.nn.Module) -> bool:
    """Returns whether a model has tables."""
    return any(isinstance(module, TableModule) for module in model.modules())


def _converted(
    module: torch.nn.Embedding | torch.nn.EmbeddingBag,
    name: str,
    optimizer: RowOptimizer | None,
    keep_weights: bool,
) -> TableModule:
    what = f'table "{name}"'
    for field in ("max_norm", "scale_grad_by_freq"):
        if getattr(module, field):
            raise errors.InvalidArgument(f"{what}: {field} is not supported")
    made: TableModule
    common: dict[str, Any] = {
        "capacity": module.num_embeddings,
        "optimizer": optimizer,
        "init": Normal(1.0),
        "padding_idx": module.padding_idx,
    }
    if isinstance(module, torch.nn.EmbeddingBag):
        last = module.include_last_offset
        made = EmbeddingBag(
            name, module.embedding_dim, mode=module.mode, include_last_offset=last, **common
        )
    else:
        made = Embedding(name, module.embedding_dim, **common)
    made.ids_end = module.num_embeddings
    weights = module.weight.detach()
    if keep_weights:
        padding = module.padding_idx
        if padding is not None and isinstance(made, Embedding) and bool(weights[padding].any()):
            raise errors.InvalidArgument(f"{what}: the row of padding_idx {padding} is not zeros")
        ids = torch.arange(module.num_embeddings, device="cpu").numpy()
        refused = made.table.store(ids, weights.to("cpu", torch.float32).numpy())
        if refused:
            raise errors.InvalidArgument(f"{what}: has no room for {refused} of its rows")
    made.rows.requires_grad_(module.weight.requires_grad)
    device = "cpu" if weights.is_meta else weights.device
    return made.to(device, weights.dtype).train(module.training)


def _check_plain(path: str, module: torch.nn.Module) -> None:
    """Raises `errors.InvalidArgument` naming a module that does more than PyTorch's own."""
    if type(module) not in (torch.nn.Embedding, torch.nn.EmbeddingBag):
        raise errors.InvalidArgument(
            f'module "{path}": is a {type(module).__name__}, whose forward() may do more than'
            " PyTorch's: make a table in its place"
        )
    if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks:
        raise errors.InvalidArgument(
            f'module "{path}": has hooks, which a table would not have: add them afterwards'
        )


def convert_sparse(
    model: torch.nn.Module,
    *,
    optimizer: RowOptimizer | None = None,
    keep_weights: bool = False,
) -> torch.nn.Module:
    """Replaces each `nn.Embedding` and `nn.EmbeddingBag` that has `sparse=True` by a table of the
    same size, named by its place in the model. Returns the model, or what replaces it.

    - `optimizer`: of all these tables; None: `RowwiseAdagrad()`.
    - `keep_weights`: stores all present weights. By default rows begin with new ones, of mean 0 and
      standard deviation 1 as PyTorch's, and take memory once they are trained.

    Call it before the optimizer is made. Raises `errors.InvalidArgument` naming a module with
    `max_norm`, `scale_grad_by_freq` or hooks, of a class of its own, or whose weight is another
    module's, too.
    """
    found = {
        path: module
        for path, module in model.named_modules()
        if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and module.sparse
    }
    for path, module in found.items():
        _check_plain(path, module)
        for other, owner in model.named_modules():
            if owner is not module and any(p is module.weight for p in owner._parameters.values()):
                raise errors.InvalidArgument(
                    f'module "{path}": shares its weight with module "{other}": a table has one'
                )
    made = {
        id(module): _converted(module, path or "embedding", optimizer, keep_weights)
        for path, module in found.items()
    }
    if id(model) in made:
        return made[id(model)]
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if id(child) in made:
                setattr(parent, name, made[id(child)])
    return model
