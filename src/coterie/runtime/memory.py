"""How this process holds memory, and how much it has held."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
from collections.abc import Iterator

__all__ = ["hold_on", "peak_bytes"]

#: Parameters of glibc's mallopt(3): one arena for all threads; blocks up to 32 MiB (the most that glibc accepts) come
#: from it rather than as fresh pages from the kernel; and what is freed is handed back late.
MALLOPT = {-8: 1, -3: 1 << 25, -1: 1 << 29, -2: 1 << 25}


@contextlib.contextmanager
def hold_on() -> Iterator[None]:
    """While protocols run: keep freed memory, as fresh pages cost more than the arithmetic on them, and let the garbage
    collector leave alone what is loaded."""
    with contextlib.suppress(OSError, AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in MALLOPT.items():
            mallopt(parameter, value)
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def peak_bytes() -> int:
    """The most memory that this process has held. (Linux hands `ru_maxrss` down from the parent.)"""
    with contextlib.suppress(OSError), open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
