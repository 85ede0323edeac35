"""The C library's heap: memory freed by a training step is reused by the next one."""

from __future__ import annotations

import ctypes
import os

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of mallopt
_SETTINGS = {_TRIM_THRESHOLD: 1 << 30, _TOP_PAD: 64 << 20, _MMAP_THRESHOLD: 32 << 20}


def keep() -> None:
    """Makes the heap give up to 1 GiB of freed memory back no sooner than at the process's end.

    Else each step takes its activations from the kernel anew, page by page: of LeNet-5 a step takes
    1.6 times as long, in some processes and not in others. Does nothing where the environment has
    settings of its own, or the C library is not glibc.
    """
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for setting, value in _SETTINGS.items():
            mallopt(setting, value)
