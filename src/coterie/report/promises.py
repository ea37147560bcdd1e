"""What a run will disclose and to whom, what it keeps, and what that rests on: before anything has run."""

from __future__ import annotations

import msgspec

from coterie.ideal import Learnt, Roles, Terms, When, learnt
from coterie.report.formats import join_names, spell_number

__all__ = ["Promised", "Promises", "of_helper", "of_servers", "promises"]


class Promised(msgspec.Struct, frozen=True):
    """A value that will be opened: its name in the log, to whom, when, and the sentence that says so. With `each`, each
    part of it goes to those of `to` who hold values of the row."""

    what: str
    to: tuple[str, ...]
    when: When
    sentence: str
    each: bool = False


class Promises(msgspec.Struct, frozen=True):
    """What follows from the terms. `openings` is all that is opened, and the log holds nothing else; `during` and
    `at_end` (by recipient) are its sentences, and some on what is not opened."""

    openings: list[Promised]
    during: list[str]
    at_end: dict[str, list[str]]
    nobody: list[str]
    public: list[str]
    assumptions: list[str]
    not_protected: list[str]


def promises(terms: Terms, roles: Roles, protocol: str = "onetime") -> Promises:
    """What each role learns under these terms, what nobody learns, and what that rests on."""
    items = learnt(terms, roles)
    openings = [
        Promised(one.item.what, one.to, one.item.when, _sentence(one, terms, roles), one.some)
        for one in items
        if one.item.kind == "opened"
    ]
    during = [one.sentence for one in openings if one.when != "end"]
    if terms.counts == "secret" and terms.labels == "private":
        during.append("Nothing else is opened before the end: no label, no size, no centre, no distance.")
    return Promises(
        openings,
        during,
        {name: _at_end(name, items, terms, roles) for name in sorted(roles.everybody, key=lambda n: n == roles.dealer)},
        _nobody(terms, roles),
        [_sentence(one, terms, roles) for one in items if one.item.kind == "public" and "dealer" in one.item.to],
        _assumptions(terms, roles, protocol),
        _not_protected(terms, roles),
    )


# -- what is opened --------------------------------------------------------------------------------------------------


def _at_end(name: str, items: tuple[Learnt, ...], terms: Terms, roles: Roles) -> list[str]:
    """What one participant learns at the end, and what it keeps."""
    found = [
        _sentence(one, terms, roles)
        for one in items
        if name in one.to and one.item.when == "end" and one.item.kind in ("opened", "kept")
    ]
    if name in roles.owners:
        return found
    knows_sizes = terms.counts == "revealed" and name in roles.servers  # from the iterations
    none = "no centre, no label, no inertia" if knows_sizes else "no centre, no label, no size, no inertia"
    return [*found, f"Nothing else: {none}."] if found else [f"Nothing: {none}, and not which clusters are closed."]


def _sentence(one: Learnt, terms: Terms, roles: Roles) -> str:
    """How an item is announced, with names and numbers in it."""
    who = join_names([name for name in one.to if name != roles.dealer])
    return one.item.announced(terms.partition).format(
        who=f"{who} and the helper {roles.dealer}" if roles.dealer in one.to else who,
        all="all of them" if roles.all_own else "all data parties",
        whose=" If not, nobody learns whose differ, or in what." if len(roles.owners) > 2 else "",
        computing="data parties" if set(roles.servers) <= set(roles.owners) else "servers",
        dealing="the helper receives nothing of the ids, and " if roles.dealer else "",
        rule=_rule(terms, roles),
        spared=" of the open clusters" if terms.ruled else "",
        fine=f", rounded in {_columns(terms)}" if terms.rounded else "",
        which="open clusters" if terms.ruled else "clusters",
        least=terms.least,
        coarse=", in steps of a public size" if terms.ruled else "",
        measure=_measure(terms),
        drawn=_drawn(terms),
    )


def _drawn(terms: Terms) -> str:
    """What the public random numbers tell of the rows to start from."""
    if terms.init == "k-means++" and terms.draws_first:
        return "Nobody learns which rows they draw, since what rows count for is secret."
    return (
        "With k-means++ the number of the first of these rows is public, otherwise the numbers of all are; never what "
        "the rows hold."
    )


