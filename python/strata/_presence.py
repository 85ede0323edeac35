"""Ranks that train nothing: a job waits for all its ranks, including those whose program creates no
session."""

from __future__ import annotations

import os

from strata import _lifetime
from strata._rank import process


def take_part_if_none_was() -> None:
    """Joins the job with a model of one number where this process has made no session; else does
    nothing.

    Where other ranks of the job have a session, the job ends with an error that has the number's
    name.
    """
    if process.client is not None or not os.environ.get("STRATA_LAUNCH"):
        return
    if not _lifetime.ends_well():
        return
    client = _lifetime.connect()
    client.register("none: this rank made no session", (1,), 0.0, 0.0)
    client.allocate()
    # Any optimizer will do for nothing, where the job leaves it to its program.
    is_awaited = "from_program" in client.job.get("optimizer", {})
    client.start("sgd {}" if is_awaited else None, False)
