"""A role in a session: what it is, and blocks of work side by side."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.randomness import Material
from coterie.randomness.material import Elements
from coterie.ring import Words
from coterie.runtime.threads import run_threads
from coterie.sharing import Party, open_masked
from coterie.transport import Traffic
from tests.support import SeededEntropy, run, world

WORDS = Words(64)


def test_roles():
    ran = run(3, lambda me: (me.rank, me.deals, me.lead, me.world.p))
    assert ran.results == [(0, True, False, 3), (1, False, True, 3), (2, False, False, 3), (3, False, False, 3)]


def test_a_value_is_a_share_at_a_party_and_a_shape_at_the_helper():
    def role(me: Party) -> tuple[bool, tuple[int, ...], bool]:
        mask = me.deal(Material("a test", {"m": Elements(WORDS, 2, 3)})).mask("m")
        value = me.hollow(WORDS, mask.shape) if me.deals else me.shared(WORDS, mask)
        return value.is_hollow, value.shape, value.adds[0]

    assert run(2, role).results == [(True, (2, 3), False), (False, (2, 3), True), (False, (2, 3), False)]


def masked_block(me: Party, block: int) -> tuple[int, bytes]:
    """A round of its own for every block: open a masked number."""
    dealt = me.deal(Material("a test", {"m": Elements(WORDS, 4)}))
    if me.deals:
        return block, dealt.mask("m").tobytes()
    x = me.shared(WORDS, np.full(4, block, np.uint64) if me.lead else WORDS.zeros((4,)))
    (opened,) = open_masked(me, dealt, m=x)
    return block, WORDS.sub(x.share * 0 + np.uint64(block), opened).tobytes()


def in_blocks(lanes: int, count: int) -> tuple[list[list[tuple[int, bytes]]], Traffic]:
    def role(me: Party):
        return me.in_blocks(count, masked_block)(), me.channel.traffic()

    ran = run_threads(world(2), role, entropy=lambda rank: SeededEntropy(0, rank), lanes=lanes)
    return [blocks for blocks, _ in ran], Traffic.together([traffic for _, traffic in ran])


@pytest.mark.parametrize("lanes", [0, 1, 2, 3])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_blocks_come_back_in_order_with_masks_of_their_own_and_count_once(lanes, count):
    results, traffic = in_blocks(lanes, count)
    helper = results[0]
    assert [block for block, _ in helper] == list(range(count))
    assert len({mask for _, mask in helper}) == count
    assert results[1] == results[2] == helper
    assert (traffic.rounds, traffic.messages) == (1, 2 * count)


def test_lanes_change_nothing_but_the_time():
    assert in_blocks(0, 5)[0] == in_blocks(2, 5)[0]
