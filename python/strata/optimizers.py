"""Optimizers that run where the job has its weights: on servers, in a ring, or in the one rank's
process.

Each has the formula that `docs/job-reference.md` gives for it, and the constants of that page
unless it is given others. A session may change the `lr` of its optimizer between any two steps.
"""

from __future__ import annotations


class Optimizer:
    """What all optimizers have: use one of those below.

    - `lr`: the learning rate, at least 0.
    - `weight_decay`: at least 0.
    - `clip_norm`: the largest norm of the gradient over all weights; 0: it stays as it is.
    """

    def __init__(self, lr: float, weight_decay: float, clip_norm: float) -> None:
        self.lr = lr
        self.weight_decay = weight_decay
        self.clip_norm = clip_norm

    def _kind(self) -> str:
        """Returns the optimizer's name in a job file."""
        return type(self).__name__.lower()

    def _fields(self) -> dict[str, float]:
        return {"weight_decay": self.weight_decay}

    def to_text(self) -> str:
        """Returns the optimizer in the syntax of a job file: "sgd { weight_decay: 0.1 }"."""
        inner = " ".join(f"{name}: {value!r}" for name, value in self._fields().items())
        clip = f" clip_norm: {self.clip_norm!r}" if self.clip_norm else ""
        return f"{self._kind()} {{ {inner} }}{clip}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}(lr={self.lr!r}): {self.to_text()}"


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum if that is above 0.

    - `momentum`: the decay of the velocity, at least 0 and below 1.
    - `nesterov`: whether the momentum is Nesterov's.
    """

    def __init__(
        self,
        lr: float = 0.01,
        *,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        clip_norm: float = 0.0,
    ) -> None:
        super().__init__(lr, weight_decay, clip_norm)
        self.momentum = momentum
        self.nesterov = nesterov

    def _kind(self) -> str:
        if not self.momentum:
            return "sgd"
        return "nesterov" if self.nesterov else "momentum_sgd"

    def _fields(self) -> dict[str, float]:
        fields = super()._fields()
        return {"momentum": self.momentum, **fields} if self.momentum else fields


class Adam(Optimizer):
    """Adam (Kingma & Ba 2015, algorithm 1); weight decay is added to the gradient.

    - `beta1`, `beta2`: the decays of the first and the second moment, at least 0 and below 1.
    - `epsilon`: what is added to the root of the second moment, above 0.
    """

    def __init__(
        self,
        lr: float = 1e-3,
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        clip_norm: float = 0.0,
    ) -> None:
        super().__init__(lr, weight_decay, clip_norm)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def _fields(self) -> dict[str, float]:
        moments = {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}
        return {**moments, **super()._fields()}


class AdamW(Adam):
    """AdamW (Loshchilov & Hutter 2019, algorithm 2); weight decay is apart from the moments."""

    def __init__(
        self,
        lr: float = 1e-3,
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.01,
        clip_norm: float = 0.0,
    ) -> None:
        super().__init__(
            lr,
            beta1=beta1,
            beta2=beta2,
            epsilon=epsilon,
            weight_decay=weight_decay,
            clip_norm=clip_norm,
        )


class Adagrad(Optimizer):
    """Adagrad (Duchi, Hazan & Singer 2011).

    - `epsilon`: is added to the root of the sum of squares, above 0.
    - `initial_accumulator`: the sum of squares that each weight begins with, at least 0.
    """

    def __init__(
        self,
        lr: float = 0.01,
        *,
        epsilon: float = 1e-10,
        initial_accumulator: float = 0.0,
        weight_decay: float = 0.0,
        clip_norm: float = 0.0,
    ) -> None:
        super().__init__(lr, weight_decay, clip_norm)
        self.epsilon = epsilon
        self.initial_accumulator = initial_accumulator

    def _fields(self) -> dict[str, float]:
        fields = {"epsilon": self.epsilon, "initial_accumulator": self.initial_accumulator}
        return {**fields, **super()._fields()}


class Ftrl(Optimizer):
    """FTRL-Proximal (McMahan et al. 2013, "Ad Click Prediction", algorithm 1), for linear models.

    - `l1`, `l2`: the regularization, at least 0. With `l1`, weights become exactly 0.
    - `beta`: is added to the root of the sum of squares, above 0.
    """

    def __init__(
        self,
        lr: float = 0.1,
        *,
        l1: float = 0.0,
        l2: float = 0.0,
        beta: float = 1.0,
        weight_decay: float = 0.0,
        clip_norm: float = 0.0,
    ) -> None:
        super().__init__(lr, weight_decay, clip_norm)
        self.l1 = l1
        self.l2 = l2
        self.beta = beta

    def _fields(self) -> dict[str, float]:
        return {"l1": self.l1, "l2": self.l2, "beta": self.beta, **super()._fields()}


class Mean(Optimizer):
    """No update: a step returns the mean gradient over all ranks, for an optimizer of the script's
    own."""

    def __init__(self) -> None:
        super().__init__(0.0, 0.0, 0.0)

    def _fields(self) -> dict[str, float]:
        return {}
