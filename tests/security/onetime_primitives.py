"""The steps of `onetime`, each with two very different inputs, and checks of what they show.

All entries of an input hold the same secret, so that nothing but masks can make a frame vary; and words have
8, 16, 32 or 64 bits, so that every bit of every frame is used and every byte must be uniform.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from coterie.clustering import Layout
from coterie.protocols.blocks import Table
from coterie.protocols.interface import Part, Problem
from coterie.protocols.onetime import OneTime
from coterie.protocols.onetime.bits import BitFactor, bit_products, products_of
from coterie.protocols.onetime.blinded import blind
from coterie.protocols.onetime.centers import mask_centers, mask_of, movement
from coterie.protocols.onetime.label_words import block_words
from coterie.protocols.onetime.labelling import all_pairs, one_hot, select_words, tournament
from coterie.protocols.onetime.means import lift, mean_times_power, open_places, reciprocal_table, truncate
from coterie.protocols.onetime.seeding import block_spread, keep_cells
from coterie.protocols.onetime.sign import signs_of_differences
from coterie.protocols.onetime.table import Block, Run, blinded_scores, block_scores, block_sums
from coterie.protocols.sampling import Sampling
from coterie.randomness import Streams
from coterie.ring import Array, Words
from coterie.sharing import Party, Shared
from coterie.transport import Frame
from tests.security.primitives import shared
from tests.security.views import KNOWN_BYTES, Known, assert_fresh, assert_uniform, condition, constant_splits
from tests.support import Ran, run

N = 8192
WORDS = Words(64)
LEFT, RIGHT = np.array([0]), np.array([1])
#: Bytes from which on a frame's bytes are counted, and not its bits.
MANY = 2048


# -- conditioning ------------------------------------------------------------------------------------------


def condition_all(streams: Streams, viewers: set[int], byte: int) -> None:
    """As `condition`, and the streams that only `onetime` has: the lasting masks of data."""
    condition(streams, viewers, byte)
    _condition_lasting(streams, viewers, byte)
    for_blocks = streams.for_blocks

    def blocks(count: int) -> list[Streams]:
        made = for_blocks(count)
        for one in made:
            _condition_lasting(one, viewers, byte)
        return made

    streams.for_blocks = blocks


def _condition_lasting(streams: Streams, viewers: set[int], byte: int) -> None:
    lasting = streams.lasting
    streams.lasting = lambda party, *address: Known(byte) if {0, party} & viewers else lasting(party, *address)


def run_conditioned(p: int, role: Callable[[Party], Any], viewers: set[int], byte: int, seed: int = 0) -> Ran:
    def known(me: Party) -> Any:
        condition_all(me.streams, viewers, byte)
        return role(me)

    return run(p, known, seed)


def outside(ran: Ran, viewers: set[int]) -> list[Frame]:
    """What viewers received from others; what a party told several of them alike is listed once."""
    frames: list[Frame] = []
    for rank in sorted(viewers):
        told = {(frame.sender, frame.array.tobytes()) for frame in frames if frame.sender}
        frames += [
            frame
            for frame in ran.recordings[rank].received
            if frame.sender not in viewers and (frame.sender, frame.array.tobytes()) not in told
        ]
    return frames


# -- uniform bytes -----------------------------------------------------------------------------------------


def raw(frame: Frame) -> Array:
    return np.frombuffer(frame.array.tobytes(), np.uint8)


def assert_random_bytes(data: Array, what: str) -> None:
    """Uniform and fresh: from byte to byte, from word to word, between the halves; by bits if there are few."""
    if data.size >= MANY:
        assert_fresh(data[: data.size // 8 * 8].reshape(-1, 8), 256, what)
    else:
        assert_fresh(np.unpackbits(data).reshape(-1, 8), 2, f"{what}, bits")


def assert_blinded(frames: list[Frame]) -> None:
    """What a sender sends in frames of one size is uniform, and no two frames of one size have a mask in common."""
    alike: defaultdict[tuple[int, int], list[Array]] = defaultdict(list)
    by_size: defaultdict[int, list[Array]] = defaultdict(list)
    for frame in frames:
        alike[frame.sender, frame.array.nbytes].append(raw(frame))
        by_size[frame.array.nbytes].append(raw(frame))
    for (sender, size), parts in alike.items():
        assert_random_bytes(np.concatenate(parts), f"frames of {size} bytes from P{sender}")
    for size, parts in by_size.items():
        if size >= MANY // 2:
            for one, other in combinations(parts, 2):
                assert_uniform(one ^ other, 256, f"two frames of {size} bytes")
                assert_uniform(one - other, 256, f"two frames of {size} bytes")


def opened(ran: Ran, viewers: set[int]) -> list[Frame]:
    """What masked openings to all add up to, in bytes: what the viewers sent, and what they received.

    A viewer's own share follows from corrections and may vary, too, so that what it receives can be uniform and
    the sum is not. Nothing where data parties have sent each other different things.
    """
    first = min(viewers)
    outsider = min(set(ran.recordings[first].world.owners) - viewers)
    sequences = [[f for f in ran.recordings[v].sent if f.receiver == outsider] for v in sorted(viewers)]
    for rank in set(ran.recordings[first].world.owners) - viewers:
        sequences.append([f for f in ran.recordings[first].received if f.sender == rank])
    if len({tuple((f.array.dtype, f.array.nbytes) for f in frames) for frames in sequences}) > 1:
        return []
    totals = []
    for shares in zip(*sequences, strict=True):
        operate = np.add if shares[0].array.dtype == np.uint8 else np.bitwise_xor  # words, or bits
        totals.append(Frame(first, first, operate.reduce([raw(share) for share in shares], dtype=np.uint8)))
    return totals


# -- the steps ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Primitive:
    """`role(me, *input)` runs it; `inputs` are two inputs, as far apart as its domain allows."""

    name: str
    role: Callable[..., Any]
    inputs: tuple[tuple[Any, ...], tuple[Any, ...]]

    def ran(self, p: int, which: int, seed: int = 0) -> Ran:
        return run(p, lambda me: self.role(me, *self.inputs[which]), seed)

    def conditioned(self, p: int, which: int, viewers: set[int]) -> Ran:
        return run_conditioned(p, lambda me: self.role(me, *self.inputs[which]), viewers, KNOWN_BYTES[which])


def check_view(primitive: Primitive, p: int, viewers: set[int]) -> None:
    """What data parties receive and what they open is uniform and fresh, whatever the input."""
    for which in range(2):
        ran = primitive.conditioned(p, which, viewers)
        frames = outside(ran, viewers)
        assert frames
        assert_blinded(frames)
        assert_blinded(opened(ran, viewers))


def rows_of(me: Party, *values: int, count: int = N) -> Array | None:
    """This party's shares (rows, count) of rows of constants; None at the helper."""
    if me.deals:
        return None
    return constant_splits(WORDS, np.tile(np.array(values)[:, None], (1, count)), me.world.p)[me.rank - 1]