def _measure(terms: Terms) -> str:
    """What is opened of each number of clusters that is tried."""
    unless = "; none, where a cluster does not pass the output rules" * terms.ruled
    if terms.choose == "silhouette":
        return f"the mean silhouette of all rows, each row's to an eighth{unless}"
    fine = "in steps of a public size" if terms.ruled else "to 24 bits of the most that it can be"
    return (
        f"its inertia, {fine}{unless}. Beside them, the inertia that a single cluster would have: the "
        "Calinski-Harabasz indices follow from these"
    )


def _apart(terms: Terms, roles: Roles) -> int:
    """How many parties may be taken away at a time."""
    return min(terms.coalition, len(roles.owners) - 1)


def _rule(terms: Terms, roles: Roles) -> str:
    """What a cluster must pass, in each of the two labellings."""
    least, apart = terms.least, _apart(terms, roles)
    enough = f"it has at least {least} rows"
    if not terms.by_rows or terms.contribution == "off":
        return enough
    count = f"at least {least}" + (" or none at all" if terms.contribution == "none-or-least" else "")
    of_what = "rows" if terms.partition == "horizontal" else "values in each column of which they hold any"
    if apart > 1:
        parties = f"every {apart} parties"
        if terms.contribution == "none-or-least":
            parties = f"every party, and every group of up to {apart},"
    else:
        parties = "every party"
    return f"{enough} and, for {parties}, the others together contribute {count} of its {of_what}"


def _columns(terms: Terms) -> str:
    if terms.all_rounded:
        return "all of them"
    named = join_names(list(terms.rounded))
    return f"column {named}" if len(terms.rounded) == 1 else f"columns {named}"


# -- what is not ------------------------------------------------------------------------------------------------------


def _nobody(terms: Terms, roles: Roles) -> list[str]:
    nobody = [
        "A value of another party's data, as far as the results do not tell it. Rows and columns are never put "
        "together in one place; what leaves their holder is masked with random numbers that are used once.",
        "How far a row lies from a centre, or how far the centres have moved.",
    ]
    if terms.labels == "private":
        if terms.init == "k-means++":
            first = "" if terms.draws_first else ", but for the first"
            nobody.append(f"Which rows k-means++ has drawn for the centres to start from{first}.")
        nobody.append("The centres and the labels of the iterations before the last.")
        if not terms.tells_labels:
            nobody.append("The cluster of any row, how many rows a cluster has, and which rows match.")
            nobody.append("How many rows match, but for the helper.")
        elif terms.by_rows:
            nobody.append("The cluster of a row, except for those who hold values of that row.")
        if terms.counts == "secret" and terms.partition == "horizontal":
            which = "exact sizes" if terms.sizes == "rounded" and terms.ruled else "sizes"
            nobody.append(
                f"The {which} of the clusters, as far as the results do not tell them: they are never opened, and a "
                "party can count only those of its rows that are in each."
            )
    if terms.partition == "vertical" and terms.centers == "revealed":
        nobody.append("The centres in a column, except for the party that holds the column.")
    if terms.centers == "shared":
        nobody.append(f"The centres: each {roles.keeper} keeps a share, which alone is a random number.")
    if terms.ruled:
        kept = "; in the shares that are kept, a copy of an open one stands in its place" * (terms.centers == "shared")
        nobody.append(f"The centre of a closed cluster{kept}.")
        of_whom = ", in all or of others than some party, or of which party" if _contributing(terms) else ""
        nobody.append(f"Why a cluster is closed: in which of the two labellings it has too few rows{of_whom}.")
    if terms.counts == "secret" and terms.labels == "private":
        if terms.chooses:
            good = ", and how good they are" * (terms.measures == "secret")
            nobody.append(f"The centres and labels of the numbers of clusters that are not chosen{good}.")
        elif terms.starts > 1:
            nobody.append(f"Which of the {terms.starts} starts gave the result, and how good the others were.")
    if terms.weighted:
        nobody.append(_of_spread(terms, roles))
    return nobody


