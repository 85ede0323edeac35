"""The tensors of a model and its optimizer that a job trains, their memory layout, and the
unsupported ones."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from strata import _arrays, _library, errors

DTYPES = {
    torch.float32: _library.FLOAT32,
    torch.float16: _library.FLOAT16,
    torch.bfloat16: _library.BFLOAT16,
}


@dataclass
class Entry:
    """A trained tensor: a parameter of the model and of an optimizer."""

    name: str
    param: torch.nn.Parameter
    group: int
    index: int = -1
    """The client's number."""
    is_published: bool = False

    @property
    def memory_shape(self) -> tuple[int, ...]:
        """The shape with the dimensions in memory order, outermost first."""
        order = memory_order(self.param)
        return tuple(self.param.shape[i] for i in order)

    @property
    def order_label(self) -> str:
        """Says how the elements lie in memory, for ranks to compare, where the shape does not: with
        channels_last a weight of 8 x 3 x 3 x 3 has the shape of one without. Else empty."""
        order = memory_order(self.param)
        if order == sorted(order) or self.memory_shape != tuple(self.param.shape):
            return ""
        return f"{self.name} (in memory by dimensions {', '.join(map(str, order))})"


def memory_order(tensor: Tensor) -> list[int]:
    """Returns the dimensions, outermost in memory first; those of equal strides in their own
    order."""
    strides = tensor.stride()
    return sorted(range(tensor.dim()), key=lambda i: (-strides[i], i))


def is_dense(tensor: Tensor) -> bool:
    """Returns whether the elements fill their memory, each once, in any order of dimensions."""
    if tensor.is_contiguous():
        return True
    expected = 1
    for i in reversed(memory_order(tensor)):
        if tensor.shape[i] > 1:
            if tensor.stride(i) != expected:
                return False
            expected *= tensor.shape[i]
    return True


def overlaps_itself(tensor: Tensor) -> bool:
    """Returns whether some elements share memory, as in an expanded tensor."""
    reach = 0
    for i in reversed(memory_order(tensor)):
        if tensor.shape[i] > 1:
            if tensor.stride(i) <= reach:
                return True
            reach += (tensor.shape[i] - 1) * tensor.stride(i)
    return False


def alike(tensor: Tensor, param: Tensor) -> Tensor:
    """Returns the tensor, or a copy of it, in the memory layout of the parameter."""
    if tensor.stride() == param.stride() or (tensor.is_contiguous() and param.is_contiguous()):
        return tensor
    copy = torch.empty_strided(
        param.shape, param.stride(), dtype=tensor.dtype, device=tensor.device
    )
    copy.copy_(tensor)
    return copy


def _refuse(name: str, why: str) -> errors.InvalidArgument:
    return errors.InvalidArgument(f'parameter "{name}": {why}')


def _check(name: str, param: torch.nn.Parameter) -> None:
    if isinstance(param, torch.nn.parameter.UninitializedParameter):
        raise _refuse(name, "is lazy: run the model once before it is wrapped")
    if param.layout != torch.strided:
        raise _refuse(name, f"is sparse ({param.layout})")
    if param.dtype == torch.float64:
        raise _refuse(name, "is of float64; gradients travel as fp32: use model.float()")
    if param.dtype not in DTYPES:
        raise _refuse(name, f"is of {param.dtype}, not of float32, bfloat16 or float16")
    refuse_unreal("parameter", name, param)
    if not is_dense(param):
        raise _refuse(name, f"its elements share memory (strides {tuple(param.stride())})")


def refuse_unreal(kind: str, name: str, tensor: Tensor) -> None:
    """Raises `errors.InvalidArgument` naming a tensor whose memory does not hold its values."""
    if tensor.is_meta:
        raise errors.InvalidArgument(
            f'{kind} "{name}": is on the device meta, where it has no values: model.to_empty(...)'
            " and set its values before it is wrapped"
        )
    if tensor.is_neg() or tensor.is_conj():
        what = "negated" if tensor.is_neg() else "conjugated"
        raise errors.InvalidArgument(
            f'{kind} "{name}": is a {what} view of other memory: put'
            f" .resolve_{'neg' if tensor.is_neg() else 'conj'}() of it in its place"
        )


