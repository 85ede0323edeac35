"""PyTorch models as Strata jobs: wrap the optimizer, and the script is a rank.

    optimizer = strata.torch.DistributedOptimizer(torch.optim.AdamW(model.parameters()), model)

`strata run -n 4 train.py` makes four ranks of the script, in whichever mode (`--mode "ssp(3)"`).
"""

from strata._lifetime import fail, finish
from strata.elastic_sampler import ElasticSampler
from strata.errors import InvalidArgument, JobStopped, NoMoreSteps, OutOfOrder, StrataError
from strata.launching import launch
from strata.reporting import report
from strata.rows import (
    Constant,
    Normal,
    RowAdagrad,
    RowAdam,
    RowFtrl,
    RowSGD,
    RowwiseAdagrad,
    Uniform,
)
from strata.sampler import Sampler, epochs
from strata.torch._keeper import keep
from strata.torch.comm_hook import HookState, comm_hook, state
from strata.torch.embedding import Embedding, EmbeddingBag, convert_sparse, prefetch
from strata.torch.optimizer import Distributed, DistributedOptimizer
from strata.torch.process_group import init_process_group
from strata.views import StepRanks

__all__ = [
    "Constant",
    "Distributed",
    "DistributedOptimizer",
    "ElasticSampler",
    "Embedding",
    "EmbeddingBag",
    "HookState",
    "InvalidArgument",
    "JobStopped",
    "NoMoreSteps",
    "Normal",
    "OutOfOrder",
    "RowAdagrad",
    "RowAdam",
    "RowFtrl",
    "RowSGD",
    "RowwiseAdagrad",
    "Sampler",
    "StepRanks",
    "StrataError",
    "Uniform",
    "comm_hook",
    "convert_sparse",
    "epochs",
    "fail",
    "finish",
    "init_process_group",
    "keep",
    "launch",
    "prefetch",
    "report",
    "state",
]
