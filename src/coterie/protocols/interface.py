"""What a protocol family must bring: a dozen primitives over secrets. The steps of clustering are made of them.

`clustering/` and `steps.py` see families through this interface alone. What a secret consists of - one array, several -
and who holds a part of it is the family's affair, and so is whether somebody deals. Two kinds of secrets go round:
*words*, `Shared` over Z_2^w, and *bits*, `Shared` over the family's `bits`, which may be words of 0 and 1. Both know
linear arithmetic with each other and with public values, which is local in every scheme.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie.errors import ProtocolError
from coterie.protocols.metric import Metric
from coterie.ring import Ring, Words
from coterie.sharing import Party, Secret, Shared, permit
from coterie.transport import Metered, World

__all__ = ["WORDS", "Division", "Holding", "Ints", "Part", "Primitives", "Problem", "RowSets", "Seats", "Weigher"]

Ints = NDArray[np.int64]
Division = Literal["quotient", "reciprocal"]
Weigher = Literal["owners", "dealer"]
Kept = dict[str, NDArray[np.uint64]]
WORDS = Words(64)


class Problem(msgspec.Struct, frozen=True):
    """The public size of a problem, in encoded whole numbers.

    `half`: the largest magnitude of an entry of each column. `block_rows`: how many rows are labelled
    at a time. `schedule`: how comparisons are arranged, the sizes of groups level by level. `metric`: whether columns
    are weighted in secret. `most_weight`: the largest weight of a row; 0, if rows have none and count alike. `weigher`:
    whether the owners of rows give them their weights, or a dealer, who knows which rows count. `collect_from`: from
    how many bytes on an opening to all goes by way of collectors; 0: none does.
    """

    rows: int
    clusters: int
    half: tuple[int, ...]
    block_rows: int = 1 << 14
    schedule: tuple[int, ...] = ()
    metric: Metric | None = None
    most_weight: int = 0
    weigher: Weigher = "owners"
    collect_from: int = 0

    @property
    def mass(self) -> int:
        """The most that all rows together can weigh."""
        return self.rows * max(self.most_weight, 1)

    @property
    def columns(self) -> int:
        return len(self.half)

    @property
    def distance_bits(self) -> int:
        """Bits of the largest squared distance between two points in range, weighted where there is a metric."""
        if self.metric is not None:
            return self.metric.distance_bits(self.rows, self.half)
        return (4 * sum(h * h for h in self.half)).bit_length()

    @property
    def compared_bits(self) -> int:
        """Bits of any difference of two distances to centres, which rounding may put a step out of range."""
        return self.distance_bits + 1

    @property
    def reciprocal_bits(self) -> int:
        """g: cluster sums are multiplied with round(2^g / count) and truncated by g (docs/arithmetic.md#means)."""
        return 61 - max(self.half).bit_length()

    @property
    def objective_shift(self) -> int:
        """How many low bits the sum of all squared distances drops to stay below 2^61."""
        return max(0, self.distance_bits + self.mass.bit_length() + 1 - 61)

    @property
    def weighted_shift(self) -> int:
        """How many low bits a column's share of a weighted objective drops for the sum to stay below 2^61."""
        return self.weighted_shift_for(1)

    def weighted_shift_for(self, times: int) -> int:
        """The same, where a column's share may be so many times its scatter."""
        assert self.metric is not None
        scale = self.metric.scale(self.rows, max(self.half)) + (times * max(self.most_weight, 1) - 1).bit_length()
        return max(0, scale + self.columns.bit_length() + 2 - 61)

    def quotient_steps(self, bits: int) -> Ints:
        """Per column the width of a quotient's step, such that 2^bits of them span -half..half and a
        mean, rounded to the nearest step, never reaches the last edge."""
        return np.array([2 * h // ((1 << bits) - 1) + 1 for h in self.half], np.int64)


class Holding(Protocol):
    """Who holds which cells of an n x d table; public."""

    @property
    def n(self) -> int: ...

    @property
    def d(self) -> int: ...

    def owners_of(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The rank that holds each cell of the given rows."""

    def count_cells(self, rows: NDArray[np.int64], owner: int) -> int:
        """How many cells of the given rows a rank holds."""

    def label_groups(self, parties: int) -> list[tuple[NDArray[np.int64], list[int]]]:
        """Row numbers, grouped by the set of parties that hold cells of them, with those parties."""


@dataclass(frozen=True)
class RowSets:
    """Public sets of rows: the kind of each row (n,), and which kinds each set holds, 0 or 1 (sets, kinds)."""

    kind_of: Ints
    members: Ints

    @property
    def whole(self) -> RowSets:
        """The first set alone."""
        return RowSets(self.kind_of, self.members[:1])

    @property
    def sizes(self) -> Ints:
        return self.members @ np.bincount(self.kind_of, minlength=self.members.shape[1])


class Part(NamedTuple):
    """A part of a value, by an index, and the ranks it is opened to; `detail` says for the log what it is."""

    index: Any
    to: Sequence[int]
    detail: str = ""


class Seats(NamedTuple):
    """Who is needed beside those who own data: whether somebody is at rank 0, and who serves (empty: all owners)."""

    at_zero: bool
    serving: tuple[int, ...] = ()


class Primitives(ABC):
    """A protocol family at one role. Everybody runs the same program; who holds no share of a value has its shape.

    What is called public is known to all players; the dealer, who does not know it, passes anything of the same shape.
    """

    name: ClassVar[str]
    #: How cluster sums become means, by what happens to the counts: what the oracle must reproduce.
    divisions: ClassVar[dict[str, Division]]
    #: The kinds of messages that the dealer is sent while the protocols run: "array", "note".
    dealer_hears: ClassVar[frozenset[str]] = frozenset()

    #: Modules of kernels that it runs, beside those that every family runs (`loading.py`).
    kernels: ClassVar[tuple[str, ...]] = ()

    #: What `export` calls the arrays of words that make up a share.
    share_parts: ClassVar[tuple[str, ...]] = ("words",)

    #: Whether steps tell the channel of one who holds no share all that others send (`Metered.others_send`): then what
    #: a run costs is found at an imagined onlooker (`planning/onlooker.py`). A dealer is one.
    tells_onlookers: ClassVar[bool] = False

    #: Comparisons that a block of rows should hold: enough to outweigh the interpreter and a round trip, few enough for
    #: the cache and for memory.
    block_comparisons: ClassVar[int] = 1 << 17

    def __init__(self, me: Party, problem: Problem, ring: Words = WORDS) -> None:
        self.me, self.problem, self.ring = me, problem, ring

    @classmethod
    def seats(cls, owners: int) -> Seats:  # noqa: ARG003
        """Who takes part beside so many owners. Unless a family says otherwise: a dealer, and all owners serve."""
        return Seats(True)

    @classmethod
    def world(cls, owners: Sequence[str], other: str = "P0", session: bytes = bytes(16)) -> World:
        """The world of these owners and, if the family needs one who owns nothing, of that other."""
        seats = cls.seats(len(owners))
        return World((other if seats.at_zero else "", *owners), session, seats.serving)

    @classmethod
    def comparisons(cls, clusters: int, schedule: tuple[int, ...] = ()) -> int:  # noqa: ARG003
        """How many it takes to label a row: of all pairs, unless a family has another way."""
        return clusters * (clusters - 1) // 2

    @classmethod
    def schedules(cls, clusters: int) -> list[tuple[int, ...]]:  # noqa: ARG003
        """The ways to arrange comparisons that a plan may choose from; none where there is one way."""
        return []

    @classmethod
    def check_schedule(cls, clusters: int, wanted: str | tuple[int, ...]) -> tuple[int, ...]:
        """The schedule of that name, or of these sizes; ValueError says what is wrong with it."""
        raise ValueError(f"{cls.name} has one way to compare {clusters} scores, and no schedule {wanted}")

    @classmethod
    def memory(cls, problem: Problem, lanes: int, revealed: bool) -> tuple[int, int]:  # noqa: ARG003
        """Of the one at rank 0 and of an owner, roughly: the interpreter and kernels, the data and their shares,
        labels, and a block's comparisons, of 64 bits each by shares of some bytes a bit. Measured for `securenn`.
        `revealed`: labels are (SVK-means)."""
        n, each = problem.rows, max(cls.comparisons(problem.clusters), 1)
        flight = max(lanes, 1) * min(problem.block_rows, n) * each * 400
        whole = (200 << 20) + 24 * n * (problem.columns + problem.clusters) + flight
        return whole, whole

    @property
    def bits(self) -> Words:
        """Where bits live."""
        return self.ring

    @property
    def channel(self) -> Metered:
        return self.me.channel

    def at(self, me: Party) -> Self:
        """The same family on another lane."""
        here = copy(self)
        here.me = me
        return here

    def of(self, problem: Problem) -> Self:
        """The same family for another problem on the same rows."""
        here = copy(self)
        here.problem = problem
        return here

    def begin(self) -> None:
        """Call first: from here on roles send what this family declares and nothing else."""
        self.me.begin_protocol(self.dealer_hears, self.problem.collect_from)

    # -- into secrecy ------------------------------------------------------------------------------------

    @abstractmethod
    def enter(self, own: Ints | None, shape: tuple[int, ...]) -> Shared:
        """The sum of what the owners hold; each passes its own part, None where it holds nothing."""

    def enter_dealt(self, values: Ints | None, shape: tuple[int, ...]) -> Shared:  # noqa: ARG002
        """What the dealer alone knows; it passes the values, everybody else None."""
        raise ProtocolError(f"{self.name} has no dealer")

    @abstractmethod
    def public(self, values: Ints, ring: Ring | None = None) -> Shared:
        """A public value as a secret: words, or over the given ring."""

    # -- arithmetic --------------------------------------------------------------------------------------

    @abstractmethod
    def product(self, x: Shared, y: Shared) -> Shared:
        """x y, entry by entry, of words or of bits; equal shapes."""

    def square(self, x: Shared) -> Shared:
        return self.product(x, x)

    @abstractmethod
    def matrix_product(self, x: Shared, y: Shared) -> Shared:
        """x y for matrices of words."""

    @abstractmethod
    def truncate(self, x: Shared, g: int) -> Shared:
        """x / 2^g, rounded to the nearest, halves upwards, for -L/4 <= x < L/4 - 2^(g-1), L = 2^w."""

    def widen(self, x: Shared) -> Shared:
        """Words over Z_2^w, from words over a smaller ring that a step of this family may have left."""
        return x

    # -- bits --------------------------------------------------------------------------------------------

    @abstractmethod
    def is_negative(self, x: Shared) -> Shared:
        """Bits [x < 0], for -L/4 <= x < L/4."""

    def is_negative_within(self, x: Shared, bits: int | None) -> Shared:  # noqa: ARG002
        """As `is_negative`, for -2^bits <= x < 2^bits: a family may compare so many bits only. None: no such bound."""
        return self.is_negative(x)

    @abstractmethod
    def select(self, bit: Shared, x: Shared, y: Shared) -> Shared:
        """x where the bit is 0, y where it is 1; words of equal shapes."""

    @abstractmethod
    def to_words(self, bits: Shared) -> Shared:
        """Bits as words of 0 and 1."""

    @abstractmethod
    def to_bits(self, x: Shared, count: int) -> Shared:
        """The lowest bits of words (m,), lowest first: (count, m), count < w."""

    @abstractmethod
    def look_up(self, index: Shared, table: NDArray[np.uint64]) -> Shared:
        """The entries (m,) of a public table of 2^b words at secret places (m,), 0 <= index < 2^b."""

    # -- out of secrecy ----------------------------------------------------------------------------------

    def open(self, value: Secret, to: Sequence[int], what: str, reason: str) -> Ints | None:
        """Open a value to some ranks; logged. Whole numbers, or None to everybody else."""
        return self.open_parts(value, [Part(..., to)], what, reason)[0]

    def open_parts(self, value: Secret, parts: Sequence[Part], what: str, reason: str) -> list[Ints | None]:
        """As `open`, for the parts of a value that indices select, each to its own ranks; in one round."""
        for part in parts:
            permit(self.me, what, part.to, reason, part.detail)
        return self.bring_together(value, parts, what)

    @abstractmethod
    def bring_together(self, value: Secret, parts: Sequence[Part], what: str) -> list[Ints | None]:
        """How shares come together, once it is permitted: call `open_parts`, nothing else may call this."""

    # -- keeping a share ---------------------------------------------------------------------------------

    @abstractmethod
    def export(self, value: Secret) -> Kept:
        """This party's part of a secret, to be kept by this party and nobody else."""

    @abstractmethod
    def restore(self, kept: Kept | None, shape: tuple[int, ...]) -> Shared:
        """Words from the parts that `export` gave; None where this role kept none."""
