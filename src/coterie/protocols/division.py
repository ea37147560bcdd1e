"""Means of clusters whose sizes are secret, by the division that a family has."""

from __future__ import annotations

import numpy as np

from coterie.protocols.interface import Ints
from coterie.protocols.measures import Measures
from coterie.protocols.numerics import QUOTIENT_BITS, reciprocals
from coterie.sharing import Shared, concatenate
from coterie.transport import metered

__all__ = ["Means", "repeated"]


class Means(Measures):
    """Shapes: d columns, k clusters."""

    def means(self, sums: Shared, counts: Shared, old: Shared) -> Shared:
        """The mean of each cluster (k, d), from sums and counts; an empty cluster keeps its old centre."""
        if self.divisions["secret"] == "quotient":
            return self.means_by_quotient(sums, counts, old)
        return self.means_by_reciprocal(sums, counts, old)

    def means_by_quotient(self, sums: Shared, counts: Shared, old: Shared) -> Shared:
        """Signed means by the Division of non-negative numbers: `quotient_means` of numerics, secretly.

        x = 2 (T + H t) + s t and y = 2 s t, so that floor(x / y) is the mean, rounded to the nearest step.
        """
        t, shape, size = counts[:, None], sums.shape, sums.size
        step = self.problem.quotient_steps(QUOTIENT_BITS)
        edge = step << (QUOTIENT_BITS - 1)
        x = (sums + t * edge) * 2 + t * step
        y = t * (2 * step)
        quotient, empty = self.divide(x.reshape(size), y.reshape(size), QUOTIENT_BITS)
        mean = quotient.reshape(*shape) * step - np.broadcast_to(edge, shape)
        return self.select(empty.reshape(*shape), mean, old)

    @metered("Division")
    def divide(self, x: Shared, y: Shared, bits: int) -> tuple[Shared, Shared]:
        """[floor(x / y)] and [y == 0] for 0 <= x < 2^bits y, both one-dimensional; a comparison a quotient bit.

        SecureNN, Algorithm 8, with u the remainder instead of the part divided so far:

        1. u = x. For i = bits - 1 down to 0:
        2.   z = u - 2^i y;  b_i = [z >= 0];  u = u - 2^i b_i y.
        3. The quotient is the sum of 2^i b_i.

        Where y = 0 the quotient means nothing; [y == 0] = [-y >= 0] comes along with the first comparison.
        All of 2^(bits-1) y and x must lie below L/4.
        """
        count, u, quotient, y_is_zero = x.size, x, x * 0, x
        for i in reversed(range(bits)):
            z = u - y * (1 << i)
            if i == bits - 1:
                both = 1 - self.is_negative(concatenate([z, -y]))
                b, y_is_zero = both[:count], both[count:]
            else:
                b = 1 - self.is_negative(z)
            b_words = self.to_words(b)
            quotient = quotient + b_words * (1 << i)
            if i:
                u = u - self.product(b_words, y) * (1 << i)
        return quotient, y_is_zero

    def means_by_reciprocal(self, sums: Shared, counts: Shared, old: Shared) -> Shared:
        """`reciprocal_means` of numerics, secretly: T q + [t = 0] 2^g C, truncated by g, with q looked up."""
        g, k, d = self.problem.reciprocal_bits, *sums.shape
        size = 1 << self.problem.mass.bit_length()
        q = self.look_up(counts, reciprocals(np.arange(size), g).view(np.uint64))
        empty = self.look_up(counts, (np.arange(size) == 0).astype(np.uint64) << np.uint64(g))
        factors = concatenate([repeated(q, d), repeated(empty, d)])
        product = self.product(factors, concatenate([sums.reshape(k * d), old.reshape(k * d)]))
        return self.truncate((product[: k * d] + product[k * d :]).reshape(k, d), g)

    def means_of_public_counts(self, sums: Shared, counts: Ints | None, old: Shared) -> Shared:
        """As `means`, for opened counts; None at one who was not told."""
        total, g = self.widen(sums), self.problem.reciprocal_bits
        if counts is None:
            return self.truncate(total, g)
        empty = (counts == 0).astype(np.int64)[:, None]
        return self.truncate(total * reciprocals(counts, g)[:, None] + old * (empty << g), g)


def repeated(value: Shared, times: int) -> Shared:
    """Each entry of (m,) so many times: (m times,)."""
    return concatenate([value[:, None]] * times, axis=1).reshape(value.size * times)
