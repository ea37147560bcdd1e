"""What a protocol family offers to the clustering algorithms.

`clustering/` sees families through this interface alone. Values that stay secret are opaque to it:
what a `Secret` consists of - one array, several, bits or words - and who holds a part of it is the
family's affair, and so is whether there is a helper.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie.errors import ProtocolError
from coterie.sharing import Party, Secret

__all__ = ["Division", "Family", "Holding", "Ints", "Part", "Problem", "RowSets", "opened_stop_bit"]

Ints = NDArray[np.int64]
Division = Literal["quotient", "reciprocal"]


class Problem(msgspec.Struct, frozen=True):
    """The public size of a problem, in encoded whole numbers.

    `half`: the largest magnitude of an entry of each column. `block_rows`: how many rows are labelled
    at a time. `schedule`: how comparisons are arranged, the sizes of groups level by level.
    """

    rows: int
    clusters: int
    half: tuple[int, ...]
    block_rows: int = 1 << 14
    schedule: tuple[int, ...] = ()

    @property
    def columns(self) -> int:
        return len(self.half)

    @property
    def distance_bits(self) -> int:
        """Bits of the largest squared distance between two points in range."""
        return (4 * sum(h * h for h in self.half)).bit_length()

    @property
    def reciprocal_bits(self) -> int:
        """g: cluster sums are multiplied with round(2^g / count) and truncated by g (PROTOCOLS.md 3.6)."""
        return 61 - max(self.half).bit_length()

    @property
    def objective_shift(self) -> int:
        """How many low bits the sum of all squared distances drops to stay below 2^61."""
        return max(0, self.distance_bits + self.rows.bit_length() + 1 - 61)

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


class Family(ABC):
    """A protocol family at one role. Shapes: n rows, d columns, k clusters."""

    name: ClassVar[str]
    #: How cluster sums become means, by what happens to the counts: what the oracle must reproduce.
    divisions: ClassVar[dict[str, Division]]
    #: The kinds of messages that the helper is sent while the protocols run: "array", "note".
    dealer_hears: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, me: Party, problem: Problem) -> None:
        self.me, self.problem = me, problem

    def begin(self) -> None:
        """Call first: from here on roles send what this family declares and nothing else."""
        self.me.begin_protocol(self.dealer_hears)

    # -- into secrecy ------------------------------------------------------------------------------------

    @abstractmethod
    def contribute(self, own: Ints | None, shape: tuple[int, ...]) -> Secret:
        """The sum of what the data parties hold; each passes its own part, zero where it holds nothing."""

    def table(self, own: Ints | None, holding: Holding) -> Secret:
        """The data (n, d): each data party passes its own cells, zero elsewhere."""
        return self.contribute(own, (holding.n, holding.d))

    @abstractmethod
    def public(self, values: Ints) -> Secret:
        """A value that the data parties all know."""

    @abstractmethod
    def pick(self, rows: Secret, numbers: Sequence[int]) -> Secret:
        """The given rows, still secret."""

    # -- Lloyd's algorithm -------------------------------------------------------------------------------

    @abstractmethod
    def label(self, rows: Secret, centers: Secret) -> Secret:
        """One-hot labels (n, k): the closest centre, the lowest index where several are."""

    def first_labels(self, rows: Secret, centers: Secret) -> Secret:
        """As `label`, for labels that cluster sums follow from."""
        return self.label(rows, centers)

    def new_means(self, rows: Secret, labels: Secret, old: Secret) -> Secret:
        """New centres (k, d) without opening the counts. A family may overlap its steps."""
        return self.means(*self.sums(rows, labels), old)

    @abstractmethod
    def counts(self, labels: Secret) -> Secret:
        """How many rows each cluster has (k,)."""

    @abstractmethod
    def tally(self, labels: Secret, sets: RowSets) -> Secret:
        """How many rows of each set each cluster has (sets times k,), as whole words."""

    @abstractmethod
    def sums(self, rows: Secret, labels: Secret) -> tuple[Secret, Secret]:
        """Of each cluster, the sum of its rows (k, d) and how many they are (k,)."""

    @abstractmethod
    def means(self, sums: Secret, counts: Secret, old: Secret) -> Secret:
        """New centres (k, d) without opening the counts; an empty cluster keeps its old centre."""

    @abstractmethod
    def means_of_public_counts(self, sums: Secret, counts: Ints | None, old: Secret) -> Secret:
        """New centres (k, d) for opened counts; an empty cluster keeps its old centre."""

    @abstractmethod
    def movement(self, old: Secret, new: Secret) -> Secret:
        """The total squared distance between old and new centres, a scalar (1,)."""

    @abstractmethod
    def at_most(self, values: Secret, threshold: int) -> Secret:
        """One bit for each of the values (m,): is it at most the public threshold?"""

    @abstractmethod
    def any_of(self, bits: Secret, into: int) -> Secret:
        """From bits (rows times into,), row by row, the OR of each column (into,)."""

    def relabel(
        self, rows: Secret, centers: Secret, old: Secret, threshold: int | None, reason: str
    ) -> tuple[Secret, bool]:
        """Labels for new centres and, unless the threshold is None, whether they moved at most that
        much since the old ones: opens the stop bit. A family may overlap the two."""
        stop = threshold is not None and self.open_stop_bit(self.movement(old, centers), threshold, reason)
        return self.label(rows, centers), stop

    def open_stop_bit(self, movement: Secret, threshold: int, reason: str) -> bool:
        """Is the movement at most the threshold? Opened to everybody, the helper included."""
        everybody = range(len(self.me.world.names))
        bit = self.open(self.at_most(movement, threshold), everybody, "stop bit", reason)
        return opened_stop_bit(bit)

    # -- labels in the clear -----------------------------------------------------------------------------

    @abstractmethod
    def arg_min(self, values: Secret) -> Secret:
        """The index of the least entry of each row (n,), the lowest where several are."""

    @abstractmethod
    def index(self, labels: Secret, numbers: Ints | None = None) -> Secret:
        """One-hot labels (n, k) as numbers (n,): 0 to k - 1 or, from `numbers` (k,), what each cluster is to be
        called, 0 to k. They are public to the data parties; the helper passes any."""

    # -- restarts ----------------------------------------------------------------------------------------

    @abstractmethod
    def objective(self, sums: Secret, counts: Secret, centers: Secret) -> Secret:
        """The sum over rows of the squared distance to their centre, less the rows' own squares, shifted
        right by `objective_shift`: sum_j counts_j |c_j|^2 - 2 sums_j . c_j, a scalar (1,)."""

    @abstractmethod
    def choose(self, first: Secret, second: Secret, pairs: Sequence[tuple[Secret, Secret]]) -> list[Secret]:
        """Of each pair the left one if the scalar `first` is at most `second`, else the right one."""

    # -- linear algebra with what is public to the data parties; the helper passes anything of the same shape ----

    @abstractmethod
    def times(self, value: Secret, factors: Ints) -> Secret:
        """The value, entry by entry, times public factors that broadcast to its shape."""

    @abstractmethod
    def arrange(self, values: Secret, order: Sequence[int]) -> Secret:
        """The rows of words (m, ...) that the public order names, in that order."""

    @abstractmethod
    def join(self, values: Sequence[Secret]) -> Secret:
        """Words (m,) of several secrets, one after another."""

    @abstractmethod
    def truncate(self, value: Secret, bits: int) -> Secret:
        """value / 2^bits, rounded to the nearest, halves upwards."""

    @abstractmethod
    def add(self, first: Secret, second: Secret) -> Secret:
        """The sum of two secrets of one shape."""

    @abstractmethod
    def subtract(self, first: Secret, second: Secret) -> Secret:
        """The difference of two secrets of one shape: words, or bits of which the second implies the first."""

    # -- out of secrecy ----------------------------------------------------------------------------------

    def open(self, value: Secret, to: Sequence[int], what: str, reason: str) -> Ints | None:
        """Open a value to some ranks; logged. Whole numbers, or None to everybody else."""
        return self.open_parts(value, [Part(..., to)], what, reason)[0]

    @abstractmethod
    def open_parts(self, value: Secret, parts: Sequence[Part], what: str, reason: str) -> list[Ints | None]:
        """As `open`, for the parts of a value that indices select, each to its own ranks; in one round."""

    # -- keeping a share ---------------------------------------------------------------------------------

    @abstractmethod
    def export(self, value: Secret) -> dict[str, NDArray[np.uint64]]:
        """This party's part of a secret, to be kept by this party and nobody else."""

    @abstractmethod
    def restore(self, kept: dict[str, NDArray[np.uint64]] | None, shape: tuple[int, ...]) -> Secret:
        """A secret from the parts that `export` gave; the helper passes None."""


def opened_stop_bit(bit: NDArray[Any] | None) -> bool:
    """The stop bit as it was opened. Nobody goes on without one, or with anything but one bit."""
    if bit is None or bit.size != 1 or int(bit.flat[0]) not in (0, 1):
        raise ProtocolError("the stop bit was opened to this role, and is not there or not one bit")
    return bool(bit.flat[0])
