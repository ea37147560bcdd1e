"""No core dumps: a process that takes part in a study has keys and shares in its memory."""

from __future__ import annotations

import contextlib
import ctypes
import resource
import sys
from collections.abc import Iterator

__all__ = ["no_core_files", "undumpable"]

#: Options of Linux' prctl(2).
PR_GET_DUMPABLE, PR_SET_DUMPABLE = 3, 4


def no_core_files() -> None:
    """This process, and what it starts, leaves no core file."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


@contextlib.contextmanager
def undumpable() -> Iterator[None]:
    """On Linux: not even for a program that collects core dumps, which no limit holds back; and no other process of
    the same user may look into this one. Begin it when keys are loaded: they come through /proc/self/fd, which is
    closed to an undumpable process."""
    if sys.platform != "linux":
        yield
        return
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    before = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0)
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    try:
        yield
    finally:
        if before == 1:
            prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
