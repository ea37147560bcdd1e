"""Means of clusters whose sizes are secret, by the division that a family has."""

from __future__ import annotations

import numpy as np

from coterie.protocols.interface import Ints
from coterie.protocols.measures import Measures
from coterie.protocols.numerics import QUOTIENT_BITS, reciprocals
from coterie.sharing import Shared, concatenate
from coterie.transport import metered

__all__ = ["Means", "repeated"]

#: The most comparisons that a step of a division makes to find several bits at a time.
STEP_COMPARISONS = 1 << 10


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
        quotient, empty = self.divide(x.reshape(size), y.reshape(size), QUOTIENT_BITS, self.digit_of(size))
        mean = quotient.reshape(*shape) * step - np.broadcast_to(edge, shape)
        return self.select(empty.reshape(*shape), mean, old)

    def digit_of(self, size: int) -> int:
        """How many quotient bits the division of so many sums finds at a time: four or two, if a step then has few
        comparisons, and the multiples of y stay below L/4; else one."""
        y = 2 * int(self.problem.quotient_steps(QUOTIENT_BITS).max()) * self.problem.mass
        if y << QUOTIENT_BITS >= 1 << (self.ring.width - 2):
            return 1
        return next((bits for bits in (4, 2) if size << bits <= STEP_COMPARISONS), 1)

    @metered("Division")
    def divide(self, x: Shared, y: Shared, bits: int, digit: int = 1) -> tuple[Shared, Shared]:
        """[floor(x / y)] and [y == 0] for 0 <= x < 2^bits y, both one-dimensional; a comparison a quotient bit.

        SecureNN, Algorithm 8, with u the remainder instead of the part divided so far:

        1. u = x. For i = bits - 1 down to 0:
        2.   z = u - 2^i y;  b_i = [z >= 0];  u = u - 2^i b_i y.
        3. The quotient is the sum of 2^i b_i.

        Deviates: `digit` bits may be found at a time, in the rounds of one. With u - m 2^i y for m = 1, 2, .. side by
        side, as many are not negative as the digit of base 2^digit says, which takes the place of b_i.

        Where y = 0 the quotient means nothing; [y == 0] = [-y >= 0] comes along with the first comparison.
        x and the largest multiple of y must lie below L/4: 2^(bits-1) y, if bits are found one by one.
        """
        u, quotient, y_is_zero = x, x * 0, x
        for i in reversed(range(0, bits, digit)):
            multiples = np.arange(1, 1 << min(digit, bits - i), dtype=np.int64)[:, None]
            z = u[None, :] - y[None, :] * (multiples << i)
            first = i + digit >= bits
            compared = z.reshape(z.size)
            b = 1 - self.is_negative(concatenate([compared, -y]) if first else compared)
            if first:
                y_is_zero = b[z.size :]
            found = self.to_words(b[: z.size]).reshape(*z.shape).sum(0)
            quotient = quotient + found * (1 << i)
            if i:
                u = u - self.product(found, y) * (1 << i)
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