def _of_spread(terms: Terms, roles: Roles) -> str:
    """What is not learnt of how far columns spread."""
    if terms.scales == "revealed" and terms.centers == "revealed":
        return (
            "Means and standard deviations of columns over one party's rows, as far as the results do not tell them: "
            "what is opened is of the clusters, and of all rows."
        )
    return (
        "The mean and the standard deviation of a column, but for the bit on whether it varies too little: each "
        f"{roles.keeper} keeps a share of what columns weigh."
    )


def _contributing(terms: Terms) -> bool:
    return terms.ruled and terms.by_rows and terms.contribution != "off"


def _assumptions(terms: Terms, roles: Roles, protocol: str) -> list[str]:
    return [
        "Everybody follows the protocol (semi-honest): they run the agreed program on their true data, and may try to "
        "learn what they can from what they see.",
        *(of_servers(roles) if roles.dealer is None else of_helper(roles, _seen_by_helper(terms, protocol))),
        "Keys and machines are in the hands of those whose names they carry. Connections are encrypted (TLS 1.3), and "
        "both ends are authenticated.",
    ]


def _seen_by_helper(terms: Terms, protocol: str) -> str:
    got = ["a tag of every id, made with a key that it lacks"] if terms.ids and terms.matching != "equal" else []
    got += ["the stop bit"] if terms.tells_stops else []
    got += ["the number of clusters that is chosen"] if terms.chooses else []
    if protocol == "onetime":
        return f"It receives nothing from the parties but {join_names(got)}."
    if len(got) > 1 and terms.matching != "equal":
        return f"It receives {got[0]}; all else that it receives from the parties is masked: it looks random to it."
    return "What it receives from the parties is masked: it looks random to the helper."


def of_helper(roles: Roles, seen: str) -> list[str]:
    """Whom one trusts where somebody deals, and what holds then. `seen`: what the helper receives."""
    parties = roles.owners
    together = (
        "neither party learns more about the other's data"
        if len(parties) == 2
        else f"even {len(parties) - 1} of the {len(parties)} parties together learn no more about the others' data"
    )
    return [
        f"The helper {roles.dealer} does not pool what it knows with any data party. {seen}",
        f"As long as that holds, {together} than the results say.",
    ]


def of_servers(roles: Roles) -> list[str]:
    """Whom one trusts where servers hold shares and nobody deals, and what holds then."""
    idle = [name for name in roles.owners if name not in roles.servers]
    whoever = f", even together with {join_names(idle)}, who {'does' if len(idle) == 1 else 'do'} not serve," * bool(
        idle
    )
    return [
        f"No two of the servers {join_names(roles.servers)} pool what they hold. Any two of the "
        f"{spell_number(len(roles.servers))} servers together could read everything.",
        f"As long as that holds, no server{whoever} learns more about another's data than the results say.",
    ]


# -- what is not protected ---------------------------------------------------------------------------------------------


def _not_protected(terms: Terms, roles: Roles) -> list[str]:
    found = ["The result itself. Centres are means of rows, and labels say which rows are alike; no noise is added."]
    found += _of_small_clusters(terms, roles) if terms.ruled else _without_rules(terms)
    found += _of_precision(terms) + _of_totals(terms)
    if terms.centers == "shared":
        found.append(
            "What predictions tell: each says which centre a row is closest to. Whoever may label any number of "
            "made-up rows can work out the centres that are open. A policy can limit the rows."
        )
    return [
        *found,
        "What several runs tell together: two results from tables that differ by one row say something about that row, "
        "and each further number of clusters or start says more. Rules are tested run by run; a policy can limit runs.",
        "What everybody knows anyway: the numbers of rows, columns, clusters and parties, and of iterations.",
        "A helper that does collude with a data party: together they can work out the other parties' data."
        if roles.dealer
        else "Two servers that do pool what they hold: together they can work out everybody's data.",
        "A party that breaks the protocol, or brings made-up data: that it did so is not detected.",
    ]


