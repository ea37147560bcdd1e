"""What a run will disclose and to whom, what it keeps, and what that rests on: before anything has run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from coterie.report.formats import join_names

__all__ = ["Options", "Promised", "Promises", "promises"]

When = Literal["before", "iteration", "end"]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the promises follow from.

    `least`, `contribution`, `coalition`, `sizes`: the output rules that hold; with a least size of 1, none do.
    `rounded`: the columns of which opened centres are rounded; `all_rounded`: whether these are all columns. `starts`:
    how many starts the best is chosen from. `ids`: whether ids are compared first, as in a vertical study. `bounds`:
    whether ranges of columns are taken from the data.
    """

    partition: str
    counts: str = "secret"
    labels: str = "private"
    centers: str = "revealed"
    protocol: str = "onetime"
    helper: str
    parties: Sequence[str]
    least: int = 1
    contribution: str = "least"
    coalition: int = 1
    sizes: str = "secret"
    rounded: Sequence[str] = ()
    all_rounded: bool = False
    starts: int = 1
    ids: bool = False
    bounds: bool = False

    @property
    def ruled(self) -> bool:
        return self.least > 1

    @property
    def by_rows(self) -> bool:
        """Do rows come from several parties, so that what each contributes can be counted?"""
        return self.partition != "vertical"

    @property
    def apart(self) -> int:
        """How many parties may be taken away at a time."""
        return min(self.coalition, len(self.parties) - 1)


class Promised(msgspec.Struct, frozen=True):
    """A value that will be opened: its name in the log, to whom, when, and the sentence that says so. With `each`, each
    part of it goes to those of `to` who hold values of the row."""

    what: str
    to: tuple[str, ...]
    when: When
    sentence: str
    each: bool = False


class Promises(msgspec.Struct, frozen=True):
    """What follows from the options. `openings` is all that is opened, and the log holds nothing else; `during` and
    `at_end` (by recipient) are its sentences, and some on what is not opened."""

    openings: list[Promised]
    during: list[str]
    at_end: dict[str, list[str]]
    nobody: list[str]
    public: list[str]
    assumptions: list[str]
    not_protected: list[str]


def promises(options: Options) -> Promises:
    """What each role learns under these options, what nobody learns, and what that rests on."""
    openings = [*_before(options), *_in_iterations(options), *_at_end(options)]
    during = [one.sentence for one in openings if one.when != "end"]
    if options.counts == "secret" and options.labels == "private":
        during.append("Nothing else is opened before the end: no label, no size, no centre, no distance.")
    at_end = {
        name: [one.sentence for one in openings if one.when == "end" and name in one.to] for name in options.parties
    }
    if options.centers == "shared":
        for learnt in at_end.values():
            learnt.append("No centres: it keeps a share of them, with which new rows can be labelled together.")
    at_end[options.helper] = ["Nothing: no centre, no label, no size, no inertia, and not which clusters are closed."]
    return Promises(
        openings, during, at_end, _nobody(options), _public(), _assumptions(options), _not_protected(options)
    )


# -- what is opened --------------------------------------------------------------------------------------------------


def _before(options: Options) -> list[Promised]:
    parties, everybody = tuple(options.parties), (options.helper, *options.parties)
    found = []
    if options.bounds:
        said = "Before the run, everybody learns the range of the data in each column, widened."
        found.append(Promised("bounds", everybody, "before", said))
    if options.ids:
        whose = " If not, nobody learns whose differ, or in what." if len(parties) > 2 else ""
        said = (
            f"Before the first iteration, {join_names(parties)} learn one bit: whether all of them hold the same ids."
            f"{whose} It is worked out among the data parties, by comparisons of secrets; the helper receives nothing "
            "of the ids, and nobody gets anything that guesses could be tried against."
        )
        found.append(Promised("equal ids", parties, "before", said))
    return found


def _in_iterations(options: Options) -> list[Promised]:
    parties = tuple(options.parties)
    everyone = join_names(parties)
    said = (
        f"After every iteration, {everyone} and the helper {options.helper} learn one bit: whether the centres have "
        "moved so little that the run stops. (After the last iteration that is allowed, not even that.)"
    )
    found = [Promised("stop bit", (options.helper, *parties), "iteration", said)]
    if options.labels == "revealed":
        said = (
            f"In every iteration, {everyone} learn the cluster of every row. From this follow the sizes of the "
            "clusters and, for each party, the centres in its own columns."
        )
        found.append(Promised("labels", parties, "iteration", said))
    elif options.counts == "revealed":
        said = f"In every iteration, {everyone} learn how many rows each cluster has in all."
        found.append(Promised("counts", parties, "iteration", said))
    return found


