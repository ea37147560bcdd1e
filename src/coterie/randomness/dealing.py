"""What the helper deals: one-time material, through seeds, so that only corrections travel.

A share that is merely random is expanded from the seed that the helper and the party share. Where the
shares must add up to something, all parties but one expand, and that one receives the *correction*:
the value less all other shares. Parties take turns, by the bytes they have had. The correction is uniform
to its receiver, even together with p - 2 other parties: an expansion it never sees is subtracted from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from coterie.errors import MaterialReused, ProtocolError
from coterie.randomness.streams import Streams
from coterie.ring import Array, Prime, Ring
from coterie.ring.kernels import bits_minus
from coterie.transport import Metered

__all__ = ["Dealing", "Dealt"]

Shape = tuple[int, ...]
Value = Callable[[], Array]


class Dealt:
    """Dealt material: a share at a data party, which can be taken once; the value at the helper."""

    __slots__ = ("_share", "_value", "is_uniform", "purpose", "ring", "shape")

    def __init__(
        self,
        ring: Ring,
        shape: Shape,
        purpose: str,
        share: Array | None,
        value: Array | None,
        is_uniform: bool = False,
    ) -> None:
        self.ring, self.shape, self.purpose, self.is_uniform = ring, shape, purpose, is_uniform
        self._share, self._value = share, value

    def take(self) -> Array:
        """The share, at a data party, once."""
        if self._share is None:
            raise MaterialReused(f"dealt material for {self.purpose} was used before, or is not for this role")
        share, self._share = self._share, None
        return share

    @property
    def value(self) -> Array:
        """What the shares add up to; the helper alone knows."""
        if self._value is None:
            raise ProtocolError(f"only the helper knows what was dealt for {self.purpose}")
        return self._value

    def __repr__(self) -> str:
        return f"Dealt({self.purpose}, shape={self.shape})"

    def __reduce__(self) -> str:
        raise TypeError("dealt material cannot be pickled")


class Dealing:
    """The dealing of one session, seen from one role. All roles call the same methods in one order."""

    def __init__(self, channel: Metered, streams: Streams, turn: int = 0) -> None:
        self.channel, self.streams = channel, streams
        self.rank, self.p = channel.rank, channel.world.p
        self._received = [0] * self.p
        self._received[turn % self.p] = -1  # whose turn is first

    def uniform(self, ring: Ring, shape: Shape, purpose: str) -> Dealt:
        """[a] for a uniform a. Costs no traffic."""
        if self.rank:
            return Dealt(ring, shape, purpose, self._expand(self.rank, ring, shape, purpose), None, True)
        value = ring.zeros(shape)
        for j in range(1, self.p + 1):
            value = ring.add(value, self._expand(j, ring, shape, purpose))
        return Dealt(ring, shape, purpose, None, value, True)

    def shares_of(
        self, ring: Ring, shape: Shape, purpose: str, value: Value | None = None, *, answer: bool = False
    ) -> Dealt:
        """[v] for a v that the helper computes (`value` is called there and nowhere else).

        `answer`: v follows from what the helper has received, so that somebody waits for it.
        """

        def correction(others: list[Array]) -> Array:
            rest = _dealt_value(value, purpose)
            for share in others:
                rest = ring.sub(rest, share)
            return rest

        return self._corrected(ring, shape, purpose, correction, answer)

    def bit_shares_of(
        self,
        field: Prime,
        count: int,
        width: int,
        purpose: str,
        value: Value | None = None,
        *,
        answer: bool = False,
    ) -> Dealt:
        """Shares over Z_q of the bits of `count` words that the helper knows, lowest bit first."""

        def correction(others: list[Array]) -> Array:
            out = np.empty((count, width), np.uint8)
            bits_minus(_dealt_value(value, purpose), np.stack(others), field.q, out)
            return out

        return self._corrected(field, (count, width), purpose, correction, answer)

    def next_receiver(self, size: int) -> int:
        """Who receives a correction of so many bytes: the party that has received the fewest."""
        least = min(range(self.p), key=self._received.__getitem__)
        self._received[least] += size
        return least + 1

    def _corrected(
        self, ring: Ring, shape: Shape, purpose: str, correction: Callable[[list[Array]], Array], answer: bool
    ) -> Dealt:
        receiver = self.next_receiver(math.prod(shape) * ring.dtype.itemsize)
        if self.rank == receiver:
            share, _ = self.channel.receive(0, ring.dtype, shape)
        elif self.rank:
            share = self._expand(self.rank, ring, shape, purpose)
        else:
            others = [self._expand(j, ring, shape, purpose) for j in range(1, self.p + 1) if j != receiver]
            self.channel.send(receiver, correction(others), dealt=not answer)
            return Dealt(ring, shape, purpose, None, None)
        return Dealt(ring, shape, purpose, share, None)

    def _expand(self, party: int, ring: Ring, shape: Shape, purpose: str) -> Array:
        return ring.sample(self.streams.dealt(party, purpose), shape)


def _dealt_value(value: Value | None, purpose: str) -> Array:
    if value is None:
        raise ProtocolError(f"the helper has nothing to deal for {purpose}")
    return value()
