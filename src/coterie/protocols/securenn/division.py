"""Division of shared numbers by long division, and the mean of a cluster whose size stays secret."""

from __future__ import annotations

from coterie.protocols.securenn.products import elementwise_product
from coterie.protocols.securenn.sign import drelu
from coterie.sharing import Party, Shared, concatenate
from coterie.transport import metered

__all__ = ["divide"]


@metered("Division")
def divide(me: Party, x: Shared, y: Shared, bits: int) -> tuple[Shared, Shared]:
    """[floor(x / y)] and [y == 0] for 0 <= x < 2^bits y, both one-dimensional; 8 rounds a quotient bit.

    SecureNN, Algorithm 8, for p parties, with u the remainder instead of the part divided so far:

    1. u = x. For i = bits - 1 down to 0:
    2.   z = u - 2^i y;  b_i = DReLU(z);  u = u - 2^i b_i y.
    3. The quotient is the sum of 2^i b_i.

    Where y = 0 the quotient means nothing; [y == 0] = DReLU(-y) comes along with the first comparison.
    All of 2^(bits-1) y and x must lie below L/4.
    """
    count, u, quotient, y_is_zero = x.size, x, x * 0, x
    for i in reversed(range(bits)):
        z = u - y * (1 << i)
        if i == bits - 1:
            both = drelu(me, concatenate([z, -y]))
            b, y_is_zero = both[:count], both[count:]
        else:
            b = drelu(me, z)
        quotient = quotient + b * (1 << i)
        if i:
            u = u - elementwise_product(me, b, y) * (1 << i)
    return quotient, y_is_zero
