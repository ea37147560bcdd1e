"""One-hot labels from scores: brackets of comparisons (docs/protocols/onetime.md#labels).

Scores play in groups. In a group every pair is compared; the winner's score goes on to the next level. Groups
of two are a tournament (k - 1 comparisons, log2 k levels), one group of k is "all pairs" (k (k - 1) / 2 at once),
and groups of four lie between. All of them give the same labels: groups are contiguous ranges, and of equal
scores the lower index wins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.protocols.interface import Problem
from coterie.protocols.onetime.bits import ONES, BitFactor, Terms, bit_factors, bit_products, products_of, unpack_rows
from coterie.protocols.onetime.blinded import Blinded, compare, go_on_with
from coterie.protocols.onetime.fused import put_rows
from coterie.protocols.onetime.kernels import masked_difference, select_by_bits
from coterie.randomness.material import Bits, Material, Packed, Unpacked, declared
from coterie.ring import Bulk
from coterie.sharing import Party, hollow, hollow_after, start_opening
from coterie.transport import metered

__all__ = [
    "all_pairs",
    "bracket",
    "check_schedule",
    "compared_width",
    "index_bits",
    "one_hot",
    "schedules",
    "score_width",
    "select_words",
    "tournament",
]

#: The most literals that one product takes.
FAN_IN = 4


class Rows(NamedTuple):
    """Rows of bits by number, of two arrays one behind the other, or their complements, where `flips` is all ones."""

    rows: NDArray[np.int64]
    flips: NDArray[np.uint64]
    places: NDArray[np.int64]

    def put(self, first: Bulk, second: Bulk, lead: np.uint64, out: Bulk) -> None:
        """To their places in `out`; P1 complements, whose `lead` is all ones."""
        put_rows(first, second, self.rows, self.flips, self.places, lead, out)

    def take(self, first: Bulk, second: Bulk, lead: np.uint64) -> Bulk:
        """Where each has a place."""
        out = np.empty((len(self.rows), first.shape[1]), np.uint64)
        self.put(first, second, lead, out)
        return out


def rows_of(literals: Sequence[BitFactor], places: Sequence[int] | None = None) -> Rows:
    """Literals, to be put into places; without, in their order."""
    flips = np.array([ONES if literal.negated else 0 for literal in literals], np.uint64)
    to = range(len(literals)) if places is None else places
    return Rows(np.array([literal.row for literal in literals], np.int64), flips, np.array(to, np.int64))


class Stage(NamedTuple):
    """Products of literals that belong to one round, over rows of bits given by number."""

    rows: Rows
    terms: Terms


class Bracket(NamedTuple):
    """One level: which nodes are compared, how the winners' bits come about, and what goes on.

    Bits live in one growing array of rows: first the signs of the pairs, then each stage's products.
    `groups`: the first node of each; `first`, `other`: the pairs of a group's first and each other node; `target`: the
    groups of these pairs. `picks`: per pair, the literal that says that the other node won its group.
    `joined`: products of clusters' old bits (their rows after all others) with the literal that says their node won.
    `kept`: what becomes of the clusters' bits, by place: these products (their rows after all others) or, where a node
    is one cluster, its literal. Bits of a node without opponents stay.
    """

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    stages: list[Stage]
    groups: NDArray[np.int64]
    first: NDArray[np.int64]
    other: NDArray[np.int64]
    target: NDArray[np.int64]
    picks: Rows
    joined: Stage | None
    kept: Rows


def score_width(problem: Problem) -> int:
    """w: bits that hold any difference of scores and its sign."""
    return compared_width(problem.distance_bits)


def compared_width(bits: int) -> int:
    """Bits that hold any difference of numbers of so many bits and its sign, a multiple of 4."""
    return min(-(-(bits + 2) // 4) * 4, 64)


def index_bits(clusters: int, called: bool) -> int:
    """Bits of a label: 0 to k - 1 or, where clusters are `called` something, 0 to k."""
    return (clusters if called else max(clusters - 1, 0)).bit_length()


def schedule_of(problem: Problem) -> tuple[int, ...]:
    return problem.schedule or tournament(problem.clusters)


def tournament(clusters: int) -> tuple[int, ...]:
    """Groups of two, level after level."""
    return (2,) * max(clusters - 1, 0).bit_length()


def all_pairs(clusters: int) -> tuple[int, ...]:
    """One group of all."""
    return (clusters,) if clusters > 1 else ()


def schedules(clusters: int) -> list[tuple[int, ...]]:
    """Groups of two at every level; of four, three or all at first, as far as that makes sense."""
    found = [tournament(clusters)]
    for size in (3, 4, 6, 8):
        if size < clusters:
            rest, sizes = clusters, []
            while rest > 1:
                sizes.append(min(size, rest))
                rest = -(-rest // size)
            found.append(tuple(sizes))
    return [*found, all_pairs(clusters)] if 2 < clusters <= 16 else found


def check_schedule(clusters: int, wanted: str | tuple[int, ...]) -> tuple[int, ...]:
    """The schedule of that name, or of these sizes; ValueError says what is wrong with it."""
    named = {"tournament": tournament(clusters), "all_pairs": all_pairs(clusters)}
    sizes = named[wanted] if isinstance(wanted, str) else wanted
    bracket(clusters, sizes)
    return sizes


@lru_cache(maxsize=64)
def bracket(clusters: int, schedule: tuple[int, ...]) -> tuple[Bracket, ...]:
    """The levels of a schedule, which gives the size of the groups at each of them."""
    nodes = [[c] for c in range(clusters)]
    levels = []
    for size in schedule:
        if size < 2 or len(nodes) < 2:
            raise ValueError(f"the schedule {schedule} has a level without opponents for {clusters} clusters")
        starts = list(range(0, len(nodes), size))
        members = [list(range(a, min(a + size, len(nodes)))) for a in starts]
        pairs = [(i, j) for group in members for i in group for j in group if i < j]
        number = {pair: t for t, pair in enumerate(pairs)}
        factors: list[list[BitFactor]] = [[] for _ in nodes]
        for group in members:
            for a in group:
                factors[a] += [BitFactor(number[a, j], True) for j in group if j > a]
                factors[a] += [BitFactor(number[i, a], False) for i in group if i < a]
        stages, rows = _reduce(factors, len(pairs))
        winner = [own[0] if own else None for own in factors]
        joined_terms: list[tuple[int, BitFactor]] = []
        kept: dict[int, BitFactor] = {}
        for own, literal in zip(nodes, winner, strict=True):
            if literal is not None and len(own) > 1:
                kept |= {c: BitFactor(rows + len(joined_terms) + i) for i, c in enumerate(own)}
                joined_terms += [(rows + c, literal) for c in own]
            elif literal is not None:
                kept[own[0]] = literal
        joined = None
        if joined_terms:
            joined_rows = sorted({row for row, _ in joined_terms} | {literal.row for _, literal in joined_terms})
            place = {row: i for i, row in enumerate(joined_rows)}
            terms = tuple((BitFactor(place[c]), BitFactor(place[h.row], h.negated)) for c, h in joined_terms)
            joined = Stage(rows_of(bit_factors(joined_rows)), products_of(len(joined_rows), terms))
        others = [a for group in members for a in group[1:]]
        levels.append(
            Bracket(
                np.array([i for i, _ in pairs], np.int64),
                np.array([j for _, j in pairs], np.int64),
                stages,
                np.array(starts, np.int64),
                np.array([group[0] for group in members for _ in group[1:]], np.int64),
                np.array(others, np.int64),
                np.array([g for g, group in enumerate(members) for _ in group[1:]], np.int64),
                rows_of([literal for a in others if (literal := winner[a]) is not None]),
                joined,
                rows_of([*kept.values()], [*kept]),
            )
        )
        nodes = [[c for a in group for c in nodes[a]] for group in members]
    if len(nodes) > 1:
        raise ValueError(f"the schedule {schedule} does not find one winner of {clusters}")
    return tuple(levels)


def _reduce(factors: list[list[BitFactor]], rows: int) -> tuple[list[Stage], int]:
    """Multiply each list of literals, at most four at a time, until one is left; returns the rows there are."""
    stages = []
    while any(len(own) > 1 for own in factors):
        terms: list[tuple[BitFactor, ...]] = []
        used = sorted({literal.row for own in factors if len(own) > 1 for literal in own})
        place = {row: i for i, row in enumerate(used)}
        for a, own in enumerate(factors):
            if len(own) < 2:
                continue
            pieces = -(-len(own) // FAN_IN)
            factors[a] = []
            for piece in range(pieces):
                part = own[len(own) * piece // pieces : len(own) * (piece + 1) // pieces]
                factors[a].append(BitFactor(rows + len(terms)))
                terms.append(tuple(BitFactor(place[literal.row], literal.negated) for literal in part))
        stages.append(Stage(rows_of(bit_factors(used)), products_of(len(used), tuple(terms))))
        rows += len(terms)
    return stages, rows


@metered("Labels")
def one_hot(me: Party, z: Blinded, clusters: int, numbers: int, width: int, schedule: tuple[int, ...]) -> Bulk:
    """<H> (k, numbers / 64): for each of the numbers, which of its k scores z (k, numbers) is least.

    A level takes the rounds of the signs (three), one for every stage of products where groups are larger
    than two, and one for the winners' scores and bits.
    """
    per_row = numbers // 64
    lead = ONES if me.lead else np.uint64(0)
    hot = hollow((clusters, per_row)) if me.deals else np.full((clusters, per_row), lead)
    levels = bracket(clusters, schedule)

    def take(wanted: Rows, rows: Bulk) -> Bulk | None:
        return None if me.deals else wanted.take(rows, hot, lead)

    for level in levels:
        rows, opened = compare(me, z, level.first, level.other, level.left, level.right, numbers, width)
        for stage in level.stages:
            products = bit_products(me, take(stage.rows, rows), per_row, stage.terms, "winners")()
            rows = rows if me.deals else np.concatenate([rows, products])
        joined: Callable[[], Bulk] | None = None
        if level.joined is not None:
            joined = bit_products(me, take(level.joined.rows, rows), per_row, level.joined.terms, "joined winners")
        if level is not levels[-1]:
            picks = take(level.picks, rows)
            chosen = go_on_with(me, z, opened, picks, level.target, level.other, level.groups, numbers, width)
        products = joined() if joined is not None else rows[:0]
        if level is not levels[-1]:
            z = chosen()
        if not me.deals:
            level.kept.put(rows, products, lead, hot)
    return hot


@declared
def select_material(rows: int, numbers: int, width: int) -> Material:
    """Masks of the bits and of the differences; the former, and their products, as words."""
    word = Packed(rows, numbers, width=width)
    masks = {"rho": Bits(rows, numbers // 64), "m": Unpacked(rows, numbers, width=width)}
    return Material("select", masks, {"rho words": word, "rho m": word})


def select_words(
    me: Party,
    b: Bulk,
    nodes: Bulk | None,
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    numbers: int,
    width: int,
) -> Callable[[], Bulk]:
    """[b z] over Z_2^width for z = node_right - node_left, from bits <b> (pairs, numbers / 64) and [nodes]
    (any, numbers). One round.

    1. Dealt: <rho>, [m] uniform; [rho] and [rho m] as words.
    2. Open beta = b XOR rho and e = z + m (uniform).
    3. [b z] = beta (e - [m]) + (1 - 2 beta) (e [rho] - [rho m]).

    Sends at once; call what is returned to receive and combine.
    """
    rows = len(left)
    dealt = me.deal(select_material(rows, numbers, width))
    if me.deals:

        def deal() -> dict[str, Bulk]:
            clear = unpack_rows(dealt.mask("rho"), numbers).astype(np.uint64)
            return {"rho words": clear, "rho m": clear * dealt.mask("m")}

        return hollow_after(dealt.bind(deal), (rows, numbers))
    assert nodes is not None
    rho, m = dealt.mask("rho"), dealt.mask("m")
    mask = np.uint64((1 << width) - 1)
    receive_bits = start_opening(me, dealt.masked("rho", b ^ rho))
    blinded = np.empty(rows * numbers, np.uint64)
    masked_difference(nodes, left, right, m.reshape(-1), mask, blinded)
    receive_words = start_opening(me, dealt.masked("m", blinded))

    def finish() -> Bulk:
        beta, opened = receive_bits(), receive_words()
        out = np.empty(rows * numbers, np.uint64)
        select_by_bits(
            beta.reshape(-1),
            opened,
            m.reshape(-1),
            dealt.bound("rho words").reshape(-1),
            dealt.bound("rho m").reshape(-1),
            mask,
            np.uint64(me.lead),
            out,
        )
        return out.reshape(rows, numbers)

    return finish
