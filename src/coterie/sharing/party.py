"""One role in a session: what a protocol needs to run at it."""

from __future__ import annotations

from dataclasses import dataclass, field

from coterie.randomness import Dealing, Dealt, Entropy, Streams, agree
from coterie.ring import Array, Ring
from coterie.sharing.ledger import Ledger
from coterie.sharing.shared import Shared, hollow
from coterie.transport import Channel, Metered, World

__all__ = ["Party", "join"]

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Party:
    """P0 (the helper) or one of P1..Pp, with its channel, its randomness and its ledger."""

    channel: Metered
    streams: Streams
    dealt: Dealing
    ledger: Ledger = field(default_factory=Ledger)

    @property
    def world(self) -> World:
        return self.channel.world

    @property
    def rank(self) -> int:
        return self.channel.rank

    @property
    def is_helper(self) -> bool:
        return self.rank == 0

    @property
    def lead(self) -> bool:
        """P1, who adds public values."""
        return self.rank == 1

    def shared(self, ring: Ring, share: Array) -> Shared:
        """This role's end of a shared value."""
        return Shared(ring, share, self.lead)

    def hollow(self, ring: Ring, shape: Shape) -> Shared:
        """The helper's end of a shared value."""
        return Shared(ring, hollow(shape), False)

    def taken(self, material: Dealt) -> Shared:
        """Dealt material as a shared value, consumed."""
        if self.is_helper:
            return self.hollow(material.ring, material.shape)
        return self.shared(material.ring, material.take())


def join(channel: Channel, entropy: Entropy) -> Party:
    """Take part in the session that a channel belongs to: agree on secrets, then start counting."""
    streams = agree(channel, entropy)
    counting = Metered(channel)
    return Party(counting, streams, Dealing(counting, streams))
