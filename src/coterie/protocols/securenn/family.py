"""SecureNN's protocols, extended to p data parties, as a family for clustering."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from coterie.protocols.beaver import shifted_objective
from coterie.protocols.interface import Division, Family, Ints, Part, RowSets
from coterie.protocols.numerics import QUOTIENT_BITS, reciprocals
from coterie.protocols.securenn.division import divide
from coterie.protocols.securenn.labelling import arg_min, label_samples
from coterie.protocols.securenn.products import matrix_product, select_share, square
from coterie.protocols.securenn.sign import drelu
from coterie.protocols.securenn.truncation import truncate
from coterie.protocols.words import WORDS, contributed, known, opened
from coterie.sharing import Party, Secret, Shared, concatenate

__all__ = ["SecureNN"]


def _shared(value: Secret) -> Shared:
    assert isinstance(value, Shared)
    return value


class SecureNN(Family):
    """The paper's protocols. The helper takes part in every comparison."""

    name = "securenn"
    divisions: ClassVar[dict[str, Division]] = {"secret": "quotient", "revealed": "reciprocal"}
    dealer_hears = frozenset({"array"})

    def contribute(self, own: Ints | None, shape: tuple[int, ...]) -> Shared:
        return contributed(self.me, own, shape)

    def public(self, values: Ints) -> Shared:
        return known(self.me, values)

    def pick(self, rows: Secret, numbers: Sequence[int]) -> Shared:
        return _shared(rows)[list(numbers)]

    def label(self, rows: Secret, centers: Secret) -> Shared:
        return self._by_blocks(_shared(rows), lambda me, block: label_samples(me, block, _shared(centers)))

    def arg_min(self, values: Secret) -> Shared:
        return self._by_blocks(_shared(values), arg_min)

    def _by_blocks(self, rows: Shared, labelling: Callable[[Party, Shared], Shared]) -> Shared:
        """Label block by block, so that memory stays bounded."""
        size = self.problem.block_rows
        blocks = [rows[at : at + size] for at in range(0, max(rows.shape[0], 1), size)]
        return concatenate(self.me.in_blocks(len(blocks), lambda me, b: labelling(me, blocks[b]))())

    def index(self, labels: Secret, numbers: Ints | None = None) -> Shared:
        one_hot = _shared(labels)
        return (one_hot * (np.arange(one_hot.shape[1]) if numbers is None else numbers)).sum(1)

    def counts(self, labels: Secret) -> Shared:
        return _shared(labels).sum(0)

    def tally(self, labels: Secret, sets: RowSets) -> Shared:
        one_hot = _shared(labels)
        return concatenate([(one_hot * held[:, None]).sum(0) for held in sets.members[:, sets.kind_of]])

    def sums(self, rows: Secret, labels: Secret) -> tuple[Shared, Shared]:
        return matrix_product(self.me, _shared(labels).transpose(), _shared(rows)), self.counts(labels)

    def means(self, sums: Secret, counts: Secret, old: Secret) -> Shared:
        """Signed means by the Division of non-negative numbers: `quotient_means` of numerics, secretly.

        x = 2 (T + H t) + s t and y = 2 s t, so that floor(x / y) is the mean, rounded to the nearest step.
        """
        total, t, before = _shared(sums), _shared(counts)[:, None], _shared(old)
        step = self.problem.quotient_steps(QUOTIENT_BITS)
        edge = step << (QUOTIENT_BITS - 1)
        size = total.size
        x = (total + t * edge) * 2 + t * step
        y = t * (2 * step)
        quotient, empty = divide(self.me, x.reshape(size), y.reshape(size), QUOTIENT_BITS)
        mean = quotient.reshape(*total.shape) * step - np.broadcast_to(edge, total.shape)
        return select_share(self.me, empty.reshape(*total.shape), mean, before)

    def means_of_public_counts(self, sums: Secret, counts: Ints | None, old: Secret) -> Shared:
        total, before, g = _shared(sums), _shared(old), self.problem.reciprocal_bits
        if counts is None:
            return truncate(self.me, total, g)
        empty = (counts == 0).astype(np.int64)[:, None]
        return truncate(self.me, total * reciprocals(counts, g)[:, None] + before * (empty << g), g)

    def movement(self, old: Secret, new: Secret) -> Shared:
        moved = square(self.me, _shared(old) - _shared(new))
        return moved.reshape(1, moved.size).sum(1)

    def at_most(self, values: Secret, threshold: int) -> Shared:
        return drelu(self.me, threshold - _shared(values))

    def any_of(self, bits: Secret, into: int) -> Shared:
        """How many of them there are, compared with none."""
        held = _shared(bits)
        return 1 - self.at_most(held.reshape(held.size // into, into).sum(0), 0)

    def objective(self, sums: Secret, counts: Secret, centers: Secret) -> Shared:
        shift = self.problem.objective_shift
        return shifted_objective(self.me, truncate, _shared(sums), _shared(counts), _shared(centers), shift)

    def choose(self, first: Secret, second: Secret, pairs: Sequence[tuple[Secret, Secret]]) -> list[Secret]:
        keep = drelu(self.me, _shared(second) - _shared(first))  # (1,)
        left = concatenate([_shared(a).reshape(_shared(a).size) for a, _ in pairs])
        right = concatenate([_shared(b).reshape(_shared(b).size) for _, b in pairs])
        chosen = select_share(self.me, concatenate([keep] * left.size), right, left)
        parts: list[Secret] = []
        at = 0
        for a, _ in pairs:
            shape = _shared(a).shape
            parts.append(chosen[at : at + math.prod(shape)].reshape(*shape))
            at += math.prod(shape)
        return parts

    def times(self, value: Secret, factors: Ints) -> Shared:
        return _shared(value) * factors

    def arrange(self, values: Secret, order: Sequence[int]) -> Shared:
        return _shared(values)[list(order)]

    def join(self, values: Sequence[Secret]) -> Shared:
        return concatenate([_shared(value) for value in values])

    def truncate(self, value: Secret, bits: int) -> Shared:
        return truncate(self.me, _shared(value), bits)

    def subtract(self, first: Secret, second: Secret) -> Shared:
        return _shared(first) - _shared(second)

    def add(self, first: Secret, second: Secret) -> Shared:
        return _shared(first) + _shared(second)

    def open_parts(self, value: Secret, parts: Sequence[Part], what: str, reason: str) -> list[Ints | None]:
        values = opened(self.me, _shared(value), parts, what, reason)
        return [None if one is None else WORDS.signed(one) for one in values]

    def export(self, value: Secret) -> dict[str, NDArray[np.uint64]]:
        return {"words": _shared(value).share}

    def restore(self, kept: dict[str, NDArray[np.uint64]] | None, shape: tuple[int, ...]) -> Shared:
        if kept is None:
            return self.me.hollow(WORDS, shape)
        return self.me.shared(WORDS, kept["words"])