def _without_rules(terms: Terms) -> list[str]:
    found = [
        "Small clusters: without a least cluster size the centre of a cluster of one row is that row, and that of an "
        "empty one may be the row that it started from."
    ]
    if terms.counts == "revealed" and terms.by_rows:
        found.append(
            "What follows from size and centre together: a party can take its own rows off and is left with the "
            "number and the mean of all other parties' rows in that cluster."
        )
    return found


def _of_small_clusters(terms: Terms, roles: Roles) -> list[str]:
    least = terms.least
    extreme = (
        f"Extreme values: one row far from all others moves a mean of {least} rows visibly; that it is among enough "
        "others does not hide it."
    )
    if not terms.tells_labels:
        return [
            "Whether an extreme row matches: centres are rounded, which hides a row among others; one of a party's own "
            f"rows far from all its others moves a mean of {least} rows by more than a step, and so it may see that "
            "the row has a match. No one but that party knows the row.",
            "That enough rows match: an open cluster says that there are at least so many. A party that knows of some "
            "of its rows that they match, and of the others that they do not, may see from that, or from its centres, "
            "about how many rows match, or whether one more does; one that makes up values or ids chooses them for it.",
        ]
    if not terms.by_rows:
        return [
            "Small groups, from the other parties. Every party holds values of every row and learns every row's "
            f"cluster. What holds is that no label sets fewer than {least} rows apart, and that no centre of fewer is "
            "opened, to the holder of the column. There is no rule on contributions, since nobody's rows can be taken "
            "away: rows that are alike in a party's own columns and have different labels differ in the others', and "
            "whoever knows who they are knows that of them.",
            extreme,
        ]
    found = []
    if terms.contribution == "off":
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
    if terms.contribution == "none-or-least":
        found.append(
            "A cluster that one party has to itself: it is open, and its centre is a mean of that party's rows alone. "
            f"And whoever brings {least} made-up rows learns whether others have a row near them: then, and if these "
            f"are fewer than {least}, the cluster is closed."
        )
    if terms.contribution != "off" and _apart(terms, roles) < len(roles.owners) - 1:
        more = "Several parties" if _apart(terms, roles) == 1 else f"More than {terms.coalition} parties"
        found.append(
            f"{more} that pool what they know: without the rows of all of them, fewer than {least} may be left in an "
            "open cluster, down to one. A policy can ask for more (coalition)."
        )
    return [*found, extreme]


def _of_precision(terms: Terms) -> list[str]:
    """What exact or rounded centres tell of sizes. Where columns are split, labels tell them anyway."""
    if not terms.by_rows or terms.counts == "revealed" or terms.centers != "revealed":
        return []
    found = []
    if terms.rounded:
        found.append(
            f"Sizes, from a participant: centres are rounded in {_columns(terms)}, so that of themselves they rule "
            f"out no size from {terms.least} upwards. Whoever knows rows in the cluster, such as a party its own, "
            "knows more."
        )
    if not (terms.rounded and terms.all_rounded):
        where = "the other columns" if terms.rounded else "a column"
        found.append(
            f"Sizes, where {where} {'hold' if terms.rounded else 'holds'} whole numbers or few digits: centres are "
            "given as precisely as they were computed, and a mean that precise often tells of how many rows it is. A "
            "resolution of the column, together with a least cluster size, prevents that."
        )
    return found


def _of_totals(terms: Terms) -> list[str]:
    """What one number over all rows tells a party that holds some of the rows."""
    if not terms.by_rows:
        return []
    told = {
        "the standard deviations": terms.weighted and terms.scales == terms.centers == "revealed",
        "the inertia": terms.tells_inertia,
        "the silhouette": terms.tells_silhouette,
        "the measures of the numbers of clusters": terms.chooses and terms.measures == "revealed",
    }
    named = [name for name, holds in told.items() if holds]
    if not named:
        return []
    return [
        f"What numbers over all rows tell of the others' ({join_names(named)}): a party knows what its own rows add to "
        "them, as far as it knows the centres, and can take that off."
    ]
