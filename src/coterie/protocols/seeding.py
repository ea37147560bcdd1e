"""k-means++ on secrets (docs/arithmetic.md#start): every centre but the first is a row that nobody knows the number of.

Written once on the primitives of any family; what is done for every row is a step on a block, which a family may have
a faster way for. `sampling.py` says what comes of it, in the clear.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from coterie.protocols.blocks import Resident, Table, block_step
from coterie.protocols.interface import Ints
from coterie.protocols.sampling import DRAW_BITS, Sampling, first_pair
from coterie.protocols.scaling import Scaling, weighed_scores
from coterie.sharing import Shared, concatenate, stack, total
from coterie.transport import metered

__all__ = ["Seeding", "row_distances"]


class Seeding(Scaling):
    """Shapes: n rows, d columns, k clusters, L candidates for a centre, G groups of s rows."""

    @abstractmethod
    def on_blocks(self, step: Callable[..., Any], blocks: Any, *given: Any) -> Callable[[], list[Any]]: ...

    @abstractmethod
    def pick(self, rows: Any, numbers: Any) -> Shared: ...

    @abstractmethod
    def one_hot_least(self, values: Shared) -> Shared: ...

    @metered("KMeans++")
    def seed(self, rows: Table, first: int, numbers: Ints, weights: Shared | None = None) -> tuple[Shared, Shared]:
        """Centres to start from (k, d), and the numbers of their rows (k,), both secret but for the first.

        `numbers` (k - 1, L, 2): public, random. `weights` (1, d) of columns. Nothing is opened.

        1. D_i: the squared distance of row i to the first centre.
        2. For each further centre: draw L candidates by D. For each, the least of D_i and the distance to it, added
           up. The candidate with the least total stays, with its distances.
        """
        sampling = Sampling.of(self.problem)
        least = self.group_weights(rows, sampling)
        if least is None:
            centers, at = [self.pick(rows, [first])], [self.public(np.array([first]))]
        else:
            mass = self._mass(sampling, self.level(rows, sampling), least)[0]
            row, place = self.draw(rows, mass, np.array([first_pair(first)]), sampling)
            centers, at = [row], [place]
        if not len(numbers):
            return centers[0], at[0]
        weights = self.rough_weights(rows, weights, sampling)
        mass = self._mass(sampling, self.measure(rows, centers[0], sampling, weights), least)[0]
        for j, pairs in enumerate(numbers):
            candidates, places = self.draw(rows, mass, pairs, sampling)
            left = self._mass(sampling, self.consider(rows, candidates, sampling, weights), least)
            best = self.to_words(self.one_hot_least(left.sum(1)[None, :]))
            if j < len(numbers) - 1:
                self.keep(rows, best, sampling)
            chosen = self.matrix_product(best, concatenate([candidates, places[:, None], left], axis=1))
            d = candidates.shape[1]
            centers.append(chosen[:, :d])
            at.append(chosen[:, d])
            mass = chosen[0, d + 1 :]
        return concatenate(centers), concatenate(at)

    def rough_weights(self, rows: Table, weights: Shared | None, sampling: Sampling) -> Shared | None:
        """Weights (1, d) for distances that fit, rounded down; and the rows' squares under them, once for a table."""
        if weights is not None and rows.rough is None:
            g = sampling.weight_shift
            rows.rough = self.truncate(weights - (1 << g >> 1), g)
            self.weigh_squares(rows, rows.rough)
        return rows.rough

    def _mass(self, sampling: Sampling, sums: Shared, least: Shared | None = None) -> Shared:
        """Of the groups (any, G), from the sums of their distances: rounded to fit, and never 0; or, where rows have
        weights, only if all of a group's are 0."""
        rounded = self.truncate(self.widen(sums), sampling.group_shift)
        return rounded + 1 if least is None else rounded + concatenate([least] * rounded.shape[0])

    def draw(self, rows: Table, mass: Shared, pairs: Ints, sampling: Sampling) -> tuple[Shared, Shared]:
        """L rows (L, d) and their numbers (L,), by the mass of groups (G,) and the distances of rows. `pairs`
        (L, 2): public random numbers.

        A group is found by the first of them, a row of it by the second (`_places`). In between, one product with the
        group's one-hot [e] brings out what the group holds, distances and rows, and nobody knows whose they are.
        """
        size, last = sampling.size, sampling.groups - 1
        groups = self._places(stack([mass] * len(pairs)), pairs[:, 0])
        held = self.spread(rows, groups, sampling)  # (L, 1 + d, s); where rows have weights, (L, 2 + d, s)
        d = self.problem.columns
        if held.shape[1] == d + 1:
            beyond = (np.arange(size) >= sampling.in_last).astype(np.int64)
            real = 1 - groups[:, last:] * beyond
        else:
            real = held[:, d + 1]
        inner = self.truncate(held[:, 0], sampling.row_shift) + real
        hot = self._places(inner, pairs[:, 1])
        cells = held[:, 1 : d + 1]
        row = self.product(stack([hot] * cells.shape[1], 1), cells).sum(2)
        numbers = (groups * (np.arange(last + 1) * size)).sum(1) + (hot * np.arange(size)).sum(1)
        return row, numbers

    def _places(self, mass: Shared, numbers: Ints) -> Shared:
        """One-hot words (L, m): the first place up to which more than u / 2^20 of the total mass lies.

        <u W < 2^20 P_j> for the mass P_j up to each place and the total W: 0 before the place, 1 from there on,
        and always 1 at the last. No division, and the total stays secret.
        """
        upto = mass.running()
        total, count = upto[:, -1:], mass.shape[1]
        if count == 1:
            return self.public(np.ones(mass.shape, np.int64))
        below = self.is_negative(total * numbers[:, None] - upto[:, :-1] * (1 << DRAW_BITS))
        here = self.to_words(below)
        return concatenate([here[:, :1], here[:, 1:] - here[:, :-1], 1 - here[:, -1:]], axis=1)

    # -- for every row: what a family may do faster --------------------------------------------------------

    def weigh_squares(self, rows: Table, weights: Shared) -> None:
        """Keep the weighted squares |x|^2 of all rows with the blocks."""
        self.on_blocks(weigh_rows, rows.blocks, weights)()

    def group_weights(self, rows: Table, sampling: Sampling) -> Shared | None:
        """The weights of all rows, by group (1, G); None, if rows have none."""
        return self._by_group(add_weights, rows, sampling) if self.problem.most_weight else None

    def level(self, rows: Table, sampling: Sampling) -> Shared:
        """D of all rows alike, for a first draw by weights alone; their sums by group (1, G)."""
        return self._by_group(level_rows, rows, sampling)

    def measure(self, rows: Table, center: Shared, sampling: Sampling, weights: Shared | None = None) -> Shared:
        """Keep D, the squared distances of all rows to a centre (1, d), with the blocks. Their sums by group (1, G)."""
        return self._by_group(measure_rows, rows, sampling, center, *self._weighed(center, weights))

    def consider(self, rows: Table, candidates: Shared, sampling: Sampling, weights: Shared | None = None) -> Shared:
        """For each candidate (L, d), keep the lesser of D and the distance to it. Their sums by group (L, G)."""
        return self._by_group(consider_rows, rows, sampling, candidates, *self._weighed(candidates, weights))

    def _weighed(self, centers: Shared, weights: Shared | None) -> tuple[Shared | None, Shared | None]:
        return (None, None) if weights is None else self.weigh(centers, weights)[:2]

    def keep(self, rows: Table, best: Shared, sampling: Sampling) -> None:  # noqa: ARG002
        """D of the candidate that is chosen, by one-hot words (1, L)."""
        self.on_blocks(keep_rows, rows.blocks, best)()

    def spread(self, rows: Table, groups: Shared, sampling: Sampling) -> Shared:
        """What a group holds, D and the columns of each of its rows (L, 1 + d, s), by one-hot words (L, G)."""
        found = self.on_blocks(spread_rows, rows.blocks, groups, sampling)()
        return total(found)

    def _by_group(self, step: Callable[..., Any], rows: Table, sampling: Sampling, *given: Any) -> Shared:
        """What a step on blocks has added up by the groups of its rows, of all blocks together (any, G)."""
        found = self.on_blocks(step, rows.blocks, sampling, *given)()
        at = np.concatenate([np.unique(block.rows // sampling.size) for block in rows.blocks])
        return concatenate(found, axis=1).placed(at, sampling.groups)


def by_group(block: Resident, values: Shared, sampling: Sampling) -> Shared:
    """Values of a block's rows (any, rows), added up by group: (any, groups of this block)."""
    groups, here = np.unique(block.rows // sampling.size, return_inverse=True)
    return values.placed(here, len(groups))


@block_step
def weigh_rows(family: Any, block: Resident, weights: Shared) -> None:
    squares = family.square(block.held["rows"]).transpose()
    block.held["squares"] = family.matrix_product(weights, squares)


@block_step
def measure_rows(
    family: Any, block: Resident, sampling: Sampling, center: Shared, weighed: Shared | None, squares: Shared | None
) -> Shared:
    block.held["nearest"] = nearest = row_distances(family, block, center, weighed, squares)
    block.held["pull"] = pull = pulled(family, block, nearest)
    return by_group(block, pull, sampling)


def pulled(family: Any, block: Resident, values: Shared) -> Shared:
    """Distances (L, rows), times the weights of rows: what these are drawn by."""
    if "weights" not in block.held:
        return values
    pull: Shared = family.product(stack([block.held["weights"]] * values.shape[0]), values)
    return pull


@block_step
def add_weights(family: Any, block: Resident, sampling: Sampling) -> Shared:  # noqa: ARG001
    return by_group(block, block.held["weights"][None], sampling)


@block_step
def level_rows(family: Any, block: Resident, sampling: Sampling) -> Shared:  # noqa: ARG001
    block.held["pull"] = pull = block.held["weights"][None] * (1 << sampling.bits - 1)
    return by_group(block, pull, sampling)


@block_step
def consider_rows(
    family: Any, block: Resident, sampling: Sampling, candidates: Shared, weighed: Shared | None, squares: Shared | None
) -> Shared:
    distances = row_distances(family, block, candidates, weighed, squares)
    nearest = concatenate([block.held["nearest"]] * candidates.shape[0])
    closer = family.is_negative_within(distances - nearest, sampling.bits + 1)
    block.held["candidates"] = least = family.select(closer, nearest, distances)
    return by_group(block, pulled(family, block, least), sampling)


def row_distances(
    family: Any, block: Resident, centers: Shared, weighed: Shared | None, squares: Shared | None
) -> Shared:
    """The squared distances of a block's rows to each centre (L, rows)."""
    if weighed is None or squares is None:
        distances: Shared = family.mat_dist(block.held["rows"], centers).transpose()
        return distances
    return weighed_scores(family, block, weighed, squares).transpose() + block.held["squares"]


@block_step
def keep_rows(family: Any, block: Resident, best: Shared) -> None:
    block.held["nearest"] = nearest = family.matrix_product(best, block.held["candidates"])
    block.held["pull"] = pulled(family, block, nearest)


@block_step
def spread_rows(family: Any, block: Resident, groups: Shared, sampling: Sampling) -> Shared:
    """The product of one-hot words with what this block holds of each group, laid out row by row."""
    here, at = np.unique(block.rows // sampling.size, return_inverse=True)
    weights = [block.held["weights"][None]] if "weights" in block.held else []
    held = concatenate([block.held["pull"], block.held["rows"].transpose(), *weights])  # (1 + d or 2 + d, rows)
    columns, size = held.shape[0], sampling.size
    laid = held.placed(at * size + block.rows % size, len(here) * size)
    laid = laid.reshape(columns, len(here), size).transpose(1, 0, 2).reshape(len(here), columns * size)
    product: Shared = family.matrix_product(groups[:, here], laid)
    return product.reshape(groups.shape[0], columns, size)
