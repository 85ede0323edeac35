"""Optimizers that run where the job has its weights: on servers, in a ring, or in the one rank's
process.

Each has the formula that `docs/job-reference.md` gives for it, and the constants of that page
unless it is given others. `lr` is the learning rate; a session may change its `lr` between any two
steps.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Optimizer:
    """What all optimizers have. Use one of those below."""

    lr: float = 0.01
    """The learning rate, at least 0."""
    weight_decay: float = 0.0
    """The weight decay, at least 0."""
    clip_norm: float = 0.0
    """The largest norm of the gradient over all weights; 0: it stays as it is."""

    def _fields(self) -> tuple[str, dict[str, float]]:
        raise NotImplementedError

    def to_text(self) -> str:
        """Returns the optimizer as a job file has it, as "sgd { weight_decay: 0.1 }"."""
        kind, fields = self._fields()
        inner = " ".join(f"{name}: {value!r}" for name, value in fields.items())
        clip = f" clip_norm: {self.clip_norm!r}" if self.clip_norm else ""
        return f"{kind} {{ {inner} }}{clip}"


@dataclass
class SGD(Optimizer):
    """Stochastic gradient descent, with momentum if it is above 0."""

    momentum: float = 0.0
    """The decay of the velocity, at least 0 and below 1."""
    nesterov: bool = False
    """Whether the momentum is Nesterov's."""

    def _fields(self) -> tuple[str, dict[str, float]]:
        if not self.momentum:
            return "sgd", {"weight_decay": self.weight_decay}
        kind = "nesterov" if self.nesterov else "momentum_sgd"
        return kind, {"momentum": self.momentum, "weight_decay": self.weight_decay}


@dataclass
class Adam(Optimizer):
    """Adam (Kingma & Ba 2015, algorithm 1); weight decay is added to the gradient."""

    lr: float = 1e-3
    beta1: float = 0.9
    """The decay of the first moment."""
    beta2: float = 0.999
    """The decay of the second moment."""
    epsilon: float = 1e-8
    """What is added to the root of the second moment."""

    def _moments(self) -> dict[str, float]:
        return {
            "beta1": self.beta1,
            "beta2": self.beta2,
            "epsilon": self.epsilon,
            "weight_decay": self.weight_decay,
        }

    def _fields(self) -> tuple[str, dict[str, float]]:
        return "adam", self._moments()


@dataclass
class AdamW(Adam):
    """AdamW (Loshchilov & Hutter 2019, algorithm 2); weight decay is apart from the moments."""

    weight_decay: float = 0.01

    def _fields(self) -> tuple[str, dict[str, float]]:
        return "adamw", self._moments()


@dataclass
class Mean(Optimizer):
    """No update: a step returns the mean gradient over all ranks, for an optimizer of the script's
    own."""

    def _fields(self) -> tuple[str, dict[str, float]]:
        return "mean", {}
