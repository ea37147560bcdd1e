"""The disclosure log: every value that was opened, to whom, and why."""

from __future__ import annotations

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
    """The log of one run at one role. Data parties and helper write the same entries."""

    def __init__(self) -> None:
        self.entries: list[Disclosure] = []
        self.iteration: int | None = None
        self.restart: int | None = None

    def record(self, what: str, to: tuple[str, ...], reason: str, detail: str = "") -> None:
        self.entries.append(Disclosure(what, to, reason, self.iteration, detail, self.restart))
