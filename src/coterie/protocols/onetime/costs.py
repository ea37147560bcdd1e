"""What the steps of `onetime` cost: which declarations follow each other, and which run side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from coterie.protocols.cost import Cost, StepCosts
from coterie.protocols.interface import Holding, Problem
from coterie.protocols.onetime import bits, centers, labelling, means, sign, table
from coterie.randomness.material import Elements
from coterie.ring import Words

__all__ = ["OneTimeCosts"]


class OneTimeCosts(StepCosts):
    """For one problem and p parties."""

    def __init__(self, problem: Problem, holding: Holding, parties: int) -> None:
        super().__init__(holding.n, holding.d, problem.clusters, problem.block_rows, 0, parties)
        self.problem, self.holding = problem, holding
        self.blocks = table.blocks_of(holding, parties, problem.block_rows)
        self.levels = labelling.bracket(self.k, labelling.schedule_of(problem))
        self.w, self.u = labelling.score_width(problem), table.sum_width(problem)
        self.one_hot = lru_cache(self._one_hot)  # most blocks are of one size

    # -- labels ------------------------------------------------------------------------------------------

    def table(self) -> Cost:
        """Every owner broadcasts its masked cells, block by block."""
        total = self.nothing()
        for block in self.blocks:
            for j in block.holders:
                cells = table.cells_message(self.holding.count_cells(block.rows, j))
                total.sent[j] += self.opened(cells).sent[j]
        total.rounds = 1
        return total

    def label(self, counted: bool, beside: Cost | None = None) -> Cost:
        """Scores, labels and, where they are counted, labels as words, of all blocks."""
        labels = self._together(
            self.of(table.scores_material(self.k, block.numbers, self.w))
            .then(self.one_hot(block.numbers))
            .then(self._words(block.numbers) if counted else self.nothing())
            for block in self.blocks
        )
        return self.of(centers.centers_material(self.k, self.d)).then(labels.beside(beside or self.nothing()))

    def arg_min(self) -> Cost:
        blocks = table.blocks_of_rows(np.arange(self.n), (), self.block_rows)
        return self._together(self.one_hot(block.numbers) for block in blocks)

    def _one_hot(self, numbers: int) -> Cost:
        """Labels of a block from its scores."""
        cost = self.nothing()
        for level in self.levels:
            cost = cost.then(self._signs(len(level.left), numbers, self.w))
            for stage in level.stages:
                cost = cost.then(self._products(stage.terms, numbers))
            last = self.nothing()
            if level.joined is not None:
                last = last.beside(self._products(level.joined.terms, numbers))
            if level is not self.levels[-1]:
                last = last.beside(self.of(labelling.select_material(len(level.first), numbers, self.w)))
            cost = cost.then(last)
        return cost

    def _signs(self, pairs: int, numbers: int, width: int) -> Cost:
        cost = self.of(sign.sign_material(pairs, numbers, width))
        for level in sign.tree_of(width // 4):
            assert level.terms is not None
            cost = cost.then(self._products(level.terms, pairs * numbers))
        return cost

    def _products(self, terms: bits.Terms, numbers: int) -> Cost:
        return self.of(bits.products_material(terms, bits.padded(numbers) // 64, ""))

    def _words(self, numbers: int) -> Cost:
        """Labels as words: none where there is one cluster."""
        return self.of(table.words_material(self.k - 1, numbers, self.u)) if self.k > 1 else self.nothing()

    def _together(self, blocks: Iterable[Cost]) -> Cost:
        """Blocks on lanes, side by side."""
        total = self.nothing()
        for cost in blocks:
            total = total.beside(cost)
        return total

    # -- new centres -------------------------------------------------------------------------------------

    def sums(self) -> Cost:
        """Of labels that were counted."""
        return self._together(
            self.of(table.sums_material(self.k - 1, self.d, block.numbers, self.u, block.holders))
            for block in (self.blocks if self.k > 1 else [])
        )

    def new_centers(self) -> Cost:
        g = self.problem.reciprocal_bits
        mean = self.of(means.mean_material(self.k, self.d, g, self.u))
        looked_up = self.sums().beside(self.of(means.places_material(self.k, self.problem.rows)))
        return looked_up.then(mean).then(self.truncate(self.k * self.d, g))

    def means_of_public_counts(self) -> Cost:
        cells = self.k * self.d
        return self._lift(cells).then(self.truncate(cells, self.problem.reciprocal_bits))

    def tally(self, sets: int, counted: bool) -> Cost:
        words = self.nothing() if counted else self._together(self._words(block.numbers) for block in self.blocks)
        return words.then(self._lift(sets * self.k))

    def _lift(self, count: int) -> Cost:
        return self.of(means.lift_material((count,), self.u))

    def truncate(self, count: int, g: int) -> Cost:
        return self.of(means.truncation_material(count, g)) if g else self.nothing()

    # -- comparing and opening ---------------------------------------------------------------------------

    def movement(self) -> Cost:
        """Of centres that are masked."""
        return self.of(centers.movement_material())

    def at_most(self, count: int) -> Cost:
        return self._signs(1, bits.padded(count), 64)

    def any_of(self, rows: int, into: int) -> Cost:
        cost = self.nothing()
        while rows > 1:
            cost = cost.then(self._products(bits.fours(rows), into))
            rows = -(-rows // 4)
        return cost

    def open_bits(self, count: int, to: Sequence[int] | None = None) -> Cost:
        return self.opened(Elements(Words(1), count), to=to)

    def open_labels(self, rows: int, called: bool, to: Sequence[int] | None = None) -> Cost:
        return self.open_bits(rows * labelling.index_bits(self.k, called), to)

    # -- beside messages ---------------------------------------------------------------------------------

    def comparisons(self) -> int:
        return sum(len(level.left) for level in self.levels) * sum(block.numbers for block in self.blocks)

    def memory(self, lanes: int, revealed: bool) -> list[int]:
        """The interpreter and kernels, the data in two forms, labels, and what the blocks in flight hold."""
        base, n, k = 200 << 20, self.n, self.k
        held = 16 * n * self.d + 8 * n * max(k - 1, 0) + n * k // 4
        if revealed:
            held += 24 * n * k  # distances, their shares, and the zeros that blind them
        widest = max((len(level.left) for level in self.levels), default=1)
        largest = max((block.numbers for block in self.blocks), default=0)
        flight = (max(lanes, 1) + 1) * largest * (120 * widest + 40 * k)
        places = 1 << means.table_bits(self.problem.rows)
        parties = base + held + flight + 8 * places
        helper = base + flight + math.ceil(k * places / 4) + (64 << 20)
        return [helper, *[parties] * self.p]
