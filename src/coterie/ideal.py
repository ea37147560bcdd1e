"""The ideal functionality: what each role learns of a run, when, how precisely and how often.

`ITEMS` says it once, for every option and partition. `learnt` picks what holds under the terms of a run and puts names
to the roles. Made from it are a study's statement, `explain`, the report, the guide's tables (`docs/learnt.py`), the
tests of disclosures, and the check of the log while a run goes on (`clustering/allowed.py`). Loads nothing heavy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

__all__ = ["ITEMS", "MOST_CHOICES", "WHAT", "Groups", "Item", "Learnt", "Roles", "Terms", "learnt"]

#: The most numbers of clusters to choose from in one run: each tells something.
MOST_CHOICES = 100
When = Literal["before", "start", "iteration", "end"]
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

    `doing`: a prediction opens labels alone. `least`, `contribution`, `coalition`, `sizes`: the output rules; with a
    least size of 1, none hold. `columns`: all names, where they are known; `rounded`: those of which opened centres are
    rounded. `scale`: how columns are scaled, `scales`: whether what is worked out in secret for that is opened. `init`:
    where centres start, `starts`: how many starts the best is chosen from. `ids`: whether ids are compared first, as in
    a vertical study. `bounds`: whether ranges of columns are taken from the data.
    """

    partition: str
    doing: Literal["fit", "predict"] = "fit"
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
    bounds: bool = False

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


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is learnt.

    `what`: its name, for an opening the one in the log. `kind`: opened by the protocol; follows from what is opened;
    public anyway; a share that is kept. `to`: the roles that learn it; with `each`, each part goes to those of them who
    hold cells of the row, or of the column. `only`: the terms under which it is learnt. `precision`: how exactly, if
    not as computed. `at`: when, if `MOMENTS` does not say it. `in_last`: is it opened in the last iteration that is
    allowed, too? `sentence`: how it is announced, by partition where that matters; what stands in braces is filled in
    by `report/promises.py`.
    """

    what: str
    kind: Literal["opened", "implied", "public", "kept"] = "opened"
    when: When
    at: str = ""
    to: tuple[Role, ...]
    each: Literal["", "row", "column"] = ""
    only: dict[str, Any] = {}
    precision: str = ""
    in_last: bool = True
    sentence: str | dict[str, str] = ""

    @property
    def moment(self) -> str:
        """When it is learnt, in words."""
        return self.at or MOMENTS[self.when]

    def holds(self, terms: Terms) -> bool:
        """Is it learnt under these terms?"""
        return all(getattr(terms, name) == value for name, value in self.only.items())

    def announced(self, partition: str) -> str:
        return self.sentence if isinstance(self.sentence, str) else self.sentence[partition]


#: What each name in the log stands for, after "learnt".
WHAT = {
    "bounds": "the range of each column, as taken from the data and then widened",
    "equal ids": "one bit: whether all parties hold the same ids",
    "start rows": "the numbers of the rows that k-means++ has drawn for the centres to start from",
    "stop bit": "one bit: whether the centres moved so little that the run stops",
    "labels": "the cluster of each row",
    "counts": "how many rows each cluster has in all",
    "suppression bits": "one bit a cluster: whether it stays closed, since it does not pass the output rules",
    "centers": "the centres of the clusters",
    "sizes": "the sizes of the open clusters, to the nearest multiple of the least size",
    "capped columns": "one bit a column: whether it varies too little for its range, and so weighs less than it should",
    "scales": "the standard deviation of each column over all parties' rows",
    "measures of k": "how good the clusters are for each number of clusters that was tried, one number each",
    "chosen k": "the number of clusters that was chosen",
    "scatter": "the inertia of a single cluster, one number: the squared distances of all rows to their mean, added up",
    "silhouette": "the mean silhouette of all rows, to an eighth each, one number",
    "inertia": "the inertia, one number: the squared distances of all rows to their centres, added up",
}
MOMENTS = {"before": "before the run", "start": "at each start", "iteration": "in each iteration", "end": "at the end"}
EVERYBODY: tuple[Role, ...] = ("owners", "servers", "dealer")
FIT = {"doing": "fit"}
RULED = {"doing": "fit", "ruled": True}
COUNTS = {"doing": "fit", "counts": "revealed", "labels": "private"}
STEP = "multiples of a public step, with a least cluster size"
IN_ALL = "The centres{spared}, in all columns{fine}."

ITEMS: tuple[Item, ...] = (
    Item(what="bounds", when="before", to=EVERYBODY, only={"doing": "fit", "bounds": True}, precision="widened twofold",
         sentence="Before the run, everybody learns the range of the data in each column, widened."),
    Item(what="equal ids", when="before", at="before the first iteration", to=("owners", "servers"), only={"ids": True},
         sentence="Before the first iteration, {who} learn one bit: whether {all} hold the same ids.{whose} It "
         "is worked out among the {computing}, by comparisons of secrets; {dealing}nobody gets anything that guesses "
         "could be tried against."),
    Item(what="start rows", when="start", to=("owners",),
         only={"doing": "fit", "labels": "revealed", "init": "k-means++"},
         sentence="At each start, {who} learn the numbers of the rows that k-means++ has drawn."),
    Item(what="stop bit", when="iteration", at="after each iteration but the last that is allowed", in_last=False,
         to=EVERYBODY, only=FIT,
         sentence="After every iteration, {who} learn one bit: whether the centres have moved so little that the run "
         "stops. (After the last iteration that is allowed, not even that.)"),
    Item(what="counts", when="iteration", to=("servers",), only=COUNTS,
         sentence="In every iteration, {who} learn how many rows each cluster has in all."),
    Item(what="counts", kind="implied", when="iteration", to=("owners",),
         only={"doing": "fit", "counts": "revealed", "labels": "revealed"}),
    Item(what="labels", when="iteration", to=("owners",), only={"doing": "fit", "labels": "revealed"},
         sentence="In every iteration, {who} learn the cluster of every row. From this follow the sizes of the "
         "clusters and, for each party, the centres in its own columns."),
    Item(what="measures of k", when="end", to=("owners",), only={**FIT, "chooses": True, "measures": "revealed"},
         precision="24 bits of the most that an inertia can be, or each row's silhouette to an eighth",
         sentence="For each number of clusters that is tried, one number: {measure}."),
    Item(what="chosen k", when="end", to=EVERYBODY, only={**FIT, "chooses": True},
         sentence="Which number of clusters is chosen."),
    Item(what="suppression bits", when="end", to=("owners", "servers"), only=RULED,
         sentence="Which clusters stay closed (one bit a cluster), and not why. A cluster is open if, both in the "
         "labelling that made its centre and in the final one, {rule}. Of a closed cluster no centre is opened; its "
         "rows are labelled by the nearest open centre. If all are closed, all labels are -1 and there is no inertia."),
    Item(what="centers", when="end", to=("owners",), each="column", only={"doing": "fit", "centers": "revealed"},
         precision=f"{STEP}, in columns that have a resolution",
         sentence={"horizontal": IN_ALL, "mixed": IN_ALL,
                   "vertical": "The centres{spared} in its own columns, not in the others'."}),
    Item(what="labels", when="end", to=("owners",), each="row",
         sentence={"horizontal": "The cluster of each of its own rows.",
                   "vertical": "The cluster of each row, since it holds columns of all. From this follow the sizes of "
                   "the {which}.",
                   "mixed": "The cluster of each row of which it holds at least one value. Whoever holds values of all "
                   "rows thereby learns the clusters' sizes."}),
    Item(what="sizes", when="end", to=("owners",), only={**RULED, "sizes": "rounded"},
         precision="multiples of the least cluster size",
         sentence="The sizes of the open clusters, to the nearest multiple of {least}."),
    Item(what="counts", when="end", to=("owners",), only=COUNTS,
         sentence="The sizes of the clusters, over all parties' rows."),
    Item(what="capped columns", when="end", to=("owners",), only={**FIT, "weighted": True},
         sentence="Which columns vary so little, for their agreed ranges, that they weigh less than they should: one "
         "bit a column."),
    Item(what="scales", when="end", to=("owners",),
         only={**FIT, "weighted": True, "scales": "revealed", "centers": "revealed"}, precision="12 bits",
         sentence="The standard deviation of each column over all parties' rows, to 12 bits: with it, new rows can be "
         "labelled at home."),
    Item(what="inertia", when="end", to=("owners",), only={**FIT, "tells_inertia": True},
         precision=f"{STEP} or shared centres",
         sentence="The inertia, one number{coarse}: the squared distances of all rows to their centres, added up."),
    Item(what="scatter", when="end", to=("owners",), only={**FIT, "tells_scatter": True}, precision=STEP,
         sentence="The inertia that a single cluster would have, one number{coarse}: the squared distances of all rows "
         "to their mean, added up."),
    Item(what="silhouette", when="end", to=("owners",), only={**FIT, "tells_silhouette": True},
         precision="each row's to an eighth",
         sentence="The mean silhouette of all rows, one number, each row's to an eighth: how much closer rows are to "
         "their own centre than to the next."),
    Item(what="share of the centres", kind="kept", when="end", to=("servers",), only={**FIT, "centers": "shared"},
         sentence="No centres: it keeps a share of them, with which new rows can be labelled together."),
    Item(what="table", kind="public", when="before", to=EVERYBODY,
         sentence="How many rows, columns, clusters and parties there are, and who holds how many rows and which "
         "columns."),
    Item(what="columns", kind="public", when="before", to=EVERYBODY,
         sentence="The names of the columns and their agreed ranges."),
    Item(what="options", kind="public", when="before", to=EVERYBODY,
         sentence="All options, and the public random numbers that draw the rows to start from. With k-means++ the "
         "number of the first of these rows is public, otherwise the numbers of all are; never what the rows hold."),
    Item(what="messages", kind="public", when="iteration", to=(*EVERYBODY, "network"),
         sentence="How many iterations the run takes, and when and how much everybody sends."),
    Item(what="participants", kind="public", when="before", to=EVERYBODY,
         sentence="Who takes part: names, addresses and certificates."),
    Item(what="number of open clusters", kind="public", when="end", to=("owners", "servers", "network"), only=RULED,
         sentence="How many clusters are open, from the length of what is sent at the end."),
)  # fmt: skip
#: Who holds the cells of a row or a column, where the layout is not known: one owner, all of them, or some.
HOLDERS = {
    "row": {"horizontal": "one", "vertical": "all", "mixed": "some"},
    "column": {"horizontal": "all", "vertical": "one", "mixed": "all"},
}
#: The parts that a layout makes of labels ("row") and of centres ("column"): what each is called in the log, and which
#: owners (0 is the first) learn it.
Groups = Mapping[str, Sequence[tuple[str, tuple[int, ...]]]]


class Learnt(msgspec.Struct, frozen=True):
    """An item of a run: by whom it is learnt; in the loop, in how many starts and iterations of each; as which detail
    in the log, where that is known. With `some`, each part goes to those of `to` who hold cells of the row."""

    item: Item
    to: tuple[str, ...]
    starts: int = 0
    iterations: int = 0
    detail: str | None = None
    some: bool = False

    @property
    def most(self) -> int:
        """How often it is opened at most."""
        return {"start": self.starts, "iteration": self.starts * self.iterations}.get(self.item.when, 1)

    def has_place(self, restart: int | None, iteration: int | None) -> bool:
        """Is it learnt in this iteration of this start? Both count up from 0 and 1; outside the loop they are None."""
        if self.item.when == "start":
            return restart in range(self.starts) and iteration is None
        if self.item.when != "iteration":
            return (restart, iteration) == (None, None)
        return restart in range(self.starts) and iteration in range(1, self.iterations + 1)

    @property
    def always(self) -> bool:
        """Does it happen in every run that comes to its end?"""
        return self.item.in_last


def learnt(terms: Terms, roles: Roles, groups: Groups | None = None) -> tuple[Learnt, ...]:
    """What is learnt under these terms, opened or not; part by part, as far as it is known who holds what."""
    found: list[Learnt] = []
    for item in ITEMS:
        if not item.holds(terms):
            continue
        if item.each:
            found += _parts(item, terms, roles.owners, groups)
            continue
        iterations = terms.max_iter if item.in_last else terms.max_iter - 1
        detail = f"multiples of {terms.least}" if item.what == "sizes" else ""
        found.append(Learnt(item, roles.names(item.to), terms.starts, iterations, detail))
    return tuple(found)


def _parts(item: Item, terms: Terms, owners: tuple[str, ...], groups: Groups | None) -> Iterator[Learnt]:
    if groups is not None:
        for detail, held in groups[item.each]:
            yield Learnt(item, tuple(owners[j] for j in held), detail=detail)
        return
    holders = HOLDERS[item.each][terms.partition]
    if holders == "one":
        yield from (Learnt(item, (name,)) for name in owners)
    else:
        yield Learnt(item, owners, some=holders == "some")
