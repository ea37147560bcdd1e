"""What a run has disclosed, its options and its numbers, in words for somebody who must answer for the data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from coterie.ideal import ITEMS, WHAT

if TYPE_CHECKING:
    from coterie.sharing import Disclosure

__all__ = [
    "PROTOCOLS",
    "Told",
    "duration",
    "enumerated",
    "meaning",
    "number",
    "size",
    "told",
    "whole",
]


class Told(msgspec.Struct, frozen=True):
    """Equal entries of the disclosure log, as one sentence. `what` is the log's word, `to` who learnt it, `when` and
    `times` how often it was opened, `why` the reason that the log gives."""

    sentence: str
    what: str
    to: str
    when: str
    times: int
    why: str


# -- after a run -----------------------------------------------------------------------------------------------------


def told(disclosures: Iterable[Disclosure], helper: str, parties: Sequence[str]) -> list[Told]:
    """The disclosure log as sentences, equal entries together, in the order of their first appearance."""
    groups: dict[tuple[object, ...], list[Disclosure]] = {}
    for entry in disclosures:
        during = entry.iteration is not None
        groups.setdefault((entry.what, entry.to, entry.reason, entry.detail, during), []).append(entry)
    return [_told(entries, helper, parties) for entries in groups.values()]


def _told(entries: Sequence[Disclosure], helper: str, parties: Sequence[str]) -> Told:
    first, times = entries[0], len(entries)
    to = _recipients(first.to, helper, parties)
    iterations = [entry.iteration for entry in entries if entry.iteration is not None]
    if iterations:
        low, high = min(iterations), max(iterations)
        when = f"in iteration {low}" if low == high else f"in iterations {low} to {high}"
        if times > high - low + 1:
            when += ", over all starts"
    else:
        when = OUTSIDE.get(first.what, "at the end")
    what = _described(first)
    verb = "learnt" if first.what in WHAT else "was given" if len(first.to) == 1 else "were given"
    who = to if to.startswith(tuple(parties)) else to[:1].upper() + to[1:]  # a party is called as it calls itself
    return Told(f"{who} {verb} {what}.", first.what, to.rstrip(","), when, times, first.reason)


#: When each value is opened, outside the iterations.
OUTSIDE = {item.what: item.moment for item in ITEMS if item.kind == "opened" and item.when != "iteration"}


def _described(entry: Disclosure) -> str:
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


def _recipients(to: Collection[str], helper: str, parties: Sequence[str]) -> str:
    if set(to) == {helper, *parties}:
        return "everybody, the helper included,"
    if len(parties) > 2 and set(to) == set(parties):
        return "all data parties"
    return enumerated([f"the helper {name}" if name == helper else name for name in to])


# -- options and protocols in words ----------------------------------------------------------------------------------

_MEANINGS = {
    ("partition", "horizontal"): "each party holds some of the rows, with all columns",
    ("partition", "vertical"): "each party holds some of the columns, of all rows",
    ("partition", "mixed"): "each party holds some of the cells",
    ("protocol", "onetime"): "one-time random material from the helper, who receives nothing but the stop bit",
    ("protocol", "securenn"): "the paper's protocols, after SecureNN; the helper computes on masked values",
    ("counts", "secret"): "the sizes of the clusters are not opened",
    ("counts", "revealed"): "data parties learn the sizes of the clusters, in every iteration",
    ("labels", "private"): "a row's cluster is opened at the end, to those who hold values of the row",
    ("labels", "revealed"): "data parties learn the cluster of every row, in every iteration",
    ("centers", "revealed"): "centres are opened at the end",
    ("centers", "shared"): "centres are opened to nobody; each party keeps a share",
    ("sizes", "secret"): "the sizes of the clusters are not opened",
    ("sizes", "rounded"): "the sizes of open clusters are opened at the end, to the nearest multiple of the least size",
    ("contribution", "least"): "for every party, the others must contribute the least size to a cluster that is opened",
    ("contribution", "none-or-least"): "for every party, the others must contribute the least size, or nothing",
    ("contribution", "off"): "it does not matter who contributes to a cluster that is opened",
    ("scale", "bounds"): "columns weigh alike: each is divided by half its agreed range",
    ("scale", "none"): "columns weigh as they are",
}
_ARGUMENTS = {
    "n_init": "starts, of which the best is opened",
    "max_iter": "iterations at most",
    "tol": "the total squared movement of the centres at which the run stops",
    "least_cluster_size": "rows that a cluster must have to be opened, when its centre was made and in the end",
    "coalition": "parties whose rows are taken away together when contributions are counted",
    "fractional_bits": "precision of a value: bits after the point",
    "start": "the public row numbers that the centres start from",
    "link": "the network between the parties",
}
#: What the parts of the protocols do, by the names under which traffic is counted.
PROTOCOLS = {
    "Labels": "which centre is closest to each row",
    "Sign": "comparisons",
    "MaskCenters": "the centres, masked, for products with the rows",
    "BitsToWords": "labels as numbers that can be added up",
    "Sums": "the sum of each cluster's rows",
    "Mean": "sums divided by sizes",
    "Truncate": "rounding to fixed point",
    "MatDist": "distances of rows to centres",
    "LabelSamples": "which centre is closest to each row",
    "ArgMin": "the least of several distances",
    "PrivateCompare": "comparison of a secret with a number, bit by bit",
    "ShareConvert": "change of the ring in which shares live",
    "ComputeMSB": "the sign of a secret number",
    "DReLU": "comparisons",
    "Division": "sums divided by sizes",
    "ElementWiseMatMul": "products of secrets",
    "Square": "squares of secrets",
    "MatMul": "products of secret matrices",
    "SelectShare": "one of two secrets, by a secret bit",
}


def meaning(option: str, value: str) -> str:
    """What a value of an option says, in a few words; empty where the name says it."""
    return _MEANINGS.get((option, value.lower()), _ARGUMENTS.get(option, ""))


# -- numbers and lists -----------------------------------------------------------------------------------------------


def enumerated(names: Sequence[str]) -> str:
    """a, b and c"""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def whole(count: int) -> str:
    """1,234,567"""
    return f"{count:,}"


def size(count: float) -> str:
    """A number of bytes, to three digits: 12.3 MB."""
    if count < 1000:
        return f"{count:.0f} bytes"
    for unit in ("kB", "MB", "GB", "TB"):  # noqa: B007
        count /= 1000
        if count < 999.5:
            break
    return f"{count:.3g} {unit}"


def duration(seconds: float) -> str:
    """How long something took: 12 ms, 3.4 s, 5 min 20 s, 2 h 5 min."""
    if seconds < 0.9995:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def number(value: float, span: float = 0.0) -> str:
    """A value of a column, as finely as matters in a range of this span."""
    from math import floor, isfinite, log10

    if not isfinite(value):
        return str(value)
    if span <= 0 or not isfinite(span):
        return f"{value:.6g}"
    places = 3 - floor(log10(span))
    if places > 12 or abs(value) >= 1e15:
        return f"{value:.6g}"
    text = f"{value:,.{max(places, 0)}f}"
    return text[1:] if text.startswith("-") and not text.strip("-0.,") else text
