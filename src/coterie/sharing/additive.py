"""How additive shares come together, masked or permitted by the gate, and the zero-sharings that keep a share from
saying more than the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from coterie.errors import ProtocolError
from coterie.randomness import Dealt
from coterie.ring import Array, Ring
from coterie.ring.packing import add_packed, pack, packed_bytes, wire_size
from coterie.sharing.party import Party
from coterie.sharing.shared import Shared

__all__ = [
    "Masked",
    "bring_together",
    "broadcast_masked",
    "open_bits",
    "open_masked",
    "open_words",
    "receive_masked",
    "send_to_dealer",
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


def open_masked(me: Party, *masked: tuple[Shared, Dealt]) -> list[Array]:
    """Open x - a to all data parties for each (x, a), in one round; the helper takes no part.

    `a` is a dealt uniform mask of x's shape, consumed here, so that what is opened is uniform and
    independent of x: it is no disclosure.
    """
    shares = []
    for x, a in masked:
        if not a.is_uniform:
            raise ProtocolError(f"what was dealt for {a.purpose} is not uniform, so it is no mask")
        if x.shape != a.shape or x.ring != a.ring:
            raise ProtocolError(f"a mask of shape {a.shape} does not fit a value of shape {x.shape}")
        shares.append(x.ring.sub(x.share, a.take()))
    others = [j for j in me.world.servers if j != me.rank]
    for j in others:
        for share in shares:
            me.channel.send(j, share)
    totals = shares
    for j in others:
        received = [me.channel.receive(j, share.dtype, share.shape)[0] for share in shares]
        totals = [x.ring.add(total, part) for (x, _), total, part in zip(masked, totals, received, strict=True)]
    return totals


@dataclass(frozen=True, repr=False)
class Masked:
    """Shares in bulk, already blinded with a uniform one-time mask: the kernel that computes them adds it.

    Made where one-time material is given out, and nowhere else: by a step for its uniform parts, for the data by
    their owner's lasting mask, and where a protocol blinds its message to the dealer. A test lists the places.
    """

    array: NDArray[Any]


def send_to_dealer(me: Party, masked: Masked) -> None:
    """To a dealer that takes part in a protocol; its family declares that it is sent arrays."""
    me.channel.send(0, masked.array)


def take_as_dealer(me: Party, dtype: DTypeLike, shape: Shape) -> list[Array]:
    """What everybody who serves has sent to the dealer, in the order of ranks."""
    return [me.channel.receive(j, dtype, shape)[0] for j in me.world.servers]


def open_bits(me: Party, masked: Masked, to: Sequence[int] | None = None) -> Callable[[], NDArray[np.uint64]]:
    """Open blinded XOR shares of bits, to all data parties or to some of them.

    Sends at once, so that several openings share a round; call what is returned to receive the sum.
    """
    own = masked.array
    sources = _send(me, own, to)

    def receive() -> NDArray[np.uint64]:
        total = own
        for j in sources:
            total = total ^ me.channel.receive(j, np.uint64, own.shape)[0]
        return total

    return receive


def open_words(
    me: Party, masked: Masked, width: int, to: Sequence[int] | None = None
) -> Callable[[], NDArray[np.uint64]]:
    """Open blinded shares over Z_2^width, to all data parties or to some of them; as `open_bits`.

    The others' shares are added into the given array.
    """
    own, size, mask = masked.array.reshape(-1), wire_size(width), np.uint64((1 << width) - 1)
    packed = np.empty(packed_bytes(own.size, width), np.uint8)
    packed[own.size * size :] = 0
    pack(own, size, packed)
    sources = _send(me, packed, to)

    def receive() -> NDArray[np.uint64]:
        for j in sources:
            add_packed(own, me.channel.receive(j, np.uint8, packed.shape)[0], size, mask)
        return own.reshape(masked.array.shape)

    return receive


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
    own: list[Array] = []
    for value, to in parts:
        if not me.serves:
            own.append(value.ring.zeros(value.shape))
            continue
        own.append(value.ring.add(value.share, zero_shares(me, value.ring, value.shape, f"opening {what}")))
        for j in to:
            if j != me.rank:
                me.channel.send(j, own[-1])
    results: list[Array | None] = []
    for (value, to), total in zip(parts, own, strict=True):
        if me.rank not in to:
            results.append(None)
            continue
        for j in me.world.servers:
            if j != me.rank:
                total = value.ring.add(total, me.channel.receive(j, value.ring.dtype, value.shape)[0])
        results.append(total)
    return results
