"""What the gate refuses to open."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.errors import ProtocolError
from coterie.randomness import Dealt, Material
from coterie.randomness.material import Elements
from coterie.ring import Words
from coterie.sharing import Party, open_masked
from tests.security.primitives import shared
from tests.support import run


def refusal_at(role) -> None:
    """The role must refuse, at P1, before anything of it has been sent."""

    def refused(me: Party) -> None:
        if not me.deals:
            with pytest.raises(ProtocolError):
                role(me)

    ran = run(2, refused)
    assert all(recording.frames == [] for recording in ran.recordings)


def mask(me: Party, ring: Words, count: int) -> Dealt:
    return me.deal(Material("a mask", {"m": Elements(ring, count)}))


def test_a_mask_of_another_shape_is_refused():
    refusal_at(lambda me: open_masked(me, mask(me, Words(4), 1), m=shared(me, Words(4), np.zeros(4))))


def test_a_mask_of_another_ring_is_refused():
    refusal_at(lambda me: open_masked(me, mask(me, Words(5), 4), m=shared(me, Words(4), np.zeros(4))))


def test_what_is_dealt_but_not_uniform_is_no_mask():
    """Shares of a number that somebody could know, such as zero, hide nothing once they are added up."""

    def role(me: Party) -> None:
        x = shared(me, Words(4), np.full(4, 3))
        dealt = me.deal(Material("zero", bound={"zero": Elements(Words(4), 4)}))
        if me.deals:
            dealt.bind(lambda: {"zero": np.zeros(4, np.uint64)})
        else:
            with pytest.raises(ProtocolError):
                open_masked(me, dealt, zero=x)

    run(2, role)
