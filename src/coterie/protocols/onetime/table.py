"""The data, masked once by their owners, and products with them (docs/protocols/onetime.md#the-data-enter)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.protocols.blocks import Resident, block_step
from coterie.protocols.interface import Holding, Ints, Problem
from coterie.protocols.onetime.bits import padded
from coterie.protocols.onetime.blinded import Blinded
from coterie.protocols.onetime.centers import CenterMask
from coterie.protocols.onetime.kernels import two_products, two_sums
from coterie.protocols.onetime.means import table_bits
from coterie.randomness import Masked
from coterie.randomness.material import Elements, Material, Packed, Unpacked, declared
from coterie.ring import Bulk, Words
from coterie.sharing import Party, broadcast_masked, receive_masked, start_opening
from coterie.transport import metered

if TYPE_CHECKING:
    from coterie.protocols.onetime.family import OneTime

__all__ = [
    "NOTHING",
    "Block",
    "Hot",
    "Run",
    "blinded_scores",
    "block_scores",
    "block_sums",
    "blocks_of",
    "data_masks",
    "enter_cells",
    "enter_masked",
    "parts_of",
    "sum_width",
]

NOTHING = np.empty((0, 0), np.uint64)
MINUS_TWO = np.uint64(2**64 - 2)
#: Cells of the largest table whose masks the helper keeps, instead of expanding them in every iteration.
KEPT_MASKS = 1 << 20


class Run(NamedTuple):
    """Rows of a block that stand side by side and of which the same parties hold cells: `start` to `stop` - 1."""

    start: int
    stop: int
    holders: tuple[int, ...]


class Block(Resident):
    """Rows in runs, padded to a multiple of 64: the unit of labelling. All runs are labelled at once; what is opened of
    a row to those alone who hold cells of it, is opened run by run.

    Kept with it, at the data parties: `e` (d, numbers), the data less their masks, known to every data party; `x`, what
    this party holds, zero elsewhere, or empty where it holds nothing.
    """

    __slots__ = ("runs",)

    def __init__(
        self, number: int, rows: NDArray[np.int64], runs: tuple[Run, ...] = (), cells: tuple[int, ...] = ()
    ) -> None:
        super().__init__(number, rows, tuple(sorted({j for run in runs for j in run.holders})), cells)
        self.runs = runs

    @property
    def kind(self) -> Hashable:
        return super().kind, self.runs

    @property
    def numbers(self) -> int:
        return padded(len(self.rows))


@dataclass(repr=False)
class Hot:
    """One-hot labels of a block: <H> (k, numbers / 64) and, once they were counted, [H] as words (k - 1, numbers)."""

    bits: Bulk
    words: Bulk | None = None


def blocks_of(holding: Holding, parties: int, size: int) -> list[Block]:
    """Cut the rows, one group of holders after the other, into blocks of at most `size`."""
    groups = holding.label_groups(parties)
    edges = np.cumsum([0, *(len(rows) for rows, _ in groups)]).tolist()
    blocks: list[Block] = []
    at = 0
    for part in parts_of(np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in groups)]), size):
        end = at + len(part)
        spans = [(max(low, at) - at, min(high, end) - at) for low, high in pairwise(edges)]
        runs = tuple(
            [Run(*span, tuple(who)) for span, (_, who) in zip(spans, groups, strict=True) if span[0] < span[1]]
        )
        block = Block(len(blocks), part, runs)
        block.cells = tuple([holding.count_cells(part, j) for j in block.holders])
        blocks.append(block)
        at = end
    return blocks


def parts_of(rows: NDArray[np.int64], size: int) -> list[NDArray[np.int64]]:
    """Rows in parts of at most `size`, multiples of 64 but for the last."""
    size = max(64, size // 64 * 64)
    return [rows[at : at + size] for at in range(0, len(rows), size)]


@block_step
def enter_cells(family: OneTime, block: Block, number: int, holding: Holding) -> Bulk:
    """Every owner masks its cells with words of the helper's and its own stream, and broadcasts the difference.

    1. A: the mask of a cell, from the stream of the helper and the cell's owner.
    2. The owner broadcasts E = X - A to the data parties, once for the whole fit. Everybody else's shares
       of X and of A are zero.

    The mask belongs to these data for life. Sees: a data party E, uniform; the helper nothing. Brings back the sum of
    what this party holds (d,).
    """
    me, own, x = family.me, block.held.pop("own"), NOTHING
    block.held["table"] = number, holding
    if me.rank in block.holders:
        x = _transposed(own, block)
        x[~_cells(holding, block, me.rank)] = 0
    e = enter_masked(me, block, x, number, holding)
    if not me.deals:
        block.held |= {"e": e, "x": x}
    return np.zeros(holding.d, np.uint64) if x is NOTHING else x.sum(axis=1, dtype=np.uint64)


def enter_masked(me: Party, block: Block, x: Bulk, number: int, holding: Holding) -> Bulk:
    """E (d, numbers), from what this party holds, under the masks of the table with this number."""
    arrive = me.channel.turns.begin_round()
    if me.deals:
        sent = zip(block.holders, block.cells, strict=True)
        me.channel.others_send([([j], me.world.servers, cells_message(count).wire) for j, count in sent])()
        arrive()
        return NOTHING
    e = np.zeros((holding.d, block.numbers), np.uint64)
    if me.rank in block.holders:
        cells = _cells(holding, block, me.rank)
        hidden = x[cells] - data_mask(me, me.rank, number, block, int(cells.sum()))
        broadcast_masked(me, Masked(hidden, cells_message(len(hidden))))
        e[cells] = hidden
    arrive()
    for j in block.holders:
        if j != me.rank:
            cells = _cells(holding, block, j)
            e[cells] = receive_masked(me, j, int(cells.sum()))
    return e


@declared
def cells_message(count: int) -> Elements:
    """So many masked cells, from their owner to everybody else; and the mask of them."""
    return Elements(Words(64), count)


def _cells(holding: Holding, block: Block, owner: int) -> NDArray[np.bool_]:
    """Which cells of a block (d, numbers) a party holds."""
    cells = np.zeros((holding.d, block.numbers), np.bool_)
    cells[:, : len(block.rows)] = (holding.owners_of(block.rows) == owner).T
    return cells


def _transposed(own: Ints, block: Block) -> Bulk:
    """A block's own rows as columns (d, numbers), padded with zeros."""
    out = np.zeros((own.shape[1], block.numbers), np.uint64)
    out[:, : len(block.rows)] = own.T.view(np.uint64)
    return out


