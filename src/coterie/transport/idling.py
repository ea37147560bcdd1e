"""How long a role has nothing to do but wait for others."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

__all__ = ["Idling", "Lap"]


class Lap(NamedTuple):
    """How many seconds an iteration took at a role, and in how many of these it only waited."""

    seconds: float
    waited: float


class Idling:
    """Adds up the seconds in which no thread of a role works: each waits for a message, or for the other threads.

    A role starts with one thread at work, the one that made this.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._working = 1
        self._waited = 0.0
        self._since = 0.0

    @property
    def waited(self) -> float:
        """Seconds until now."""
        with self._lock:
            return self._waited + (time.perf_counter() - self._since if not self._working else 0.0)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """This thread, which is at work, waits."""
        self.leave()
        try:
            yield
        finally:
            self.enter()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Another thread of the role is at work."""
        self.enter()
        try:
            yield
        finally:
            self.leave()

    def enter(self) -> None:
        """A thread is at work, or at work again."""
        with self._lock:
            if not self._working:
                self._waited += time.perf_counter() - self._since
            self._working += 1

    def leave(self) -> None:
        """A thread that was at work waits, or is done."""
        with self._lock:
            self._working -= 1
            if not self._working:
                self._since = time.perf_counter()
