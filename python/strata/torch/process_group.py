"""A process group of `torch.distributed` with the job's ranks, for what the job does not
exchange."""

from __future__ import annotations

import atexit
import datetime
import os

import torch.distributed as dist
from torch._C._distributed_c10d import FileStore, HashStore, Store

from strata import _rendezvous, errors
from strata._rank import process
from strata.views import refuse_in_elastic

_FILE = "torch-process-group"


def init_process_group(timeout_s: float = 1800.0) -> None:
    """Makes the default process group, over Gloo, of the job's ranks, as DistributedDataParallel
    needs one.

    With `strata.torch.comm_hook` no gradient goes through it: DDP uses it for its first comparison
    of shapes and weights, for buffers in each forward pass (unless `broadcast_buffers=False`), and
    with `find_unused_parameters=True` for one bit per parameter and pass. It is a whole group, so
    metrics may go through it, too. Does nothing where there is a default group already. At the
    process's end it is destroyed, where nobody has done that.

    Ranks on one host meet in the run directory, others at $MASTER_ADDR:$MASTER_PORT. Raises
    `errors.InvalidArgument` where ranks are on several hosts and these are not set, or in a job
    with `ranks_min` or `ranks_max`, whose ranks join and leave.
    """
    if dist.is_initialized():
        return
    refuse_in_elastic("process group", "its ranks are those that it is made with")
    if not dist.is_available() or not dist.is_gloo_available():
        raise errors.InvalidArgument("process group: this PyTorch was built without Gloo")
    atexit.register(_destroy)
    meeting = _rendezvous.find()
    timeout = datetime.timedelta(seconds=timeout_s)
    number, count = _rendezvous.rank(), _rendezvous.ranks()
    if meeting.master:
        dist.init_process_group(
            "gloo",
            init_method=f"tcp://{meeting.master}",
            rank=number,
            world_size=count,
            timeout=timeout,
        )
        return
    store: Store
    if meeting.folder:
        store = FileStore(os.path.join(meeting.folder, _FILE), count)
    else:
        store = HashStore()
    dist.init_process_group("gloo", store=store, rank=number, world_size=count, timeout=timeout)


def _destroy() -> None:
    # Its threads let go of Python's objects: once the interpreter ends, that aborts the process.
    if dist.is_initialized() and not process.forked_from:
        dist.destroy_process_group()
