"""Into and out of additive shares of 64-bit words: for every family that keeps numbers that way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coterie.protocols.interface import Ints, Part
from coterie.ring import Array, Words
from coterie.sharing import Party, Shared, open_parts, zero_shares

__all__ = ["WORDS", "contributed", "known", "opened"]

WORDS = Words(64)


def contributed(me: Party, own: Ints | None, shape: tuple[int, ...]) -> Shared:
    """What a party holds is its share; a fresh sharing of zero on top makes every share uniform."""
    if me.deals:
        return me.hollow(WORDS, shape)
    share = WORDS.zeros(shape) if own is None else WORDS.encode(own)
    return me.shared(WORDS, WORDS.add(share, zero_shares(me, WORDS, shape, "input")))


def known(me: Party, values: Ints) -> Shared:
    """A value that the data parties all know: P1's share is the value."""
    if me.deals:
        return me.hollow(WORDS, np.shape(values))
    return me.shared(WORDS, WORDS.encode(values) if me.lead else WORDS.zeros(np.shape(values)))


def opened(me: Party, value: Shared, parts: Sequence[Part], what: str, reason: str) -> list[Array | None]:
    """Parts of a value, each to its ranks, as ring elements."""
    return open_parts(me, [(value[part.index], part.to, part.detail) for part in parts], what, reason)
