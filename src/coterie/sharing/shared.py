"""Values that nobody holds: shares at those who serve, a shape and no content at everybody else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ProtocolError
from coterie.ring import Array, Ring, Words

__all__ = ["Secret", "Shared", "concatenate", "hollow", "hollow_after", "shared", "stack", "total"]

Shape = tuple[int, ...]


class Secret:
    """A value that must not be branched on, printed, compared or pickled. One gate opens it."""

    __slots__ = ()

    def __bool__(self) -> NoReturn:
        raise TypeError("a secret cannot be branched on; open it through the gate, with a reason")

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError("a secret cannot be compared in the clear; use a protocol")

    __ne__ = __eq__
    __hash__ = None  # type: ignore[assignment]

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a secret cannot be pickled")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def settle(self) -> None:
        """Wait until it is there, if it is still under way."""


def hollow(shape: Shape) -> Array:
    """An array of elements of no bytes: a shape and no content."""
    return np.empty(shape, "V0")


def hollow_after(wait: Callable[[], object], shape: Shape) -> Callable[[], Array]:
    """What a step gives at the dealer, who holds nothing of it, once the others are done."""

    def finish() -> Array:
        wait()
        return hollow(shape)

    return finish


class Shared(Secret):
    """[x] over a ring, in any linear scheme: the shares of it that this role holds, one or several, or none but the
    shape (`hollow`). Linear arithmetic is local: it is done to every share alike, and public values are added to those
    that `adds` names.

    `memo`: what a family has worked out about this value and wants again, such as its mask.
    """

    __slots__ = ("adds", "memo", "ring", "shares")
    __array_ufunc__ = None  # NumPy must not take a Shared for one of its scalars

    def __init__(self, ring: Ring, shares: tuple[Array, ...], adds: tuple[bool, ...]) -> None:
        self.ring, self.shares, self.adds = ring, shares, adds
        self.memo: Any = None

    @property
    def share(self) -> Array:
        """The share of an additive scheme, where each role holds one."""
        return self.shares[0]

    @property
    def shape(self) -> Shape:
        return self.shares[0].shape

    @property
    def size(self) -> int:
        return self.shares[0].size

    @property
    def is_hollow(self) -> bool:
        return self.shares[0].dtype.itemsize == 0

    def __repr__(self) -> str:
        return f"<Shared {self.shape}>"

    def _each(self, operate: Callable[[Array], Array]) -> Shared:
        return Shared(self.ring, tuple([operate(share) for share in self.shares]), self.adds)

    def _hollow(self, *shape: int) -> Shared:
        return Shared(self.ring, (hollow(shape),), (False,))

    def _combined(self, other: Shared | Array | int, operate: Callable[[Array, Array], Array]) -> Shared:
        if self.is_hollow:
            return self._hollow(
                *np.broadcast_shapes(self.shape, np.shape(other) if not isinstance(other, Shared) else other.shape)
            )
        if isinstance(other, Shared):
            shares = [operate(mine, its) for mine, its in zip(self.shares, other.shares, strict=True)]
        else:
            public = self.ring.encode(other)
            nothing = self.ring.zeros(public.shape)
            shares = [
                operate(mine, public if adds else nothing) for mine, adds in zip(self.shares, self.adds, strict=True)
            ]
        return Shared(self.ring, tuple(shares), self.adds)

    def __add__(self, other: Shared | Array | int) -> Shared:
        return self._combined(other, self.ring.add)

    __radd__ = __add__

    def __sub__(self, other: Shared | Array | int) -> Shared:
        return self._combined(other, self.ring.sub)

    def __rsub__(self, other: Array | int) -> Shared:
        return -self + other

    def __neg__(self) -> Shared:
        return self._hollow(*self.shape) if self.is_hollow else self._each(self.ring.neg)

    def __mul__(self, public: Array | int) -> Shared:
        """Times a public value."""
        if self.is_hollow:
            return self._hollow(*np.broadcast_shapes(self.shape, np.shape(public)))
        factor = self.ring.encode(public)
        return self._each(lambda share: self.ring.mul(share, factor))

    __rmul__ = __mul__

    def __getitem__(self, index: Any) -> Shared:
        # Of rows by number the shape is known, without a pass over all of them.
        if self.is_hollow and isinstance(index, np.ndarray) and index.dtype.kind == "i":
            return self._hollow(*index.shape, *self.shape[1:])
        return self._each(lambda share: np.asarray(share[index]))

    def reshape(self, *shape: int) -> Shared:
        return self._each(lambda share: share.reshape(shape))

    def transpose(self, *axes: int) -> Shared:
        return self._each(lambda share: share.transpose(axes or None))

    def running(self) -> Shared:
        """The sums up to each entry of the last axis."""
        if self.is_hollow:
            return self
        ring = self._words()
        return self._each(lambda share: ring.reduce(np.cumsum(share, axis=-1, dtype=ring.dtype)))

    def placed(self, places: NDArray[np.int64], size: int) -> Shared:
        """Entries of the last axis, added up at their places among so many: (..., size)."""
        if self.is_hollow:
            return self._hollow(*self.shape[:-1], size)
        ring, order = self._words(), np.argsort(places, kind="stable")
        found, first = np.unique(places[order], return_index=True)

        def place(share: Array) -> Array:
            out = ring.zeros((*share.shape[:-1], size))
            out[..., found] = np.add.reduceat(share[..., order], first, axis=-1, dtype=ring.dtype)
            return ring.reduce(out)

        return self._each(place)

    def _words(self) -> Words:
        if not isinstance(self.ring, Words):
            raise ProtocolError("only words are added up so")
        return self.ring

    def sum(self, axis: int) -> Shared:
        if self.is_hollow:
            return self._hollow(*np.delete(self.shape, axis))
        return self._each(lambda share: self.ring.sum(share, axis))


def concatenate(parts: Sequence[Shared], axis: int = 0) -> Shared:
    return _joined(parts, lambda shares: np.concatenate(shares, axis))


def stack(parts: Sequence[Shared], axis: int = 0) -> Shared:
    return _joined(parts, lambda shares: np.stack(shares, axis))


def total(parts: Sequence[Shared]) -> Shared:
    """The sum of equal shapes."""
    return reduce(add, parts)


def _joined(parts: Sequence[Shared], join: Callable[[list[Array]], Array]) -> Shared:
    columns = zip(*(part.shares for part in parts), strict=True)
    return Shared(parts[0].ring, tuple([join(list(column)) for column in columns]), parts[0].adds)


def shared(value: Secret) -> Shared:
    """A secret that a general step computes with."""
    if not isinstance(value, Shared):
        raise ProtocolError(f"a {type(value).__name__} is for the steps of its own family")
    return value
