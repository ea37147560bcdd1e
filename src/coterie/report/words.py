"""What a run discloses, in words for somebody who must answer for the data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from coterie.sharing import Disclosure

__all__ = [
    "PROTOCOLS",
    "Promises",
    "Told",
    "duration",
    "enumerated",
    "meaning",
    "number",
    "promises",
    "size",
    "told",
    "whole",
]


class Promises(msgspec.Struct, frozen=True):
    """What follows from the options, before anything has run. Lists of sentences; `at_end` by recipient."""

    during: list[str]
    at_end: dict[str, list[str]]
    nobody: list[str]
    public: list[str]
    assumptions: list[str]
    not_protected: list[str]


class Told(msgspec.Struct, frozen=True):
    """Equal entries of the disclosure log, as one sentence. `what` is the log's word, `to` who learnt it, `when` and
    `times` how often it was opened, `why` the reason that the log gives."""

    sentence: str
    what: str
    to: str
    when: str
    times: int
    why: str


# -- before a run ----------------------------------------------------------------------------------------------------


def promises(
    partition: str,
    counts: str,
    labels: str,
    centers: str,
    protocol: str,
    helper: str,
    parties: Sequence[str],
    least: int = 1,
    starts: int = 1,
) -> Promises:
    """What each role learns under these options, what nobody learns, and what that rests on.

    It says in words what DESIGN.md's table of disclosures says. `least` is the least cluster size that all policies
    together ask for; with 1 nothing is suppressed. `starts` is how many starts the best is chosen from.
    """
    everyone = enumerated(parties)

    during = [
        f"After every iteration, {everyone} and the helper {helper} learn one bit: whether the centres have moved so "
        "little that the run stops. (After the last iteration that is allowed, not even that.)"
    ]
    if labels == "revealed":
        during.append(
            f"In every iteration, {everyone} learn the cluster of every row. From this follow the sizes of the "
            "clusters and, for each party, the centres in its own columns."
        )
    elif counts == "revealed":
        during.append(f"In every iteration, {everyone} learn how many rows each cluster has in all.")
    else:
        during.append("Nothing else is opened before the end: no label, no size, no centre, no distance.")

    at_end = {name: _learnt_by_a_party(partition, counts, labels, centers, least) for name in parties}
    at_end[helper] = ["Nothing: no centre, no label, no size, no inertia."]

    nobody = [
        "A value of another party's data. Rows and columns are never put together in one place; what leaves their "
        "holder is masked with random numbers that are used once.",
        "How far a row lies from a centre, or how far the centres have moved.",
    ]
    if labels == "private":
        nobody.append("The centres and the labels of the iterations before the last.")
        if partition != "vertical":
            nobody.append("The cluster of a row, except for those who hold values of that row.")
        if counts == "secret" and partition == "horizontal":
            nobody.append(
                "The sizes of the clusters, as far as the results do not tell them: they are never opened, and a party "
                "can count only those of its rows that are in each."
            )
    if partition == "vertical" and centers == "revealed":
        nobody.append("The centres in a column, except for the party that holds the column.")
    if centers == "shared":
        nobody.append("The centres: each party keeps a share, which alone is a random number.")
    if least > 1:
        nobody.append(f"The centre of a cluster of fewer than {least} rows, and which rows make it up.")
    if starts > 1 and counts == "secret" and labels == "private":
        nobody.append(f"Which of the {starts} starts gave the result, and how good the others were.")

    public = [
        "How many rows, columns, clusters and parties there are, and who holds how many rows and which columns.",
        "The names of the columns and their agreed ranges.",
        "All options, and the numbers (not the contents) of the rows that the centres start from.",
        "How many iterations the run takes, and when and how much everybody sends.",
        "Who takes part: names, addresses and certificates.",
    ]
    return Promises(
        during,
        at_end,
        nobody,
        public,
        _assumptions(protocol, helper, parties),
        _not_protected(partition, counts, centers, least),
    )


def _learnt_by_a_party(partition: str, counts: str, labels: str, centers: str, least: int) -> list[str]:
    learnt = []
    if least > 1:
        learnt.append(
            f"Which clusters have fewer than {least} rows (one bit a cluster). Their centres stay closed, and their "
            "rows are labelled -1."
        )
    spared = " of the clusters that are large enough" if least > 1 else ""
    if centers == "revealed":
        if partition == "vertical":
            learnt.append(f"The centres{spared} in its own columns, not in the others'.")
        else:
            learnt.append(f"The centres{spared}, in all columns.")
    else:
        learnt.append("No centres: it keeps a share of them, with which new rows can be labelled together.")
    learnt.append(
        {
            "horizontal": "The cluster of each of its own rows.",
            "vertical": "The cluster of each row, since it holds columns of all. From this follow the clusters' sizes.",
            "mixed": "The cluster of each row of which it holds at least one value. Whoever holds values of all rows "
            "thereby learns the clusters' sizes.",
        }[partition]
    )
    if counts == "revealed" and labels == "private":
        learnt.append("The sizes of the clusters, over all parties' rows.")
    learnt.append("The inertia, one number: the squared distances of all rows to their centres, added up.")
    return learnt


def _assumptions(protocol: str, helper: str, parties: Sequence[str]) -> list[str]:
    together = (
        "neither party learns more about the other's data"
        if len(parties) == 2
        else f"even {len(parties) - 1} of the {len(parties)} parties together learn no more about the others' data"
    )
    seen = (
        "It receives nothing from the parties but the stop bit."
        if protocol == "onetime"
        else "What it receives from the parties is masked: it looks random to the helper."
    )
    return [
        "Everybody follows the protocol (semi-honest): they run the agreed program on their true data, and may try to "
        "learn what they can from what they see.",
        f"The helper {helper} does not pool what it knows with any data party. {seen}",
        f"As long as that holds, {together} than the results say.",
        "Keys and machines are in the hands of those whose names they carry. Connections are encrypted (TLS 1.3), and "
        "both ends are authenticated.",
    ]


def _not_protected(partition: str, counts: str, centers: str, least: int) -> list[str]:
    small = (
        f"clusters of fewer than {least} rows stay closed, larger ones do not"
        if least > 1
        else "the centre of a cluster of one row is that row"
    )
    unprotected = [
        f"The result itself. Centres are means of rows, and labels say which rows are alike; {small}.",
        "What everybody knows anyway: the numbers of rows, columns, clusters and parties, and of iterations.",
        "A helper that does collude with a data party: together they can work out the other parties' data.",
        "A party that breaks the protocol, or brings made-up data: that it did so is not detected.",
    ]
    if centers == "revealed" and counts == "secret":
        unprotected.insert(
            1,
            "What follows from the result: centres are given as precisely as they were computed, and where a column "
            "holds whole numbers, a mean that precise often tells of how many rows it is.",
        )
    if counts == "revealed" and partition != "vertical":
        unprotected.insert(
            1,
            "What follows from size and centre together: a party can take its own rows off and is left with the "
            "number and the mean of all other parties' rows in that cluster.",
        )
    return unprotected


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
        when = "before the run" if first.what == "bounds" else "at the end"
    what = _described(first)
    verb = "learnt" if first.what in WHAT else "was given" if len(first.to) == 1 else "were given"
    who = to if to.startswith(tuple(parties)) else to[:1].upper() + to[1:]  # a party is called as it calls itself
    return Told(f"{who} {verb} {what}.", first.what, to.rstrip(","), when, times, first.reason)


#: What each entry of the log is, after "learnt".
WHAT = {
    "stop bit": "one bit: whether the centres moved so little that the run stops",
    "counts": "how many rows each cluster has in all",
    "labels": "the cluster of each row",
    "centers": "the centres of the clusters",
    "inertia": "the inertia, one number: the squared distances of all rows to their centres, added up",
    "equal ids": "one bit: whether all parties hold the same rows, by their ids",
    "suppression bits": "one bit a cluster: whether it has fewer rows than the least size",
    "bounds": "the range of each column, as taken from the data and then widened",
}


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
    ("scale", "bounds"): "columns weigh alike: each is divided by half its agreed range",
    ("scale", "none"): "columns weigh as they are",
}
_ARGUMENTS = {
    "n_init": "starts, of which the best is opened",
    "max_iter": "iterations at most",
    "tol": "the total squared movement of the centres at which the run stops",
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
