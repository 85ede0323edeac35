"""What a rank needs besides the job's weights to go on with a step: in checkpoints, and from
them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch

from strata import errors
from strata._client import Client
from strata._rank import process
from strata.sampler import course
from strata.torch import _elastic, _state_file
from strata.torch._exchange import Exchange


def keep(**objects: Any) -> None:
    """Has checkpoints keep what has `state_dict` and `load_state_dict`: learning rate schedulers, a
    GradScaler, objects of one's own; each under a name.

        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)
        strata.torch.keep(scheduler=scheduler)

    Call it on all ranks, once an object is made. In a job that goes on from a checkpoint, the
    object goes on, too. Each rank has its own. In jobs without `checkpoint` it does nothing.

    Raises `errors.InvalidArgument` naming an object without such methods, or that the checkpoint
    does not have; any in jobs with `ranks_min` or `ranks_max`, whose ranks keep nothing.
    """
    for name, one in objects.items():
        for method in ("state_dict", "load_state_dict"):
            if not callable(getattr(one, method, None)):
                raise errors.InvalidArgument(
                    f"keep: {name}: a {type(one).__name__} has no {method}"
                )
        if process.kept.get(name, one) is not one:
            raise errors.InvalidArgument(f"keep: {name}: another object is kept under this name")
        if process.client is not None and process.client.takes_nodes:
            _elastic.refuse_kept([name])
        process.kept[name] = one
        process.on_keep(name)


def kept() -> list[str]:
    """Returns the names of what is kept."""
    return list(process.kept)


class Keeper:
    """Gives checkpoints this rank's state, and takes it from the one that the job goes on from.

    The state of a step's end is taken late, when something of the next step begins: a Sampler
    draws, a DataLoader hands out a batch, a gradient is given. So it has what the script did after
    `step()`, as with a scheduler. Random numbers are as they were when the step ended, or, where a
    Sampler draws, when it does: what a DataLoader draws as it begins is behind it then, in both
    runs. By the first gradient the forward pass has changed buffers: those are as when the step
    ended, where nothing was drawn since.

    Threads: the script's, and those of backward passes, one at a time.
    """

    def __init__(self, client: Client, exchange: Exchange, model: torch.nn.Module) -> None:
        self._client = client
        self._exchange = exchange
        self._model = model
        self.keeps_params = False
        """Whether parameters are the ranks', not the job's."""
        self.shares_optimizer = False
        """Whether the optimizer's state is the same on all ranks."""
        self._is_pending = False
        self._rng: dict[str, Any] = {}
        self._stood: dict[str, Any] = {}
        self._held: dict[str, torch.Tensor] = {}  # buffers when the step ended
        self._own: dict[str, Any] | None = None  # what the job goes on from
        self._shared: dict[str, Any] | None = None
        self._has_checked = False
        self._knows_first_step = False

    def begin(self) -> None:
        """Training begins or resumes: restores everything from the checkpoint."""
        process.on_keep = self.on_keep
        if not self._client.first_step:
            return
        self._own = self._read(self._client.rank)["own"]
        self._shared = self._read(0)["shared"]
        assert self._own is not None
        course.on_reached = self._restore
        course.go_on(self._own["course"])
        self._restore()

    def _read(self, rank: int) -> dict[str, Any]:
        content = self._client.read_state(rank)
        if content is None:
            raise errors.InvalidArgument("the checkpoint that the job goes on from has no state")
        return _state_file.decode(content, f"the state of rank {rank}")

    def first_step(self) -> int:
        """Returns the first step of this process, which the script is about to make."""
        if not self._knows_first_step and self._own is not None and not course.skips:
            self._restore()
        self._knows_first_step = True
        return self._client.first_step

    def note(self) -> bool:
        """A step has ended, and the optimizer has made it. Returns whether a checkpoint is due with
        it."""
        if not self._client.checkpoint_due():
            return False
        self._is_pending = True
        self._rng = _random_state()
        self._stood = course.state()
        self._held = {n: buffer.detach().clone() for n, buffer in self._model.named_buffers()}
        course.on_draw = self._on_draw
        return True

    def _on_draw(self) -> None:
        if torch.is_grad_enabled():
            self._rng = _random_state()
            self.capture()

    def capture(self, has_run: bool = False) -> None:
        """The next step has begun, and the model may have run in it: gives the state that is
        due."""
        if not self._is_pending:
            return
        self._is_pending = False
        course.on_draw = None
        held, self._held = self._held, {}
        own: dict[str, Any] = {
            "rng": self._rng,
            "course": course.state(self._stood),
            "buffers": held if has_run else dict(self._model.named_buffers()),
            "kept": {name: one.state_dict() for name, one in process.kept.items()},
        }
        shared: dict[str, Any] = {}
        if not self.shares_optimizer:
            own["optimizer"] = self._exchange.optimizers[0].state_dict()
        elif self._client.rank == 0:
            shared["optimizer"] = self._exchange.optimizers[0].state_dict()
        if self.keeps_params and self._client.rank == 0:
            shared["params"] = {entry.name: entry.param for entry in self._exchange.entries}
        self._client.give_state(_state_file.encode({"own": own, "shared": shared}))

    def check_script(self) -> None:
        """Called at the first gradient: the script must know its first step."""
        if self._has_checked:
            return
        self._has_checked = True
        if course.skips:
            raise errors.OutOfOrder(
                "checkpoint: the script trains before its Sampler has come to where the checkpoint"
                " has it: all samplers are made, and used, in the order of the first run"
            )
        if not course.has_drawn and not self._knows_first_step:
            raise errors.InvalidArgument(
                "checkpoint: the job could not go on where it was in the data: use"
                " strata.torch.Sampler, or begin with the step optimizer.first_step"
            )
        optimizer = self._exchange.optimizers[0]
        has_scheduler = any("initial_lr" in group for group in optimizer.param_groups)
        if has_scheduler and not any(
            getattr(one, "optimizer", None) is optimizer for one in process.kept.values()
        ):
            raise errors.InvalidArgument(
                "checkpoint: the optimizer has a learning rate scheduler, which is to go on, too:"
                " call strata.torch.keep(scheduler=scheduler)"
            )
        # State that cannot be kept fails now, not at the first checkpoint.
        _state_file.encode({"kept": {name: one.state_dict() for name, one in process.kept.items()}})
        missing = [name for name in (self._own or {}).get("kept", {}) if name not in process.kept]
        if missing:
            raise errors.InvalidArgument(
                f'checkpoint: has "{missing[0]}", which the script does not keep:'
                f" strata.torch.keep({missing[0]}=...)"
            )

    def on_keep(self, name: str) -> None:
        """Restores an object from the checkpoint, if the job resumes from one."""
        if self._own is None:
            return
        states = self._own["kept"]
        if name not in states:
            has = ", ".join(states) or "nothing"
            raise errors.InvalidArgument(
                f"keep: {name}: the checkpoint that the job goes on from has {has}"
            )
        if self._has_checked:
            process.kept[name].load_state_dict(states[name])
        else:
            self._restore()  # a scheduler has set the learning rate as it was made

    def _restore(self) -> None:
        """Everything is as it was when the step of the checkpoint ended: at once, so that the
        script sees it, and when the script has come there, as it may have changed some since."""
        assert self._own is not None and self._shared is not None
        with torch.no_grad():
            for name, value in self._shared.get("params", {}).items():
                self._param(name).copy_(value)
            averaged = {id(buffer) for _, buffer in self._exchange.averaged()}
            for name, buffer in self._model.named_buffers():
                saved = self._own["buffers"].get(name)
                if saved is None and id(buffer) in averaged:
                    continue  # of a checkpoint of an older version, where the servers alone have it
                if saved is None or saved.shape != buffer.shape:
                    raise errors.InvalidArgument(
                        f'buffer "{name}": is {tuple(buffer.shape)}, in the checkpoint'
                        f" {'none' if saved is None else tuple(saved.shape)}"
                    )
                buffer.copy_(saved)
        state = (self._shared if self.shares_optimizer else self._own)["optimizer"]
        self._exchange.optimizers[0].load_state_dict(state)
        for name, one in process.kept.items():
            if name in self._own["kept"]:
                one.load_state_dict(self._own["kept"][name])
        _set_random_state(self._own["rng"])

    def _param(self, name: str) -> torch.nn.Parameter:
        for entry in self._exchange.entries:
            if entry.name == name:
                return entry.param
        raise errors.InvalidArgument(f'parameter "{name}": is in the checkpoint, not in the model')


def _random_state() -> dict[str, Any]:
    kind, keys, position, has_gauss, gauss = np.random.get_state()
    state = {
        "torch": torch.get_rng_state(),
        "numpy": (kind, keys, position, has_gauss, gauss),
        "python": random.getstate(),
    }
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def _set_random_state(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, keys.astype(np.uint32), *rest))
    random.setstate(state["python"])
    if "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"])
