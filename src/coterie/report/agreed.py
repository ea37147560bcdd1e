"""What was agreed on: who took part, with which columns and options."""

from __future__ import annotations

import math

from coterie.columns import format_date
from coterie.report.blocks import Block, Code, Grid, Pairs, Paragraph, Tiles
from coterie.report.facts import ColumnFacts, Facts
from coterie.report.formats import format_count, format_value, join_names, pluralise, spell_number
from coterie.report.glossary import explain_option

__all__ = ["MOST_COLUMNS", "show_agreement", "show_key_figures"]

#: As many columns as a table lists.
MOST_COLUMNS = 60


def show_key_figures(facts: Facts) -> Tiles:
    ending = "until the centres rested" if facts.by_tolerance else "the most"
    return Tiles(
        [
            ("rows", format_count(facts.n), ""),
            ("columns", format_count(facts.d), ""),
            ("clusters", format_count(facts.k), ""),
            ("data parties", format_count(facts.p), _describe_others(facts)),
            ("iterations", format_count(facts.n_iter), ending),
        ]
    )


def show_agreement(facts: Facts) -> list[Block]:
    parts: list[Block] = []
    if facts.study:
        parts.append(Pairs({"Study": facts.study, "Its hash": Code(facts.study_hash or "–")}))
    options = [[name, _cut(value), _explain_option(facts, name, value)] for name, value in facts.options.items()]
    return [
        *parts,
        _list_participants(facts),
        _list_columns(facts),
        *_about_capped(facts),
        *_about_own_table(facts),
        Grid(["option", "agreed", "meaning"], options, caption="Options"),
    ]


def _list_participants(facts: Facts) -> Grid:
    head = ["participant", "role", "rows"]
    rows: list[list[object]] = [
        [
            one.name + (" (this report)" if one.name == facts.party else ""),
            one.role,
            format_count(facts.rows[one.name]) if one.name in facts.rows else None,
        ]
        for one in facts.participants
    ]
    if any(one.address or one.fingerprint for one in facts.participants):
        head += ["address", "certificate"]
        for row, one in zip(rows, facts.participants, strict=True):
            row += [one.address, Code(one.fingerprint) if one.fingerprint else None]
    return Grid(head, rows, numeric={2}, caption="Who took part")


def _list_columns(facts: Facts) -> Grid:
    shown = facts.columns[:MOST_COLUMNS]
    head, numeric = ["column", "from", "to"], {1, 2}
    rows: list[list[object]] = [
        [column.name, *(_end(column, end) for end in (column.low, column.high))] for column in shown
    ]
    more: dict[str, list[str | None]] = {
        "centres rounded to": [f"{c.step:.3g}" if c.step else None for c in shown],
        "counts for": [f"{c.weight:.3g}" if any(one.weight != 1 for one in facts.columns) else None for c in shown],
        "standard deviation": [_spread(c) for c in shown],
        "held by": [c.holder for c in shown],
    }
    for name, cells in more.items():
        if any(cells):
            if name != "held by":
                numeric.add(len(head))
            head.append(name)
            for row, cell in zip(rows, cells, strict=True):
                row.append(cell)
    left_out = f" (the first {MOST_COLUMNS} of {facts.d})" if facts.d > MOST_COLUMNS else ""
    ranges = facts.range_name.replace("range", "ranges")
    return Grid(head, rows, numeric, f"Columns and their {ranges}{left_out}")


def _about_capped(facts: Facts) -> list[Block]:
    capped = [column.name for column in facts.columns if column.capped]
    if not capped:
        return []
    one = len(capped) == 1
    return [
        Paragraph(
            f"{join_names(capped)} {'varies' if one else 'vary'} so little, for {'its' if one else 'their'} agreed "
            f"{pluralise('range', len(capped))}, that {'it weighs' if one else 'they weigh'} less than "
            f"{'it' if one else 'they'} should. Agree on tighter bounds."
        )
    ]


def _about_own_table(facts: Facts) -> list[Block]:
    """What was done about this party's own missing values and such."""
    if not facts.own_table:
        return []
    said = "; ".join(facts.own_table)
    return [Paragraph(f"In the table of {facts.party}, which nobody else is told: {said}.")]


def _end(column: ColumnFacts, value: float) -> str | None:
    """An end of a range, if it is known."""
    if math.isnan(value):
        return None
    return format_date(value) if column.date else f"{value:g}"


def _spread(column: ColumnFacts) -> str | None:
    """A standard deviation, as precisely as it was opened."""
    if column.capped:
        return "too small for its range"
    if column.deviation is None:
        return None
    return format_value(column.deviation, column.deviation) if column.deviation else "none seen"


def _describe_others(facts: Facts) -> str:
    """Who computes, beside or among those who own data."""
    roles = facts.roles
    if roles.dealer is not None:
        return "and a helper"
    if not roles.all_own:
        return "and a server"
    return "who serve" if roles.owners_serve else f"{spell_number(len(roles.servers))} of whom serve"


#: What options mean where not all data parties, or not they alone, hold shares and compute.
_WITH_SERVERS = {
    ("counts", "revealed"): "servers learn the sizes of the clusters in every iteration, data parties at the end",
    ("centers", "shared"): "centres are opened to nobody; each server keeps a share",
    ("scales", "secret"): "the columns' standard deviations are opened to nobody; each server keeps a share",
}


def _explain_option(facts: Facts, option: str, value: str) -> str:
    if not facts.roles.owners_serve and facts.options["labels"] == "private" and (option, value) in _WITH_SERVERS:
        return _WITH_SERVERS[option, value]
    if option == "protocol" and "chosen" in facts.options and value == "onetime":
        return explain_option(option, value) + " and the number of clusters that is chosen"
    if option == "counts" and facts.options["labels"] == "revealed":
        return "the sizes of the clusters follow from the labels, which are revealed"
    return explain_option(option, value)


def _cut(text: str, most: int = 120) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
