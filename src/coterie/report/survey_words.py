"""What a survey will disclose and to whom, what it keeps, and what that rests on: before anything has run."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.ideal import Learnt, Roles, Terms, learnt
from coterie.report.promises import Promised, Promises, of_helper, of_servers

__all__ = ["survey_promises"]


def survey_promises(terms: Terms, roles: Roles, protocol: str, cells: int, quantiles: Sequence[float]) -> Promises:
    """What each role learns of a survey under these terms. `quantiles` in per cent."""
    items = learnt(terms, roles)

    def say(one: Learnt) -> str:
        return one.item.announced(terms.partition).format(
            rule=_rule(terms, roles),
            missing=f", to the nearest multiple of {terms.least}; 0 says that fewer than {-(-terms.least // 2)} are"
            if terms.ruled
            else "",
            cells=cells,
            quantiles=", ".join(f"{q:g} %" for q in quantiles),
            quiet=_quiet(terms, roles),
        )

    openings = [Promised(one.item.what, one.to, one.item.when, say(one)) for one in items if one.item.kind == "opened"]
    at_end = {}
    for name in sorted(roles.everybody, key=lambda name: name == roles.dealer):
        found = [one.sentence for one in openings if name in one.to]
        at_end[name] = found if name in roles.owners else [*found, _nothing_else(found)]
    return Promises(
        openings,
        ["Nothing is opened before the end."],
        at_end,
        _nobody(terms),
        [say(one) for one in items if one.item.kind == "public" and "dealer" in one.item.to],
        _assumptions(roles, protocol),
        _not_protected(terms, roles),
    )


def _nothing_else(found: list[str]) -> str:
    none = "no mean, no quantile, no number of missing values"
    return f"Nothing else: {none}." if found else f"Nothing: {none}, and not which columns are closed."


def _by_rows(terms: Terms) -> bool:
    return terms.ruled and terms.by_rows and terms.contribution != "off"


def _others(terms: Terms, roles: Roles) -> str:
    apart = min(terms.coalition, len(roles.owners) - 1)
    return f"for every {apart} parties" if apart > 1 else "for every party"


def _rule(terms: Terms, roles: Roles) -> str:
    """What a column must pass."""
    enough = f"at least {terms.least} values of it are there" if terms.ruled else "any value of it is there"
    if not _by_rows(terms):
        return enough
    return f"{enough} and, {_others(terms, roles)}, the others together have at least {terms.least} of them"


def _quiet(terms: Terms, roles: Roles) -> str:
    """When a quantile stays closed."""
    least = terms.least
    tail = (
        f"if fewer than {least} values lie on its outer side" if terms.ruled else "if no value lies on its outer side"
    )
    if not _by_rows(terms):
        return tail
    return (
        f"{tail}, and unless, {_others(terms, roles)}, at least {least} of the others' values lie at or before its "
        f"cell and at least {least} at or behind it"
    )


def _nobody(terms: Terms) -> list[str]:
    nobody = [
        "A value of another party's data, as far as the results do not tell it: what leaves a party is counts of its "
        "values by cell and their sum, as shares or masked with random numbers that are used once.",
        "How many values lie in a cell, or before a quantile; the smallest and the largest value.",
        "Which rows lack a value.",
    ]
    if terms.ruled:
        of_whom = ", in all or of others than some party, or of which party" if _by_rows(terms) else ""
        nobody.append(f"Why a column or a quantile is closed: where there are too few values{of_whom}.")
    if not terms.by_rows:
        nobody.append("Which rows of different parties belong together: no ids are read.")
    return nobody


def _assumptions(roles: Roles, protocol: str) -> list[str]:
    if roles.dealer is None:
        whom = of_servers(roles)
    else:
        seen = (
            "It receives nothing from the parties."
            if protocol == "onetime"
            else "What it receives from the parties is masked: it looks random to the helper."
        )
        whom = of_helper(roles, seen)
    return [
        "Everybody follows the protocol (semi-honest): they run the agreed program on their true data, and may try to "
        "learn what they can from what they see.",
        *whom,
        "Keys and machines are in the hands of those whose names they carry. Connections are encrypted (TLS 1.3), and "
        "both ends are authenticated.",
    ]


def _not_protected(terms: Terms, roles: Roles) -> list[str]:
    found = ["The result itself: means, quantiles and missing values are of the true data; no noise is added."]
    if terms.by_rows:
        found.append(
            "The others' part: whoever takes its own values off the mean, and its own missing values off their number, "
            "is left with those of all others, as exactly as the rounding allows."
        )
    if not terms.ruled:
        found.append("Few values: without a least size the quantiles of a column of one value tell its cell.")
    elif _by_rows(terms):
        found.append(
            "What a party can ask by made-up rows: with enough of them it decides where a quantile of all rows lies "
            f"among the others' values, though never before their {terms.least} lowest or behind their {terms.least} "
            f"highest; and whether that one is open tells whether others have {terms.least} values on either side."
        )
    elif terms.by_rows:
        found.append(
            "A few values among many of one party, who by made-up rows can move a quantile to any of the others'."
        )
    return [
        *found,
        "What several surveys tell together: two of tables that differ by one row, of the same columns in other "
        "bounds, or with other cells or quantiles, say more than each alone. Each counts as a run; a policy can limit "
        "runs, and refuse surveys.",
        "What everybody knows anyway: how many rows each party has, the columns and their bounds.",
        "A helper that does collude with a data party: together they can work out the other parties' counts by cell."
        if roles.dealer
        else "Two servers that do pool what they hold: together they can work out everybody's counts by cell.",
        "A party that breaks the protocol, or brings made-up data: that it did so is not detected.",
    ]
