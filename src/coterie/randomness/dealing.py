"""What the helper deals: one-time material, through seeds, so that only corrections travel.

Masks are expanded from the stream that the helper and the party share. Of bound pieces, whose shares must add up to
something, all parties but one expand theirs, and that one receives the *correction*: the value less all other shares.
Parties take turns, by the bytes they have had. The correction is uniform to its receiver, even together with p - 2
other parties: an expansion it never sees is subtracted from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from coterie.errors import MaterialReused, ProtocolError
from coterie.randomness.material import Bits, Elements, Material, Piece, Pieces, Raw
from coterie.randomness.streams import Streams
from coterie.ring import Array, Ring
from coterie.transport import Metered
from coterie.transport.metering import Due, no_wait

__all__ = ["Dealing", "Dealt", "Masked"]


@dataclass(frozen=True, repr=False)
class Masked:
    """Shares in bulk, already blinded with a uniform one-time mask: the kernel that computes them adds it.

    Made where one-time material is given out, and nowhere else: by what was dealt for its masks, for the data by
    their owner's lasting mask, and where a protocol blinds its message to the dealer. A test lists the places.
    `piece`, `to`: how and to whom it may be sent, as declared; `collected`: by way of collectors.
    """

    array: NDArray[Any]
    piece: Piece
    to: Sequence[int] | None = None
    collected: bool = False

    def __post_init__(self) -> None:
        if self.array.size != self.piece.count:
            raise ProtocolError(f"{self.array.size} values are not the {self.piece.count} that were declared")


class Dealing:
    """The dealing of one session, seen from one role. All roles deal the same materials in one order."""

    def __init__(self, channel: Metered, streams: Streams, turn: int = 0) -> None:
        self.channel, self.streams = channel, streams
        self.rank, self.servers = channel.rank, channel.world.servers
        #: Whose streams are expanded here.
        self.expanded = (self.rank,) if self.rank else tuple(self.servers)
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

    At a data party `mask`, `free` and `bound` give its shares. At the helper `mask` and `free` give what the shares add
    up to, and `bind` makes all shares of the bound pieces add up to the values it is given.
    """

    __slots__ = (
        "_collected", "_due", "_free", "_from", "_given", "_masked", "_masks", "_others", "_receiver", "material",
    )  # fmt: skip

    def __init__(self, dealing: Dealing, material: Material) -> None:
        self.material, self._from = material, dealing
        bound = material.bound
        self._receiver = receiver = dealing.next_receiver(bound.bytes) if bound else 0
        #: What was given, and the masks that have masked something.
        self._given: set[str] = set()
        self._masked: set[str] = set()
        least = dealing.channel.collect_from
        self._collected = material.collected(len(dealing.servers), least) if least else None
        #: Shares of all masks and free pieces; shares of all bound pieces: this party's own or, at the helper, the
        #: non-receivers'. What this party receives is `due`.
        self._masks: list[Raw] = []
        self._free: list[Raw] = []
        self._others: list[Raw] = []
        self._due: Due | None = None
        for j in dealing.expanded:
            stream, expands = dealing.streams.dealt_run(j), bool(bound) and j != receiver
            if material.in_one_run:
                last = material.seeded
                run = stream.read(last + bound.bytes if expands else last)
                self._masks.append(run)
                self._free.append(run[material.masks.bytes :])
                if expands:
                    self._others.append(run[last:])
                continue
            self._masks.append(material.masks.draw(stream))
            self._free.append(material.free.draw(stream))
            if expands:
                self._others.append(bound.draw(stream))
        if bound and receiver == dealing.rank:
            self._due = dealing.channel.expect(bound.bytes)

    def __repr__(self) -> str:
        return f"Dealt({self.material.purpose})"

    def __reduce__(self) -> str:
        raise TypeError("dealt material cannot be pickled")

    def mask(self, name: str) -> Array:
        """A mask: this party's share or, at the helper, the value."""
        return self._give(name, self.material.masks, self._masks)

    def free(self, name: str) -> Array:
        """Noise: this party's share or, at the helper, the value."""
        return self._give(name, self.material.free, self._free)

    def masked(self, name: str, blinded: Array) -> Masked:
        """What a kernel has blinded with a mask, which masks nothing else, or with noise of an earlier step."""
        material = self.material
        if name not in material.opened:
            raise ProtocolError(f"{material.purpose} does not open {name}")
        masked = Masked(blinded, material.opened[name], material.to.get(name), name == self._collected)
        if (name in material.masks and name not in self._given) or name in self._masked:
            raise MaterialReused(f"{name} of {material.purpose} masks one value, once")
        self._masked.add(name)
        return masked

    def hide(self, name: str, ring: Ring, share: Array) -> Masked:
        """A share less a mask over the same ring, of the same shape."""
        piece = self.material.masks[name]
        if not isinstance(piece, Elements) or piece.ring != ring or piece.shape != share.shape:
            raise ProtocolError(f"{name} of {self.material.purpose} does not fit a value of shape {share.shape}")
        return self.masked(name, ring.sub(share, self.mask(name)))

    def bound(self, name: str) -> Array:
        """This party's share of a bound piece."""
        if not self._from.rank:
            raise ProtocolError(f"the helper has no share of {name} of {self.material.purpose}")
        if self._due is not None:
            self._others, self._due = [self._due.take()], None
        return self._give(name, self.material.bound, self._others)

    def target(self, name: str) -> Array:
        """At the helper: the XOR of the shares that others have of a piece, in the place of the receiver's: XOR
        the value into it, before `bind`."""
        piece, (mine, *others) = self._to_correct(name)
        if not isinstance(piece, Bits):
            raise ProtocolError(f"{name} of {self.material.purpose} adds up otherwise")
        place = piece.read(mine)
        for other in others:
            place ^= piece.read(other)
        return place

    def bind(self, values: Callable[[], Mapping[str, Array]]) -> Callable[[], None]:
        """At the helper: send the correction, with which the shares of each bound piece add up to its value. What is
        given computes the values; a step that binds nothing has no correction.

        Call what is returned where a party receives what the step opens. The helper waits for nothing there, but other
        tasks have their turn, as they have at the parties; and a dry run (`planning/dry_run.py`), which computes no
        values either, counts the rounds."""
        for name, value in values().items():
            piece, others = self._to_correct(name)
            piece.correct(value, others, others[0])
        missing = [name for name in self.material.bound if name not in self._given]
        if missing or self._from.rank:
            raise ProtocolError(f"not all of {self.material.purpose} is there to be dealt: {missing}")
        self._once("the correction")
        if self.material.bound:
            self._from.channel.send(self._receiver, self._others[0], dealt=not self.material.answer)
        return self._turns() if self.material.opened else no_wait

    def _turns(self) -> Callable[[], None]:
        """At the helper: call what is returned where parties receive what the step opens."""
        turns, rounds = self._from.channel.turns, self.material.rounds + (self._collected is not None)
        first = turns.begin_round()

        def pass_rounds() -> None:
            first()
            for _ in range(rounds - 1):
                turns.begin_round()()

        return pass_rounds

    def _to_correct(self, name: str) -> tuple[Piece, list[Raw]]:
        """At the helper: a piece and what others have of it; the correction takes the place of the first."""
        if self._from.rank:
            raise ProtocolError(f"only the helper knows what {name} of {self.material.purpose} adds up to")
        found = self.material.bound.cut(name, self._others)
        self._once(name)
        return found

    def _give(self, name: str, pieces: Pieces, shares: list[Raw]) -> Array:
        self._once(name)
        return pieces.total(name, shares)

    def _once(self, name: str) -> None:
        if name in self._given:
            raise MaterialReused(f"{name} of {self.material.purpose} was used before")
        self._given.add(name)
