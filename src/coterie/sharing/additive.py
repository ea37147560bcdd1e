"""How additive shares come together, masked or permitted by the gate, and the zero-sharings that keep a share from
saying more than the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from coterie.randomness import Dealt, Masked
from coterie.randomness.material import Elements
from coterie.ring import Array, Ring
from coterie.sharing.collecting import begin_collecting
from coterie.sharing.party import Party
from coterie.sharing.shared import Shared

__all__ = [
    "bring_together",
    "broadcast_masked",
    "open_masked",
    "receive_masked",
    "send_to_dealer",
    "start_opening",
    "take_as_dealer",
    "zero_shares",
]

Shape = tuple[int, ...]


def zero_shares(me: Party, ring: Ring, shape: Shape, purpose: str) -> Array:
    """A fresh share of zero over `ring`: for every pair of data parties one adds what the other subtracts.

    The helper knows none of it, and p - 1 data parties together cannot tell the last one's share from
    a uniform one beyond what the sum says.
    """
    share = ring.zeros(shape)
    for other in me.world.servers:
        if other != me.rank:
            common = ring.sample(me.streams.pair(other, f"zero for {purpose}"), shape)
            share = ring.add(share, common) if me.rank < other else ring.sub(share, common)
    return share


def open_masked(me: Party, dealt: Dealt, **values: Shared) -> list[Array]:
    """Open x - a to all data parties for each value x and the dealt mask a of that name, in one round; the helper
    takes no part. The mask is over x's ring, of x's shape, and consumed here, so that what is opened is uniform and
    independent of x: it is no disclosure."""
    hidden = [dealt.hide(name, x.ring, x.share) for name, x in values.items()]
    openings = [start_opening(me, one) for one in hidden]
    return [receive() for receive in openings]


def start_opening(me: Party, masked: Masked) -> Callable[[], Array]:
    """Open blinded shares, in the way and to those that the step declares.

    Sends at once, so that several openings share a round; call what is returned to receive the sum, which may be added
    up in the given array. One round; two by way of collectors.
    """
    arrive = me.channel.turns.begin_round()
    add_up, finish = begin_collecting(me, masked) if masked.collected else (_begin(me, masked), None)
    if me.channel.collect_from:
        add_up = me.channel.in_order(add_up)

    def receive() -> Array:
        arrive()
        total = add_up()
        return total if finish is None else finish(total)

    return receive


def _begin(me: Party, masked: Masked) -> Callable[[], Array]:
    """Directly: everybody sends its share to every recipient."""
    frame = masked.piece.pack(masked.array)
    sources = _send(me, frame, masked.to)

    def add_up() -> Array:
        total = masked.array
        for j in sources:
            total = masked.piece.add(total, me.channel.receive(j, frame.dtype, frame.shape)[0])
        return total

    return add_up


def send_to_dealer(me: Party, masked: Masked) -> None:
    """To a dealer that takes part in a protocol; its family declares that it is sent arrays."""
    me.channel.send(0, masked.array)


def take_as_dealer(me: Party, piece: Elements) -> list[Array]:
    """What everybody who serves has sent to the dealer, in the order of ranks."""
    me.channel.others_send([(me.world.servers, [me.rank], piece.wire)])()
    return [me.channel.receive(j, piece.ring.dtype, piece.shape)[0] for j in me.world.servers]


def broadcast_masked(me: Party, masked: Masked) -> None:
    """What this party holds and has blinded with a mask of its own, to all other data parties."""
    _send(me, masked.array, None)


def receive_masked(me: Party, owner: int, count: int) -> NDArray[np.uint64]:
    """What another party has broadcast."""
    return me.channel.receive(owner, np.uint64, (count,))[0]


def _send(me: Party, array: Array, to: Sequence[int] | None) -> list[int]:
    """Send to the recipients, and return from whom to receive: nobody, if this party is no recipient."""
    recipients = me.world.servers if to is None else to
    for j in recipients:
        if j != me.rank:
            me.channel.send(j, array)
    return [j for j in me.world.servers if j != me.rank] if me.rank in recipients else []


def bring_together(me: Party, parts: Sequence[tuple[Shared, Sequence[int]]], what: str) -> list[Array | None]:
    """Open each value to its ranks, which the gate has permitted. One round.

    Everybody who serves adds a fresh share of zero and sends its share to each recipient, who learns the sum and
    nothing more. Returns a value to its recipients, None to the others.
    """
    arrive = me.channel.turns.begin_round()
    if not me.serves:
        me.channel.others_send(
            [(me.world.servers, to, value.size * value.ring.dtype.itemsize) for value, to in parts]
        )()
        results = [_add_up(me, value, to, value.ring.zeros(value.shape)) for value, to in parts]
        arrive()  # whoever sends nothing receives at once, before what other tasks send in their turn
        return results
    own: list[Array] = []
    for value, to in parts:
        own.append(value.ring.add(value.share, zero_shares(me, value.ring, value.shape, f"opening {what}")))
        for j in to:
            if j != me.rank:
                me.channel.send(j, own[-1])
    arrive()
    return [_add_up(me, value, to, share) for (value, to), share in zip(parts, own, strict=True)]


def _add_up(me: Party, value: Shared, to: Sequence[int], own: Array) -> Array | None:
    """The sum of what everybody who serves has sent, and of this party's own share, to a recipient."""
    if me.rank not in to:
        return None
    total = own
    for j in me.world.servers:
        if j != me.rank:
            total = value.ring.add(total, me.channel.receive(j, value.ring.dtype, value.shape)[0])
    return total
