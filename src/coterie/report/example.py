"""The paper's example, as its page shows it: the points, what is found in them, and whether secure runs agree with
k-means on all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from coterie.sharing import Disclosure
    from coterie.transport import Traffic

__all__ = [
    "ALGORITHMS",
    "ITERATED",
    "MEANINGS",
    "NAMES",
    "TOLERANCE",
    "Agreement",
    "Counted",
    "Example",
    "Found",
    "K",
    "Pooled",
    "SecureRun",
    "compare",
    "match_clusters",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: How many blobs there are, and so clusters.
K = 4
#: Centres count as the same where no coordinate differs by more: a thousandth of a blob's standard deviation.
TOLERANCE = 1e-3
NAMES = {"P0": "P0", "P1": "Alice", "P2": "Bob"}
#: The paper's algorithms, for somebody who has not read it.
MEANINGS = {
    "SHK-means": "Secure Horizontal k-means, for data split by rows. It works for every other split, too. Labels "
    "and centres stay secret until the end; the sizes of the clusters stay secret, or are revealed in every iteration, "
    "which needs fewer rounds.",
    "SVK-means": "Secure Vertical k-means, for data split by columns. It reveals the labels of every iteration to "
    "Alice and Bob, and with them the clusters' sizes; each then updates the centres of its own columns at home.",
}


class Algorithm(NamedTuple):
    """A row of the paper's table of rounds, and the options that run it here (none: a part of the others)."""

    name: str
    formula: str
    rounds: Callable[[int], int]
    options: dict[str, str]


#: The paper's table "Communication rounds for each protocol"; the last three are rounds an iteration.
ALGORITHMS = {
    "ElementWiseMatMul": Algorithm("ElementWiseMatMul", "2", lambda _: 2, {}),
    "MatDist": Algorithm("MatDist", "2", lambda _: 2, {}),
    "LabelSamples": Algorithm("LabelSamples", "2k + 8", lambda k: 2 * k + 8, {}),
    "SHK secret": Algorithm("SHK-means, sizes secret", "2k + 150", lambda k: 2 * k + 150, {"counts": "secret"}),
    "SHK revealed": Algorithm("SHK-means, sizes revealed", "2k + 20", lambda k: 2 * k + 20, {"counts": "revealed"}),
    "SVK": Algorithm("SVK-means", "9k", lambda k: 9 * k, {"partition": "vertical", "labels": "revealed"}),
}
ITERATED = ("SHK secret", "SHK revealed", "SVK")


@dataclass(frozen=True)
class Found:
    """The cluster of every point, and the centres (one column where only one was looked at)."""

    labels: Ints
    centers: Floats


@dataclass(frozen=True)
class Pooled(Found):
    """k-means on all points in one place, by scikit-learn."""

    iterations: int


@dataclass(frozen=True)
class SecureRun:
    """One secure run between processes, and what it took. `disclosures` is its log, as it was written."""

    algorithm: str
    protocol: str
    partition: str
    found: Found
    iterations: int
    seconds: float
    traffic: Traffic
    disclosures: list[Disclosure]

    @property
    def sent(self) -> int:
        return sum(self.traffic.bytes_sent.values())


class Counted(NamedTuple):
    """Rounds as counted at the channel, both ways."""

    algorithm: str
    protocol: str
    k: int
    with_dealing: int
    rounds: int


class Agreement(NamedTuple):
    """How a result compares with the centralised one: points of the same label, of how many; and the largest
    difference of a centre's coordinate."""

    same: int
    points: int
    off: float

    @property
    def holds(self) -> bool:
        return self.same == self.points and self.off <= TOLERANCE


@dataclass
class Example:
    """Everything that the page shows."""

    points: Floats
    blob: Ints
    bobs: NDArray[np.bool_]
    pooled: Pooled
    by_rows: Found
    by_columns: Found
    tested_by_bob: Ints
    start: Sequence[int]
    runs: list[SecureRun] = field(default_factory=list)
    counted: list[Counted] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def alices(self) -> list[int]:
        """How many points of each blob are Alice's."""
        counts: list[int] = np.bincount(self.blob[~self.bobs], minlength=K).tolist()
        return counts

    @property
    def agreements(self) -> list[Agreement]:
        return [compare(run.found, self.pooled) for run in self.runs]

    @property
    def holds(self) -> bool:
        """Did every secure run give the centralised result?"""
        return bool(self.runs) and all(one.holds for one in self.agreements)

    @property
    def sent(self) -> dict[str, int]:
        """Bytes by name, over all secure runs."""
        return {name: sum(run.traffic.bytes_sent.get(rank, 0) for run in self.runs) for rank, name in NAMES.items()}


def compare(found: Found, reference: Found) -> Agreement:
    """Compare label by label and centre by centre; no renaming of clusters."""
    same = int((found.labels == reference.labels).sum())
    return Agreement(same, len(reference.labels), float(np.abs(found.centers - reference.centers).max()))


def match_clusters(labels: Ints, blob: Ints) -> Ints:
    """The blob that each cluster stands for, in the naming of clusters that gets most points right."""
    hits = np.array([[((labels == c) & (blob == b)).sum() for b in range(K)] for c in range(K)])
    return np.array(max(permutations(range(K)), key=lambda named: int(hits[range(K), named].sum())))
