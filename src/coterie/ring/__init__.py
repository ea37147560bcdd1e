"""Numbers: the rings that shares live in, fixed point, and compiled kernels."""

from coterie.ring.fixedpoint import FixedPoint, fractional_bits, widen
from coterie.ring.kernels import Bulk
from coterie.ring.moduli import Array, ByteSource, OddWords, Prime, Ring, Words, sample_permutations

__all__ = [
    "Array",
    "Bulk",
    "ByteSource",
    "FixedPoint",
    "OddWords",
    "Prime",
    "Ring",
    "Words",
    "fractional_bits",
    "sample_permutations",
    "widen",
]
