"""The exchange of one model's gradients: hooks in the backward pass, and the end of the pass."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Callable

import torch
from torch import Tensor

from strata import _library, errors
from strata._client import Client
from strata._library import lib
from strata.torch import _buffers, _elastic, _memory, _tensors
from strata.torch._tensors import Entry

if TYPE_CHECKING:
    from strata.torch._keeper import Keeper

PUBLISH_MODES = ("backward", "step")
# Stands in for the parameters of a model that has only tables.
_NO_PARAMETERS = "(no parameters)"
_SKIP = "strata.skip"
_USED = "strata.used"


class Exchange:
    """Gives each gradient to the job once it is complete, while the backward pass goes on.

    A *pass* is one exchange: it begins with the first gradient and ends with `finish_pass`. Between
    passes the exchange is idle; after one, `has_passed` says so until an optimizer has made its
    step, and `unstepped` has the optimizers that have not.

    Ranks tell each other which gradients they had (`read_used`): a tensor that no rank used in a
    step is left as it is. They do so in one more tensor, a mean over samples as all are. It has a
    number above 0 for each gradient that some rank had. Its last element is 1, but 0 in a step in
    which no rank has samples.

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
        # All ranks weigh alike, as many as the job says.
        self.samples = int(client.job.get("program", {}).get("samples_per_rank", 0)) or 1
        """How many samples the script says that gradients are means over."""
        self.pass_samples = self.samples
        """How many the newest pass counts."""
        self.marks_used = False
        self.gives_means = False
        """Whether gradients come back as means, which the rank's own optimizer takes."""
        self.was_empty = False
        """Whether no rank had samples in the pass whose means are there."""
        self.lag = 0
        """How many passes later means come."""
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
        self._is_set = False  # samples, for the step to come
        self._times_set = 0  # in how many steps
        self._must_be_zero = False  # gradients of a pass that is taken to have no samples
        self._used_index = -1
        self._all_used: Tensor | None = None
        # For each pass whose means have not come, entries without a gradient on this rank.
        self._awaited: deque[list[Entry]] = deque()
        self._given: dict[int, tuple[Tensor, int]] = {}
        self._hook_ids: dict[int, int] = {}
        self._pauses = 0
        self._buffers = _buffers.Averaged(self.memory, client)
        self._hooks: list[Any] = []
        self.keeper: Keeper | None = None  # in jobs with checkpoints
        self.knows_first_step = False  # the script has asked for it
        self.on_pass_begin: Callable[[], None] = _nothing
        self.on_backward_end: Callable[[], None] = _nothing
        self.on_published: Callable[[Entry], None] = _nothing

    def register(
        self,
        model: torch.nn.Module,
        buffers: str | None,
        groups: Any = None,
        labels: Sequence[str] = (),
    ) -> None:
        """Registers all tensors with the client, and writes the first weights.

        `groups` gives a parameter group's multipliers of the learning rate and of the weight decay;
        `labels` must be the same on all ranks.
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
            self._buffers.register(model)
        for constant in _tensors.constants(model, self.entries, with_buffers=buffers is None):
            client.register(constant.label(), (1,), 0.0, 0.0)
        for entry in self.entries:
            if entry.order_label:
                client.register(entry.order_label, (1,), 0.0, 0.0)
        for label in labels:
            client.register(label, (1,), 0.0, 0.0)
        if not self.entries:
            client.register(_NO_PARAMETERS, (1,), 0.0, 0.0)
        if self.skips_nonfinite:
            # A mean over ranks, which codecs that lose parts of gradients do not go with.
            self.skip_index = client.register(_SKIP, (1,), averaged=True)
        if self.marks_used:
            self._used_index = client.register(_USED, (len(self.entries) + 1,), averaged=True)
        client.allocate()
        for entry in self.entries:
            _tensors.write_floats(client.weights(entry.index), entry.param)
        self._buffers.write_first()

    def start(self, optimizer: str, says_rates: bool, facts: dict[str, Any]) -> None:
        """Blocks until every rank has registered; training then begins."""
        self.client.start(optimizer, says_rates, **facts)
        self.memory.open(self.entries)
        if self.marks_used and self.client.first_step:
            # The means that are there are those of the checkpoint.
            self._awaited.extend(self.entries for _ in range(self.lag))

    def install_hooks(self) -> None:
        """Makes backward passes call this exchange as they complete gradients."""
        for entry in self.entries:
            hook = _hook(entry, self._on_gradient)
            self._hooks.append(hook)
            if not isinstance(hook, tuple):
                self._hook_ids[entry.index] = hook.id

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it gradients only accumulate in `param.grad`."""
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1

    def _on_gradient(self, entry: Entry) -> None:
        if not self.publishes_in_backward:
            # Earlier exchanges belong to another backward pass.
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
                self.begin_pass(entry.param.grad)
            except errors.NoMoreSteps:
                return  # step() says so: a backward pass that fails leaves its graph in memory
            torch.autograd.Variable._execution_engine.queue_callback(self.on_backward_end)
        if self._runs_last(entry):
            self._publish(entry)

    def _runs_last(self, entry: Entry) -> bool:
        """Returns whether no later hook of the script may change the gradient. Otherwise the pass's
        end publishes it, and from the next pass on this hook is the last one."""
        hooks = getattr(entry.param, "_post_accumulate_grad_hooks", None)
        number = self._hook_ids.get(entry.index)
        if not hooks or number is None or next(reversed(hooks)) == number or number not in hooks:
            return True
        hooks[number] = hooks.pop(number)
        return False

    def begin_pass(self, first: Tensor | None, has_rows: bool = False) -> None:
        """Opens a pass with its first gradient; None: there is none. `has_rows`: rows of tables
        have gradients."""
        self.meet_checkpoint()
        self.check_places()
        self.on_pass_begin()
        self.memory.begin()
        samples, self._must_be_zero = self._find_samples(first, has_rows)
        self.client.begin_step(samples, self.rate)
        self._take(samples)
        self.in_pass = True

    def check_places(self) -> None:
        """Raises `errors.InvalidArgument` naming a parameter that has become another kind of tensor
        since its registration."""
        for entry in self.entries:
            param = entry.param
            if param.dtype not in _tensors.DTYPES:
                raise errors.InvalidArgument(
                    f'parameter "{entry.name}": has become {param.dtype} since the optimizer was'
                    " wrapped; gradients travel as fp32: use model.float()"
                )
            if not self.memory.holds(param):
                raise errors.InvalidArgument(
                    f'parameter "{entry.name}": has moved to {param.device} since the optimizer was'
                    " wrapped: move the model before"
                )

    def count_samples(self, has_rows: bool = False) -> int:
        """Returns the number of samples of a step that this rank makes by itself. `has_rows`: rows
        of tables have gradients."""
        samples, must_be_zero = self._find_samples(self.first_gradient, has_rows)
        if must_be_zero:
            for entry in self.entries:
                if entry.param.grad is not None:
                    self._expect_zero(entry, entry.param.grad)
        self._take(samples)
        return samples

    def _find_samples(self, first: Tensor | None, has_rows: bool) -> tuple[int, bool]:
        """Returns how many samples the step to come has on this rank, and whether that is 0 because
        the script has said none, and its first gradient is zero.

        A number that the script has set holds for one step. After that it is taken to be the same
        again, as in scripts that set it once, unless the rank has nothing to show for it: rows with
        gradients are something.
        """
        if has_rows or self._is_set or not self.takes_no_samples:
            return self.samples, False
        if first is None:
            return 0, False
        # In the second step it cannot be told yet who sets it once, and who in each step.
        sets_each = self._times_set > 1 or (self._times_set == 1 and self.passes == 1)
        is_idle = sets_each and not bool(first.any())
        return (0, True) if is_idle else (self.samples, False)

    def _take(self, samples: int) -> None:
        self.pass_samples = samples
        self._is_set = False

    @property
    def takes_no_samples(self) -> bool:
        """Returns whether a step may have no samples on this rank: not if a codec encodes means,
        because ranks could not tell that none had any."""
        return self.client.is_alone or not self.gives_means or self.marks_used

    @property
    def takes_samples_for_none(self) -> bool:
        """Whether the pass is taken to have no samples because the script has said none, and its
        first gradient is zero."""
        return self._must_be_zero

    def set_samples(self, samples: int) -> None:
        """Sets the number of samples over which the gradients of the next step are means."""
        if self.in_pass or self.has_passed:
            if samples != self.pass_samples:
                raise errors.OutOfOrder(
                    f"samples: the step's gradients were given as {self.pass_samples} samples',"
                    f" not {samples}: set it before backward()"
                )
            return
        if samples == 0 and not self.takes_no_samples:
            raise errors.InvalidArgument(
                "samples: 0 does not go with push.codec or pull.codec but FP32 while the optimizer"
                " is on the ranks"
            )
        self.samples = samples
        self._times_set += not self._is_set
        self._is_set = True

    def _expect_zero(self, entry: Entry, gradient: Tensor) -> None:
        if bool(gradient.any()):
            raise errors.InvalidArgument(
                f'parameter "{entry.name}": has a gradient in a step for which no samples were'
                " said, and whose first gradient is zero: set optimizer.samples before backward()"
                " in each step"
            )

    def meet_checkpoint(self) -> None:
        """The next step has begun: a due checkpoint captures the present state."""
        if self.keeper is not None:
            self.keeper.check_script()
            self.keeper.capture(has_run=True)
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
        dense = _tensors.alike(gradient.resolve_neg(), entry.param)
        if dense is not gradient:
            entry.param.grad = dense
        self.give(entry, dense)
        self._given[entry.index] = dense, dense._version

    def give(self, entry: Entry, gradient: Tensor) -> None:
        """Publishes a gradient, which has the memory layout of its parameter."""
        if self.in_pass and self.pass_samples == 0:
            # It counts nothing: the end of the step makes it zeros.
            if self._must_be_zero:
                self._expect_zero(entry, gradient)
            entry.is_published = True
            self.on_published(entry)
            return
        if self.skips_nonfinite and self.memory.device_type == "cuda":
            gradient = self._finite_or_zeros(gradient)
        code = self.memory.publish(entry.index, gradient, float(self.pass_samples))
        if code:
            self._take_error(entry, code)
        entry.is_published = True
        self.on_published(entry)

    def _finite_or_zeros(self, gradient: Tensor) -> Tensor:
        """On a GPU the host does not check gradients: it would have to wait for all queued work."""
        bad = ~torch.isfinite(gradient).all()
        self._bad = bad if self._bad is None else self._bad | bad
        return torch.where(bad, torch.zeros_like(gradient), gradient)

    def _take_error(self, entry: Entry, code: int) -> None:
        """With a GradScaler the job continues after a gradient that is not finite."""
        if code != _library.INVALID_ARGUMENT:
            _library.fail(code)
        if not self.skips_nonfinite:
            text = lib.strata_error_text().decode(errors="replace")
            has_diverged = bool(lib.strata_error_has_diverged())
            raise (errors.Diverged if has_diverged else errors.InvalidArgument)(
                f"the gradient of {text} (with a GradScaler, give it to DistributedOptimizer:"
                " scaler=...)"
            )
        # Not published, which the end of the step makes zeros.
        self.has_nonfinite = True

    def finish_pass(self) -> None:
        """Publishes what no hook has published, zeros for missing gradients, and ends the pass."""
        self._check_given()
        if not self.in_pass:
            self.begin_pass(self.first_gradient)
        missing = []
        for entry in self.entries:
            if entry.is_published:
                continue
            if entry.param.grad is not None:
                self._publish(entry)
            else:
                missing.append(entry)
        scale = float(self.pass_samples)
        self.publish_buffers(self.pass_samples)
        if self.marks_used:
            self._publish_used(missing)
        if self.skips_nonfinite:
            flag = self._like_params(float(self.has_nonfinite))
            if self._bad is not None:
                flag = self._bad.float().reshape(1)
            self._bad = None
            _library.check(self.memory.publish(self.skip_index, flag, scale))
        self.client.finish_step()
        self._given.clear()
        for entry in self.entries:
            entry.is_published = False
        self.in_pass = False
        self.has_passed = True
        self.has_nonfinite = False
        self.unstepped = {id(optimizer) for optimizer in self.optimizers}
        self.passes += 1

    @property
    def first_gradient(self) -> Tensor | None:
        """The gradient that a backward pass completes first; None: no parameter has one."""
        gradients = (entry.param.grad for entry in self.entries)
        return next((gradient for gradient in gradients if gradient is not None), None)

    def _like_params(self, value: float) -> Tensor:
        """Returns a number in the memory of the parameters' device."""
        device = self.entries[0].param.device if self.entries else "cpu"
        return torch.full((1,), value, dtype=torch.float32, device=device)

    def check_ended(self) -> None:
        """Raises `errors.OutOfOrder` if gradients were published and no step followed."""
        if self.in_pass:
            raise errors.OutOfOrder(
                "the last backward() had no step(): its gradients were given to the servers while"
                ' it ran; where a batch may be left out, give DistributedOptimizer publish="step"'
            )

    def forget_pass(self, *optimizers: object) -> None:
        """The result of the last pass no longer leads to a step of these optimizers, or of all."""
        self.has_passed = False
        self.unstepped -= {id(optimizer) for optimizer in optimizers or self.optimizers}

    @property
    def averages_buffers(self) -> bool:
        """Whether any buffers are averaged."""
        return bool(self._buffers)

    def averaged(self) -> Iterator[tuple[int, Tensor]]:
        """Yields the model's present averaged buffers."""
        return self._buffers.now()

    def publish_buffers(self, samples: int) -> None:
        """Publishes the averaged buffers, weighted by this many samples."""
        self._buffers.publish(samples)

    def _check_given(self) -> None:
        """Raises `errors.OutOfOrder` naming a gradient that has changed since a hook published
        it."""
        if not self._given:
            return
        for entry in self.entries:
            gradient, version = self._given.get(entry.index, (None, 0))
            if gradient is None:
                continue
            if entry.param.grad is not gradient or gradient._version != version:
                raise errors.OutOfOrder(
                    f'parameter "{entry.name}": its gradient was changed after it had been given:'
                    " register the hook that does so by register_post_accumulate_grad_hook, or"
                    ' give DistributedOptimizer publish="step"'
                )

    def _publish_used(self, missing: list[Entry]) -> None:
        """Publishes which gradients this pass has."""
        self._awaited.append(missing if self.pass_samples else self.entries)
        if self.pass_samples == 0:
            return
        if self._all_used is None:
            self._all_used = self._like_params(1.0).repeat(len(self.entries) + 1)
        used = self._all_used
        if missing:
            used = used.clone()
            places = {id(entry): place for place, entry in enumerate(self.entries)}
            used[[places[id(entry)] for entry in missing]] = 0.0
        _library.check(self.memory.publish(self._used_index, used, float(self.pass_samples)))

    def read_used(self) -> Collection[int]:
        """Returns the indices of tensors of which no rank had a gradient in the pass of the present
        means; all tensors, if no rank had samples. Once for each pass."""
        self.was_empty = False
        if not self.marks_used or len(self._awaited) <= self.lag:
            return ()
        # A parameter that this rank has used counts as used.
        if not self._awaited.popleft():
            return ()
        shares = self._like_params(0.0).repeat(len(self.entries) + 1)
        _library.check(self.memory.read(self._used_index, shares))
        *of_entries, of_all = shares.tolist()
        self.was_empty = of_all == 0
        return {entry.index for entry, share in zip(self.entries, of_entries) if share == 0}

    def read_into_gradients(self, unused: Collection[int]) -> None:
        """Waits for the job's result for each parameter, and writes it to `param.grad`, which is
        None for unused ones."""
        read = self.memory.read
        for entry in self.entries:
            param = entry.param
            if unused and entry.index in unused:
                param.grad = None
                continue
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
        """Waits for the weights and writes them to the parameters."""
        for entry in self.entries:
            _library.check(self.memory.read(entry.index, entry.param.detach()))

    def read_buffers(self) -> None:
        """Waits for the averaged buffers and writes them to the model's."""
        if not self.was_empty:
            self._buffers.read()

    def read_skip(self) -> bool:
        """Returns whether any rank had a gradient that was not finite in this pass."""
        if not self.skips_nonfinite or self.was_empty:
            return False
        flag = self._like_params(0.0)
        _library.check(self.memory.read(self.skip_index, flag))
        return float(flag) > 0


def _nothing(*_: object) -> None:
    pass


def _hook(entry: Entry, call: Callable[[Entry], None]) -> Any:
    """Calls `call(entry)` once a backward pass has accumulated the parameter's gradient."""
    param: Any = entry.param
    if hasattr(param, "register_post_accumulate_grad_hook"):
        return param.register_post_accumulate_grad_hook(lambda _: call(entry))
    # Older versions of PyTorch: the node that adds up the gradient is reached from any use of it.
    node = param.expand_as(param).grad_fn.next_functions[0][0]
    return node, node.register_hook(lambda *_: call(entry))