def data_mask(me: Party, owner: int, table: int, block: Block, count: int) -> Bulk:
    """The masks of an owner's cells of a block; its own and the helper's to expand, as often as needed."""
    return me.streams.lasting(owner, table, block.number).read(cells_message(count).bytes).view(np.uint64)


def data_masks(me: Party, block: Block) -> Bulk:
    """At the helper: A (d, numbers) of a block. Those of a small table are kept, of a large one they are made anew."""
    kept: Bulk | None = block.held.get("masks")
    if kept is not None:
        return kept
    number, holding = block.held["table"]
    a = np.zeros((holding.d, block.numbers), np.uint64)
    for j, count in zip(block.holders, block.cells, strict=True):
        mask, runs = data_mask(me, j, number, block, count), [run for run in block.runs if j in run.holders]
        if len(runs) == 1 and runs[0].holders == (j,):
            a[:, runs[0].start : runs[0].stop] = mask.reshape(len(a), -1)
        else:
            a[_cells(holding, block, j)] = mask
    if holding.n * holding.d <= KEPT_MASKS:
        block.held["masks"] = a
    return a


@declared
def scores_material(k: int, numbers: int, width: int) -> Material:
    return Material("scores", bound={"AB": Packed(k, numbers, width=width)})


def block_scores(me: Party, block: Block, mask: CenterMask, width: int, factor: np.uint64 = MINUS_TWO) -> Bulk | None:
    """[M] (k, numbers) modulo 2^width: M_ij = |c_j|^2 - 2 x_i . c_j, which orders as the distance does.

    Dealt: [-2 A B^T]. With E = X - A and F = C - B open, an owner has -2 X F^T - 2 E [B]^T + [-2 A B^T], the
    others all but the first term. `factor`: another than -2. No communication beyond what masks the centres.
    """
    k = len(mask.b)
    dealt = me.deal(scores_material(k, block.numbers, width))
    if me.deals:

        def deal() -> dict[str, Bulk]:
            product, b = np.zeros((k, block.numbers), np.uint64), mask.b * factor
            two_products(NOTHING, b, data_masks(me, block), b, product)
            return {"AB": product}

        dealt.bind(deal)()
        return None
    z = dealt.bound("AB")
    two_products(block.held["x"], mask.f * factor, block.held["e"], mask.b * factor, z)
    z += mask.squares[:, None]
    return z


