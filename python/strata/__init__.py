"""Strata for Python: a rank's part in a data-parallel training job.

`strata.torch` trains PyTorch models; `Session` takes arrays of any library. `strata run -n 4
SCRIPT` makes four ranks of a script; by itself it is one.
"""

from strata._lifetime import fail, finish
from strata._library import version
from strata.elastic_sampler import ElasticSampler
from strata.errors import (
    Diverged,
    InvalidArgument,
    JobStopped,
    LibraryMissing,
    NoMoreSteps,
    OutOfOrder,
    StrataError,
)
from strata.launching import launch
from strata.optimizers import SGD, Adagrad, Adam, AdamW, Ftrl, Mean, Optimizer
from strata.reporting import report
from strata.sampler import Sampler, epochs
from strata.session import Session
from strata.task import Step, Task
from strata.views import StepRanks

__version__ = version()

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "Diverged",
    "ElasticSampler",
    "Ftrl",
    "InvalidArgument",
    "JobStopped",
    "LibraryMissing",
    "Mean",
    "NoMoreSteps",
    "Optimizer",
    "OutOfOrder",
    "Sampler",
    "Session",
    "Step",
    "StepRanks",
    "StrataError",
    "Task",
    "epochs",
    "fail",
    "finish",
    "launch",
    "report",
    "version",
]
