"""Who hears how a run goes on."""

from __future__ import annotations

__all__ = ["Voice"]


class Voice:
    """Hears how a run goes on. This one says nothing."""

    def phase(self, text: str) -> None:
        """Another part of the run begins."""

    def note(self, text: str) -> None:
        """Something to know that does not pass."""

    def waiting(self, names: list[str]) -> None:
        """These participants are not there yet."""

    def iterated(self, start: int, iteration: int, most: int, sent: int) -> None:
        """An iteration of at most `most` is done; so many bytes were sent from here."""