@declared
def blinded_material(k: int, numbers: int, width: int) -> Material:
    return Material("scores", free={"S": Unpacked(k - 1, numbers, width=width)})


def blinded_scores(me: Party, block: Block, mask: CenterMask, width: int) -> Blinded:
    """M_j - M_0 plus noise (k, numbers), modulo 2^width: as `block_scores`, but the shares of -2 A (B_j - B_0)^T are
    uniform words S that nobody corrects. So the noise, S + 2 A (B_j - B_0)^T, is known to the helper, and nothing is
    sent."""
    k = len(mask.b)
    dealt = me.deal(blinded_material(k, block.numbers, width))
    if me.deals:

        def noise() -> Bulk:
            masks, out = (mask.b[1:] - mask.b[0]) * np.uint64(2), np.zeros((k, block.numbers), np.uint64)
            two_products(NOTHING, masks, data_masks(me, block), masks, out[1:])
            out[1:] += dealt.free("S")
            return out

        return Blinded(noise=noise)
    z = np.zeros((k, block.numbers), np.uint64)
    f, b = ((one[1:] - one[0]) * MINUS_TWO for one in (mask.f, mask.b))
    z[1:] = dealt.free("S")
    two_products(block.held["x"], f, block.held["e"], b, z[1:])
    z[1:] += (mask.squares[1:] - mask.squares[0])[:, None]
    return Blinded(z)


def sum_width(problem: Problem) -> int:
    """u: bits that hold the sum of a column over all rows, its sign, and one more; and a place in the table of
    reciprocals."""
    rows = problem.mass
    return max(rows.bit_length() + max(problem.half).bit_length() + 2, table_bits(rows))


@declared
def sums_material(rows: int, d: int, width: int, runs: tuple[Run, ...]) -> Material:
    """A mask for each run of rows, which is opened to their holders."""
    masks = {f"U {i}": Unpacked(rows, run.stop - run.start, width=width) for i, run in enumerate(runs)}
    to = {f"U {i}": run.holders for i, run in enumerate(runs)}
    return Material("sums", masks, {"UA": Packed(rows, d, width=width)}, to=to)


@metered("Sums")
def block_sums(me: Party, block: Block, h: Bulk, columns: int, width: int) -> Bulk:
    """[T] (k - 1, d) over Z_2^width, the sums of a block's rows by cluster, from [H] (k - 1, numbers); of weighted rows
    (k, d). One round.

    1. Dealt: [U] uniform, [U^T A].
    2. H - U, opened run by run to the parties that hold cells of these rows, and to nobody else.
    3. They compute (H - U)^T X in the clear; everybody adds [U]^T E + [U^T A].
    """
    rows, d, runs = len(h), columns, block.runs
    dealt = me.deal(sums_material(rows, d, width, runs))
    if me.deals:

        def deal() -> dict[str, Bulk]:
            product, a = np.zeros((rows, d), np.uint64), data_masks(me, block)
            for i, run in enumerate(runs):
                u = dealt.mask(f"U {i}")
                two_sums(NOTHING, u, a, u, run.start, product)
            return {"UA": product}

        dealt.bind(deal)()
        return NOTHING
    mask, x, e = np.uint64((1 << width) - 1), block.held["x"], block.held["e"]
    masks = [dealt.mask(f"U {i}") for i in range(len(runs))]
    openings = [
        start_opening(me, dealt.masked(f"U {i}", (h[:, run.start : run.stop] - u) & mask))
        for i, (run, u) in enumerate(zip(runs, masks, strict=True))
    ]
    opened = [receive() for receive in openings]
    total = dealt.bound("UA")
    for run, u, less_u in zip(runs, masks, opened, strict=True):
        two_sums(x if me.rank in run.holders else NOTHING, less_u, e, u, run.start, total)
    return total & mask
