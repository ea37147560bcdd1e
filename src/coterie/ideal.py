"""The ideal functionality: what each role learns of a run, when, how precisely and how often.

`ITEMS` says it once, for every option and partition. `learnt` picks what holds under the terms of a run and puts names
to the roles. Made from it are a study's statement, `explain`, the report, the guide's tables (`docs/learnt.py`), the
tests of disclosures, and the check of the log while a run goes on (`clustering/allowed.py`). Loads nothing heavy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from coterie.terms import Role, Roles, Terms

__all__ = ["ITEMS", "MOST_CHOICES", "WHAT", "Groups", "Item", "Learnt", "Roles", "Terms", "learnt"]

#: The most numbers of clusters to choose from in one run: each tells something.
MOST_CHOICES = 100
When = Literal["before", "start", "iteration", "end"]


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
    "largest weight": "the largest weight of a row",
    "equal ids": "one bit: whether all parties hold the same ids",
    "matching ids": "which ids all parties hold, or who holds which cells: each party of its own rows; the helper, how "
    "many",
    "tags of ids": "how many ids each set of parties has in common, and no id",
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
    "closed columns": "one bit a column: whether it stays closed, since it does not pass the output rules",
    "missing values": "how many values of each open column are missing, to the nearest multiple of the least size",
    "column means": "the mean of each open column, to a step of a public grid",
    "quantiles": "quantiles of each open column, each as a cell of a public grid; none where too few rows lie beyond",
}
MOMENTS = {"before": "before the run", "start": "at each start", "iteration": "in each iteration", "end": "at the end"}
EVERYBODY: tuple[Role, ...] = ("owners", "servers", "dealer")
FIT = {"doing": "fit"}
RULED = {"doing": "fit", "ruled": True}
LABELLED = {"tells_labels": True}
CLUSTERED = {"clusters_rows": True}
SURVEY = {"doing": "survey"}
COUNTS = {"doing": "fit", "counts": "revealed", "labels": "private"}
STEP = "multiples of a public step, with a least cluster size"
TAGS = (
    "The helper gets a tag of every id, made with a key that it lacks: it learns how many ids each set of parties has "
    "in common, and no id. (Together with a party it could try out ids.)"
)
IN_ALL = "The centres{spared}, in all columns{fine}."

ITEMS: tuple[Item, ...] = (
    Item(what="bounds", when="before", to=EVERYBODY, only={"doing": "fit", "bounds": True}, precision="widened twofold",
         sentence="Before the run, everybody learns the range of the data in each column, widened."),
    Item(what="largest weight", when="before", to=EVERYBODY, only={"doing": "fit", "row_weights": True},
         sentence="Before the run, everybody learns the largest weight of a row."),
    Item(what="equal ids", when="before", at="before the first iteration", to=("owners", "servers"),
         only={"ids": True, "matching": "equal"},
         sentence="Before the first iteration, {who} learn one bit: whether {all} hold the same ids.{whose} It "
         "is worked out among the {computing}, by comparisons of secrets; {dealing}nobody gets anything that guesses "
         "could be tried against."),
    Item(what="matching ids", when="before", at="before the first iteration", to=EVERYBODY,
         only={"ids": True, "matching": "shared"},
         sentence={"vertical": "Before the first iteration, rows are matched. Each party learns which of its own ids "
                   f"all others hold too, and nothing of the rest. {TAGS} Everybody learns how many rows all hold, "
                   "unless these are too few: then nothing but that.",
                   "mixed": "Before the first iteration, rows are matched. Each party learns which others hold cells "
                   f"of its own rows. {TAGS} Everybody learns how many rows there are of which some parties hold some "
                   "cells, and not which, since rows stand in random order; or how many cells are in the way."}),
    Item(what="tags of ids", when="before", at="before the first iteration", to=("dealer",),
         only={"ids": True, "matching": "private"},
         sentence="Before the first iteration, rows are matched in private. The helper gets a tag of every id, made "
         "with a key that it lacks: it learns how many ids each set of parties has in common, and no id. (Together "
         "with a party it could try out ids.) Nobody else learns even how many match: each party gets random places "
         "for its rows, and a share of which places count."),
    Item(what="start rows", when="start", to=("owners",),
         only={"doing": "fit", "labels": "revealed", "init": "k-means++"},
         sentence="At each start, {who} learn the numbers of the rows that k-means++ has drawn."),
    Item(what="stop bit", when="iteration", at="after each iteration but the last that is allowed", in_last=False,
         to=EVERYBODY, only={**FIT, "tells_stops": True},
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
    Item(what="labels", when="end", to=("owners",), each="row", only=LABELLED,
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
    Item(what="closed columns", when="end", to=("owners", "servers"), only=SURVEY,
         sentence="Which columns stay closed (one bit a column), and not why. A column is open if {rule}. Of a closed "
         "column nothing else is opened."),
    Item(what="missing values", when="end", to=("owners",), only=SURVEY, precision="multiples of the least size",
         sentence="Of each open column, how many values are missing in all{missing}."),
    Item(what="column means", when="end", to=("owners",), only=SURVEY, precision="a public step, a cell or more",
         sentence="Of each open column, the mean over all rows, values beyond the bounds counted as lying on them, to "
         "a step of at least a {cells}th of the range."),
    Item(what="quantiles", when="end", to=("owners",), only=SURVEY, precision="a cell of a public grid, if at all",
         sentence="Of each open column, the cells in which these quantiles lie: {quantiles}; or that they lie outside "
         "the bounds. A quantile stays closed, and not why, {quiet}."),
    Item(what="table", kind="public", when="before", to=EVERYBODY, only=SURVEY,
         sentence="How many rows, columns and parties there are, and who holds how many rows and which columns."),
    Item(what="options", kind="public", when="before", to=EVERYBODY, only=SURVEY,
         sentence="All options: the quantiles and the grid, on which nothing of the data has any influence."),
    Item(what="messages", kind="public", when="end", to=(*EVERYBODY, "network"), only=SURVEY,
         sentence="When and how much everybody sends, which does not depend on the data."),
    Item(what="table", kind="public", when="before", to=EVERYBODY, only=CLUSTERED,
         sentence="How many rows, columns, clusters and parties there are, and who holds how many rows and which "
         "columns."),
    Item(what="columns", kind="public", when="before", to=EVERYBODY,
         sentence="The names of the columns and their agreed ranges."),
    Item(what="options", kind="public", when="before", to=EVERYBODY, only=CLUSTERED,
         sentence="All options, and the public random numbers that draw the rows to start from. {drawn}"),
    Item(what="messages", kind="public", when="iteration", to=(*EVERYBODY, "network"), only=CLUSTERED,
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
