"""The exchange of one model's gradients: hooks in the backward pass, and what ends it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Callable

import torch
from torch import Tensor

from strata import _library, errors
from strata._client import Client
from strata._library import lib
from strata.torch import _elastic, _memory, _tensors
from strata.torch._tensors import Entry

if TYPE_CHECKING:
    from strata.torch._keeper import Keeper

PUBLISH_MODES = ("backward", "step")
_SKIP = "strata.skip"


class Exchange:
    """Gives each gradient to the job once it is complete, while the backward pass goes on.

    A *pass* is one exchange: it begins with the first gradient and ends with `finish_pass`. Between
    passes the exchange is idle; after one, `has_passed` says so until an optimizer has made its
    step, and `unstepped` has the optimizers that have not.

    Threads: those of backward passes, one at a time.
    """

    def __init__(
        self, client: Client, entries: Sequence[Entry], publish: str, skips_nonfinite: bool
    ) -> None:
        if publish not in PUBLISH_MODES:
            raise errors.InvalidArgument(f'publish: "{publish}", must be "backward" or "step"')
        self.client = client
        self.memory = _memory.of(client)
        self.entries = list(entries)
        self.publishes_in_backward = publish == "backward"
        self.samples = 1
        self.rate: float | None = None
        self.in_pass = False
        self.has_passed = False
        self.optimizers: Sequence[torch.optim.Optimizer] = ()
        self.unstepped: set[int] = set()
        self.passes = 0
        self.skips_nonfinite = skips_nonfinite
        self.has_nonfinite = False
        self.skip_index = -1
        self._bad: Tensor | None = None
        self._pauses = 0
        self._averaged: list[tuple[int, torch.nn.Module, str]] = []
        self._hooks: list[Any] = []
        self.keeper: Keeper | None = None  # in jobs with checkpoints
        self.knows_first_step = False  # the script has asked for it
        self.on_pass_begin: Callable[[], None] = _nothing
        self.on_backward_end: Callable[[], None] = _nothing
        self.on_published: Callable[[Entry], None] = _nothing

    def register(self, model: torch.nn.Module, buffers: str | None, groups: Any = None) -> None:
        """Registers all tensors with the client, and writes the first weights.

        `groups` gives a parameter group's multipliers of the learning rate and of the weight decay.
        """
        client = self.client
        self.memory.accept()
        for entry in self.entries:
            if not self.memory.holds(entry.param):
                raise errors.InvalidArgument(
                    f'parameter "{entry.name}": lies on {entry.param.device}, but the job'
                    f" computes on {self.memory.device_type} (device: {client.job.get('device')})"
                )
        for entry in self.entries:
            lr, decay = (1.0, 1.0) if groups is None else groups(entry)
            entry.index = client.register(entry.name, entry.memory_shape, lr, decay)
        if buffers not in (None, "mean"):
            raise errors.InvalidArgument(f'buffers: "{buffers}", must be None or "mean"')
        if buffers == "mean":
            for name, owner, own_name in _tensors.float_buffers(model):
                buffer = getattr(owner, own_name)
                index = client.register(name, tuple(buffer.shape), averaged=True)
                self._averaged.append((index, owner, own_name))
        for constant in _tensors.constants(model, self.entries, with_buffers=buffers is None):
            client.register(constant.label(), (1,), 0.0, 0.0)
        if self.skips_nonfinite:
            # A mean over ranks, which codecs that lose parts of gradients do not go with.
            self.skip_index = client.register(_SKIP, (1,), averaged=True)
        client.allocate()
        for entry in self.entries:
            _tensors.write_floats(client.weights(entry.index), entry.param)
        for index, buffer in self.averaged():
            _tensors.write_floats(client.weights(index), buffer.contiguous())

    def start(self, optimizer: str, says_rates: bool, facts: dict[str, Any]) -> None:
        """Blocks until every rank has registered; training begins."""
        self.client.start(optimizer, says_rates, **facts)
        self.memory.open(self.entries)

    def install_hooks(self) -> None:
        """Makes backward passes call this as they complete gradients."""
        for entry in self.entries:
            self._hooks.append(_hook(entry, self._on_gradient))

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it gradients only add up in `param.grad`."""
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1

    def _on_gradient(self, entry: Entry) -> None:
        if not self.publishes_in_backward:
            # What was exchanged before is of another backward pass.
            self.unstepped.clear()
            return
        if self._pauses:
            if self.has_passed or entry.is_published:
                raise errors.OutOfOrder(
                    f'parameter "{entry.name}": got a gradient under no_sync() after the gradients'
                    " of this step had been exchanged: put it before the last backward pass"
                )
            return
        if self.has_passed or entry.is_published:
            raise errors.OutOfOrder(
                f'parameter "{entry.name}": got a second gradient before step(): put all backward'
                " passes of a step but the last one under no_sync(), or, with reentrant"
                ' checkpoints, give DistributedOptimizer publish="step"'
            )
        if not self.in_pass:
            try:
                self.begin_pass()
            except errors.NoMoreSteps:
                return  # step() says so: a backward pass that fails leaves its graph in memory
            torch.autograd.Variable._execution_engine.queue_callback(self.on_backward_end)
        self._publish(entry)

    def begin_pass(self) -> None:
        """Opens a pass, in which `samples` samples are used. The first call of a pass does."""
        self.meet_checkpoint()
        self.on_pass_begin()
        self.memory.begin()
        self.client.begin_step(self.samples, self.rate)
        self.in_pass = True

    def meet_checkpoint(self) -> None:
        """Something of the next step begins: a checkpoint that is due takes what there is."""
        if self.keeper is not None:
            self.keeper.check_script()
            self.keeper.capture()
        elif self.client.takes_nodes:
            _elastic.check_script(self.knows_first_step)

    def _publish(self, entry: Entry) -> None:
        gradient = entry.param.grad
        assert gradient is not None
        if gradient.layout != torch.strided:
            raise errors.InvalidArgument(
                f'parameter "{entry.name}": its gradient is sparse ({gradient.layout}); gradients'
                " are dense"
            )
        dense = _tensors.alike(gradient, entry.param)
        if dense is not gradient:
            entry.param.grad = dense
        self.give(entry, dense)

    def give(self, entry: Entry, gradient: Tensor) -> None:
        """Gives the job a gradient, which lies in memory as its parameter does."""
        if self.skips_nonfinite and self.memory.device_type == "cuda":
            gradient = self._finite_or_zeros(gradient)
        code = self.memory.publish(entry.index, gradient, float(self.samples))
        if code:
            self._take_error(entry, code)
        entry.is_published = True
        self.on_published(entry)

    def _finite_or_zeros(self, gradient: Tensor) -> Tensor:
        """On a GPU the host does not look at gradients: it could only after all that is queued."""
        bad = ~torch.isfinite(gradient).all()
        self._bad = bad if self._bad is None else self._bad | bad
        return torch.where(bad, torch.zeros_like(gradient), gradient)

    def _take_error(self, entry: Entry, code: int) -> None:
        """With a GradScaler the job goes on after a gradient that is not finite."""
        if code != _library.INVALID_ARGUMENT:
            _library.fail(code)
        if not self.skips_nonfinite:
            text = lib.strata_error_text().decode(errors="replace")
            raise errors.InvalidArgument(
                f"the gradient of {text} (with a GradScaler, give it to DistributedOptimizer:"
                " scaler=...)"
            )
        # Not published, which the end of the step makes zeros.
        self.has_nonfinite = True

    def finish_pass(self) -> None:
        """Gives what no hook has given, zeros where there is no gradient, and ends the pass."""
        if not self.in_pass:
            self.begin_pass()
        for entry in self.entries:
            if not entry.is_published and entry.param.grad is not None:
                self._publish(entry)
        scale = float(self.samples)
        self.publish_buffers(self.samples)
        if self.skips_nonfinite:
            flag = self._like_params(float(self.has_nonfinite))
            if self._bad is not None:
                flag = self._bad.float().reshape(1)
            self._bad = None
            _library.check(self.memory.publish(self.skip_index, flag, scale))
        self.client.finish_step()
        for entry in self.entries:
            entry.is_published = False
        self.in_pass = False
        self.has_passed = True
        self.has_nonfinite = False
        self.unstepped = {id(optimizer) for optimizer in self.optimizers}
        self.passes += 1

    def _like_params(self, value: float) -> Tensor:
        """A number where the parameters lie."""
        return torch.full((1,), value, device=self.entries[0].param.device)

    def check_ended(self) -> None:
        """Raises `errors.OutOfOrder` where gradients were given and no step followed."""
        if self.in_pass:
            raise errors.OutOfOrder(
                "the last backward() had no step(): its gradients were given to the servers while"
                ' it ran; where a batch may be left out, give DistributedOptimizer publish="step"'
            )

    def forget_pass(self, *optimizers: object) -> None:
        """What the last pass brought leads to no step of these optimizers, or of all, any more."""
        self.has_passed = False
        self.unstepped -= {id(optimizer) for optimizer in optimizers or self.optimizers}

    @property
    def averages_buffers(self) -> bool:
        """Whether there are buffers that are averaged."""
        return bool(self._averaged)

    def averaged(self) -> Iterator[tuple[int, Tensor]]:
        """Yields the buffers that are averaged, as the model has them now."""
        for index, owner, name in self._averaged:
            yield index, getattr(owner, name)

    def publish_buffers(self, samples: int) -> None:
        """Gives the buffers that are averaged, which count as so many samples'."""
        for index, buffer in self.averaged():
            _library.check(self.memory.publish(index, buffer.contiguous(), float(samples)))

    def read_into_gradients(self) -> None:
        """Waits for what the job gives back for each parameter, and writes it over `param.grad`."""
        read = self.memory.read
        for entry in self.entries:
            param = entry.param
            gradient = param.grad
            if gradient is None:
                if not param.requires_grad:
                    continue  # frozen meanwhile, as on all ranks
                gradient = torch.empty_like(param, memory_format=torch.preserve_format)
                param.grad = gradient
            code = read(entry.index, gradient)
            if code:
                _library.fail(code)

    def read_into_params(self) -> None:
        """Waits for the weights and writes them over the parameters."""
        for entry in self.entries:
            _library.check(self.memory.read(entry.index, entry.param.detach()))

    def read_buffers(self) -> None:
        """Waits for the averaged buffers and writes them over the model's."""
        for index, buffer in self.averaged():
            # One that is not is a view, which is to stay the view that it is.
            dense = buffer if buffer.is_contiguous() else buffer.contiguous()
            _library.check(self.memory.read(index, dense))
            if dense is not buffer:
                buffer.copy_(dense)

    def read_skip(self) -> bool:
        """Whether any rank had a gradient that was not finite in this pass."""
        if not self.skips_nonfinite:
            return False
        flag = self._like_params(0.0)
        _library.check(self.memory.read(self.skip_index, flag))
        return float(flag) > 0


def _nothing(*_: object) -> None:
    pass


def _hook(entry: Entry, call: Callable[[Entry], None]) -> Any:
    """Calls `call(entry)` once a backward pass has added up the parameter's gradient."""
    param: Any = entry.param
    if hasattr(param, "register_post_accumulate_grad_hook"):
        return param.register_post_accumulate_grad_hook(lambda _: call(entry))
    # Older versions of PyTorch: the node that adds up the gradient is reached from any use of it.
    node = param.expand_as(param).grad_fn.next_functions[0][0]
    return node, node.register_hook(lambda *_: call(entry))
