"""Labels as words, which count and add up: from bits, each times its row's weight where rows have weights
(docs/protocols/onetime.md#sums-and-counts)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from coterie.protocols.blocks import block_step
from coterie.protocols.interface import Ints
from coterie.protocols.onetime.bits import unpack_rows
from coterie.protocols.onetime.kernels import bits_to_words
from coterie.protocols.onetime.table import NOTHING, Block
from coterie.randomness.material import Bits, Elements, Material, Packed, declared
from coterie.ring import Bulk, Words
from coterie.sharing import Party, start_opening
from coterie.transport import metered

if TYPE_CHECKING:
    from coterie.protocols.onetime.family import OneTime

__all__ = ["WEIGHTS", "RowWeights", "block_words", "enter_weights", "words_of_bits"]

WEIGHTS = "weights"


class RowWeights(NamedTuple):
    """Of a block's rows (numbers,): this party's share, what is open of them less their mask, and its share of the
    mask; at the helper, the mask alone. `dealt`: the helper gives the weights, so that they are a mask by themselves
    and nothing needs to be opened of them."""

    share: Bulk
    less_mask: Bulk
    mask: Bulk
    dealt: bool = False


@declared
def words_material(rows: int, numbers: int, width: int) -> Material:
    """Masks of bits, and the same as words."""
    masks, bound = {"rho": Bits(rows, numbers // 64)}, {"rho words": Packed(rows, numbers, width=width)}
    return Material("bits to words", masks, bound)


@metered("BitsToWords")
def words_of_bits(me: Party, packed: Bulk, rows: int, numbers: int, width: int) -> Bulk:
    """[b] (rows, numbers) over Z_2^width from <b>, 64 a word. One round.

    Dealt: <rho> uniform, [rho] as words; open b XOR rho; the rest is linear.
    """
    dealt = me.deal(words_material(rows, numbers, width))
    if me.deals:
        dealt.bind(lambda: {"rho words": unpack_rows(dealt.mask("rho"), numbers).astype(np.uint64)})()
        return np.empty((rows, 0), np.uint64)
    rho = dealt.mask("rho")
    beta = start_opening(me, dealt.masked("rho", packed ^ rho))()
    out = np.empty((rows, numbers), np.uint64)
    mask = np.uint64((1 << width) - 1)
    bits_to_words(beta.reshape(-1), dealt.bound("rho words").reshape(-1), mask, np.uint64(me.lead), out.reshape(-1))
    return out


def block_words(me: Party, hot: Bulk, block: Block, clusters: int, width: int) -> Bulk:
    """[H] (k - 1, numbers): all clusters but the last, which follows from them; or of weighted rows [a H] (k, numbers).
    Padding rows count nothing."""
    if WEIGHTS in block.held:
        return weighed_words(me, hot, block, clusters, width)
    out = words_of_bits(me, hot[: clusters - 1], clusters - 1, block.numbers, width)
    out[:, len(block.rows) :] = 0
    return out


@declared
def weights_material(numbers: int) -> Material:
    return Material("row weights", {"alpha": Elements(Words(64), numbers)})


@block_step
def enter_weights(family: OneTime, block: Block) -> None:
    """[a] (numbers,), the weights of a block's rows, and the mask that they have for life: E = a - alpha is open among
    the data parties. One round; none where the helper gives the weights, who takes them for alpha."""
    me, own = family.me, block.held.pop("own weights")
    if own is not None:
        own = np.concatenate([own, np.zeros(block.numbers - len(own), np.int64)])
    if family.problem.weigher == "dealer":
        block.held[WEIGHTS] = _weights_of_dealer(family, block.numbers, own)
        return
    weights = family.enter(own, (block.numbers,))
    dealt = me.deal(weights_material(block.numbers))
    if me.deals:
        dealt.bind(dict)()
        block.held[WEIGHTS] = RowWeights(NOTHING, NOTHING, dealt.mask("alpha"))
        return
    alpha = dealt.mask("alpha")
    opened = start_opening(me, dealt.masked("alpha", weights.share - alpha))()
    block.held[WEIGHTS] = RowWeights(weights.share, opened, alpha)


def _weights_of_dealer(family: OneTime, numbers: int, own: Ints | None) -> RowWeights:
    share = family.enter_dealt(own, (numbers,))
    if not family.me.deals:
        return RowWeights(share.share, np.zeros(numbers, np.uint64), share.share, True)
    mask = np.zeros(numbers, np.uint64) if own is None else own.view(np.uint64)
    return RowWeights(NOTHING, NOTHING, mask, True)


@declared
def weighed_words_material(rows: int, numbers: int, width: int, dealt: bool) -> Material:
    """Masks of bits, the same times the mask of the rows' weights and, unless the weights are dealt, as words."""
    words = Packed(rows, numbers, width=width)
    bound = {"rho alpha": words} if dealt else {"rho words": words, "rho alpha": words}
    return Material("weighed bits", {"rho": Bits(rows, numbers // 64)}, bound)


@metered("BitsToWords")
def weighed_words(me: Party, packed: Bulk, block: Block, rows: int, width: int) -> Bulk:
    """[a b] (rows, numbers) over Z_2^width from <b>, 64 a word, and the weights of the block's rows. One round.

    1. Dealt: <rho> uniform, [rho] and [rho alpha] as words.
    2. Open D = b XOR rho. Then a b = D a + (1 - 2 D) a rho, and a rho = E rho + alpha rho. Where the weights are dealt,
       E = 0, and [rho] is not needed.
    """
    numbers, weights = block.numbers, block.held[WEIGHTS]
    dealt = me.deal(weighed_words_material(rows, numbers, width, weights.dealt))
    if me.deals:

        def deal() -> dict[str, Bulk]:
            rho = unpack_rows(dealt.mask("rho"), numbers).astype(np.uint64)
            return {"rho alpha": rho * weights.mask} | ({} if weights.dealt else {"rho words": rho})

        dealt.bind(deal)()
        return np.empty((rows, 0), np.uint64)
    rho = dealt.mask("rho")
    opened = unpack_rows(start_opening(me, dealt.masked("rho", packed ^ rho))(), numbers).astype(np.uint64)
    masked = dealt.bound("rho alpha")
    if not weights.dealt:
        masked = masked + weights.less_mask * dealt.bound("rho words")
    out: Bulk = opened * weights.share + (np.uint64(1) - np.uint64(2) * opened) * masked
    return out & np.uint64((1 << width) - 1)
