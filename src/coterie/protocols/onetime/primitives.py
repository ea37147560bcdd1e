"""The primitives of `onetime`, on words and on bits that are XOR shares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coterie.protocols.interface import Ints, Part
from coterie.protocols.onetime.bits import bit_products, pack_rows, padded, pairs_of, unpack_rows
from coterie.protocols.onetime.label_words import words_of_bits
from coterie.protocols.onetime.labelling import select_words
from coterie.protocols.onetime.means import lift, open_places, table_bits, truncate
from coterie.protocols.onetime.sign import signs_of_differences
from coterie.protocols.words import AdditiveWords
from coterie.ring import Bulk, Words
from coterie.sharing import Secret, Shared, shared

__all__ = ["BITS", "Binary", "OneTimeWords"]

BITS = Words(1)


class Binary(Shared):
    """Whole numbers by their bits: (n, bits), lowest first."""

    __slots__ = ()


class OneTimeWords(AdditiveWords):
    """By masked openings and dealt material."""

    @property
    def bits(self) -> Words:
        return BITS

    def product(self, x: Shared, y: Shared) -> Shared:
        if x.ring != BITS:
            return super().product(x, y)
        words = -(-x.size // 64)
        rows = np.concatenate([self._packed(x), self._packed(y)])
        return self._unpacked(bit_products(self.me, rows, words, pairs_of(1), "product of bits")(), x.shape)

    def truncate(self, x: Shared, g: int) -> Shared:
        return truncate(self.me, x, g)

    def widen(self, x: Shared) -> Shared:
        return x if x.ring == self.ring else lift(self.me, x, self.ring)

    def is_negative(self, x: Shared) -> Shared:
        numbers, z = padded(x.size), None
        if not self.me.deals:
            z = np.zeros((2, numbers), np.uint64)
            z[1, : x.size] = x.share.reshape(-1)
        sign = signs_of_differences(self.me, z, np.array([0]), np.array([1]), numbers, self.ring.width)
        return self._unpacked(sign, x.shape)

    def select(self, bit: Shared, x: Shared, y: Shared) -> Shared:
        me, numbers, both = self.me, -(-x.size // 64) * 64, None
        if not me.deals:
            both = np.zeros((2, numbers), np.uint64)
            both[:, : x.size] = x.share.reshape(-1), y.share.reshape(-1)
        product = select_words(me, self._packed(bit), both, np.array([0]), np.array([1]), numbers, self.ring.width)()
        return x + me.shared(self.ring, product[0, : x.size].reshape(x.shape))

    def to_words(self, bits: Shared) -> Shared:
        words = words_of_bits(self.me, self._packed(bits), 1, -(-bits.size // 64) * 64, self.ring.width)
        if self.me.deals:
            return self.me.hollow(self.ring, bits.shape)
        return self.me.shared(self.ring, words[0, : bits.size].reshape(bits.shape))

    def to_bits(self, x: Shared, count: int) -> Shared:
        """The sign of x 2^(w-1-i) is bit i of x."""
        shifts = np.uint64(1) << np.arange(self.ring.width - 1, self.ring.width - 1 - count, -1, dtype=np.uint64)
        return self.is_negative(x[None, :] * shifts[:, None])

    def look_up(self, index: Shared, table: Bulk) -> Shared:
        """XOR shares of the entry's bits, turned into words and added up."""
        me, (m,), width = self.me, index.shape, self.ring.width
        padded = np.zeros(1 << table_bits(len(table) - 1), np.uint64)
        padded[: len(table)] = table
        looked_up = open_places(me, index, len(table) - 1, lambda: padded)()
        bits = me.hollow(BITS, (m, width))
        if not me.deals:
            found = looked_up[:, None] >> np.arange(width, dtype=np.uint64) & np.uint64(1)
            bits = me.shared(BITS, found.astype(np.uint8))
        return (self.to_words(bits) * (np.uint64(1) << np.arange(width, dtype=np.uint64))).sum(1)

    def _packed(self, bits: Shared) -> Bulk:
        """A row of bits, 64 a word; nothing at the dealer."""
        if self.me.deals:
            return np.empty((1, 0), np.uint64)
        return pack_rows(bits.share.reshape(1, -1), -(-bits.size // 64))

    def _unpacked(self, packed: Bulk | None, shape: tuple[int, ...]) -> Shared:
        if packed is None or self.me.deals:
            return self.me.hollow(BITS, shape)
        return self.me.shared(BITS, unpack_rows(packed, int(np.prod(shape))).reshape(shape))

    def bring_together(self, value: Secret, parts: Sequence[Part], what: str) -> list[Ints | None]:
        opened = super().bring_together(value, parts, what)
        if not isinstance(value, Binary):
            return opened
        places = np.arange(value.shape[-1])
        return [None if one is None else (one << places).sum(axis=-1) for one in opened]

    def export(self, value: Secret) -> dict[str, Bulk]:
        """Words as they are; bits under their own name."""
        held = shared(value)
        return super().export(held) if held.ring != BITS else {"bits": held.share.astype(np.uint64)}
