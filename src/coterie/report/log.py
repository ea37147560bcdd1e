"""The disclosure log in sentences, for somebody who must answer for the data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from coterie.ideal import ITEMS, WHAT, Roles
from coterie.report.formats import join_names

if TYPE_CHECKING:
    from coterie.sharing import Disclosure

__all__ = ["LogLine", "describe_log"]

#: When each value is opened, outside the iterations.
OUTSIDE = {item.what: item.moment for item in ITEMS if item.kind == "opened" and item.when != "iteration"}


class LogLine(msgspec.Struct, frozen=True):
    """Equal entries of the disclosure log, as one sentence. `what` is the log's word, `to` who learnt it, `when` and
    `times` how often it was opened, `why` the reason that the log gives."""

    sentence: str
    what: str
    to: str
    when: str
    times: int
    why: str


def describe_log(disclosures: Iterable[Disclosure], roles: Roles) -> list[LogLine]:
    """The disclosure log as sentences, equal entries together, in the order of their first appearance."""
    groups: dict[tuple[object, ...], list[Disclosure]] = {}
    for entry in disclosures:
        during = entry.iteration is not None
        groups.setdefault((entry.what, entry.to, entry.reason, entry.detail, during), []).append(entry)
    return [_describe_entries(entries, roles) for entries in groups.values()]


def _describe_entries(entries: Sequence[Disclosure], roles: Roles) -> LogLine:
    first, times = entries[0], len(entries)
    to = _describe_recipients(first.to, roles)
    iterations = [entry.iteration for entry in entries if entry.iteration is not None]
    if iterations:
        low, high = min(iterations), max(iterations)
        when = f"in iteration {low}" if low == high else f"in iterations {low} to {high}"
        if times > high - low + 1:
            when += ", over all starts"
    else:
        when = OUTSIDE.get(first.what, "at the end")
    what = _describe_value(first)
    verb = "learnt" if first.what in WHAT else "was given" if len(first.to) == 1 else "were given"
    who = to if to.startswith(roles.players) else to[:1].upper() + to[1:]  # names keep their spelling
    return LogLine(f"{who} {verb} {what}.", first.what, to.rstrip(","), when, times, first.reason)


def _describe_value(entry: Disclosure) -> str:
    what = WHAT.get(entry.what, f"“{entry.what}”")
    if entry.what == "labels" and entry.iteration is None and entry.detail:
        count, _, rows = entry.detail.partition(" ")
        many = "1 row" if count == "1" else f"{int(count):,} {rows}" if count.isdigit() else entry.detail
        return f"the cluster of each row of which {'it holds' if len(entry.to) == 1 else 'they hold'} values: {many}"
    if entry.what in ("centers", "bounds") and entry.detail:
        columns = entry.detail.split(", ")
        shown = ", ".join(columns[:8]) + (f" and {len(columns) - 8} more" if len(columns) > 8 else "")
        return f"{what}, in {'column' if len(columns) == 1 else 'columns'} {shown}"
    return f"{what} ({entry.detail})" if entry.detail else what


def _describe_recipients(to: Collection[str], roles: Roles) -> str:
    if roles.dealer is not None and set(to) == set(roles.everybody):
        return "everybody, the helper included,"
    if len(roles.owners) > 2 and set(to) == set(roles.owners):
        return "all data parties"
    if set(to) == set(roles.everybody):
        return "everybody"
    return join_names([f"the helper {name}" if name == roles.dealer else name for name in to])
