"""Values that nobody holds: a share at each data party, a shape and no content at the helper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from coterie.ring import Array, Ring

__all__ = ["Secret", "Shared", "concatenate", "hollow", "stack"]

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


def hollow(shape: Shape) -> Array:
    """An array of elements of no bytes: a shape and no content."""
    return np.empty(shape, "V0")


class Shared(Secret):
    """[x] over a ring: additive shares, one at each data party. Linear arithmetic is local.

    At the helper the share is hollow. At P1 `lead` is true: P1 alone adds public values.
    """

    __slots__ = ("lead", "ring", "share")
    __array_ufunc__ = None  # NumPy must not take a Shared for one of its scalars

    def __init__(self, ring: Ring, share: Array, lead: bool) -> None:
        self.ring, self.share, self.lead = ring, share, lead

    @property
    def shape(self) -> Shape:
        return self.share.shape

    @property
    def size(self) -> int:
        return self.share.size

    @property
    def is_hollow(self) -> bool:
        return self.share.dtype.itemsize == 0

    def __repr__(self) -> str:
        return f"<Shared {self.shape}>"

    def _with(self, share: Array) -> Shared:
        return Shared(self.ring, share, self.lead)

    def _combined(self, other: Shared | Array | int, operate: Callable[[Array, Array], Array]) -> Shared:
        if self.is_hollow:
            return self._with(hollow(np.broadcast_shapes(self.shape, np.shape(getattr(other, "share", other)))))
        if isinstance(other, Shared):
            return self._with(operate(self.share, other.share))
        public = self.ring.encode(other)
        return self._with(operate(self.share, public if self.lead else self.ring.zeros(public.shape)))

    def __add__(self, other: Shared | Array | int) -> Shared:
        return self._combined(other, self.ring.add)

    __radd__ = __add__

    def __sub__(self, other: Shared | Array | int) -> Shared:
        return self._combined(other, self.ring.sub)

    def __rsub__(self, other: Array | int) -> Shared:
        return -self + other

    def __neg__(self) -> Shared:
        return self if self.is_hollow else self._with(self.ring.neg(self.share))

    def __mul__(self, public: Array | int) -> Shared:
        """Times a public value."""
        if self.is_hollow:
            return self._with(hollow(np.broadcast_shapes(self.shape, np.shape(public))))
        return self._with(self.ring.mul(self.share, self.ring.encode(public)))

    __rmul__ = __mul__

    def __getitem__(self, index: Any) -> Shared:
        return self._with(np.asarray(self.share[index]))

    def reshape(self, *shape: int) -> Shared:
        return self._with(self.share.reshape(shape))

    def transpose(self, *axes: int) -> Shared:
        return self._with(self.share.transpose(axes or None))

    def sum(self, axis: int) -> Shared:
        if self.is_hollow:
            return self._with(hollow(tuple(np.delete(self.shape, axis))))
        return self._with(self.ring.sum(self.share, axis))


def concatenate(parts: Sequence[Shared], axis: int = 0) -> Shared:
    return parts[0]._with(np.concatenate([part.share for part in parts], axis))


def stack(parts: Sequence[Shared], axis: int = 0) -> Shared:
    return parts[0]._with(np.stack([part.share for part in parts], axis))
