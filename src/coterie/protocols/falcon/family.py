"""Three servers with replicated shares, as a family for clustering: nobody deals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ProtocolError
from coterie.protocols.blocks import Resident, Table
from coterie.protocols.falcon.bits import BITS, filled, multiply_rows, packed, select, to_words, unpacked
from coterie.protocols.falcon.comparing import floor, low_bits, narrowed, signs
from coterie.protocols.falcon.entering import enter, open_to
from coterie.protocols.falcon.labelling import comparisons, one_hot_least
from coterie.protocols.falcon.lookup import entries, one_hot
from coterie.protocols.falcon.rows import Block, Hot, blocks_of, enter_cells, sum_cells
from coterie.protocols.falcon.scoring import Reciprocal, mean, reciprocal, row_scores
from coterie.protocols.falcon.servers import Step, Trio, cross, reshare, run_step, run_steps
from coterie.protocols.interface import Division, Holding, Ints, Kept, Part, Seats
from coterie.protocols.onetime.bits import padded
from coterie.protocols.onetime.labelling import all_pairs, check_schedule, schedules, tournament
from coterie.protocols.steps import Family, check_table
from coterie.ring import Array, Ring, Words
from coterie.sharing import Party, Secret, Shared, concatenate, shared, total
from coterie.transport import metered

__all__ = ["Falcon"]

#: Of so few rows all scores are compared at once: bytes do not matter, rounds do.
FEW_ROWS = 64


class Falcon(Family):
    """Replicated shares over Z_2^w, and bits that are XOR shares. One server learns nothing, two together all."""

    name = "falcon"
    share_parts = ("first", "second")
    divisions: ClassVar[dict[str, Division]] = {"secret": "reciprocal", "revealed": "reciprocal"}
    kernels = ("coterie.protocols.falcon.kernels",)
    tells_onlookers = True
    #: Which server is S_i in steps that treat servers differently; blocks of rows take turns.
    turn = 0
    _trio: Trio | None = None

    # -- who is who ----------------------------------------------------------------------------------------

    @classmethod
    def seats(cls, owners: int) -> Seats:
        """The first three owners serve; of two owners both do, and one who owns nothing."""
        return Seats(True, (0, 1, 2)) if owners == 2 else Seats(False, (1, 2, 3))

    @classmethod
    def comparisons(cls, clusters: int, schedule: tuple[int, ...] = ()) -> int:
        return comparisons(clusters, schedule or tournament(clusters))

    @classmethod
    def schedules(cls, clusters: int) -> list[tuple[int, ...]]:
        return schedules(clusters)

    @classmethod
    def check_schedule(cls, clusters: int, wanted: str | tuple[int, ...]) -> tuple[int, ...]:
        return check_schedule(clusters, wanted)

    @property
    def trio(self) -> Trio:
        if self._trio is None or self._trio.me is not self.me or self._trio.turn != self.turn:
            self._trio = Trio(self.me, self.turn)
        return self._trio

    @property
    def bits(self) -> Words:
        return BITS

    def at_block(self, me: Party, block: Resident) -> Self:
        here = self.at(me)
        here.turn = block.turn if isinstance(block, Block) else 0
        return here

    def _run(self, step: Step[Shared]) -> Shared:
        return run_step(self.me, step)

    # -- into secrecy, and out of it -----------------------------------------------------------------------

    def enter(self, own: Ints | None, shape: tuple[int, ...]) -> Shared:
        """A sharing of what each owner passes, added up."""
        count = int(np.prod(shape))
        steps = [
            enter(self.trio, self.ring, owner, count, own if owner == self.me.rank else None)
            for owner in self.me.world.owners
        ]
        return total(run_steps(self.me, *steps)).reshape(*shape)

    def public(self, values: Ints, ring: Ring | None = None) -> Shared:
        return self.trio.public(values, self.ring if ring is None else ring)

    def bring_together(self, value: Secret, parts: Sequence[Part], what: str) -> list[Ints | None]:  # noqa: ARG002
        held = shared(value)
        if not isinstance(held.ring, Words):
            raise ProtocolError("only words and bits are opened as whole numbers")
        ring = held.ring
        opened = run_steps(self.me, *(open_to(Trio(self.me), held[part.index], part.to) for part in parts))
        return [None if one is None else one.astype(np.int64) if ring == BITS else ring.signed(one) for one in opened]

    def export(self, value: Secret) -> Kept:
        """Words as they are; bits under their own names."""
        held = shared(value)
        names = self.share_parts if held.ring != BITS else [f"{part}-bits" for part in self.share_parts]
        return {name: share.astype(np.uint64) for name, share in zip(names, held.shares, strict=True)}

    def restore(self, kept: Kept | None, shape: tuple[int, ...]) -> Shared:
        if kept is None:
            return self.me.hollow(self.ring, shape)
        return self.trio.held(self.ring, kept["first"], kept["second"])

    # -- products ------------------------------------------------------------------------------------------

    @metered("ElementWiseMatMul")
    def product(self, x: Shared, y: Shared) -> Shared:
        trio = self.trio
        if x.ring == BITS:
            rows = concatenate([packed(trio, x), packed(trio, y)])
            product = self._run(multiply_rows(trio, rows, np.array([0]), np.array([1])))
            return unpacked(trio, product, x.shape)
        return self._reshared(x.ring, x.shape, None if x.is_hollow else cross(x, y, x.ring.mul))

    @metered("MatMul")
    def matrix_product(self, x: Shared, y: Shared) -> Shared:
        part = None if x.is_hollow else cross(x, y, self.ring.matmul)
        return self._reshared(self.ring, (x.shape[0], y.shape[1]), part)

    @metered("MatDist")
    def mat_dist(self, x: Shared, c: Shared) -> Shared:
        """[M] (n, k), M[i][j] = |x_i - c_j|^2 = |x_i|^2 - 2 x_i . c_j + |c_j|^2, in one round: parts of sums of
        products are added up before they are reshared."""
        part, ring = None, self.ring
        if not x.is_hollow:
            inner = cross(x, c.transpose(), ring.matmul)
            of_rows, of_centers = (ring.sum(cross(one, one, ring.mul), 1) for one in (x, c))
            part = ring.add(ring.sub(of_rows[:, None], ring.add(inner, inner)), of_centers[None])
        return self._reshared(ring, (x.shape[0], c.shape[0]), part)

    def movement(self, old: Shared, new: Shared, weights: Shared | None = None) -> Shared:
        """One word, where columns have no weights."""
        if weights is not None:
            return super().movement(old, new, weights)
        moved = old - new
        part = None if moved.is_hollow else self.ring.sum(cross(moved, moved, self.ring.mul).reshape(1, -1), 1)
        return self._reshared(self.ring, (1,), part)

    def _reshared(self, ring: Ring, shape: tuple[int, ...], part: Array | None) -> Shared:
        return self._run(reshare(self.trio, ring, shape, part))

    # -- bits ----------------------------------------------------------------------------------------------

    def is_negative(self, x: Shared) -> Shared:
        return self.is_negative_within(x, None)

    @metered("Sign")
    def is_negative_within(self, x: Shared, bits: int | None) -> Shared:
        trio, flat = self.trio, filled(self.trio, x.reshape(x.size))
        if bits is not None:
            flat = narrowed(trio, flat, self._width(bits))
        return unpacked(trio, self._run(signs(trio, flat)), x.shape)

    def _width(self, bits: int | None) -> int:
        """Of words that hold numbers of so many bits, and their signs."""
        return self.ring.width if bits is None else min(self.ring.width, bits + 1)

    @metered("SelectShare")
    def select(self, bit: Shared, x: Shared, y: Shared) -> Shared:
        trio, ahead = self.trio, filled(self.trio, (y - x).reshape(x.size))
        chosen = self._run(select(trio, packed(trio, bit), ahead))
        return x + chosen[: x.size].reshape(*x.shape)

    @metered("BitsToWords")
    def to_words(self, bits: Shared) -> Shared:
        """Of labels as this family makes them: once, and the last column from the others."""
        trio, hot = self.trio, bits.memo
        if not isinstance(hot, Hot):
            words = self._run(to_words(trio, packed(trio, bits), self.ring))
            return words.reshape(words.size)[: bits.size].reshape(*bits.shape)
        if hot.words is None:
            told = self._run(to_words(trio, hot.bits[: hot.bits.shape[0] - 1], self.ring))
            hot.words = concatenate([told, (1 - told.sum(0))[None]])
        return hot.words.transpose()[: bits.shape[0]]

    @metered("LowBits")
    def to_bits(self, x: Shared, count: int) -> Shared:
        trio, (m,) = self.trio, x.shape
        found = self._run(low_bits(trio, filled(trio, x), count))
        return unpacked(trio, found, (count, padded(m)))[:, :m]

    @metered("Truncate")
    def truncate(self, x: Shared, g: int) -> Shared:
        if g == 0:
            return x
        return self._run(floor(self.trio, filled(self.trio, x.reshape(x.size)), g))[: x.size].reshape(*x.shape)

    @metered("LookUp")
    def look_up(self, index: Shared, table: NDArray[np.uint64]) -> Shared:
        trio, (m,), ring = self.trio, index.shape, self.ring
        if len(table) == 1:
            return self.public(np.repeat(table.view(np.int64), m))
        hot = self._run(one_hot(trio, index, (len(table) - 1).bit_length()))
        words = self.to_words(entries(trio, hot, ring.reduce(table), ring.width))
        return (words * (np.uint64(1) << np.arange(ring.width, dtype=np.uint64))).sum(1)

    # -- labels --------------------------------------------------------------------------------------------

    def table(self, own: Ints | None, holding: Holding, weights: Ints | None = None) -> Table:
        blocks = blocks_of(holding, self.me.world.owners, self.problem.block_rows)
        table = Table((holding.n, holding.d), blocks)
        self.hand_out(table, own, weights)
        self.on_blocks(enter_cells, blocks, holding)()
        return table

    def _schedule(self, rows: int, k: int) -> tuple[int, ...]:
        """The planned one; of few rows, or of another number of scores, the one of the fewest rounds."""
        if k == self.problem.clusters and self.problem.schedule:
            return self.problem.schedule
        return all_pairs(k) if rows <= FEW_ROWS and k <= FEW_ROWS // 2 else tournament(k)

    @metered("LabelSamples")
    def label_samples(self, x: Shared, c: Shared, bits: int | None = None) -> Shared:
        """As the general step, by scores (k, n) that need one round and one word each, whatever d is."""
        if c.shape[0] == 1:
            return super().label_samples(x, c, bits)
        z = self._run(row_scores(self.trio, x, c, self._width(bits)))
        return self._labels(z, x.shape[0])

    @metered("Labels")
    def one_hot_least(self, m: Shared, bits: int | None = None) -> Shared:
        trio, (n, k) = self.trio, m.shape
        more = trio.public(np.zeros((padded(n) - n, k), np.int64), m.ring)
        return self._labels(narrowed(trio, concatenate([m, more]).transpose(), self._width(bits)), n)

    def _labels(self, z: Shared, rows: int) -> Shared:
        trio, k = self.trio, z.shape[0]
        hot = self._run(one_hot_least(trio, z, self._schedule(rows, k)))
        labels = unpacked(trio, hot, (k, z.shape[1])).transpose()[:rows]
        labels.memo = Hot(hot)
        return labels

    @metered("ArgMin")
    def arg_min_of(self, values: Shared, bits: int | None = None) -> Shared:
        """By one-hot labels, which need fewer rounds than winners' numbers that go along."""
        if values.shape[1] == 1:
            return self.public(np.zeros(values.shape[0], np.int64))
        words = self.to_words(self.one_hot_least(values, bits))
        return (words * np.arange(words.shape[1])).sum(1)

    # -- means ---------------------------------------------------------------------------------------------

    @metered("Sums")
    def sums(self, rows: Secret, labels: Secret) -> tuple[Shared, Shared]:
        """H^T X: a word for a cluster and a column, whatever n is and however many blocks there are."""
        check_table(rows, labels)
        part, counts = self._parts_of_sums(labels)
        return self._run(self._sum_up(part)), counts

    def _parts_of_sums(self, labels: Secret) -> tuple[Shared, Shared]:
        """This server's part of the sums (k, d), and how many rows each cluster has (k,)."""
        parts, counts = zip(*self._of_labels(sum_cells, labels), strict=True)
        return total(parts), total(counts)

    def _sum_up(self, part: Shared) -> Step[Shared]:
        return reshare(self.trio, self.ring, part.shape, None if part.is_hollow else part.share)

    def new_centers(self, rows: Secret, labels: Secret, old: Shared) -> Shared:
        """The sums come together while the counts' bits are found."""
        check_table(rows, labels)
        part, counts = self._parts_of_sums(labels)
        sums, by = run_steps(self.me, self._sum_up(part), self._reciprocal(counts))
        return self._mean(sums, by, old)

    def means_by_reciprocal(self, sums: Shared, counts: Shared, old: Shared) -> Shared:
        return self._mean(sums, run_step(self.me, self._reciprocal(counts)), old)

    def _reciprocal(self, counts: Shared) -> Step[Reciprocal]:
        return reciprocal(self.trio, counts, self.problem.mass, self.problem.reciprocal_bits)

    @metered("Mean")
    def _mean(self, sums: Shared, by: Reciprocal, old: Shared) -> Shared:
        return self._run(mean(self.trio, sums, by, old, self.problem.reciprocal_bits))
