"""Training with arrays of any library: weights come out, gradients go in."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from strata import _checks, _lifetime, _places, errors, reporting
from strata._rank import process
from strata.optimizers import Mean, Optimizer
from strata.views import StepRanks, refuse


class Session:
    """This rank's part in its job, whose model is a set of named arrays.

        params = {"w": np.zeros((8,), "f4"), "b": np.zeros((1,), "f4")}
        with strata.Session(params, optimizer=strata.SGD(lr=0.1)) as session:
            for step in range(300):
                w = session.weights()
                session.step(gradients(w, session.rank, step))

    Run by itself, the script is the one rank of a job without any cluster; `strata run -n 4 SCRIPT`
    makes four of it. All ranks begin with rank 0's weights. Where the block ends without an
    exception, the session waits until all ranks are done, and `weights()` are the job's final ones.

    Threads: any, one at a time. A process has one session, and a process that forks keeps it to
    itself.
    """

    def __init__(
        self,
        params: Mapping[str, Any],
        optimizer: Optimizer | None = None,
        *,
        samples_per_epoch: int = 0,
        total_steps: int = 0,
        can_resume: bool = False,
        keeps_state: bool = False,
    ) -> None:
        """Joins the job, and blocks until every rank has.

        `params` are arrays of fp32, fp16, bf16 or fp64, in the order of the forward pass, the same
        on all ranks: NumPy's, PyTorch's, or what has `__array_interface__` or DLPack. In a job with
        `device: GPU` they lie on this rank's GPU: PyTorch's, CuPy's, or arrays of fp32 that have
        `__cuda_array_interface__` or DLPack. The job keeps them as fp32. `optimizer` runs where the
        job has the weights; None takes the one of the job (`--set optimizer.sgd={}`). With
        `strata.Mean()` a step returns the mean gradient in place of new weights, and `params` are
        overwritten with rank 0's once, unless the job goes on from a checkpoint.
        `samples_per_epoch` (of all ranks) and `total_steps` (of each) show the progress.

        Jobs with `checkpoint` or `replace` take scripts with `can_resume=True`, which begin with
        step `first_step`. With `keeps_state=True` checkpoints hold what each rank gives to
        `save_state`, too; a node of such ranks cannot be replaced. With `replace` a node whose
        ranks make no step for a minute (`hang_after_s`), nor use their cores, is begun again while
        all other ranks wait for it: a script that sleeps in its loop for longer sets it to 0.

        Jobs with `ranks_min` or `ranks_max`, whose nodes join and leave while they train, take
        scripts with `can_resume=True`, without `keeps_state=True` and `strata.Mean()`. They draw
        their data from `strata.ElasticSampler`, or ask `step_ranks` in each step.

        Raises `errors.InvalidArgument` naming the array, `errors.JobStopped`.
        """
        if not params:
            raise errors.InvalidArgument("Session: there are no params")
        self._params = dict(params)
        self._client = _lifetime.connect()
        if self._client.takes_nodes:
            _check_elastic(optimizer, can_resume, keeps_state)
        self._place = _places.of(self._client)
        memories = {name: self._place.take(name, array, 1) for name, array in params.items()}
        if isinstance(optimizer, Mean):
            for name, array in self._params.items():
                if not self._place.is_writable(array):
                    raise errors.InvalidArgument(
                        f'"{name}": rank 0\'s first weights cannot be written there: with'
                        " strata.Mean() params are arrays of NumPy or PyTorch, or on a GPU of what"
                        " has __cuda_array_interface__"
                    )
            if can_resume and not keeps_state and self._client.has_checkpoints:
                raise errors.InvalidArgument(
                    "Session: with strata.Mean() the weights are the script's, which checkpoints"
                    " hold with keeps_state=True alone"
                )
        self._optimizer = optimizer
        self._shapes = {name: memories[name].shape for name in self._params}
        # Tensors are registered in the order in which backward passes finish them.
        self._index = {
            name: self._client.register(name, self._shapes[name]) for name in reversed(self._params)
        }
        self._client.allocate()
        for name in self._params:
            self._place.offer(self._index[name], memories[name])
        self._client.start(
            None if optimizer is None else optimizer.to_text(),
            optimizer is not None and not isinstance(optimizer, Mean),
            _checks.whole("samples_per_epoch", samples_per_epoch, 0),
            _checks.whole("total_steps", total_steps, 0),
            can_resume,
            keeps_state,
        )
        # Arrays of libraries that have no read-only ones would end the process without a word.
        self._client.guard_weights()
        self._gives_means = "mean" in self._client.job.get("optimizer", {}) or isinstance(
            optimizer, Mean
        )
        self._reporter = reporting.begin(self._client)
        self._final: dict[str, Any] | None = None
        process.after_finish.append(self._keep_final)
        # A checkpoint has the newest means, and the script its weights.
        if self._gives_means and not self.first_step:
            for name, array in self._params.items():
                self._place.copy_into(array, self._read(name))

    @property
    def rank(self) -> int:
        """This rank's number, from 0. Where nodes join and leave, `step_ranks` has those of a
        step."""
        return self._client.rank

    @property
    def ranks(self) -> int:
        """How many ranks the job has; where nodes join and leave, how many it began with."""
        return self._client.ranks

    @property
    def first_step(self) -> int:
        """The first step that this script makes: 0, but where the job goes on from a checkpoint,
        or this rank takes another one's place, or joins while the job trains."""
        return self._client.first_step

    def step_ranks(self, step: int) -> StepRanks:
        """Returns who makes a step, which does not change from then on.

        In a job with `ranks_min` or `ranks_max` it blocks while a change of the nodes is agreed
        upon that may come with the step. Where this rank does not make it, the script ends its
        loop, and closes the session; `step` then raises `errors.NoMoreSteps`.
        """
        return self._client.step_ranks(_checks.whole("step_ranks: step", step, 0))

    def step_ranks_if_known(self, step: int) -> StepRanks | None:
        """Returns the same for a step whose data is to be read ahead, without blocking; None: it is
        not known yet."""
        return self._client.step_ranks_if_known(_checks.whole("step_ranks: step", step, 0))

    @property
    def checkpoint_due(self) -> bool:
        """Whether this is the moment of a checkpoint that wants `save_state`: after a step, until
        the next one."""
        return self._client.is_open and self._client.checkpoint_due()

    def save_state(self, state: bytes) -> None:
        """Gives a checkpoint what this rank needs to make the next step, besides the weights.

        It is written while training goes on. Where `checkpoint_due` and nothing is given, the
        checkpoint fails, and training goes on. Raises `errors.OutOfOrder` where none is due.
        """
        self._client.give_state(bytes(state))

    @property
    def saved_state(self) -> bytes | None:
        """What this rank gave to `save_state` for the checkpoint that the job goes on from; None
        where it begins anew.

        Raises `errors.StrataError` where it cannot be read: the script is to exit.
        """
        return self._client.read_state(self.rank)

    @property
    def run_dir(self) -> str:
        """The run directory on this host; "" without a cluster."""
        return self._client.run_dir

    @property
    def job(self) -> dict[str, Any]:
        """The job with all defaults, by the field names of job.proto."""
        return self._client.job

    @property
    def optimizer(self) -> Optimizer | None:
        """The optimizer that the session was given; its `lr` holds for the steps to come."""
        return self._optimizer

    def weights(self) -> dict[str, Any]:
        """Waits for the weights that the next step starts from, and returns them, by name.

        They lie in memory that all ranks of this node share, fp32 and read-only, and change with
        the next `step`: copy what is to stay. On a GPU they are arrays of PyTorch or CuPy where the
        params are, else objects with `__cuda_array_interface__`, and must not be written to.
        """
        if self._gives_means:
            raise errors.OutOfOrder("weights: with strata.Mean() they are the script's own")
        if self._final is not None:
            return dict(self._final)
        if self._client.is_open:
            self._client.wait_all()
        return {name: self._view(name) for name in self._params}

    def step(
        self, gradients: Mapping[str, Any], *, samples: int = 1, loss: float | None = None
    ) -> dict[str, Any]:
        """Gives this rank's gradients to the job.

        `gradients` are means over this rank's `samples` samples, one for each of the params, of the
        same shape. The job's gradient is the mean over the samples of all ranks; with the default,
        of all ranks alike; 0: this rank has none in this step. `loss` is the mean loss, for the
        progress.
        Returns, with `strata.Mean()`, the job's mean gradients by name, fp32, valid until the next
        step; else nothing: `weights()` waits for the new weights.

        Raises `errors.InvalidArgument` naming a gradient that is missing or of another shape, after
        which the step may be tried again, or one that is not finite; `errors.NoMoreSteps`: this
        rank has made its last step, and its node leaves the job, which goes on.
        """
        samples = _checks.samples("step: samples", samples)
        if samples == 0 and self._gives_means:
            raise errors.InvalidArgument(
                "step: samples: 0 does not go with strata.Mean(), as no rank may have any"
            )
        mean_loss = None if loss is None else _checks.real("step: loss", loss)
        given = self._check(gradients, samples)
        if not self._client.in_step:
            rate = None if self._optimizer is None or self._gives_means else self._optimizer.lr
            self._place.begin(given.values())
            self._client.begin_step(samples, rate)
        # Without samples gradients count nothing, as those do that are not given.
        for name, index in self._index.items() if samples else ():
            self._place.publish(index, given[name], samples)
        self._client.finish_step()
        if mean_loss is not None:
            self._reporter.on_loss(mean_loss)
        self._reporter.on_step(samples)
        if not self._gives_means:
            return {}
        return {name: self._read(name) for name in self._params}

    def _check(self, gradients: Mapping[str, Any], samples: int) -> dict[str, Any]:
        for name in gradients:
            if name not in self._params:
                raise errors.InvalidArgument(f'step: "{name}" is none of the params')
        given = {}
        for name, shape in self._shapes.items():
            if name not in gradients:
                raise errors.InvalidArgument(f'step: "{name}": its gradient is missing')
            memory = self._place.take(name, gradients[name], samples)
            if memory.shape != shape:
                raise errors.InvalidArgument(
                    f'step: "{name}": the gradient is {memory.shape}, the weights are {shape}'
                )
            given[name] = memory
        return given

    def _view(self, name: str) -> Any:
        return self._place.weights(self._index[name], self._shapes[name], self._params[name])

    def _read(self, name: str) -> Any:
        self._client.wait(self._index[name])
        return self._view(name)

    def close(self) -> None:
        """Ends this rank's part: waits until all ranks are done. Then `weights()` are the final
        ones."""
        _lifetime.finish()

    def _keep_final(self) -> None:
        self._final = {name: self._place.copy_of(self._view(name)) for name in self._params}

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()


def _check_elastic(optimizer: Optimizer | None, can_resume: bool, keeps_state: bool) -> None:
    """Raises `errors.InvalidArgument` naming what a joining rank would lack."""
    if isinstance(optimizer, Mean):
        refuse(
            "Session: strata.Mean()",
            "the weights would be the script's own, which one that joins does not have: give the"
            " session an optimizer",
        )
    if keeps_state:
        refuse("Session: keeps_state=True", "ranks that join have no state of their own")
    if not can_resume:
        refuse(
            "Session: can_resume=False",
            "ranks that join begin with step first_step, so a script must say can_resume=True",
        )
