"""PrivateCompare: is a bitwise shared number larger than a public one?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coterie.errors import MaterialReused
from coterie.protocols.securenn.kernels import any_zero, blinded_comparison
from coterie.randomness import Dealt, Masked
from coterie.randomness.material import Elements, Material, declared
from coterie.ring import Array, Prime, Ring, sample_permutations
from coterie.sharing import Party, Shared, send_to_dealer, take_as_dealer, zero_shares
from coterie.transport import metered

__all__ = ["FIELD", "Blinding", "answer_material", "common_bits", "compare_at_helper", "private_compare", "unblinded"]

#: Z_67: a prime above the 64 bits of a word plus two (SecureNN, section 3.2).
FIELD = Prime(67)
#: Comparisons that the helper looks at together: as many as stay in the cache.
PIECE = 1 << 11


@declared
def comparison_message(count: int, length: int) -> Elements:
    """What each party tells the helper in so many comparisons of so many bits."""
    return Elements(FIELD, count, length)


class Blinding:
    """What blinds the messages of m comparisons of l bits, and no other ones: (m, l) scalars, places, shares of zero.

    It depends on nothing that is compared, so that parties draw it while the helper is at work.
    """

    __slots__ = ("_drawn",)

    def __init__(self, me: Party, count: int, length: int) -> None:
        scalars, order = common_scalars(me, count, length), common_permutations(me, count, length)
        zero = zero_shares(me, FIELD, (count, length), "PrivateCompare")
        self._drawn: tuple[Array, Array, Array] | None = scalars, order, zero

    def __repr__(self) -> str:
        return "Blinding()"

    def __reduce__(self) -> str:
        raise TypeError("what blinds a message cannot be pickled")

    def take(self) -> tuple[Array, Array, Array]:
        """All of it, once."""
        drawn, self._drawn = self._drawn, None
        if drawn is None:
            raise MaterialReused("the blinding of a comparison was used before")
        return drawn


@metered("PrivateCompare")
def private_compare(
    me: Party,
    dealt: Dealt,
    x: str,
    r: Array,
    beta: Array,
    below_zero: Array | None = None,
    blinding: Blinding | None = None,
) -> None:
    """beta XOR [x > r], to the helper (`compare_at_helper`). SecureNN, Algorithm 3, for p parties; one round.

    x: the name of what was dealt, shares over Z_67 of the bits of m numbers, shape (m, l); r, beta: known to P1..Pp.
    `below_zero` marks entries where r stands for -1, so that x > r always. `blinding`: drawn beforehand.

    1. w_i = x_i XOR r_i.
    2. beta = 0: c_i = r_i - x_i + 1 + sum of w_j over j > i, which is 0 at one i if x > r, and at none else.
       beta = 1: the same for t = r + 1 with x and t exchanged, 0 at one i if x < t, that is x <= r.
       No such t if r = 2^l - 1: submit (0, 1, ..., 1). Where r stands for -1, submit that if beta = 0 and
       (1, ..., 1) if beta = 1.
    3. Each c_i is multiplied by its own common random non-zero scalar; the l of them are permuted by a
       common random permutation, fresh for each comparison, and sent to P0 with a fresh share of zero.
    4. P0: is there a zero?

    Sees: P0 uniform shares of l values that are uniform and non-zero, but for one zero in a uniform place
    where the answer is 1. A simulator makes that from the answer, which beta hides. P1..Pp see nothing.
    """
    bits = dealt.bound(x)
    count, length = bits.shape
    mode = beta.copy()
    mode[(beta == 1) & (r == (1 << length) - 1)] = 2
    if below_zero is not None:
        mode[below_zero] = 2 + beta[below_zero]
    scalars, order, zero = (blinding or Blinding(me, count, length)).take()
    message = np.empty((count, length), np.uint8)
    blinded_comparison(bits, r, mode, scalars, order, zero, int(me.lead), FIELD.q, message)
    send_to_dealer(me, Masked(message, comparison_message(count, length)))


@metered("PrivateCompare")
def compare_at_helper(me: Party, count: int, length: int) -> Callable[[], Array]:
    """The helper's side of PrivateCompare, step 4. Call what is returned for the answer: 1 where there is a zero."""
    messages = take_as_dealer(me, comparison_message(count, length))

    def answer() -> Array:
        out = np.empty(count, np.uint8)
        for start in range(0, count, PIECE):
            part = slice(start, start + PIECE)
            any_zero(np.stack([message[part] for message in messages]), FIELD.q, out[part])
        return out.astype(np.uint64)

    return answer


@declared
def answer_material(purpose: str, ring: Ring, count: int) -> Material:
    """The answers to so many comparisons, as the helper found them, or XOR what it knows."""
    return Material(f"the answer in {purpose}", bound={"answer": Elements(ring, count)}, answer=True)


def common_bits(me: Party, count: int, purpose: str) -> Array:
    """Random bits that all data parties know and the helper does not."""
    return me.streams.common(f"beta for {purpose}").read(count) & np.uint8(1)


def common_scalars(me: Party, count: int, length: int) -> Array:
    """A non-zero scalar for every bit of every comparison."""
    return FIELD.sample_nonzero(me.streams.common("PrivateCompare scalars"), (count, length))


def common_permutations(me: Party, count: int, length: int) -> Array:
    """A permutation of the bits for every comparison."""
    return sample_permutations(me.streams.common("PrivateCompare permutations"), count, length)


def unblinded(blinded: Shared, beta: Array) -> Shared:
    """[b XOR beta] from [b], for a beta that all data parties know: [b] or 1 - [b]."""
    return blinded * (1 - 2 * beta.astype(np.int64)) + beta