def _check_modules(model: torch.nn.Module) -> None:
    for name, module in model.named_modules():
        if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and module.sparse:
            raise errors.InvalidArgument(
                f'module "{name}": has sparse gradients; gradients are dense: sparse=False, or, in'
                " one process, strata.torch.convert_sparse(model)"
            )


def entries(
    model: torch.nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    order: Iterable[str] | None,
    may_be_none: bool = False,
) -> list[Entry]:
    """Returns what is trained, in the order in which a backward pass is expected to finish it.

    That is the reverse of `model.named_parameters()`, or what `order` names: all parameters that
    are trained, the last one that backward finishes at the end.
    `may_be_none`: all that is trained may be tables of rows, whose parameters have no elements.
    Raises `errors.InvalidArgument` naming a parameter or module that cannot be trained so.
    """
    _check_modules(model)
    names = {id(param): name for name, param in model.named_parameters()}
    found: dict[str, Entry] = {}
    empty: set[str] = set()
    group_number = 0
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for place, param in enumerate(group["params"]):
                if id(param) not in names:
                    raise errors.InvalidArgument(
                        f"optimizer: parameter {place} of group {group_number}, of shape "
                        f"{tuple(param.shape)}, is none of the model's"
                    )
                name = names[id(param)]
                if not param.requires_grad:
                    continue
                if name in found:
                    raise _refuse(name, "is in two optimizers or groups")
                _check(name, param)
                if param.numel() == 0:
                    empty.add(name)
                    continue  # there is nothing to train
                found[name] = Entry(name, param, group_number)
            group_number += 1
    if not found and not may_be_none:
        raise errors.InvalidArgument("optimizer: none of its parameters requires a gradient")
    wanted = list(order) if order is not None else list(reversed(names.values()))
    for name in wanted:
        if order is not None and name not in found and name not in empty:
            raise errors.InvalidArgument(f'order: "{name}" is no parameter that is trained')
    chosen = [found[name] for name in wanted if name in found]
    if len(chosen) != len(found):
        missing = next(name for name in found if name not in wanted)
        raise errors.InvalidArgument(f'order: "{missing}" is missing')
    return chosen


@dataclass
class Constant:
    """A tensor that is not trained and must be equal on all ranks: a parameter that is frozen or
    belongs to no optimizer, or a buffer."""

    name: str
    tensor: Tensor
    kind: str

    def label(self) -> str:
        """Returns its name with a checksum of its elements, for ranks to compare."""
        return f"{self.name} ({self.kind}, checksum {checksum([self.tensor]):08x})"


def checksum(values: Iterable[object]) -> int:
    """Returns a checksum of tensors' elements, and of other values as text."""
    found = 0
    for value in values:
        if not isinstance(value, Tensor):
            found = zlib.crc32(repr(value).encode(), found)
            continue
        for part in _parts(value.detach().cpu()):
            plain = part.resolve_conj().resolve_neg().contiguous().flatten()
            if plain.is_complex():
                plain = torch.view_as_real(plain).flatten()
            found = zlib.crc32(plain.view(torch.uint8).numpy().tobytes(), found)
    return found


def _parts(tensor: Tensor) -> list[Tensor]:
    """Returns dense tensors with the contents of a tensor; for a sparse one its indices and
    values."""
    if tensor.layout == torch.strided:
        return [tensor]
    if tensor.layout != torch.sparse_coo:
        tensor = tensor.to_sparse()
    tensor = tensor.coalesce()
    return [tensor.indices(), tensor.values()]


