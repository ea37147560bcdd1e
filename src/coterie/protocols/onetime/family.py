"""The default family: masked openings and one-time dealt material; the helper only ever sends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ProtocolError
from coterie.protocols.beaver import shifted_objective
from coterie.protocols.interface import Division, Family, Holding, Ints, Part, RowSets, opened_stop_bit
from coterie.protocols.numerics import reciprocals
from coterie.protocols.onetime.bits import (
    ONES,
    Literal,
    bit_products,
    fours,
    pack_rows,
    products_of,
    unpack_rows,
)
from coterie.protocols.onetime.centers import Centers, mask_centers, movement
from coterie.protocols.onetime.labelling import one_hot, select_words, tournament
from coterie.protocols.onetime.means import lift, mean_times_power, open_places, reciprocal_table, table_bits, truncate
from coterie.protocols.onetime.sign import signs_of_differences
from coterie.protocols.onetime.table import Block, Table, block_scores, block_sums, block_words, enter
from coterie.protocols.words import WORDS, contributed, known, opened
from coterie.ring import Words
from coterie.sharing import Party, Secret, Shared, concatenate, open_to

__all__ = ["Labels", "OneTime"]

BITS = Words(1)
Bulk = NDArray[np.uint64]


class Labels(Secret):
    """<H> by block: (k, numbers / 64) words each; with [H] as words, (k - 1, numbers), where they are counted."""

    __slots__ = ("blocks", "hot", "n", "words")

    def __init__(self, blocks: list[Block], n: int, hot: list[Bulk], words: list[Bulk] | None) -> None:
        self.blocks, self.n, self.hot, self.words = blocks, n, hot, words


def _shared(value: Secret) -> Shared:
    if isinstance(value, Centers):
        return value.value
    assert isinstance(value, Shared)
    return value


def _centers(value: Secret) -> Centers:
    assert isinstance(value, Centers)
    return value


def _labels(value: Secret) -> Labels:
    assert isinstance(value, Labels)
    return value


class OneTime(Family):
    """PROTOCOLS.md, section 3."""

    name = "onetime"
    divisions: ClassVar[dict[str, Division]] = {"secret": "reciprocal", "revealed": "reciprocal"}
    dealer_hears = frozenset({"note"})

    @property
    def score_width(self) -> int:
        """Bits that hold any difference of scores and its sign, a multiple of 4."""
        return min(-(-(self.problem.distance_bits + 2) // 4) * 4, 64)

    @property
    def sum_width(self) -> int:
        """u: bits that hold the sum of a column over all rows, its sign, and one more; and a place in the table
        of reciprocals."""
        rows = self.problem.rows
        return max(rows.bit_length() + max(self.problem.half).bit_length() + 2, table_bits(rows))

    @property
    def schedule(self) -> tuple[int, ...]:
        return self.problem.schedule or tournament(self.problem.clusters)

    # -- into secrecy ------------------------------------------------------------------------------------

    def contribute(self, own: Ints | None, shape: tuple[int, ...]) -> Secret:
        return self._wrapped(contributed(self.me, own, shape))

    def table(self, own: Ints | None, holding: Holding) -> Table:
        return enter(self.me, own, holding, self.problem.block_rows)

    def public(self, values: Ints) -> Secret:
        return self._wrapped(known(self.me, values))

    def pick(self, rows: Secret, numbers: Sequence[int]) -> Centers:
        """What a party holds of a row is its share of it."""
        assert isinstance(rows, Table)
        me, shape = self.me, (len(numbers), self.problem.columns)
        if me.deals:
            return Centers(me.hollow(WORDS, shape))
        share = WORDS.zeros(shape)
        for i, number in enumerate(numbers):
            for block in rows.blocks:
                (place,) = np.nonzero(block.rows == number)
                if place.size and block.x.size:
                    share[i] = block.x[:, place[0]]
        return Centers(me.shared(WORDS, share))

    def _wrapped(self, value: Shared) -> Secret:
        return Centers(value) if value.shape == (self.problem.clusters, self.problem.columns) else value

    # -- labels ------------------------------------------------------------------------------------------

    def label(self, rows: Secret, centers: Secret) -> Labels:
        return self._start_labels(rows, centers, counted=False)()

    def relabel(
        self, rows: Secret, centers: Secret, old: Secret, threshold: int | None, reason: str
    ) -> tuple[Labels, bool]:
        """The stop test runs beside the labelling and does not lengthen it."""
        labels = self._start_labels(rows, centers, counted=True)
        stop = threshold is not None and self.open_stop_bit(self.movement(old, centers), threshold, reason)
        return labels(), stop

    def first_labels(self, rows: Secret, centers: Secret) -> Labels:
        return self._start_labels(rows, centers, counted=True)()

    def _start_labels(self, rows: Secret, centers: Secret, counted: bool) -> Callable[[], Labels]:
        assert isinstance(rows, Table)
        table, masked, k = rows, _centers(centers), self.problem.clusters
        mask_centers(self.me, masked)

        def work(me: Party, b: int) -> tuple[Bulk, Bulk | None]:
            block = table.blocks[b]
            z = block_scores(me, table, block, masked, self.score_width)
            hot = one_hot(me, z, k, block.numbers, self.score_width, self.schedule)
            return hot, block_words(me, hot, block, k, self.sum_width) if counted and k > 1 else None

        return self._gathered(table.blocks, table.holding.n, self.me.in_blocks(len(table.blocks), work))

    @staticmethod
    def _gathered(
        blocks: list[Block], n: int, wait: Callable[[], list[tuple[Bulk, Bulk | None]]]
    ) -> Callable[[], Labels]:
        def gather() -> Labels:
            done = wait()
            words = [w for _, w in done if w is not None]
            return Labels(blocks, n, [hot for hot, _ in done], words if len(words) == len(done) else None)

        return gather

    def arg_min(self, values: Secret) -> Secret:
        """SVK-means: distances that the parties have computed in the clear, each its part."""
        me, shared = self.me, _shared(values)
        n, k = shared.shape
        size = max(64, self.problem.block_rows // 64 * 64)
        edges = range(0, n, size)

        def work(here: Party, b: int) -> tuple[Bulk, Bulk | None]:
            rows = shared.share[edges[b] : edges[b] + size]
            numbers = -(-len(rows) // 64) * 64
            z = None
            if not here.deals:
                z = np.zeros((k, numbers), np.uint64)
                z[:, : len(rows)] = rows.T
            return one_hot(here, z, k, numbers, self.score_width, self.schedule), None

        blocks = [
            Block(b, np.arange(at, min(at + size, n)), (), -(-min(size, n - at) // 64) * 64)
            for b, at in enumerate(edges)
        ]
        return self.index(self._gathered(blocks, n, me.in_blocks(len(blocks), work))())

    def index(self, labels: Secret, numbers: Ints | None = None) -> Shared:
        """The bits of a row's label are XORs of its one-hot bits: (n, bits), lowest first."""
        held = _labels(labels)
        me, k = self.me, self.problem.clusters
        width = (k if numbers is not None else max(k - 1, 0)).bit_length()
        called = np.arange(k) if numbers is None else numbers
        if me.deals:
            return me.hollow(BITS, (held.n, width))
        out = np.zeros((held.n, width), np.uint8)
        for block, hot in zip(held.blocks, held.hot, strict=True):
            for bit in range(width):
                total = np.bitwise_xor.reduce(hot[np.flatnonzero(called >> bit & 1)], axis=0)
                out[block.rows, bit] = np.unpackbits(total.view(np.uint8), bitorder="little")[: len(block.rows)]
        return me.shared(BITS, out)

    # -- new centres -------------------------------------------------------------------------------------

    def sums(self, rows: Secret, labels: Secret) -> tuple[Shared, Shared]:
        counts = self.counts(labels)
        return self._start_sums(rows, _labels(labels))(), counts

    def counts(self, labels: Secret) -> Shared:
        """[t] (k,) modulo 2^u, the last from the others and n."""
        held, k = _labels(labels), self.problem.clusters
        self._turn_to_words(held)
        counted = np.zeros((1, k), np.uint64)
        for h in held.words or []:
            counted[0, :-1] += h.sum(axis=1, dtype=np.uint64)
        return self._last_from_others(counted, np.array([held.n])).reshape(k)

    def tally(self, labels: Secret, sets: RowSets) -> Shared:
        """Row kind by row kind, then set by set."""
        held, k = _labels(labels), self.problem.clusters
        self._turn_to_words(held)
        by_kind = np.zeros((sets.members.shape[1], k), np.uint64)
        for block, h in zip(held.blocks, [] if self.me.deals else held.words or [], strict=False):
            kinds = sets.kind_of[block.rows]
            for kind in np.unique(kinds):
                by_kind[kind, :-1] += h[:, np.flatnonzero(kinds == kind)].sum(axis=1, dtype=np.uint64)
        counts = self._last_from_others(sets.members.view(np.uint64) @ by_kind, sets.sizes)
        return lift(self.me, counts.reshape(counts.size))

    def _last_from_others(self, counted: Bulk, sizes: Ints) -> Shared:
        """[t] (sets, k) modulo 2^u: the last cluster has what is left of each set."""
        me, u = self.me, Words(self.sum_width)
        if me.deals:
            return me.hollow(u, counted.shape)
        public = sizes.view(np.uint64) if me.lead else np.zeros(len(sizes), np.uint64)
        counted[:, -1] = public - counted[:, :-1].sum(axis=1, dtype=np.uint64)
        return me.shared(u, u.reduce(counted))

    def _turn_to_words(self, held: Labels) -> None:
        """<H> as [H], once for these labels."""
        k = self.problem.clusters
        if held.words is None and k > 1:
            done = self.me.in_blocks(
                len(held.blocks),
                lambda here, b: block_words(here, held.hot[b], held.blocks[b], k, self.sum_width),
            )
            held.words = done()

    def _start_sums(self, rows: Secret, labels: Labels) -> Callable[[], Shared]:
        """[T] (k, d) modulo 2^u, the last cluster's from the others and the sum of all rows."""
        assert isinstance(rows, Table)
        table, k, u = rows, self.problem.clusters, Words(self.sum_width)

        def work(me: Party, b: int) -> Bulk:
            if labels.words is None:
                raise ProtocolError("sums need the labels as words: count them first")
            return block_sums(me, table, table.blocks[b], labels.words[b], k, self.sum_width)

        wait = self.me.in_blocks(len(table.blocks), work) if k > 1 else (lambda: [])

        def gather() -> Shared:
            parts = wait()
            if self.me.deals:
                return self.me.hollow(u, (k, table.holding.d))
            total = np.zeros((k, table.holding.d), np.uint64)
            for part in parts:
                total[:-1] += part
            total[-1] = table.own_sum - total[:-1].sum(axis=0, dtype=np.uint64)
            return self.me.shared(u, u.reduce(total))

        return gather

    def new_means(self, rows: Secret, labels: Secret, old: Secret) -> Centers:
        """As `sums` and `means`; the counts are looked up while the sums are under way."""
        counts = self.counts(labels)
        sums = self._start_sums(rows, _labels(labels))
        look_up = open_places(self.me, counts, self.problem.rows)
        return self._mean(look_up, sums, old)

    def means(self, sums: Secret, counts: Secret, old: Secret) -> Centers:
        return self._mean(open_places(self.me, _shared(counts), self.problem.rows), lambda: _shared(sums), old)

    def _mean(self, look_up: Callable[..., Bulk], sums: Callable[[], Shared], old: Secret) -> Centers:
        before, problem = _centers(old), self.problem
        mask_centers(self.me, before)
        looked_up = None
        if not self.me.deals:
            looked_up = look_up(reciprocal_table(problem.rows, problem.reciprocal_bits))
        y = mean_times_power(self.me, sums(), looked_up, before, problem.reciprocal_bits)
        return Centers(truncate(self.me, y, problem.reciprocal_bits))

    def means_of_public_counts(self, sums: Secret, counts: Ints | None, old: Secret) -> Centers:
        total, before, g = lift(self.me, _shared(sums)), _shared(old), self.problem.reciprocal_bits
        if counts is None:
            return Centers(truncate(self.me, total, g))
        empty = (counts == 0).astype(np.int64)[:, None]
        return Centers(truncate(self.me, total * reciprocals(counts, g)[:, None] + before * (empty << g), g))

    # -- stopping and restarts ---------------------------------------------------------------------------

    def movement(self, old: Secret, new: Secret) -> Shared:
        mask_centers(self.me, _centers(old))
        mask_centers(self.me, _centers(new))
        return movement(self.me, _centers(old), _centers(new))

    def at_most(self, values: Secret, threshold: int) -> Shared:
        """1 - [threshold < value], each as a bit: (m, 1)."""
        value = lift(self.me, _shared(values)) if _shared(values).ring != WORDS else _shared(values)
        less = self._less(value, known(self.me, np.full(value.size, threshold)))
        if self.me.deals:
            return self.me.hollow(BITS, (value.size, 1))
        return self.me.shared(BITS, less ^ np.uint8(self.me.lead))

    def any_of(self, bits: Secret, into: int) -> Shared:
        """By the product of their complements, four at a time; one round a level."""
        me, held = self.me, _shared(bits)
        rows, words = held.size // into, -(-into // 64)
        x = None if me.deals else pack_rows(held.share.reshape(rows, into) ^ np.uint8(me.lead), words)
        while rows > 1:
            x = bit_products(me, x, words, fours(rows), "any")()
            rows = -(-rows // 4)
        if me.deals or x is None:
            return me.hollow(BITS, (into, 1))
        return me.shared(BITS, unpack_rows(x, into).T ^ np.uint8(me.lead))

    def _less(self, left: Shared, right: Shared) -> NDArray[np.uint8]:
        """<right < left> for each of m values, (m, 1)."""
        (m,) = left.shape
        numbers, z = -(-m // 64) * 64, None
        if not self.me.deals:
            z = np.zeros((2, numbers), np.uint64)
            z[0, :m], z[1, :m] = left.share, right.share
        sign = signs_of_differences(self.me, z, np.array([0]), np.array([1]), numbers, 64)
        if self.me.deals:
            return np.empty((m, 1), np.uint8)
        return unpack_rows(sign, m).T

    def open_stop_bit(self, movement: Secret, threshold: int, reason: str) -> bool:
        """The bit is opened among the data parties; P1 tells the helper, which receives no array."""
        me = self.me
        bit = open_to(me, self.at_most(movement, threshold), me.world.servers, "stop bit", reason, told=(0,))
        if me.deals:
            return me.channel.hear(1)
        stop = opened_stop_bit(bit)
        if me.lead:
            me.channel.tell(0, stop)
        return stop

    def objective(self, sums: Secret, counts: Secret, centers: Secret) -> Shared:
        shift, me = self.problem.objective_shift, self.me
        return shifted_objective(
            me, truncate, lift(me, _shared(sums)), lift(me, _shared(counts)), _shared(centers), shift
        )

    def choose(self, first: Secret, second: Secret, pairs: Sequence[tuple[Secret, Secret]]) -> list[Secret]:
        """By one bit, <second < first>: words are selected by it, one-hot bits multiplied with it."""
        me = self.me
        other = self._less(_shared(first), _shared(second))
        word = None if me.deals else np.where(other[0, 0], ONES, np.uint64(0))  # the bit, 64 times
        return [self._chosen(word, a, b) for a, b in pairs]

    def _chosen(self, word: Any, a: Secret, b: Secret) -> Secret:
        me = self.me
        if isinstance(a, Labels):
            other = _labels(b)
            terms = products_of(2, ((Literal(0), Literal(1)),))
            hot = []
            for block, mine, theirs in zip(a.blocks, a.hot, other.hot, strict=True):
                count = self.problem.clusters * block.numbers // 64
                rows = None
                if not me.deals:
                    rows = np.stack([(mine ^ theirs).reshape(-1), np.full(count, word)])
                product = bit_products(me, rows, count, terms, "choice")()
                hot.append(mine if me.deals else mine ^ product.reshape(mine.shape))
            return Labels(a.blocks, a.n, hot, None)
        left, right = _shared(a), _shared(b)
        numbers = -(-left.size // 64) * 64
        bit = both = None
        if not me.deals:
            bit = np.full((1, numbers // 64), word)
            both = np.zeros((2, numbers), np.uint64)
            both[:, : left.size] = left.share.reshape(-1), right.share.reshape(-1)
        product = select_words(me, bit, both, np.array([0]), np.array([1]), numbers, 64)()
        if me.deals:
            return self._wrapped(left)
        return self._wrapped(me.shared(WORDS, left.share + product[0, : left.size].reshape(left.shape)))

    def times(self, value: Secret, factors: Ints) -> Secret:
        shared = _shared(value)
        return self._wrapped(shared * (factors[:, None] if shared.ring == BITS else factors))

    def arrange(self, values: Secret, order: Sequence[int]) -> Secret:
        return self._wrapped(_shared(values)[list(order)])

    def join(self, values: Sequence[Secret]) -> Shared:
        return concatenate([_shared(value) for value in values])

    def truncate(self, value: Secret, bits: int) -> Shared:
        return truncate(self.me, _shared(value), bits)

    def subtract(self, first: Secret, second: Secret) -> Shared:
        return _shared(first) - _shared(second)

    def add(self, first: Secret, second: Secret) -> Shared:
        return _shared(first) + _shared(second)

    # -- out of secrecy ----------------------------------------------------------------------------------

    def open_parts(self, value: Secret, parts: Sequence[Part], what: str, reason: str) -> list[Ints | None]:
        shared = _shared(value)
        values = opened(self.me, shared, parts, what, reason)
        return [None if one is None else self._number(shared, one) for one in values]

    @staticmethod
    def _number(shared: Shared, elements: NDArray[Any]) -> Ints:
        if shared.ring == BITS:  # the bits of a number, lowest first
            return (elements.astype(np.int64) << np.arange(elements.shape[-1])).sum(axis=-1)
        assert isinstance(shared.ring, Words)
        return shared.ring.signed(elements)

    def export(self, value: Secret) -> dict[str, NDArray[np.uint64]]:
        """Words as they are; one-hot labels as XOR shares (n, k) of bits."""
        if not isinstance(value, Labels):
            return {"words": _shared(value).share}
        bits = np.zeros((value.n, self.problem.clusters), np.uint64)
        for block, hot in zip(value.blocks, value.hot, strict=True):
            clear = np.unpackbits(hot.view(np.uint8), axis=1, bitorder="little")
            bits[block.rows] = clear[:, : len(block.rows)].T
        return {"bits": bits}

    def restore(self, kept: dict[str, NDArray[np.uint64]] | None, shape: tuple[int, ...]) -> Secret:
        if kept is None:
            return self._wrapped(self.me.hollow(WORDS, shape))
        return self._wrapped(self.me.shared(WORDS, kept["words"]))
