"""A family without secrets. Every other one must agree with it, bit for bit, on every input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Concatenate

import numpy as np
from numpy.typing import NDArray

from coterie.protocols.blocks import Labels, Resident, Table, block_step, table_of
from coterie.protocols.interface import WORDS, Division, Ints, Part, Problem, Seats
from coterie.protocols.numerics import quotient_means, reciprocal_means, truncated
from coterie.protocols.sampling import Sampling, plus_plus
from coterie.protocols.steps import Brought, Family, Given
from coterie.ring import Ring, Words
from coterie.sharing import Party, Secret, Shared, shared

__all__ = ["Plaintext", "in_the_clear", "whole"]

MEANS = {"quotient": quotient_means, "reciprocal": reciprocal_means}


def in_the_clear(values: NDArray[np.int64], ring: Ring = WORDS) -> Shared:
    """Whole numbers in the place of a secret: one share, which is the value."""
    return Shared(ring, (ring.encode(values),), (True,))


def whole(value: Secret) -> Ints:
    """What stands in the place of a secret; of labels, of all their blocks."""
    if isinstance(value, Labels):
        value.settle()
        return np.concatenate([whole(block.held[value.name]) for block in value.blocks])
    held = shared(value)
    assert isinstance(held.ring, Words)
    return held.ring.signed(held.share)


class Plaintext(Family):
    """Run by one role that holds everything. `divisions` are those of the family it stands for.

    Its labels and means do not follow the general steps, but say what these must give.
    """

    name = "plaintext"
    divisions: ClassVar[dict[str, Division]] = {"secret": "reciprocal", "revealed": "reciprocal"}

    def __init__(
        self, me: Party, problem: Problem, ring: Words = WORDS, divisions: dict[str, Division] | None = None
    ) -> None:
        super().__init__(me, problem, ring)
        self._divisions = divisions or self.divisions

    def on_blocks(
        self,
        step: Callable[Concatenate[Any, Any, Given], Brought],
        blocks: Sequence[Resident],
        *given: Given.args,
        **named: Given.kwargs,
    ) -> Callable[[], list[Brought]]:
        """Here and now: the oracle needs no lanes."""
        brought = [step(self, block, *given, **named) for block in blocks]
        return lambda: brought

    @classmethod
    def seats(cls, owners: int) -> Seats:  # noqa: ARG003
        return Seats(False)

    def enter(self, own: Ints | None, shape: tuple[int, ...]) -> Shared:
        return in_the_clear(np.zeros(shape, np.int64) if own is None else own, self.ring)

    def public(self, values: Ints, ring: Ring | None = None) -> Shared:
        return in_the_clear(values, self.ring if ring is None else ring)

    def product(self, x: Shared, y: Shared) -> Shared:
        return x * y.share

    def matrix_product(self, x: Shared, y: Shared) -> Shared:
        return in_the_clear(whole(x) @ whole(y), self.ring)

    def truncate(self, x: Shared, g: int) -> Shared:
        return in_the_clear(truncated(whole(x), g), self.ring)

    def is_negative(self, x: Shared) -> Shared:
        return in_the_clear((whole(x) < 0).astype(np.int64), self.ring)

    def select(self, bit: Shared, x: Shared, y: Shared) -> Shared:
        return in_the_clear(np.where(whole(bit) == 0, whole(x), whole(y)), self.ring)

    def to_words(self, bits: Shared) -> Shared:
        return bits

    def to_bits(self, x: Shared, count: int) -> Shared:
        return in_the_clear(whole(x) >> np.arange(count)[:, None] & 1, self.ring)

    def look_up(self, index: Shared, table: NDArray[np.uint64]) -> Shared:
        return Shared(self.ring, (self.ring.reduce(table)[whole(index)],), (True,))

    def label_samples(self, x: Shared, c: Shared, bits: int | None = None) -> Shared:  # noqa: ARG002
        rows, centers = whole(x), whole(c)
        scores = np.stack([((rows - center) ** 2).sum(axis=1) for center in centers], axis=1)
        return in_the_clear(np.eye(len(centers), dtype=np.int64)[scores.argmin(axis=1)], self.ring)

    def one_hot_least(self, m: Shared, bits: int | None = None) -> Shared:  # noqa: ARG002
        return in_the_clear(np.eye(m.shape[1], dtype=np.int64)[whole(m).argmin(axis=1)], self.ring)

    def label(self, rows: Secret, centers: Shared, counted: bool = False, weights: Shared | None = None) -> Labels:
        if weights is None:
            return super().label(rows, centers, counted)
        table, name = table_of(rows), table_of(rows).name_labels()
        return Labels(table, name, self.on_blocks(label_by_weights, table.blocks, name, whole(centers), whole(weights)))

    def seed(self, rows: Table, first: int, numbers: Ints, weights: Shared | None = None) -> tuple[Shared, Shared]:
        table = np.concatenate([whole(block.held["rows"]) for block in rows.blocks])
        given = None if weights is None else whole(weights)[0]
        each = None
        if self.problem.most_weight:
            each = np.concatenate([whole(block.held["weights"]) for block in rows.blocks])
        chosen = plus_plus(Sampling.of(self.problem), table, first, numbers, given, each)
        return in_the_clear(table[chosen], self.ring), in_the_clear(np.array(chosen), self.ring)

    def arg_min_of(self, values: Shared, bits: int | None = None) -> Shared:  # noqa: ARG002
        return in_the_clear(whole(values).argmin(axis=1), self.ring)

    def means(self, sums: Shared, counts: Shared, old: Shared) -> Shared:
        means = MEANS[self._divisions["secret"]]
        return in_the_clear(means(self.problem, whole(sums), whole(counts), whole(old)), self.ring)

    def means_of_public_counts(self, sums: Shared, counts: Ints | None, old: Shared) -> Shared:
        assert counts is not None
        means = MEANS[self._divisions["revealed"]]
        return in_the_clear(means(self.problem, whole(sums), counts, whole(old)), self.ring)

    def bring_together(self, value: Secret, parts: Sequence[Part], what: str) -> list[Ints | None]:  # noqa: ARG002
        return [np.asarray(whole(value)[part.index]) for part in parts]

    def export(self, value: Secret) -> dict[str, NDArray[np.uint64]]:
        return {"words": shared(value).share}

    def restore(self, kept: dict[str, NDArray[np.uint64]] | None, shape: tuple[int, ...]) -> Shared:
        assert kept is not None
        return in_the_clear(kept["words"].reshape(shape).view(np.int64), self.ring)


@block_step
def label_by_weights(family: Plaintext, block: Resident, name: str, centers: Ints, weights: Ints) -> None:
    rows = whole(block.held["rows"])
    scores = np.stack([(weights * (rows - center) ** 2).sum(axis=1) for center in centers], axis=1)
    block.held[name] = in_the_clear(np.eye(len(centers), dtype=np.int64)[scores.argmin(axis=1)], family.ring)
