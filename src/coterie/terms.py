"""Who has which role in a run, and the terms under which it is learnt what (`ideal.py`). Loads nothing heavy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

__all__ = ["Role", "Roles", "Terms"]

Role = Literal["owners", "servers", "dealer", "network"]


class Roles(msgspec.Struct, frozen=True):
    """Names by role. Owners bring data, servers hold shares and compute, a dealer deals what they compute with. One
    participant may own and serve. The owners stand in the order of the table's layout."""

    owners: tuple[str, ...]
    servers: tuple[str, ...]
    dealer: str | None = None

    @property
    def everybody(self) -> tuple[str, ...]:
        dealer = () if self.dealer is None else (self.dealer,)
        return (*dealer, *self.owners, *(name for name in self.servers if name not in self.owners))

    @property
    def players(self) -> tuple[str, ...]:
        """Everybody but the dealer."""
        return tuple(name for name in self.everybody if name != self.dealer)

    @property
    def owners_serve(self) -> bool:
        """Do all owners, and nobody else, hold shares and compute?"""
        return set(self.servers) == set(self.owners)

    @property
    def keeper(self) -> str:
        """What somebody who holds shares is called."""
        return "party" if self.owners_serve else "server"

    @property
    def all_own(self) -> bool:
        """Does everybody who computes bring data?"""
        return set(self.servers) <= set(self.owners)

    def names(self, to: Sequence[Role]) -> tuple[str, ...]:
        """Everybody who has one of these roles."""
        held = {"owners": self.owners, "servers": self.servers, "dealer": (self.dealer,), "network": ()}
        chosen = {name for role in to for name in held[role]}
        return tuple(name for name in self.everybody if name in chosen)


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What the items depend on: the options of a task.

    `doing`: a prediction opens labels alone, a survey nothing of what a fit opens. `least`, `contribution`,
    `coalition`, `sizes`: the output rules; with a least size of 1, none hold. `columns`: all names, where they are
    known; `rounded`: those of which opened centres are rounded. `scale`: how columns are scaled, `scales`: whether
    what is worked out in secret for that is opened. `init`: where centres start, `starts`: how many starts the best is
    chosen from. `ids`: whether ids are compared first, as in a vertical study; `matching`: or found. `bounds`: whether
    ranges of columns are taken from the data, `row_weights`: whether the largest weight of a row is; `weighed`: whether
    rows have weights at all.
    """

    partition: str
    doing: Literal["fit", "predict", "survey"] = "fit"
    counts: str = "secret"
    labels: str = "private"
    centers: str = "revealed"
    least: int = 1
    contribution: str = "least"
    coalition: int = 1
    sizes: str = "secret"
    quality: tuple[str, ...] = ("inertia", "silhouette", "calinski-harabasz")
    clusters: int = 2
    chooses: bool = False
    choose: str = "calinski-harabasz"
    measures: str = "revealed"
    columns: tuple[str, ...] = ()
    rounded: tuple[str, ...] = ()
    scale: str = "none"
    scales: str = "revealed"
    init: str = "k-means++"
    starts: int = 1
    max_iter: int = 300
    ids: bool = False
    matching: str = "equal"
    bounds: bool = False
    row_weights: bool = False
    weighed: bool = False

    @property
    def tells_labels(self) -> bool:
        """Are labels opened? A survey has none; where rows are matched in private, a row's label would tell that it has
        a match."""
        return self.doing != "survey" and self.matching != "private"

    @property
    def clusters_rows(self) -> bool:
        return self.doing != "survey"

    @property
    def tells_stops(self) -> bool:
        """Is it opened, iteration by iteration, whether the centres rest? Where rows are matched in private, that would
        tell something of who matches."""
        return self.matching != "private"

    @property
    def draws_first(self) -> bool:
        """Does k-means++ draw the first row in secret, too, since not all rows count alike?"""
        return self.matching == "private" or self.weighed

    @property
    def ruled(self) -> bool:
        """Do output rules hold?"""
        return self.least > 1

    @property
    def by_rows(self) -> bool:
        """Do rows come from several parties, so that what each contributes can be counted?"""
        return self.partition != "vertical"

    @property
    def tells_inertia(self) -> bool:
        return ("inertia" in self.quality or self.tells_scatter) and not self.told_before

    @property
    def tells_scatter(self) -> bool:
        return "calinski-harabasz" in self.quality and not self.told_before

    @property
    def told_before(self) -> bool:
        """Are inertias opened of all numbers of clusters, and so none once more?"""
        return self.chooses and self.measures == "revealed" and self.choose == "calinski-harabasz"

    @property
    def tells_silhouette(self) -> bool:
        before = self.chooses and self.measures == "revealed" and self.choose == "silhouette"
        return "silhouette" in self.quality and self.clusters > 1 and not before

    @property
    def weighted(self) -> bool:
        """Are columns standardised in secret? By columns, each party does that at home."""
        return self.scale == "standard" and self.by_rows

    @property
    def all_rounded(self) -> bool:
        return bool(self.columns) and set(self.columns) <= set(self.rounded)
