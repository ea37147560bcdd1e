"""The default family: masked openings and one-time dealt material; the helper only ever sends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ProtocolError
from coterie.protocols.blocks import Labels, Resident, Table, labels_of, table_of
from coterie.protocols.interface import Division, Holding, Ints, Part, Problem, RowSets
from coterie.protocols.onetime import labelling
from coterie.protocols.onetime.bits import bit_products, fours, pack_rows, padded
from coterie.protocols.onetime.cells import (
    count_cells,
    hand_over_cells,
    index_cells,
    label_cells,
    least_cells,
    pick_cells,
    sum_cells,
    tally_cells,
)
from coterie.protocols.onetime.centers import CenterMask, mask_centers, mask_of, movement, weigh_centers
from coterie.protocols.onetime.label_words import WEIGHTS, enter_weights
from coterie.protocols.onetime.labelling import bracket, index_bits, schedule_of, score_width, tournament
from coterie.protocols.onetime.means import mean_times_power, open_places, reciprocal_table, table_bits, truncate
from coterie.protocols.onetime.primitives import BITS, Binary, OneTimeWords
from coterie.protocols.onetime.seeding import (
    add_cell_weights,
    consider_cells,
    distance_width,
    keep_cells,
    level_cells,
    measure_cells,
    reach_cells,
    spread_cells,
    weigh_cells,
)
from coterie.protocols.onetime.table import (
    Block,
    blocks_of,
    enter_cells,
    parts_of,
    sum_width,
)
from coterie.protocols.sampling import Sampling
from coterie.protocols.steps import clear_bits
from coterie.ring import Bulk, Words
from coterie.sharing import Secret, Shared, concatenate, permit, tell_dealer

__all__ = ["OneTime"]

BitRows = NDArray[np.uint8]


class OwnTable(Table):
    """With the sum of what this party holds (d,)."""

    __slots__ = ("own_sum",)
    own_sum: Bulk


def own_table(value: Secret) -> OwnTable:
    if not isinstance(value, OwnTable):
        raise ProtocolError("these rows did not enter by this family's own step")
    return value


class OneTime(OneTimeWords):
    """Everything that grows with the rows is fused: scores, labels and sums, block by block, on tables and labels of
    its own kind. Bits are XOR shares."""

    name = "onetime"
    divisions: ClassVar[dict[str, Division]] = {"secret": "reciprocal", "revealed": "reciprocal"}
    dealer_hears = frozenset({"note"})
    kernels = ("coterie.protocols.onetime.fused", "coterie.protocols.onetime.kernels")
    block_comparisons = 3 << 16

    @classmethod
    def comparisons(cls, clusters: int, schedule: tuple[int, ...] = ()) -> int:
        return sum(len(level.left) for level in bracket(clusters, schedule or tournament(clusters)))

    @classmethod
    def schedules(cls, clusters: int) -> list[tuple[int, ...]]:
        return labelling.schedules(clusters)

    @classmethod
    def check_schedule(cls, clusters: int, wanted: str | tuple[int, ...]) -> tuple[int, ...]:
        return labelling.check_schedule(clusters, wanted)

    @classmethod
    def memory(cls, problem: Problem, lanes: int, revealed: bool) -> tuple[int, int]:
        """The interpreter and kernels, the data in two forms, labels, and what the blocks in flight hold."""
        base, n, k = 200 << 20, problem.rows, problem.clusters
        held = 16 * n * problem.columns + 8 * n * max(k - 1, 0) + n * k // 4
        if revealed:
            held += 24 * n * k  # distances, their shares, and the zeros that blind them
        widest = max((len(level.left) for level in bracket(k, schedule_of(problem))), default=1)
        flight = (max(lanes, 1) + 1) * padded(min(problem.block_rows, n)) * (120 * widest + 40 * k)
        places = 1 << table_bits(problem.mass)
        return base + flight + k * places // 4 + (64 << 20), base + held + flight + 8 * places

    @property
    def score_width(self) -> int:
        return score_width(self.problem)

    @property
    def sum_width(self) -> int:
        return sum_width(self.problem)

    @property
    def told(self) -> int:
        """The clusters whose rows are counted and added up. Where rows count alike, the last follows from the others
        and from all rows."""
        return self.problem.clusters - (not self.problem.most_weight)

    @property
    def schedule(self) -> tuple[int, ...]:
        return schedule_of(self.problem)

    # -- labels ------------------------------------------------------------------------------------------

    def table(self, own: Ints | None, holding: Holding, weights: Ints | None = None) -> OwnTable:
        number = self.me.streams.new_value()
        table = OwnTable((holding.n, holding.d), blocks_of(holding, self.me.world.p, self.problem.block_rows))
        self.hand_out(table, own, weights)
        sums = self.on_blocks(enter_cells, table.blocks, number, holding)()
        if self.problem.most_weight:
            self.on_blocks(enter_weights, table.blocks)()
        table.own_sum = np.sum([np.zeros(holding.d, np.uint64), *sums], axis=0, dtype=np.uint64)
        return table

    def pick(self, rows: Secret, numbers: Sequence[int]) -> Shared:
        """What a party holds of a row is its share of it."""
        me, shape = self.me, (len(numbers), self.problem.columns)
        shares = self.on_blocks(pick_cells, table_of(rows).blocks, tuple(numbers))()
        if me.deals:
            return me.hollow(self.ring, shape)
        return me.shared(self.ring, reduce(np.add, shares, self.ring.zeros(shape)))

    def label(self, rows: Secret, centers: Shared, counted: bool = False, weights: Shared | None = None) -> Labels:
        """Starts, and does not wait: what follows runs beside it. Brings back counts, where they are wanted."""
        table = table_of(rows)
        name, mask = table.name_labels(), self._mask(centers, weights)
        return Labels(table, name, self.on_blocks(label_cells, table.blocks, name, mask, counted))

    def arg_min(self, values: Shared) -> Binary:
        """SVK-means: distances that the parties have computed in the clear, each its part."""
        n, k = values.shape
        parts = parts_of(np.arange(n), self.problem.block_rows)
        blocks = [Block(b, rows) for b, rows in enumerate(parts)]
        for block in blocks:
            block.held["values"] = values[block.rows]
        return self._binary(self.on_blocks(least_cells, blocks)(), blocks, n, index_bits(k, False))

    def index(self, labels: Secret, called: Ints | None = None) -> Binary:
        """The bits of a row's label are XORs of its one-hot bits."""
        held, k = labels_of(labels), self.problem.clusters
        width = index_bits(k, called is not None)
        names = np.arange(k) if called is None else called
        return self._binary(self._of_labels(index_cells, held, names, width), held.blocks, held.table.shape[0], width)

    def _binary(self, found: list[BitRows], blocks: Sequence[Resident], n: int, width: int) -> Binary:
        out = self.me.hollow(BITS, (n, width)).share
        if not self.me.deals:
            out = np.zeros((n, width), np.uint8)
            for block, bits in zip(blocks, found, strict=True):
                out[block.rows] = bits
        return Binary(BITS, (out,), (self.me.lead,))

    def gather(self, value: Secret) -> Shared:
        if isinstance(value, Labels):
            k = self.problem.clusters
            bits = self._binary(self._of_labels(hand_over_cells, value), value.blocks, value.table.shape[0], k)
            return Shared(BITS, bits.shares, bits.adds)
        return super().gather(value)

    # -- a start -----------------------------------------------------------------------------------------

    def _mask(self, centers: Shared, weights: Shared | None) -> CenterMask:
        """The mask of centres, or of centres times weights; they get one, if they have none yet."""
        mask_centers(self.me, centers)
        if weights is not None:
            mask_centers(self.me, weights)
            weigh_centers(self.me, centers, weights)
        return mask_of(centers, weights is not None)

    def weigh_squares(self, rows: Table, weights: Shared) -> None:
        number = self.me.streams.new_value()
        self.on_blocks(weigh_cells, own_table(rows).blocks, number, self._mask(weights, None))()

    def _levels(
        self,
        rows: Table,
        labels: Labels,
        centers: Shared,
        weights: Shared | None,
        sampling: Sampling,
        copies: Ints | None,
    ) -> list[Shared]:
        return self.on_blocks(reach_cells, rows.blocks, labels.name, sampling, copies, self._mask(centers, weights))()

    def weights_of(self, block: Resident) -> Shared:
        if self.me.deals:
            return self.me.hollow(self.ring, (len(block.rows),))
        return self.me.shared(self.ring, block.held[WEIGHTS].share[: len(block.rows)])

    def group_weights(self, rows: Table, sampling: Sampling) -> Shared | None:
        if not self.problem.most_weight:
            return None
        return self.widen(self._by_group(add_cell_weights, rows, sampling))

    def level(self, rows: Table, sampling: Sampling) -> Shared:
        return self._by_group(level_cells, rows, sampling)

    def measure(self, rows: Table, center: Shared, sampling: Sampling, weights: Shared | None = None) -> Shared:
        return self._by_group(measure_cells, rows, sampling, self._mask(center, weights))

    def consider(self, rows: Table, candidates: Shared, sampling: Sampling, weights: Shared | None = None) -> Shared:
        return self._by_group(consider_cells, rows, sampling, self._mask(candidates, weights))

    def keep(self, rows: Table, best: Shared, sampling: Sampling) -> None:
        self.on_blocks(keep_cells, rows.blocks, best, sampling)()

    def spread(self, rows: Table, groups: Shared, sampling: Sampling) -> Shared:
        """Distances are modulo 2^v, cells modulo 2^64."""
        me, (count, _), v = self.me, groups.shape, Words(distance_width(sampling))
        found = self.on_blocks(spread_cells, rows.blocks, groups, sampling)()
        columns = self.problem.columns + bool(self.problem.most_weight)
        near, cells = (count, sampling.size), (count, columns, sampling.size)
        if me.deals:
            return concatenate([self.widen(me.hollow(v, near))[:, None], me.hollow(self.ring, cells)], 1)
        together = np.sum(found, axis=0, dtype=np.uint64).reshape(count, -1, sampling.size)
        distances = self.widen(me.shared(v, v.reduce(together[:, 0])))
        return concatenate([distances[:, None], me.shared(self.ring, together[:, 1:])], 1)

    # -- new centres -------------------------------------------------------------------------------------

    def counts(self, labels: Secret) -> Shared:
        """[t] (k,) modulo 2^u, the last from the others and n."""
        held, k = labels_of(labels), self.problem.clusters
        counted = np.zeros((1, k), np.uint64)
        for part in self._counted(held) if self.told else []:
            counted[0, : self.told] += part
        return self._last_from_others(counted, np.array([held.table.shape[0]])).reshape(k)

    def _counted(self, held: Labels) -> list[Bulk]:
        """How many rows of each block each cluster but the last has; from the labelling, if it has counted."""
        brought = held.brought()
        if any(part is None for part in brought):
            return self._of_labels(count_cells, held)
        return brought

    def tally(self, labels: Secret, sets: RowSets) -> Shared:
        """Row kind by row kind, then set by set."""
        held, k = labels_of(labels), self.problem.clusters
        held.settle()  # also where none of them is counted
        by_kind = np.zeros((sets.members.shape[1], k), np.uint64)
        for part in self._of_labels(tally_cells, held, sets) if self.told else []:
            by_kind[:, : self.told] += part
        counts = self._last_from_others(sets.members.view(np.uint64) @ by_kind, sets.sizes)
        return self.widen(counts.reshape(counts.size))

    def _last_from_others(self, counted: Bulk, sizes: Ints) -> Shared:
        """[t] (sets, k) modulo 2^u: the last cluster has what is left of each set."""
        me, u = self.me, Words(self.sum_width)
        if me.deals:
            return me.hollow(u, counted.shape)
        if not self.problem.most_weight:
            public = sizes.view(np.uint64) if me.lead else np.zeros(len(sizes), np.uint64)
            counted[:, -1] = public - counted[:, :-1].sum(axis=1, dtype=np.uint64)
        return me.shared(u, u.reduce(counted))

    def sums(self, rows: Secret, labels: Secret) -> tuple[Shared, Shared]:
        counts = self.counts(labels)
        return self._start_sums(own_table(rows), labels_of(labels))(), counts

    def _start_sums(self, table: OwnTable, labels: Labels) -> Callable[[], Shared]:
        """[T] (k, d) modulo 2^u, the last cluster's from the others and the sum of all rows."""
        k, u, d = self.problem.clusters, Words(self.sum_width), table.shape[1]
        wait = self.on_blocks(sum_cells, table.blocks, labels.name, d) if self.told else (lambda: [])

        def gather() -> Shared:
            parts = wait()
            if self.me.deals:
                return self.me.hollow(u, (k, d))
            total = np.zeros((k, d), np.uint64)
            for part in parts:
                total[: self.told] += part
            if not self.problem.most_weight:
                total[-1] = table.own_sum - total[:-1].sum(axis=0, dtype=np.uint64)
            return self.me.shared(u, u.reduce(total))

        return gather

    def new_centers(self, rows: Secret, labels: Secret, old: Shared) -> Shared:
        """The counts are looked up while the sums are under way."""
        counts = self.counts(labels)
        sums = self._start_sums(own_table(rows), labels_of(labels))
        return self._mean(sums, counts, old)

    def means(self, sums: Shared, counts: Shared, old: Shared) -> Shared:
        return self._mean(lambda: sums, counts, old)

    def _mean(self, sums: Callable[[], Shared], counts: Shared, old: Shared) -> Shared:
        mass, g = self.problem.mass, self.problem.reciprocal_bits
        mask_centers(self.me, old)  # one that has none yet opens it before the places are under way
        look_up = open_places(self.me, counts, mass, lambda: reciprocal_table(mass, g))
        looked_up = look_up()
        return self.truncate(mean_times_power(self.me, sums(), looked_up, old, g), g)

    # -- comparing ---------------------------------------------------------------------------------------

    def movement(self, old: Shared, new: Shared, weights: Shared | None = None) -> Shared:
        """From the masks that both have as centres."""
        self._mask(old, weights)
        self._mask(new, weights)
        return movement(self.me, old, new, weights is not None)

    def any_of(self, bits: Shared, into: int) -> Shared:
        """By the product of their complements, four at a time; one round a level."""
        me, rows, words = self.me, bits.size // into, -(-into // 64)
        x = None if me.deals else pack_rows((1 - bits).share.reshape(rows, into), words)
        while rows > 1:
            x = bit_products(me, x, words, fours(rows), "any")()
            rows = -(-rows // 4)
        return 1 - self._unpacked(x, (into,))

    def open_stop_bit(self, movement: Shared, threshold: int, reason: str) -> bool:
        """Of one number, the sign as a word: x / 2^(w-2), rounded down, is -1 or 0. In two rounds, where `is_negative`
        takes three; the tables of digits of 8 bits that it needs would be large for many numbers."""
        left = threshold - self.widen(movement)
        return self.open_to_all(truncate(self.me, left, self.ring.width - 2, nearest=False) + 1, "stop bit", reason)[0]

    def open_to_all(self, bits: Shared, what: str, reason: str) -> list[bool]:
        """The bits are opened among the players; P1 tells the dealer, who receives no array."""
        me = self.me
        permit(me, what, me.world.ranks, reason)
        (opened,) = self.bring_together(bits, [Part(..., me.world.servers)], what)
        known: list[bool | None] = [None] * bits.size if me.deals else [*clear_bits(opened, bits.size)]
        return [tell_dealer(me, bit) for bit in known]