def bits_of(me: Party, *bits: int, count: int = N) -> Array | None:
    """This party's XOR shares (rows, count / 64) of rows that are all 0 or all 1; None at the helper."""
    if me.deals:
        return None
    clear = np.repeat(-np.array(bits)[:, None], count // 64, axis=1).astype(np.uint64)
    pattern = np.uint64(0x5A5A5A5A5A5A5A5A)
    if me.rank < me.world.p:
        return np.full_like(clear, pattern)
    return clear if me.world.p % 2 else clear ^ pattern


def own_part(me: Party, layout: Layout, value: int) -> Array | None:
    """A table of which every cell is `value`: this party's cells of it."""
    if me.deals:
        return None
    return np.where(layout.own_cells(me.rank), value, 0)


def centers_of(me: Party, values: Array) -> Shared:
    centers = shared(me, WORDS, values)
    mask_centers(me, centers)
    return centers


def _signs(width: int, times: int = 1) -> Callable[..., None]:
    def role(me: Party, left: int, right: int) -> None:
        for _ in range(times):
            signs_of_differences(me, rows_of(me, left, right), LEFT, RIGHT, N, width)

    return role


def _bit_products(me: Party, *bits: int) -> None:
    terms = products_of(
        3, ((BitFactor(0), BitFactor(1, True), BitFactor(2)), (BitFactor(1), BitFactor(2)), (BitFactor(0),))
    )
    bit_products(me, bits_of(me, *bits), N // 64, terms, "a test")()


def _select(times: int = 1) -> Callable[..., None]:
    def role(me: Party, bit: int, left: int, right: int) -> None:
        for _ in range(times):
            select_words(me, bits_of(me, bit), rows_of(me, left, right), LEFT, RIGHT, N, 8)()

    return role


def _one_hot(schedule: tuple[int, ...], times: int = 1) -> Callable[..., None]:
    def role(me: Party, *scores: int) -> None:
        k = len(scores)
        for _ in range(times):
            one_hot(me, blind(me, rows_of(me, *scores), k, N, 8), k, N, 8, schedule)

    return role


def _centers(me: Party, old: int, new: int) -> None:
    first, second = (centers_of(me, np.full((512, 4), value)) for value in (old, new))
    for _ in range(100):
        movement(me, first, second)


def cells(rows: int, p: int, d: int) -> Layout:
    """Rows that P1 holds, rows that P2 holds, and so on; and as many that all hold cells of."""
    owners = np.zeros((rows * (p + 1), d), np.uint8)
    for j in range(p):
        owners[rows * j : rows * (j + 1)] = j + 1
    owners[rows * p :] = 1 + np.arange(d) % p
    return Layout("mixed", *owners.shape, owners=owners.tobytes())


def _tables(me: Party, *values: int) -> None:
    layout = cells(256, me.world.p, 6)
    for value in values:
        entered(me, layout, value, 128)


def entered(me: Party, layout: Layout, value: int, block_rows: int) -> Table:
    problem = Problem(layout.n, 2, (9,) * layout.d, block_rows)
    return OneTime(me, problem).table(own_part(me, layout, value), layout)


def _labels(me: Party, value: int, center: int) -> None:
    """Of rows that are all alike, from three centres that are."""
    table = entered(me, cells(4096, me.world.p, 2), value, 4096)
    mask = mask_of(centers_of(me, np.full((3, 2), center)))
    for block in table.blocks:
        one_hot(me, blinded_scores(me, block, mask, 16), 3, block.numbers, 16, tournament(3))


def _scores(me: Party, value: int, center: int) -> None:
    table = entered(me, cells(1024, me.world.p, 2), value, 128)
    mask = mask_of(centers_of(me, np.full((256, 2), center)))
    for block in table.blocks:
        block_scores(me, block, mask, 8)


def _words(times: int = 1) -> Callable[..., None]:
    def role(me: Party, bit: int) -> None:
        block = Block(0, np.arange(N), (Run(0, N, (1,)),))
        hot = bits_of(me, bit, bit)
        for _ in range(times):
            block_words(me, np.empty(0, np.uint64) if hot is None else hot, block, 2, 8)

    return role


def _sums(me: Party, value: int, bit: int) -> None:
    table = entered(me, cells(256, me.world.p, 96), value, 128)
    for block in table.blocks:
        h = rows_of(me, *(bit,) * 8, count=block.numbers)
        block_sums(me, block, np.empty((8, 0), np.uint64) if h is None else h, 96, 8)


def _places(me: Party, count: int) -> None:
    open_places(me, shared(me, Words(8), np.full(N, count)), 255, lambda: reciprocal_table(255, 10))()


def _means(times: int = 1) -> Callable[..., None]:
    def role(me: Party, total: int, reciprocal: int, old: int) -> None:
        centers = centers_of(me, np.full((512, 4), old))
        looked_up = None if me.deals else np.full(512, reciprocal if me.lead else 0, np.uint64)
        for _ in range(times):
            sums = shared(me, Words(8), np.full((512, 4), total))
            mean_times_power(me, sums, looked_up, centers, 3, Words(16))

    return role


def _lift(me: Party, value: int) -> None:
    lift(me, shared(me, Words(8), np.full(N, value)), Words(16))


def _truncate(me: Party, value: int) -> None:
    truncate(me, shared(me, Words(16), np.full(N, value)), 11)


def _arg_min(me: Party, *values: int) -> None:
    family = OneTime(me, Problem(N, len(values), (3,), 4096))
    parts = np.tile(values, (N, 1)) if me.lead else np.zeros((N, len(values)), np.int64)
    family.arg_min(family.enter(None if me.deals else parts, (N, len(values))))


def _choose(me: Party, first: int, second: int) -> None:
    family = OneTime(me, Problem(N, 512, (3,) * 4))
    scalars = [shared(me, WORDS, np.array([value])) for value in (first, second)]
    centers = tuple(centers_of(me, np.full((512, 4), value)) for value in (first, second))
    family.choose(*scalars, [tuple(scalars), centers])


def _objective(me: Party, value: int, count: int) -> None:
    family = OneTime(me, Problem(N, 512, (1 << 25,) * 4))
    sums, counts = shared(me, Words(64), np.full((512, 4), value)), shared(me, Words(64), np.full(512, count))
    family.objective(sums, counts, shared(me, WORDS, np.full((512, 4), value)))


#: Groups of 64 rows: distances have 16 bits.
DRAWN = Sampling(N, 64, 3, 3, 0, 0, 0)


def _keep(times: int = 1) -> Callable[..., None]:
    def role(me: Party, hot: int, gained: int) -> None:
        family, count = OneTime(me, Problem(256, 2, (1,))), 256
        block = Block(0, np.arange(256), (Run(0, 256, (1,)),))
        for _ in range(times):
            words = shared(me, WORDS, np.full((1, count), hot))
            block.held |= {"gained": rows_of(me, *[gained] * count, count=256), "nearest": rows_of(me, 0, count=256)}
            keep_cells(family, block, words, DRAWN)

    return role


def _spread(times: int = 1) -> Callable[..., None]:
    def role(me: Party, value: int, hot: int, near: int) -> None:
        p, n = me.world.p, 4096
        layout = Layout("horizontal", n, 1, rows=(n, *[0] * (p - 1)))
        (block,) = entered(me, layout, value, n).blocks
        if not me.deals:
            block.held["pull"] = rows_of(me, near, count=n)
        for _ in range(times):
            words = shared(me, WORDS, np.full((8, 64), hot))
            block_spread(me, block, words, 1, DRAWN, 16)

    return role


def _consider(me: Party, value: int, candidate: int) -> None:
    """Scores of 16 bits and distances of 32; a candidate is as close as the first centre, or as far as can be."""
    n, p, sampling = 4096, me.world.p, Sampling(4096, 1024, 14, 0, 0, 0)
    family = OneTime(me, Problem(n, 3, (63,), n))
    layout = Layout("horizontal", n, 1, rows=(n, *[0] * (p - 1)))
    table = family.table(own_part(me, layout, value), layout)
    family.measure(table, shared(me, WORDS, np.full((1, 1), value)), sampling)
    family.consider(table, shared(me, WORDS, np.full((64, 1), candidate)), sampling)


SIGN = Primitive("signs", _signs(8), ((0, 0), (63, -64)))
TWO_SIGNS = Primitive("two signs", _signs(8, 2), ((0, 0), (63, -64)))
WIDE_SIGN = Primitive("signs of 32 bits", _signs(32), ((0, 0), (-(2**30), 2**30)))
BIT_PRODUCTS = Primitive("bit_products", _bit_products, ((0, 0, 0), (1, 0, 1)))
SELECT = Primitive("select_words", _select(), ((0, 0, 0), (1, -128, 127)))
TWO_SELECTIONS = Primitive("two selections", _select(2), ((0, 0, 0), (1, -128, 127)))
TOURNAMENT = Primitive("tournament", _one_hot(tournament(4)), ((0, 0, 0, 0), (31, -32, 5, 5)))
TWO_TOURNAMENTS = Primitive("two tournaments", _one_hot(tournament(4), 2), ((0, 0, 0, 0), (31, -32, 5, 5)))
LABELS = Primitive("labels", _labels, ((0, 0), (-3, 2)))
ALL_PAIRS = Primitive("all pairs", _one_hot(all_pairs(4)), ((0, 0, 0, 0), (31, -32, 5, 5)))
CENTERS = Primitive("centers", _centers, ((0, 0), (2**40, -5)))
TABLE = Primitive("a table", _tables, ((0,), (-(2**40),)))
TWO_TABLES = Primitive("two tables", _tables, ((0, 0), (-(2**40), 7)))
SCORES = Primitive("scores", _scores, ((0, 0), (2**30, -(2**30))))
BITS_TO_WORDS = Primitive("bits to words", _words(), ((0,), (1,)))
TWO_BITS_TO_WORDS = Primitive("bits to words, twice", _words(2), ((0,), (1,)))
SUMS = Primitive("sums", _sums, ((0, 0), (-3, 1)))
PLACES = Primitive("places", _places, ((0,), (255,)))
MEAN = Primitive("mean", _means(), ((0, 0, 0), (-30, 31, 1000)))
TWO_MEANS = Primitive("two means", _means(2), ((0, 0, 0), (-30, 31, 1000)))
LIFT = Primitive("lift", _lift, ((0,), (-64,)))
TRUNCATE = Primitive("truncate", _truncate, ((0,), (-(2**14),)))
ARG_MIN = Primitive("arg_min", _arg_min, ((0, 0, 0), (30, 7, 1)))
CHOOSE = Primitive("choose", _choose, ((0, 0), (2**40, -(2**40))))
OBJECTIVE = Primitive("objective", _objective, ((0, 0), (-(2**20), 8000)))
KEEP = Primitive("keep", _keep(), ((0, 0), (1, -(2**15))))
TWO_KEEPS = Primitive("keep, twice", _keep(2), ((0, 0), (1, -(2**15))))
SPREAD = Primitive("spread", _spread(), ((0, 0, 0), (9, 1, 2**14)))
TWO_SPREADS = Primitive("spread, twice", _spread(2), ((0, 0, 0), (9, 1, 2**14)))
CONSIDER = Primitive("consider", _consider, ((0, 0), (63, -63)))

PRIMITIVES = (
    SIGN, TWO_SIGNS, WIDE_SIGN, BIT_PRODUCTS, SELECT, TOURNAMENT, ALL_PAIRS, CENTERS, TABLE, TWO_TABLES, SCORES,
    BITS_TO_WORDS, SUMS, PLACES, MEAN, TWO_MEANS, LIFT, TRUNCATE, ARG_MIN, CHOOSE, OBJECTIVE,
    KEEP, TWO_KEEPS, SPREAD, TWO_SPREADS, CONSIDER, TWO_TOURNAMENTS, LABELS,
)  # fmt: skip


# -- openings ----------------------------------------------------------------------------------------------


def _open_labels(me: Party) -> Any:
    family = OneTime(me, Problem(4096, 3, (3,), 4096))
    parts = np.tile((5, 1, 7), (4096, 1)) if me.lead else np.zeros((4096, 3), np.int64)
    closest = family.arg_min(family.enter(None if me.deals else parts, (4096, 3)))
    return family.open_parts(closest, [Part(..., [1])], "labels", "a test")[0]


def _open_stop_bits(me: Party) -> Any:
    family = OneTime(me, Problem(4096, 3, (3,), 4096))
    return [family.open_stop_bit(family.public(np.array([5])), 7, "a test") for _ in range(64)]


OPENINGS = {"labels": (_open_labels, (4096, 2), 1), "stop bits": (_open_stop_bits, (1,), True)}


def check_opening(name: str) -> None:
    """Even with all that was dealt known, the shares that P2 and P3 send to P1 show their sum and no more."""
    role, shape, result = OPENINGS[name]
    ran = run_conditioned(3, role, {0, 1}, KNOWN_BYTES[1])
    assert (np.array(ran.results[1]) == result).all()
    for sender in (2, 3):
        frames = [f.array for f in ran.recordings[1].received if f.sender == sender and f.array.shape == shape]
        values, modulus = np.concatenate(frames), 2
        if values.dtype == np.uint64:  # a bit as a word: its share by half-bytes
            whole = values.view(np.uint8)
            values, modulus = np.stack([whole & 15, whole >> 4]), 16
        assert_fresh(values, modulus, f"P{sender}'s share of the {name}")


# -- who receives ------------------------------------------------------------------------------------------


def check_sums_reach_holders_only() -> None:
    """H - U of a block goes to the parties that hold cells of its rows. Blocks have sizes that tell them apart."""
    kinds = {64: [1], 128: [2], 192: [1, 3], 256: [1, 2, 3], 320: [2, 3]}
    owners = np.concatenate([np.tile(np.resize(held, 3), (rows, 1)) for rows, held in kinds.items()]).astype(np.uint8)
    layout = Layout("mixed", *owners.shape, owners=owners.tobytes())

    def role(me: Party) -> None:
        table = entered(me, layout, 7, 1024)
        for block in table.blocks:
            h = rows_of(me, 1, count=block.numbers)
            block_sums(me, block, np.empty((1, 0), np.uint64) if h is None else h, layout.d, 8)

    ran = run(3, role)
    reached: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)
    for recording in ran.recordings[1:]:
        for frame in recording.received:
            if frame.sender and frame.array.dtype == np.uint8:
                reached[frame.array.nbytes].add((frame.sender, frame.receiver))
    expected = {rows: {(i, j) for i in (1, 2, 3) for j in held if i != j} for rows, held in kinds.items()}
    assert reached == expected
