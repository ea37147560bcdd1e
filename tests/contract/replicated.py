"""A family that lives in the tests alone: three servers with replicated shares, semi-honest, and nobody who deals.

x = s_0 + s_1 + s_2 over Z_2^w; server i holds s_i and s_(i+1). Owners who do not serve enter shares and receive
results. As slow as it likes: comparisons add up shares bit by bit (Araki et al., 2016, for the products).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from coterie.protocols.interface import Division, Ints, Kept, Part, Seats
from coterie.protocols.steps import Family
from coterie.ring import Array, Ring, Words
from coterie.sharing import Secret, Shared, shared, stack, zero_shares


class Xor(Ring):
    """Words of 64 bits under XOR and AND."""

    modulus, dtype = 1 << 64, np.dtype(np.uint64)  # type: ignore[assignment]

    def add(self, a: Array, b: Array) -> Array:
        return a ^ b

    sub = add

    def mul(self, a: Array, b: Array) -> Array:
        return a & b

    def sum(self, a: Array, axis: int) -> Array:
        return np.bitwise_xor.reduce(a, axis)

    def sample(self, source: Any, shape: tuple[int, ...]) -> Array:
        return Words(64).sample(source, shape)


XOR = Xor()


class Replicated(Family):
    name = "replicated"
    share_parts = ("first", "second")
    divisions: ClassVar[dict[str, Division]] = {"secret": "reciprocal", "revealed": "reciprocal"}

    @classmethod
    def seats(cls, owners: int) -> Seats:
        """The first three owners serve; of two owners both do, and one who owns nothing."""
        return Seats(True, (0, 1, 2)) if owners == 2 else Seats(False, (1, 2, 3))

    # -- who is who ----------------------------------------------------------------------------------------

    @property
    def place(self) -> int:
        """Which server this is."""
        return self.me.world.servers.index(self.me.rank)

    def server(self, place: int) -> int:
        return self.me.world.servers[place % 3]

    def held(self, ring: Ring, first: Array, second: Array) -> Shared:
        """Server i's shares s_i and s_(i+1); whoever holds s_0 adds public values to it."""
        return Shared(ring, (first, second), (self.place == 0, self.place == 2))

    # -- into and out of secrecy ---------------------------------------------------------------------------

    def enter(self, own: Ints | None, shape: tuple[int, ...]) -> Shared:
        """An owner splits its part into three and sends each server two of them; servers add up."""
        me, ring, mine = self.me, self.ring, []
        if me.owns:
            parts = [ring.sample(me.streams.private("input"), shape) for _ in range(2)]
            whole = ring.zeros(shape) if own is None else ring.encode(own)
            parts.append(ring.sub(ring.sub(whole, parts[0]), parts[1]))
            for i in range(3):
                if self.server(i) == me.rank:
                    mine = [parts[i], parts[(i + 1) % 3]]
                else:
                    me.channel.send(self.server(i), np.stack([parts[i], parts[(i + 1) % 3]]))
        if not me.serves:
            return me.hollow(ring, shape)
        total = np.stack(mine or [ring.zeros(shape)] * 2)
        for owner in me.world.owners:
            if owner != me.rank:
                total = ring.add(total, me.channel.receive(owner, np.uint64, (2, *shape))[0])
        return self.held(ring, total[0], total[1])

    def public(self, values: Ints, ring: Ring | None = None) -> Shared:
        over = self.ring if ring is None else ring
        if not self.me.serves:
            return self.me.hollow(over, np.shape(values))
        nothing = over.zeros(np.shape(values))
        return self.held(over, nothing, nothing) + over.encode(values)

    def bring_together(self, value: Secret, parts: Sequence[Part], what: str) -> list[Ints | None]:
        """Server i sends s_i, to a server only what it lacks."""
        me, held = self.me, shared(value)
        picked = [held[part.index] for part in parts]
        for part, one in zip(parts, picked, strict=True):
            for j in part.to if me.serves else ():
                if j != me.rank and self._lacks(j, self.place):
                    me.channel.send(j, one.shares[0])
        opened: list[Ints | None] = []
        for part, one in zip(parts, picked, strict=True):
            if me.rank not in part.to:
                opened.append(None)
                continue
            total = self.ring.add(*one.shares) if me.serves else self.ring.zeros(one.shape)
            for i in range(3):
                if self.server(i) != me.rank and self._lacks(me.rank, i):
                    total = self.ring.add(total, me.channel.receive(self.server(i), np.uint64, one.shape)[0])
            opened.append(self.ring.signed(total))
        return opened

    def _lacks(self, rank: int, share: int) -> bool:
        """Does the one at this rank hold no copy of that share?"""
        servers = list(self.me.world.servers)
        return rank not in servers or share == (servers.index(rank) + 2) % 3

    def export(self, value: Secret) -> Kept:
        return dict(zip(("first", "second"), shared(value).shares, strict=True))

    def restore(self, kept: Kept | None, shape: tuple[int, ...]) -> Shared:
        return self.me.hollow(self.ring, shape) if kept is None else self.held(self.ring, kept["first"], kept["second"])

    # -- products ------------------------------------------------------------------------------------------

    def product(self, x: Shared, y: Shared) -> Shared:
        return self._multiplied(x, y, x.ring.mul, x.shape)

    def matrix_product(self, x: Shared, y: Shared) -> Shared:
        return self._multiplied(x, y, self.ring.matmul, (x.shape[0], y.shape[1]))

    def _multiplied(
        self, x: Shared, y: Shared, times: Callable[[Array, Array], Array], shape: tuple[int, ...]
    ) -> Shared:
        """z_i = x_i y_i + x_i y_(i+1) + x_(i+1) y_i and a fresh share of zero, to the server before this one."""
        me, ring = self.me, x.ring
        if not me.serves:
            return me.hollow(ring, shape)
        (a, b), (c, d) = x.shares, y.shares
        own = ring.add(times(a, ring.add(c, d)), times(b, c))
        own = ring.add(own, zero_shares(me, ring, shape, "product"))
        me.channel.send(self.server(self.place - 1), own)
        return self.held(ring, own, me.channel.receive(self.server(self.place + 1), np.uint64, shape)[0])

    # -- bits ----------------------------------------------------------------------------------------------

    def _alone(self, x: Shared, ring: Ring, j: int) -> Shared:
        """s_j by itself, as a value that is shared over a ring: its two holders know it."""
        if not self.me.serves:
            return self.me.hollow(ring, x.shape)
        nothing = ring.zeros(x.shape)
        here = [share if (self.place + i) % 3 == j else nothing for i, share in enumerate(x.shares)]
        return self.held(ring, *here)

    def _shifted(self, x: Shared, shift: Callable[[Array], Array]) -> Shared:
        return x if x.is_hollow else self.held(XOR, *(shift(share) for share in x.shares))

    def _binary(self, x: Shared) -> Shared:
        """The bits of s_0 + s_1 + s_2, XOR-shared: three numbers to two, then Kogge and Stone's adder."""
        a, b, c = (self._alone(x, XOR, j) for j in range(3))

        def up(value: Shared, by: int) -> Shared:
            return self._shifted(value, lambda share: share << np.uint64(by))

        carry = up(self.product(a + b, b + c) + b, 1)
        total = a + b + c
        p = total + carry
        g, reach = self.product(total, carry), p
        for by in (1, 2, 4, 8, 16, 32):
            if by < self.ring.width:
                g, reach = g + self.product(reach, up(g, by)), self.product(reach, up(reach, by))
        return p + up(g, 1)

    def _bits(self, x: Shared, places: Sequence[int]) -> Shared:
        """Bits of XOR-shared words as words of 0 and 1: a XOR b = a + b - 2 a b, twice."""
        one = np.uint64(1)
        rows = [self._shifted(x, lambda share, i=i: share >> np.uint64(i) & one) for i in places]
        bits = stack(rows)
        a, b, c = (self._alone(bits, self.ring, j) for j in range(3))
        ab = a + b - self.product(a, b) * 2
        return ab + c - self.product(ab, c) * 2

    def is_negative(self, x: Shared) -> Shared:
        flat = self._bits(self._binary(x.reshape(x.size)), [self.ring.width - 1])
        return flat.reshape(*x.shape)

    def to_bits(self, x: Shared, count: int) -> Shared:
        return self._bits(self._binary(x), range(count))

    def to_words(self, bits: Shared) -> Shared:
        return bits

    def select(self, bit: Shared, x: Shared, y: Shared) -> Shared:
        return x + self.product(bit, y - x)

    def truncate(self, x: Shared, g: int) -> Shared:
        if g == 0:
            return x
        w = self.ring.width
        bits = self._bits(self._binary(x.reshape(x.size) + ((1 << (w - 2)) + (1 << (g - 1)))), range(g, w))
        weights = np.array([1 << i for i in range(w - g)], np.uint64)
        return ((bits * weights[:, None]).sum(0) - (1 << (w - 2 - g))).reshape(*x.shape)

    def look_up(self, index: Shared, table: NDArray[np.uint64]) -> Shared:
        """Halve the table by one bit of the index after another."""
        bits = self.to_bits(index, max(len(table) - 1, 1).bit_length())
        rows = self.public(np.repeat(table[:, None].view(np.int64), index.size, axis=1))
        for bit in range(bits.shape[0] if len(table) > 1 else 0):
            even, odd = rows[0::2], rows[1::2]
            rows = self.select(stack([bits[bit]] * even.shape[0]), even, odd)
        return rows[0]