def constants(
    model: torch.nn.Module, trained: Sequence[Entry], with_buffers: bool
) -> list[Constant]:
    """Returns what of the model is not trained: other parameters, and buffers if wanted.

    Raises `errors.InvalidArgument` naming one that has no values to compare.
    """
    own = {id(entry.param) for entry in trained}
    for kind, named in (
        ("parameter", model.named_parameters()),
        ("buffer", model.named_buffers()),
    ):
        for name, tensor in named:
            if tensor.is_meta and tensor.numel():
                refuse_unreal(kind, name, tensor)
    frozen = [
        Constant(name, param, "frozen")
        for name, param in model.named_parameters()
        if id(param) not in own and param.numel()
    ]
    if not with_buffers:
        return frozen
    return frozen + [
        Constant(name, buffer, "buffer")
        for name, buffer in model.named_buffers()
        if buffer.numel() > 0
    ]


def float_buffers(model: torch.nn.Module) -> list[tuple[str, torch.nn.Module, str]]:
    """Returns the buffers of fp32, which can be averaged: name, module, and name in the module.

    Raises `errors.InvalidArgument` naming one that is sparse, or whose elements share memory.
    """
    found = []
    modules = dict(model.named_modules())
    for name, buffer in model.named_buffers():
        if buffer.dtype != torch.float32 or buffer.numel() == 0:
            continue
        if buffer.layout != torch.strided:
            raise errors.InvalidArgument(f'buffer "{name}": is sparse, which has no mean')
        refuse_unreal("buffer", name, buffer)
        if overlaps_itself(buffer):
            raise errors.InvalidArgument(
                f'buffer "{name}": its elements share memory (strides {tuple(buffer.stride())}):'
                ' buffers="mean" cannot write to it'
            )
        owner, _, own = name.rpartition(".")
        found.append((name, modules[owner], own))
    return found


def refuse_shared(model: torch.nn.Module, trained: Sequence[Entry]) -> None:
    """Raises `errors.InvalidArgument` naming a tensor that shares memory with a trained parameter,
    for optimizers that move parameters to other memory, where it would not be shared."""
    own = {id(entry.param) for entry in trained}
    named: list[tuple[str, str, Tensor]] = [("parameter", *p) for p in model.named_parameters()]
    named += [("buffer", *b) for b in model.named_buffers()]
    places = []
    for kind, name, tensor in named:
        if tensor.layout == torch.strided and tensor.numel() > 0:
            extents = zip(tensor.shape, tensor.stride())
            elements = 1 + sum((extent - 1) * stride for extent, stride in extents)
            begin = tensor.data_ptr()
            end = begin + elements * tensor.element_size()
            places.append((begin, end, id(tensor) in own, f'{kind} "{name}"'))
    # The tensor that ends last so far, among all and among those that are trained.
    furthest = furthest_own = (0, 0, False, "")
    for place in sorted(places, key=lambda place: place[0]):
        begin, end, is_own, label = place
        other = furthest if is_own else furthest_own
        if begin < other[1]:
            raise errors.InvalidArgument(
                f"{label}: shares memory with {other[3]}, which would end, as weights of the"
                " servers lie in the job's memory: use one parameter in both places; modes with the"
                " optimizer on the ranks (sync, ring, local, diloco) keep it"
            )
        furthest = max(furthest, place, key=lambda place: place[1])
        if is_own:
            furthest_own = max(furthest_own, place, key=lambda place: place[1])


def view_at(address: int, like: Tensor) -> Tensor:
    """Returns the fp32 memory at an address as a tensor with the shape and strides of `like`, which
    is dense."""
    flat: Tensor = _arrays.view(address, (like.numel(),), like)
    return flat.as_strided(like.size(), like.stride())


def write_floats(address: int, tensor: Tensor) -> None:
    """Writes a dense tensor's elements as fp32 to an address, in memory order."""
    view_at(address, tensor).copy_(tensor.detach())