def _at_end(options: Options) -> list[Promised]:
    parties = tuple(options.parties)
    alone = [(name,) for name in parties]
    found = []
    if options.ruled:
        found.append(Promised("suppression bits", parties, "end", _closing(options)))
    spared = " of the open clusters" if options.ruled else ""
    if options.centers == "revealed":
        fine = f", rounded in {_columns(options)}" if options.rounded else ""
        if options.partition == "vertical":
            said = f"The centres{spared} in its own columns, not in the others'."
            found += [Promised("centers", to, "end", said) for to in alone]
        else:
            found.append(Promised("centers", parties, "end", f"The centres{spared}, in all columns{fine}."))
    found += _labels(options)
    if options.ruled and options.sizes == "rounded":
        said = f"The sizes of the open clusters, to the nearest multiple of {options.least}."
        found.append(Promised("sizes", parties, "end", said))
    if options.counts == "revealed" and options.labels == "private":
        found.append(Promised("counts", parties, "end", "The sizes of the clusters, over all parties' rows."))
    coarse = ", in steps of a public size" if options.ruled else ""
    said = f"The inertia, one number{coarse}: the squared distances of all rows to their centres, added up."
    found.append(Promised("inertia", parties, "end", said))
    return found


def _labels(options: Options) -> list[Promised]:
    parties = tuple(options.parties)
    if options.partition == "horizontal":
        said = "The cluster of each of its own rows."
        return [Promised("labels", (name,), "end", said) for name in parties]
    if options.partition == "vertical":
        which = "open clusters" if options.ruled else "clusters"
        said = f"The cluster of each row, since it holds columns of all. From this follow the sizes of the {which}."
        return [Promised("labels", parties, "end", said)]
    said = (
        "The cluster of each row of which it holds at least one value. Whoever holds values of all rows thereby learns "
        "the clusters' sizes."
    )
    return [Promised("labels", parties, "end", said, each=True)]


def _closing(options: Options) -> str:
    return (
        "Which clusters stay closed (one bit a cluster), and not why. A cluster is open if, both in the labelling that "
        f"made its centre and in the final one, {_rule(options)}. Of a closed cluster no centre is opened; its rows "
        "are labelled by the nearest open centre. If all are closed, all labels are -1 and there is no inertia."
    )


def _rule(options: Options) -> str:
    """What a cluster must pass, in each of the two labellings."""
    least, apart = options.least, options.apart
    enough = f"it has at least {least} rows"
    if not options.by_rows or options.contribution == "off":
        return enough
    count = f"at least {least}" + (" or none at all" if options.contribution == "none-or-least" else "")
    of_what = "rows" if options.partition == "horizontal" else "values in each column of which they hold any"
    if apart > 1:
        parties = f"every {apart} parties"
        if options.contribution == "none-or-least":
            parties = f"every party, and every group of up to {apart},"
    else:
        parties = "every party"
    return f"{enough} and, for {parties}, the others together contribute {count} of its {of_what}"


def _columns(options: Options) -> str:
    if options.all_rounded:
        return "all of them"
    named = join_names(list(options.rounded))
    return f"column {named}" if len(options.rounded) == 1 else f"columns {named}"


# -- what is not ------------------------------------------------------------------------------------------------------


def _nobody(options: Options) -> list[str]:
    nobody = [
        "A value of another party's data, as far as the results do not tell it. Rows and columns are never put "
        "together in one place; what leaves their holder is masked with random numbers that are used once.",
        "How far a row lies from a centre, or how far the centres have moved.",
    ]
    if options.labels == "private":
        nobody.append("The centres and the labels of the iterations before the last.")
        if options.by_rows:
            nobody.append("The cluster of a row, except for those who hold values of that row.")
        if options.counts == "secret" and options.partition == "horizontal":
            which = "exact sizes" if options.sizes == "rounded" and options.ruled else "sizes"
            nobody.append(
                f"The {which} of the clusters, as far as the results do not tell them: they are never opened, and a "
                "party can count only those of its rows that are in each."
            )
    if options.partition == "vertical" and options.centers == "revealed":
        nobody.append("The centres in a column, except for the party that holds the column.")
    if options.centers == "shared":
        nobody.append("The centres: each party keeps a share, which alone is a random number.")
    if options.ruled:
        kept = "; in the shares that are kept, a copy of an open one stands in its place" * (
            options.centers == "shared"
        )
        nobody.append(f"The centre of a closed cluster{kept}.")
        of_whom = ", in all or of others than some party, or of which party" if _contributing(options) else ""
        nobody.append(f"Why a cluster is closed: in which of the two labellings it has too few rows{of_whom}.")
    if options.starts > 1 and options.counts == "secret" and options.labels == "private":
        nobody.append(f"Which of the {options.starts} starts gave the result, and how good the others were.")
    return nobody


def _contributing(options: Options) -> bool:
    return options.ruled and options.by_rows and options.contribution != "off"


def _public() -> list[str]:
    return [
        "How many rows, columns, clusters and parties there are, and who holds how many rows and which columns.",
        "The names of the columns and their agreed ranges.",
        "All options, and the numbers (not the contents) of the rows that the centres start from.",
        "How many iterations the run takes, and when and how much everybody sends.",
        "Who takes part: names, addresses and certificates.",
    ]


