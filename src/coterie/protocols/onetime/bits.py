"""Products of XOR-shared bits, many at a time, in one round (docs/protocols/onetime.md#products-of-bits)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.protocols.onetime.fused import fold_products
from coterie.protocols.onetime.kernels import xor_products
from coterie.randomness import Dealt
from coterie.randomness.material import Bits, Material, declared
from coterie.ring import Bulk
from coterie.sharing import Party, hollow_after, start_opening

__all__ = [
    "ONES",
    "BitFactor",
    "Terms",
    "bit_factors",
    "bit_products",
    "deal_products",
    "fours",
    "pack_rows",
    "padded",
    "pairs_of",
    "products_material",
    "products_of",
    "unpack_rows",
]

ONES, NONE = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0)
NO_ROWS = np.empty(0, np.int64)


class BitFactor(NamedTuple):
    """A variable, by its row, or its complement."""

    row: int
    negated: bool = False


@dataclass(frozen=True, eq=False)
class Terms:
    """Products of literals over `variables` rows of bits, with the products of masks that they need.

    `places`: the number of each product.
    """

    variables: int
    count: int
    monomials: int
    members: NDArray[np.int64]
    degrees: NDArray[np.int64]
    rows: NDArray[np.int64]
    negated: NDArray[np.uint64]
    index: NDArray[np.int64]
    sizes: NDArray[np.int64]
    places: NDArray[np.int64]

    def fold(
        self,
        opened: Bulk,
        masks: Bulk,
        products: Bulk,
        lead: bool,
        x: Bulk,
        tops: NDArray[np.int64],
        target: NDArray[np.int64],
        out: Bulk,
    ) -> None:
        """Rows x[tops], as far as there are any, and added to row target[t] of these, the share of product t."""
        given = self.rows, self.negated, self.index, self.sizes
        fold_products(opened, masks, products, *given, ONES if lead else NONE, x, tops, target, out)


@lru_cache(maxsize=512)
def products_of(variables: int, terms: tuple[tuple[BitFactor, ...], ...]) -> Terms:
    """Work out which products of masks have to be dealt. A mask itself is row v, a product comes after them."""
    largest = max(len(term) for term in terms)
    place: dict[tuple[int, ...], int] = {}
    rows = np.zeros((len(terms), largest), np.int64)
    negated = np.zeros((len(terms), largest), np.uint64)
    index = np.zeros((len(terms), 1 << largest), np.int64)
    for t, term in enumerate(terms):
        for i, literal in enumerate(term):
            rows[t, i], negated[t, i] = literal.row, ONES if literal.negated else 0
        for size in range(1, len(term) + 1):
            for chosen in combinations(range(len(term)), size):
                key = tuple(sorted(term[i].row for i in chosen))
                subset = sum(1 << i for i in chosen)
                index[t, subset] = key[0] if size == 1 else place.setdefault(key, variables + len(place))
    members = np.zeros((len(place), largest), np.int64)
    for m, key in enumerate(place):
        members[m, : len(key)] = key
    degrees = np.array([len(key) for key in place], np.int64)
    sizes = np.array([len(term) for term in terms], np.int64)
    places = np.arange(len(terms), dtype=np.int64)
    return Terms(variables, len(terms), len(place), members, degrees, rows, negated, index, sizes, places)


@declared
def products_material(terms: Terms, words: int, purpose: str) -> Material:
    """A mask for every variable, and the products of masks that the terms need."""
    bound = {"products": Bits(terms.monomials, words)} if terms.monomials else {}
    return Material(purpose, {"masks": Bits(terms.variables, words)}, bound)


def bit_products(me: Party, x: Bulk | None, words: int, terms: Terms, purpose: str) -> Callable[[], Bulk]:
    """<the product> for every term, from <x> (variables, words). One round.

    1. Dealt: <a_v>, uniform, for every variable; <products of a_v> for the subsets that the terms need.
    2. Open x_v XOR a_v (uniform).
    3. Each product of x_v = opened_v XOR a_v, multiplied out, is linear in what was dealt.

    Sends at once; call what is returned to receive and combine.
    """
    dealt = me.deal(products_material(terms, words, purpose))
    if me.deals:
        return hollow_after(deal_products(dealt, terms), (terms.count, words))
    assert x is not None
    masks = dealt.mask("masks")
    receive = start_opening(me, dealt.masked("masks", x ^ masks))

    def finish() -> Bulk:
        opened, out = receive(), np.empty((terms.count, words), np.uint64)
        products = dealt.bound("products") if terms.monomials else masks[:0]
        terms.fold(opened, masks, products, me.lead, masks, NO_ROWS, terms.places, out)
        return out

    return finish


def deal_products(dealt: Dealt, terms: Terms) -> Callable[[], None]:
    """Step 1 at the helper; call what is returned where the parties receive."""

    def deal() -> dict[str, Bulk]:
        if terms.monomials:
            xor_products(dealt.mask("masks"), terms.members, terms.degrees, dealt.target("products"))
        return {}

    return dealt.bind(deal)


def bit_factors(rows: Sequence[int]) -> tuple[BitFactor, ...]:
    return tuple(BitFactor(row) for row in rows)


@lru_cache(maxsize=64)
def pairs_of(rows: int) -> Terms:
    """The product of each of so many rows with the row that is so many further on."""
    return products_of(2 * rows, tuple(bit_factors((row, rows + row)) for row in range(rows)))


def fours(rows: int) -> Terms:
    """The products of four rows each, as far as they go."""
    return products_of(rows, tuple(bit_factors(range(at, min(at + 4, rows))) for at in range(0, rows, 4)))


def padded(count: int) -> int:
    """So many numbers, and those that fill the last word of their bits."""
    return -(-count // 64) * 64


def pack_rows(clear: NDArray[np.integer[Any]], words: int) -> Bulk:
    """Bits (rows, count) as words, 64 a word."""
    padded = np.zeros((len(clear), 64 * words), np.uint8)
    padded[:, : clear.shape[1]] = clear
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)


def unpack_rows(packed: Bulk, count: int) -> NDArray[np.uint8]:
    """Bits (rows, count) from words that hold 64."""
    clear = np.unpackbits(np.ascontiguousarray(packed).view(np.uint8), axis=1, bitorder="little")
    return clear[:, :count]
