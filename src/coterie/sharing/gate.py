"""The gate: who may learn what and why, and the log of it. All openings of all families pass here.

How shares come together afterwards is the sharing scheme's affair (`additive.py`). Besides what this gate permits,
only values that a fresh uniform mask hides ever leave a role (`Masked`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coterie.errors import ProtocolError
from coterie.randomness.material import Elements
from coterie.ring import Words
from coterie.sharing.party import Party

__all__ = ["WIDE", "open_wide", "permit", "tell_dealer"]

#: A whole number modulo 2^128 on the wire.
WIDE = Elements(Words(64), 2)


def permit(me: Party, what: str, to: Sequence[int], reason: str, detail: str = "") -> None:
    """Write an opening into the log, before anything of it is sent; raises if it may not be."""
    me.ledger.record(what, tuple(me.world.names[j] for j in to), reason, detail)


def tell_dealer(me: Party, bit: bool | None) -> bool:
    """A bit that was opened to all players, to the dealer, who is permitted to know it: from P1, by a note."""
    if me.deals:
        return me.channel.hear(1)
    if bit is None:
        raise ProtocolError("there is no bit to tell the dealer")
    if me.lead:
        me.channel.tell(0, bit)
    me.channel.turns.be_silent()
    return bit


def open_wide(me: Party, part: int, what: str, reason: str) -> int | None:
    """Open the sum of one whole number per owner to all of them, modulo 2^128; logged. One round.

    For totals too large for the ring, such as the inertia of millions of rows. Zero-sharing is over
    Z_2^128, so that only the sum is learnt.
    """
    to = list(me.world.owners)
    permit(me, what, to, reason)
    arrive = me.channel.turns.begin_round()
    if not me.owns:
        me.channel.others_send([(to, to, WIDE.wire)])()
        arrive()
        return None
    for j in to:
        if j != me.rank:
            pad = int.from_bytes(me.streams.pair(j, f"zero for opening {what}").read(WIDE.bytes).tobytes(), "little")
            part += pad if me.rank < j else -pad
    raw = np.frombuffer((part % (1 << 128)).to_bytes(WIDE.bytes, "little"), WIDE.ring.dtype)
    total = part
    for j in to:
        if j != me.rank:
            me.channel.send(j, raw)
    arrive()
    for j in to:
        if j != me.rank:
            total += int.from_bytes(me.channel.receive(j, WIDE.ring.dtype, WIDE.shape)[0].tobytes(), "little")
    total %= 1 << 128
    return total - (1 << 128) if total >> 127 else total
