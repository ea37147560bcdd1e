"""What a part of a run costs."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

__all__ = ["Cost", "Ending", "Found"]

Ending = Literal["stop", "max_iter"]


class Cost(msgspec.Struct):
    """Rounds, and bytes sent by rank (that of the one who owns nothing first), of a part of a run."""

    rounds: int
    sent: list[int]

    def then(self, other: Cost) -> Cost:
        """One after the other."""
        return Cost(self.rounds + other.rounds, [a + b for a, b in zip(self.sent, other.sent, strict=True)])

    def times(self, count: int) -> Cost:
        return Cost(self.rounds * count, [count * bytes_sent for bytes_sent in self.sent])

    def less(self, other: Cost) -> Cost:
        return self.then(other.times(-1))


class Found(NamedTuple):
    """What a fit takes where every start ends after one iteration, and what each further iteration of a start takes."""

    first: Cost
    further: Cost
