"""What the helper deals: one-time material, through seeds, so that only corrections travel.

Masks are expanded from the stream that the helper and the party share. Of bound pieces, whose shares must add up to
something, all parties but one expand theirs, and that one receives the *correction*: the value less all other shares.
Parties take turns, by the bytes they have had. The correction is uniform to its receiver, even together with p - 2
other parties: an expansion it never sees is subtracted from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.errors import MaterialReused, ProtocolError
from coterie.randomness.material import Bits, Elements, Material, Piece, Raw
from coterie.randomness.streams import Streams
from coterie.ring import Array, Ring
from coterie.transport import Metered

__all__ = ["Dealing", "Dealt", "Masked"]


@dataclass(frozen=True, repr=False)
class Masked:
    """Shares in bulk, already blinded with a uniform one-time mask: the kernel that computes them adds it.

    Made where one-time material is given out, and nowhere else: by what was dealt for its masks, for the data by
    their owner's lasting mask, and where a protocol blinds its message to the dealer. A test lists the places.
    `piece`, `to`: how and to whom it may be sent, as declared.
    """

    array: NDArray[Any]
    piece: Piece
    to: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if self.array.size != self.piece.count:
            raise ProtocolError(f"{self.array.size} values are not the {self.piece.count} that were declared")


class Dealing:
    """The dealing of one session, seen from one role. All roles deal the same materials in one order."""

    def __init__(self, channel: Metered, streams: Streams, turn: int = 0) -> None:
        self.channel, self.streams = channel, streams
        self.rank, self.servers = channel.rank, channel.world.servers
        self._received = dict.fromkeys(self.servers, 0)
        self._received[self.servers[turn % len(self.servers)]] = -1  # whose turn is first

    def deal(self, material: Material) -> Dealt:
        """The material of a step, at this role; what is bound has to be received by one of the parties."""
        return Dealt(self, material)

    def next_receiver(self, size: int) -> int:
        """Who receives a correction of so many bytes: the party that has received the fewest."""
        least = min(self._received, key=self._received.__getitem__)
        self._received[least] += size
        return least


class Dealt:
    """The material of one step at one role, each piece of it given once.

    At a data party `mask` and `bound` give its shares. At the helper `mask` gives what the shares add up to, and
    `bind` makes all shares of the bound pieces add up to the values it is given.
    """

    __slots__ = ("_correction", "_from", "_given", "_masks", "_others", "_receiver", "material")

    def __init__(self, dealing: Dealing, material: Material) -> None:
        self.material, self._from = material, dealing
        self._receiver = dealing.next_receiver(material.bound_bytes) if material.bound else 0
        self._given: set[str] = set()
        #: Shares of all masks; shares of all bound pieces: this party's own or, at the helper, the non-receivers'.
        self._masks: list[Raw] = []
        self._others: list[Raw] = []
        for j in (dealing.rank,) if dealing.rank else dealing.servers:
            stream = dealing.streams.dealt_run(j)
            self._masks.append(material.draw_masks(stream))
            if material.bound and j != self._receiver:
                self._others.append(material.draw_bound(stream))
        if material.bound and not dealing.rank:
            self._correction = self._others[0]  # it takes the place of one of the others' shares
        elif self._receiver == dealing.rank != 0:
            self._others = [dealing.channel.receive(0, np.uint8, (material.bound_bytes,))[0]]

    def __repr__(self) -> str:
        return f"Dealt({self.material.purpose})"

    def __reduce__(self) -> str:
        raise TypeError("dealt material cannot be pickled")

    def mask(self, name: str) -> Array:
        """A mask: this party's share or, at the helper, the value."""
        return self._give(name, self._piece(name, self.material.masks), self._masks)

    def masked(self, name: str, blinded: Array) -> Masked:
        """What a kernel has blinded with a mask, which masks nothing else."""
        masked = Masked(blinded, self._piece(name, self.material.masks), self.material.to)
        if name not in self._given or f"mask {name}" in self._given:
            raise MaterialReused(f"{name} of {self.material.purpose} masks one value, once")
        self._given.add(f"mask {name}")
        return masked

    def hide(self, name: str, ring: Ring, share: Array) -> Masked:
        """A share less a mask over the same ring, of the same shape."""
        piece = self._piece(name, self.material.masks)
        if not isinstance(piece, Elements) or piece.ring != ring or piece.shape != share.shape:
            raise ProtocolError(f"{name} of {self.material.purpose} does not fit a value of shape {share.shape}")
        return self.masked(name, ring.sub(share, self.mask(name)))

    def bound(self, name: str) -> Array:
        """This party's share of a bound piece."""
        if not self._from.rank:
            raise ProtocolError(f"the helper has no share of {name} of {self.material.purpose}")
        return self._give(name, self._piece(name, self.material.bound), self._others)

    def target(self, name: str) -> Array:
        """At the helper: the XOR of the shares that others have of a piece, in the place of the receiver's: XOR
        the value into it, before `bind`."""
        self._at_helper()
        piece, place = self._piece(name, self.material.bound), self.material.places[name]
        if not isinstance(piece, Bits):
            raise ProtocolError(f"{name} of {self.material.purpose} adds up otherwise")
        self._once(name)
        mine = piece.view(self._correction[place])
        for other in self._others[1:]:
            mine ^= piece.view(other[place])
        return mine

    def bind(self, values: Mapping[str, Array]) -> None:
        """At the helper: send the correction, with which the shares of each bound piece add up to its value."""
        self._at_helper()
        for name, value in values.items():
            piece, place = self._piece(name, self.material.bound), self.material.places[name]
            self._once(name)
            piece.correct(value, [other[place] for other in self._others], self._correction[place])
        missing = [name for name in self.material.bound if name not in self._given]
        if missing:
            raise ProtocolError(f"{missing[0]} of {self.material.purpose} was not dealt")
        self._once("the correction")
        self._from.channel.send(self._receiver, self._correction, dealt=not self.material.answer)

    def _at_helper(self) -> None:
        if self._from.rank:
            raise ProtocolError(f"only the helper knows what adds up in {self.material.purpose}")

    def _piece(self, name: str, pieces: Mapping[str, Piece]) -> Piece:
        if name not in pieces:
            kind = "mask" if pieces is self.material.masks else "bound piece"
            raise ProtocolError(f"{name} of {self.material.purpose} is no {kind}")
        return pieces[name]

    def _give(self, name: str, piece: Piece, shares: list[Raw]) -> Array:
        self._once(name)
        place = self.material.places[name]
        return piece.total([share[place] for share in shares])

    def _once(self, name: str) -> None:
        if name in self._given:
            raise MaterialReused(f"{name} of {self.material.purpose} was used before")
        self._given.add(name)
