"""Scores that are compared under noise which the dealer alone knows (docs/protocols/onetime.md#labels).

Shares of a score are uniform words that nobody corrects, so that what they add up to is the score plus *noise*, uniform
and known to the dealer. A difference of two such scores may be opened as it is. That costs no mask of its own, and of
several scores that all are compared with each other, the differences to the first say all others.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from coterie.errors import MaterialReused, ProtocolError
from coterie.protocols.onetime.kernels import add_chosen, deal_chosen, differences
from coterie.protocols.onetime.sign import deal_signs, find_signs, sign_pieces
from coterie.randomness.material import Bits, Material, Packed, Unpacked, declared
from coterie.ring import Bulk
from coterie.sharing import Party, start_opening

__all__ = ["Blinded", "Opened", "blind", "compare", "go_on_with"]

Nodes = NDArray[np.int64]


class Blinded:
    """Scores of nodes (nodes, numbers) modulo 2^w, plus noise: at a data party its share of the sum, at the helper what
    gives the noise, which is worked out when it is first asked for. Their differences are opened once.

    The noise of all nodes but one is uniform and independent of everything that is opened besides.
    """

    __slots__ = ("_noise", "_share", "_used", "_work_out")

    def __init__(self, share: Bulk | None = None, noise: Callable[[], Bulk] | None = None) -> None:
        self._share, self._work_out, self._used = share, noise, False
        self._noise: Bulk | None = None

    def __repr__(self) -> str:
        return "<Blinded>"

    def noise(self) -> Bulk:
        """At the helper, inside of what it hands to `bind`."""
        if self._noise is None:
            if self._work_out is None:
                raise ProtocolError("only the helper knows the noise of scores")
            self._noise, self._work_out = self._work_out(), None
        return self._noise

    @property
    def share(self) -> Bulk:
        """At a data party."""
        if self._share is None:
            raise ProtocolError("the helper holds no share of scores")
        return self._share

    def take(self) -> Bulk:
        """At a data party: to be opened."""
        if self._used:
            raise MaterialReused("the noise of these scores hides their differences once")
        self._used = True
        return self.share


class Opened:
    """What is open of a level: the difference of each pair (first, other) of nodes, with its noise (pairs, numbers)."""

    __slots__ = ("c",)

    def __init__(self, c: Bulk | None) -> None:
        self.c = c


@declared
def noise_material(rows: int, numbers: int, width: int) -> Material:
    return Material("noise", free={"S": Unpacked(rows, numbers, width=width)})


def blind(me: Party, z: Bulk | None, rows: int, numbers: int, width: int) -> Blinded:
    """Scores [z] (rows, numbers) modulo 2^width, with noise: nothing is dealt but seeds, nothing is sent."""
    dealt = me.deal(noise_material(rows, numbers, width))
    if me.deals:
        return Blinded(noise=lambda: dealt.free("S"))
    assert z is not None
    return Blinded(z + dealt.free("S"))


@declared
def compare_material(opened: int, pairs: int, numbers: int, width: int) -> Material:
    """Differences are opened under their noise; tables and top bits of the noise, for each pair."""
    opens = {"c": Packed(opened, numbers, width=width)}
    return Material("sign", bound=sign_pieces(pairs * numbers, width), opens=opens)


def compare(
    me: Party, z: Blinded, first: Nodes, other: Nodes, left: Nodes, right: Nodes, numbers: int, width: int
) -> tuple[Bulk, Opened]:
    """<z_right < z_left> (pairs, numbers / 64) for each pair of nodes, and what was opened on the way.

    `first`, `other`: the nodes of each group but its first, and that first; pairs are of one group.

    1. Open c = z_other - z_first, blinded by the noise R of both (uniform).
    2. For a pair of a group, c and R are the differences of these: the sign follows as in `signs_of_differences`, steps
       3 to 5, from tables of R.

    Sees: the helper nothing; a data party c and the masked bits of the tree, all uniform.
    """
    pairs, mask = len(left), np.uint64((1 << width) - 1)
    dealt = me.deal(compare_material(len(other), pairs, numbers, width))
    if me.deals:

        def masks() -> Bulk:
            r = np.empty(pairs * numbers, np.uint64)
            differences(z.noise(), left, right, mask, r)
            return r

        return deal_signs(me, dealt, masks, pairs, numbers, width), Opened(None)
    share = z.take()
    blinded = np.empty(len(other) * numbers, np.uint64)
    differences(share, first, other, mask, blinded)
    c = start_opening(me, dealt.masked("c", blinded))().reshape(len(other), numbers)
    of_pairs = c.reshape(-1)
    if pairs > len(other):
        nodes = np.zeros((len(share), numbers), np.uint64)
        nodes[other] = c
        of_pairs = np.empty(pairs * numbers, np.uint64)
        differences(nodes, left, right, mask, of_pairs)
    return find_signs(me, dealt, of_pairs, pairs, numbers, width), Opened(c)


@declared
def choice_material(rows: int, numbers: int, width: int) -> Material:
    """Masks of the bits; the same as words, and the products with the noise of a difference."""
    word = Packed(rows, numbers, width=width)
    masks, free = {"rho": Bits(rows, numbers // 64)}, {"S0": Unpacked(rows, numbers, width=width)}
    return Material("winners' scores", masks, {"rho words": word, "S1": word}, free=free)


def go_on_with(
    me: Party,
    z: Blinded,
    opened: Opened,
    b: Bulk | None,
    target: Nodes,
    other: Nodes,
    groups: Nodes,
    numbers: int,
    width: int,
) -> Callable[[], Blinded]:
    """The scores of the groups' winners, with other noise: z_first + sum of b (z_other - z_first) over a group, from
    what is open of these differences and the bits <b> (pairs, numbers / 64) that say who has won. One round.

    `groups`: the first node of each; `target`: the group of each pair.

    1. Dealt: <rho>, and [rho] as words; for R, the noise of c = z_other - z_first + R: [S0] uniform, from seeds, and
       [S1] = (1 - rho) R + nu, for nu = S0 - rho R, which is uniform.
    2. Open beta = b XOR rho (uniform).
    3. [b (z_other - z_first) - nu] = c [rho] - [S0] where beta is 0, else c (1 - [rho]) - [S1].

    Sends at once; call what is returned to receive and combine.
    """
    rows = len(other)
    dealt = me.deal(choice_material(rows, numbers, width))
    if me.deals:
        found: list[Bulk] = []

        def deal() -> dict[str, Bulk]:
            noise = z.noise()
            words, second = np.empty((2, rows, numbers), np.uint64)
            out, first = noise[groups], groups[target]
            deal_chosen(noise, first, other, dealt.mask("rho"), dealt.free("S0"), target, words, second, out)
            found.append(out)
            return {"rho words": words, "S1": second}

        wait = dealt.bind(deal)

        def blinded() -> Blinded:
            wait()
            return Blinded(noise=found.pop)

        return blinded
    assert b is not None
    share, c = z.share, opened.c
    rho = dealt.mask("rho")
    receive = start_opening(me, dealt.masked("rho", b ^ rho))

    def finish() -> Blinded:
        beta, out = receive(), share[groups]
        words, s0, s1 = dealt.bound("rho words"), dealt.free("S0"), dealt.bound("S1")
        add_chosen(beta, c, words, s0, s1, target, np.uint64(me.lead), out)
        return Blinded(out)

    return finish
