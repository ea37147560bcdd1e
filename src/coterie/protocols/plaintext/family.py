"""A family without secrets. Every other one must agree with it, bit for bit, on every input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from coterie.protocols.interface import Division, Family, Ints, Part, Problem, RowSets
from coterie.protocols.numerics import quotient_means, reciprocal_means, truncated
from coterie.sharing import Party, Secret

__all__ = ["Plain", "Plaintext"]

MEANS = {"quotient": quotient_means, "reciprocal": reciprocal_means}


class Plain(Secret):
    """Whole numbers in the clear, in the place of a secret."""

    __slots__ = ("whole",)

    def __init__(self, whole: Ints) -> None:
        self.whole = whole


def _whole(value: Secret) -> Ints:
    assert isinstance(value, Plain)
    return value.whole


class Plaintext(Family):
    """Run by one role that holds everything. `divisions` are those of the family it stands for."""

    name = "plaintext"
    divisions: ClassVar[dict[str, Division]] = {"secret": "reciprocal", "revealed": "reciprocal"}

    def __init__(self, me: Party, problem: Problem, divisions: dict[str, Division] | None = None) -> None:
        super().__init__(me, problem)
        self._divisions = divisions or self.divisions

    def contribute(self, own: Ints | None, shape: tuple[int, ...]) -> Plain:
        return Plain(np.zeros(shape, np.int64) if own is None else own)

    def public(self, values: Ints) -> Plain:
        return Plain(values)

    def pick(self, rows: Secret, numbers: Sequence[int]) -> Plain:
        return Plain(_whole(rows)[list(numbers)])

    def label(self, rows: Secret, centers: Secret) -> Plain:
        x, c = _whole(rows), _whole(centers)
        scores = np.stack([((x - center) ** 2).sum(axis=1) for center in c], axis=1)
        return Plain(np.eye(len(c), dtype=np.int64)[scores.argmin(axis=1)])

    def arg_min(self, values: Secret) -> Plain:
        return Plain(_whole(values).argmin(axis=1))

    def index(self, labels: Secret, numbers: Ints | None = None) -> Plain:
        index = _whole(labels).argmax(axis=1)
        return Plain(index if numbers is None else numbers[index])

    def counts(self, labels: Secret) -> Plain:
        return Plain(_whole(labels).sum(axis=0))

    def tally(self, labels: Secret, sets: RowSets) -> Plain:
        return Plain((sets.members[:, sets.kind_of] @ _whole(labels)).reshape(-1))

    def sums(self, rows: Secret, labels: Secret) -> tuple[Plain, Plain]:
        return Plain(_whole(labels).T @ _whole(rows)), self.counts(labels)

    def means(self, sums: Secret, counts: Secret, old: Secret) -> Plain:
        means = MEANS[self._divisions["secret"]]
        return Plain(means(self.problem, _whole(sums), _whole(counts), _whole(old)))

    def means_of_public_counts(self, sums: Secret, counts: Ints | None, old: Secret) -> Plain:
        assert counts is not None
        return Plain(MEANS[self._divisions["revealed"]](self.problem, _whole(sums), counts, _whole(old)))

    def movement(self, old: Secret, new: Secret) -> Plain:
        return Plain(((_whole(old) - _whole(new)) ** 2).sum().reshape(1))

    def at_most(self, values: Secret, threshold: int) -> Plain:
        return Plain((_whole(values) <= threshold).astype(np.int64))

    def any_of(self, bits: Secret, into: int) -> Plain:
        return Plain(_whole(bits).reshape(-1, into).max(axis=0))

    def objective(self, sums: Secret, counts: Secret, centers: Secret) -> Plain:
        shift, c = self.problem.objective_shift, _whole(centers)
        squares = truncated((c * c).sum(axis=1), shift)
        crossed = (truncated(_whole(sums), shift) * c).sum(axis=1)
        return Plain((_whole(counts) * squares - 2 * crossed).sum().reshape(1))

    def choose(self, first: Secret, second: Secret, pairs: Sequence[tuple[Secret, Secret]]) -> list[Secret]:
        left = bool((_whole(first) <= _whole(second)).item())
        return [a if left else b for a, b in pairs]

    def times(self, value: Secret, factors: Ints) -> Plain:
        return Plain(_whole(value) * factors)

    def arrange(self, values: Secret, order: Sequence[int]) -> Plain:
        return Plain(_whole(values)[list(order)])

    def join(self, values: Sequence[Secret]) -> Plain:
        return Plain(np.concatenate([_whole(value) for value in values]))

    def subtract(self, first: Secret, second: Secret) -> Plain:
        return Plain(_whole(first) - _whole(second))

    def truncate(self, value: Secret, bits: int) -> Plain:
        return Plain(truncated(_whole(value), bits))

    def add(self, first: Secret, second: Secret) -> Plain:
        return Plain(_whole(first) + _whole(second))

    def open_parts(self, value: Secret, parts: Sequence[Part], what: str, reason: str) -> list[Ints | None]:
        for part in parts:
            self.me.ledger.record(what, tuple(self.me.world.names[j] for j in part.to), reason, part.detail)
        return [np.asarray(_whole(value)[part.index]) for part in parts]

    def export(self, value: Secret) -> dict[str, NDArray[np.uint64]]:
        return {"words": _whole(value).view(np.uint64)}

    def restore(self, kept: dict[str, NDArray[np.uint64]] | None, shape: tuple[int, ...]) -> Plain:
        assert kept is not None
        return Plain(kept["words"].view(np.int64).reshape(shape))