def _assumptions(options: Options) -> list[str]:
    parties = options.parties
    together = (
        "neither party learns more about the other's data"
        if len(parties) == 2
        else f"even {len(parties) - 1} of the {len(parties)} parties together learn no more about the others' data"
    )
    seen = (
        "It receives nothing from the parties but the stop bit."
        if options.protocol == "onetime"
        else "What it receives from the parties is masked: it looks random to the helper."
    )
    return [
        "Everybody follows the protocol (semi-honest): they run the agreed program on their true data, and may try to "
        "learn what they can from what they see.",
        f"The helper {options.helper} does not pool what it knows with any data party. {seen}",
        f"As long as that holds, {together} than the results say.",
        "Keys and machines are in the hands of those whose names they carry. Connections are encrypted (TLS 1.3), and "
        "both ends are authenticated.",
    ]


# -- what is not protected ---------------------------------------------------------------------------------------------


def _not_protected(options: Options) -> list[str]:
    found = ["The result itself. Centres are means of rows, and labels say which rows are alike; no noise is added."]
    found += _of_small_clusters(options) if options.ruled else _without_rules(options)
    found += _of_precision(options)
    if options.centers == "shared":
        found.append(
            "What predictions tell: each says which centre a row is closest to. Whoever may label any number of "
            "made-up rows can work out the centres that are open. A policy can limit the rows."
        )
    return [
        *found,
        "What several runs tell together: two results from tables that differ by one row say something about that row, "
        "and each further number of clusters or start says more. Rules are tested run by run; a policy can limit runs.",
        "What everybody knows anyway: the numbers of rows, columns, clusters and parties, and of iterations.",
        "A helper that does collude with a data party: together they can work out the other parties' data.",
        "A party that breaks the protocol, or brings made-up data: that it did so is not detected.",
    ]


def _without_rules(options: Options) -> list[str]:
    found = [
        "Small clusters: without a least cluster size the centre of a cluster of one row is that row, and that of an "
        "empty one may be the row that it started from."
    ]
    if options.counts == "revealed" and options.by_rows:
        found.append(
            "What follows from size and centre together: a party can take its own rows off and is left with the "
            "number and the mean of all other parties' rows in that cluster."
        )
    return found


def _of_small_clusters(options: Options) -> list[str]:
    least = options.least
    extreme = (
        f"Extreme values: one row far from all others moves a mean of {least} rows visibly; that it is among enough "
        "others does not hide it."
    )
    if not options.by_rows:
        return [
            "Small groups, from the other parties. Every party holds values of every row and learns every row's "
            f"cluster. What holds is that no label sets fewer than {least} rows apart, and that no centre of fewer is "
            "opened, to the holder of the column. There is no rule on contributions, since nobody's rows can be taken "
            "away: rows that are alike in a party's own columns and have different labels differ in the others', and "
            "whoever knows who they are knows that of them.",
            extreme,
        ]
    found = []
    if options.contribution == "off":
        found.append(
            f"A few rows among many of one party: a cluster of {least} rows is open even if all but one of them are "
            "one party's, who can take its own off the centre and is left with the other row."
        )
    else:
        found.append(
            f"That there are others: an open cluster says that others have at least {least} rows in it. So whoever "
            "brings made-up rows learns whether others have that many near them; and if it knows or guesses the size, "
            "it can take its own part off the centre and is left with the mean of the others' rows."
        )
    if options.contribution == "none-or-least":
        found.append(
            "A cluster that one party has to itself: it is open, and its centre is a mean of that party's rows alone. "
            f"And whoever brings {least} made-up rows learns whether others have a row near them: then, and if these "
            f"are fewer than {least}, the cluster is closed."
        )
    if options.contribution != "off" and options.apart < len(options.parties) - 1:
        more = "Several parties" if options.apart == 1 else f"More than {options.apart} parties"
        found.append(
            f"{more} that pool what they know: without the rows of all of them, fewer than {least} may be left in an "
            "open cluster, down to one. A policy can ask for more (coalition)."
        )
    return [*found, extreme]


def _of_precision(options: Options) -> list[str]:
    """What exact or rounded centres tell of sizes. Where columns are split, labels tell them anyway."""
    if not options.by_rows or options.counts == "revealed" or options.centers != "revealed":
        return []
    found = []
    if options.rounded:
        found.append(
            f"Sizes, from a participant: centres are rounded in {_columns(options)}, so that of themselves they rule "
            f"out no size from {options.least} upwards. Whoever knows rows in the cluster, such as a party its own, "
            "knows more."
        )
    if not (options.rounded and options.all_rounded):
        where = "the other columns" if options.rounded else "a column"
        found.append(
            f"Sizes, where {where} {'hold' if options.rounded else 'holds'} whole numbers or few digits: centres are "
            "given as precisely as they were computed, and a mean that precise often tells of how many rows it is. A "
            "resolution of the column, together with a least cluster size, prevents that."
        )
    return found
