"""Where the ranks of a job meet outside it, for what the job itself does not carry: objects and
barriers.

A job exchanges tensors that it knows from its start on. What libraries exchange besides (the path
of a checkpoint, a metric) goes through a process group of their own, for which ranks must find one
another.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from strata import errors

_LOOPBACK = ("127.", "::1", "localhost")


@dataclass(frozen=True)
class Meeting:
    """How the ranks find one another: one of the two is set, or none for a single rank."""

    folder: str = ""
    """A folder of this job alone that all ranks see, as they are on one host."""
    master: str = ""
    """HOST:PORT at which rank 0 listens."""


def ranks() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    return int(os.environ.get("RANK", "0"))


def _field(text: str, name: str) -> str:
    """Returns a text field of a launch file, which is protobuf text."""
    found = re.search(rf'^\s*{name}: "(.*)"$', text, re.MULTILINE)
    return found.group(1) if found else ""


def _launch() -> str:
    """Returns the launch file's text; empty for a single rank."""
    path = os.environ.get("STRATA_LAUNCH")
    if not path:
        return ""
    try:
        with open(path) as file:
            return file.read()
    except FileNotFoundError:
        raise errors.OutOfOrder(
            f"process {os.getpid()} was started by rank {rank()}, and is none: only the rank itself"
            " takes part in the job (without STRATA_LAUNCH in its environment it is a job of its"
            " own)"
        ) from None


def node() -> int:
    """Returns the number of this rank's node in its job, from 0."""
    found = re.search(r"^node: (\d+)$", _launch(), re.MULTILINE)
    return int(found.group(1)) if found else 0


def is_elastic() -> bool:
    """Whether nodes may join and leave this process's job while it trains."""
    return re.search(r"^\s*ranks_(min|max): [1-9]", _launch(), re.MULTILINE) is not None


def find() -> Meeting:
    """Returns where the ranks of this job meet.

    Ranks on one host meet in the run directory, where no rank's end takes it away from the others;
    those on several hosts at $MASTER_ADDR:$MASTER_PORT.
    Raises `errors.InvalidArgument` where ranks are on several hosts and nothing says where rank 0
    is.
    """
    if ranks() == 1:
        return Meeting()
    text = _launch()
    is_one_node = os.environ.get("LOCAL_WORLD_SIZE") == os.environ.get("WORLD_SIZE")
    # Nodes that reach one another by a loopback address are on one host, too.
    if text and (is_one_node or _field(text, "advertise").startswith(_LOOPBACK)):
        return Meeting(folder=_field(text, "run_dir"))
    address, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    if address and port:
        return Meeting(master=f"{address}:{port}")
    if not text:
        raise errors.OutOfOrder(
            f"WORLD_SIZE is {ranks()}, but no Strata job runs this process: strata run -n {ranks()}"
            " SCRIPT"
        )
    raise errors.InvalidArgument(
        "process group: the ranks are on several hosts: set MASTER_ADDR to rank 0's host and"
        " MASTER_PORT to a port that is free there, in the environment of all worker daemons"
    )
