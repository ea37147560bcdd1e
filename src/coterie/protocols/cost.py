"""What steps cost, added up from what they declare (`randomness/material.py`): no size is written a second time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import msgspec

from coterie.randomness.material import Elements, Material, Piece
from coterie.ring import Words
from coterie.sharing.gate import WIDE
from coterie.transport import HEADER_BYTES

__all__ = ["Cost", "Costs", "StepCosts"]

WORDS = Words(64)


class Cost(msgspec.Struct):
    """Rounds, and bytes sent by rank (that of the one who owns nothing first), of a part of a run."""

    rounds: int
    sent: list[int]

    def then(self, other: Cost) -> Cost:
        """One after the other."""
        return Cost(self.rounds + other.rounds, [a + b for a, b in zip(self.sent, other.sent, strict=True)])

    def beside(self, other: Cost) -> Cost:
        """Both at once."""
        together = self.then(other)
        together.rounds = max(self.rounds, other.rounds)
        return together

    def times(self, count: int) -> Cost:
        return Cost(self.rounds * count, [count * bytes_sent for bytes_sent in self.sent])

    def less(self, other: Cost) -> Cost:
        return self.then(other.times(-1))


class Costs:
    """What a run of a family takes beside messages: comparisons for a labelling of all rows, and memory, roughly."""

    def __init__(self, rows: int, columns: int, clusters: int, block_rows: int, comparisons: int, parties: int) -> None:
        self.n, self.d, self.k, self.p = rows, columns, clusters, parties
        self.block_rows, self.each = block_rows, comparisons

    def comparisons(self) -> int:
        return self.each * self.n

    def memory(self, lanes: int, revealed: bool) -> list[int]:  # noqa: ARG002
        """By rank: the interpreter and kernels, the data and their shares, labels, and a block's comparisons, of 64
        bits each by shares of some bytes a bit. Measured for `securenn`. `revealed`: labels are (SVK-means)."""
        flight = max(lanes, 1) * min(self.block_rows, self.n) * max(self.each, 1) * 400
        return [(200 << 20) + 24 * self.n * (self.d + self.k) + flight] * (self.p + 1)


class StepCosts(Costs, ABC):
    """And what each of its steps costs, under the name it has in `steps.py`, for a family on additive shares with a
    dealer that counts by itself. Of any other family a rehearsal finds out."""

    def nothing(self) -> Cost:
        return Cost(0, [0] * (self.p + 1))

    def of(self, material: Material) -> Cost:
        """A step: a correction, which is one-way and so no round, and masked openings."""
        total = self.opened(*material.masks.values(), to=material.to)
        total.rounds = material.rounds if material.masks else 0
        total.sent[0] += HEADER_BYTES + material.bound.bytes if material.bound else 0
        return total

    def opened(self, *pieces: Piece, to: Sequence[int] | None = None) -> Cost:
        """A frame for each piece, from everybody who serves to all the others, or to some ranks. One round."""
        recipients = range(1, self.p + 1) if to is None else to
        each = sum(HEADER_BYTES + piece.wire for piece in pieces)
        return Cost(1, [0, *(each * sum(j != i for j in recipients) for i in range(1, self.p + 1))])

    def open(self, count: int, to: Sequence[int] | None = None) -> Cost:
        """So many words, to all owners or to some."""
        return self.opened(Elements(WORDS, count), to=to)

    def open_wide(self) -> Cost:
        return self.opened(WIDE)

    @abstractmethod
    def open_labels(self, rows: int, called: bool, to: Sequence[int] | None = None) -> Cost:
        """The numbers that labels are to be `called`, or their clusters'."""

    @abstractmethod
    def table(self) -> Cost: ...

    @abstractmethod
    def label(self, counted: bool, beside: Cost | None = None) -> Cost:
        """`beside`: what runs while the blocks are labelled."""

    @abstractmethod
    def arg_min(self) -> Cost: ...

    @abstractmethod
    def new_centers(self) -> Cost: ...

    @abstractmethod
    def sums(self) -> Cost: ...

    @abstractmethod
    def means_of_public_counts(self) -> Cost: ...

    @abstractmethod
    def tally(self, sets: int, counted: bool) -> Cost: ...

    @abstractmethod
    def truncate(self, count: int, g: int) -> Cost: ...

    @abstractmethod
    def movement(self) -> Cost: ...

    @abstractmethod
    def at_most(self, count: int) -> Cost: ...

    @abstractmethod
    def any_of(self, rows: int, into: int) -> Cost: ...

    @abstractmethod
    def open_bits(self, count: int) -> Cost: ...
