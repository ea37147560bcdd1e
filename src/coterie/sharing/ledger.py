"""The disclosure log: every value that is opened, to whom, and why, written before anything of it is sent."""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec

__all__ = ["Disclosure", "Ledger"]


class Disclosure(msgspec.Struct, frozen=True):
    """One opening. `iteration` is None outside the loop; `restart` counts from 0; `detail`: which rows or columns."""

    what: str
    to: tuple[str, ...]
    reason: str
    iteration: int | None = None
    detail: str = ""
    restart: int | None = None


class Ledger:
    """The log of one run at one role. Data parties and helper write the same entries.

    `check` refuses what nothing allows to be opened; `write` keeps an entry where it survives this process. Both are
    called before the opening and from any lane, one call at a time; if one raises, nothing is opened.
    """

    def __init__(self, write: Callable[[Disclosure], None] | None = None) -> None:
        self.entries: list[Disclosure] = []
        self.iteration: int | None = None
        self.restart: int | None = None
        self.check: Callable[[Disclosure], None] | None = None
        self.write = write
        self._lock = threading.Lock()

    def record(self, what: str, to: tuple[str, ...], reason: str, detail: str = "") -> None:
        entry = Disclosure(what, to, reason, self.iteration, detail, self.restart)
        with self._lock:
            if self.check is not None:
                self.check(entry)
            if self.write is not None:
                self.write(entry)
            self.entries.append(entry)
