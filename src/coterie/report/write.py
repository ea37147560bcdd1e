"""The report: one page that says what a party asked for, found out, paid and gave away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from coterie.ideal import Roles, Terms
from coterie.report import plots
from coterie.report.facts import Facts
from coterie.report.page import beside, image, picture, render, table, tiles
from coterie.report.promises import Promises, promises
from coterie.report.words import PROTOCOLS, duration, enumerated, meaning, number, size, told, whole

__all__ = ["Section", "disclosed", "promised", "sections", "views", "write_report"]

Floats = NDArray[np.float64]
#: Rows drawn at most, and rows of a table before it becomes tiresome.
MOST_POINTS, MOST_COLUMNS = 5_000, 60


class Section(msgspec.Struct, frozen=True):
    """A part of the page: where it is, what it is called, and what it holds."""

    anchor: str
    name: str
    body: Markup


def write_report(path: Path, facts: Facts, own_values: Floats | None, own_labels: NDArray[Any] | None) -> None:
    """Write the report of one party. Rows (m x own columns, NaN where a cell is not its own) and their labels are
    this party's; the helper has none."""
    parts = sections(facts, own_values, own_labels)
    text = render(
        "report.html",
        title=facts.title,
        eyebrow=f"Coterie report of {facts.party}",
        lede=_lede(facts),
        contents=[(part.anchor, part.name) for part in parts],
        sections=parts,
        footer=f"Written by Coterie at {facts.party}"
        + (f", {facts.when}" if facts.when else "")
        + ". It shows what this party may know, and is meant for this party.",
    )
    Path(path).write_text(text, encoding="utf-8")


def sections(
    facts: Facts, own_values: Floats | None, own_labels: NDArray[Any] | None, whose: str = "own rows"
) -> list[Section]:
    """What the page says, part by part. `whose` says whose the rows are."""
    parts = [Section("asked", "What was agreed", _asked(facts))]
    if facts.role == "data party":
        parts.append(Section("clusters", "Clusters", _clusters(facts, own_values, own_labels, whose)))
    parts.append(Section("convergence", "Convergence", _convergence(facts)))
    parts.append(Section("cost", "Traffic and time", _cost(facts)))
    if facts.comparison:
        parts.append(Section("comparison", "Beside scikit-learn", _comparison(facts.comparison)))
    parts.append(Section("disclosures", "What was disclosed", disclosed(facts)))
    parts.append(Section("trust", "What this rests on", _trust(facts)))
    parts.append(Section("versions", "Versions and hashes", _versions(facts)))
    return parts


def _lede(facts: Facts) -> str:
    lay = {"horizontal": "rows", "vertical": "columns", "mixed": "cells"}[facts.options["partition"]]
    return (
        f"{whole(facts.n)} rows of {whole(facts.d)} {_s('column', facts.d)} in {facts.k} {_s('cluster', facts.k)}: "
        f"k-means over the {lay} of {enumerated(facts.parties)}, none of whom showed the others their data."
    )


# -- what was asked --------------------------------------------------------------------------------------------------


def _asked(facts: Facts) -> Markup:
    parts = [
        tiles(
            [
                ("rows", whole(facts.n), ""),
                ("columns", whole(facts.d), ""),
                ("clusters", whole(facts.k), ""),
                ("data parties", whole(facts.p), "and a helper"),
                ("iterations", whole(facts.n_iter), "until the centres rested" if facts.by_tolerance else "the most"),
            ]
        )
    ]
    if facts.study:
        parts.append(_pairs({"Study": facts.study, "Its hash": _code(facts.study_hash or "–")}))
    known = any(one.address or one.fingerprint for one in facts.participants)
    head = ["participant", "role", "rows", *(["address", "certificate"] if known else [])]
    parts.append(
        table(
            head,
            [
                [
                    one.name + (" (this report)" if one.name == facts.party else ""),
                    one.role,
                    whole(facts.rows[one.name]) if one.name in facts.rows else None,
                    *([one.address, _code(one.fingerprint) if one.fingerprint else None] if known else []),
                ]
                for one in facts.participants
            ],
            numeric={2},
            caption="Who took part",
        )
    )
    holders = any(column.holder for column in facts.columns)
    steps = any(column.step for column in facts.columns)
    shown = facts.columns[:MOST_COLUMNS]
    parts.append(
        table(
            ["column", "from", "to", *(["centres rounded to"] if steps else []), *(["held by"] if holders else [])],
            [
                [
                    c.name,
                    f"{c.low:g}",
                    f"{c.high:g}",
                    *([f"{c.step:.3g}" if c.step else None] if steps else []),
                    *([c.holder] if holders else []),
                ]
                for c in shown
            ],
            numeric={1, 2, *([3] if steps else [])},
            caption="Columns and their agreed ranges"
            + (f" (the first {MOST_COLUMNS} of {facts.d})" if facts.d > MOST_COLUMNS else ""),
        )
    )
    parts.append(
        table(
            ["option", "agreed", "meaning"],
            [[name, _cut(value), _meaning(facts, name, value)] for name, value in facts.options.items()],
            caption="Options",
        )
    )
    return Markup("\n").join(parts)


def _meaning(facts: Facts, option: str, value: str) -> str:
    if option == "counts" and facts.options["labels"] == "revealed":
        return "the sizes of the clusters follow from the labels, which are revealed"
    return meaning(option, value)


# -- clusters --------------------------------------------------------------------------------------------------------


def _clusters(facts: Facts, own_values: Floats | None, own_labels: NDArray[Any] | None, whose: str) -> Markup:
    parts = [Markup("<p>{}</p>").format(_about_clusters(facts))]
    parts.extend(_tables(facts))
    open_clusters = [j for j in range(facts.k) if not facts.closed(j)]
    if facts.centers is not None and open_clusters and len(facts.center_columns) > 1:
        parts.append(_profile(facts, open_clusters))
    if own_values is not None and own_labels is not None and len(own_values):
        parts.extend(views(facts, own_values, own_labels, whose))
    return Markup("\n").join(parts)


def _tables(facts: Facts) -> Iterator[Markup]:
    """Sizes and centres: a row for each cluster or, where there are more columns than clusters, for each column."""
    spans = {column.name: column.high - column.low for column in facts.columns}
    names = facts.center_columns[:MOST_COLUMNS] if facts.centers is not None else []
    rounded = facts.options.get("sizes") == "rounded" and facts.least > 1
    counted = {f"rows in all{', rounded' if rounded else ''}": facts.sizes, "own rows": facts.own_rows}
    known = {name: counts for name, counts in counted.items() if counts is not None}
    sizes, centers = [], []
    for j in range(facts.k):
        counts = [None if facts.closed(j) else row[j] for row in known.values()]
        sizes.append([None if count is None else whole(count) for count in counts])
        center: list[str | None] = [None] * len(names)
        if facts.centers is not None and not facts.closed(j):
            center = [number(v, spans[name]) for name, v in zip(names, facts.centers[j], strict=False)]
        centers.append(center)
    called = [f"{j} (closed)" if facts.closed(j) else str(j) for j in range(facts.k)]
    head = ["cluster", *known]
    across = len(names) > max(facts.k, 6)
    if not across:
        head += names
        sizes = [[*row, *center] for row, center in zip(sizes, centers, strict=True)]
    rows = [[name, *row] for name, row in zip(called, sizes, strict=True)]
    caption = "Clusters, with their centres in data units" if names and not across else "Clusters"
    yield table(head, rows, numeric=range(1, len(head)), caption=caption)
    if across:
        left_out = len(facts.center_columns) - len(names)
        yield table(
            ["column", *(f"cluster {name}" for name in called)],
            [[name, *(center[l] for center in centers)] for l, name in enumerate(names)],
            numeric=range(1, facts.k + 1),
            caption="Centres, in data units" + (f" ({left_out} more columns are not shown)" if left_out else ""),
        )


def _about_clusters(facts: Facts) -> str:
    said = []
    if facts.sizes is None:
        said.append("The sizes of the clusters were not disclosed; own rows are those of this party.")
    if facts.centers is None:
        said.append("The centres were not disclosed: each party keeps a share of them.")
    elif len(facts.center_columns) < facts.d:
        said.append("Of the centres, this party learnt its own columns.")
    elif any(column.step for column in facts.columns):
        said.append("The centres are rounded, so that of themselves they tell no size.")
    if facts.least > 1:
        said.append(_about_closed(facts))
    if facts.inertia is not None:
        said.append(f"The inertia is {number(facts.inertia, facts.inertia / 100)}.")
    return " ".join(said)


def _about_closed(facts: Facts) -> str:
    few = sum(facts.suppressed)
    if few == facts.k:
        return (
            f"All {facts.k} clusters stay closed: none passes the output rules (a least size of {facts.least} rows). "
            "No centre is known, all labels are -1, and there is no inertia."
        )
    if not few:
        return f"All clusters pass the output rules (a least size of {facts.least} rows); none stays closed."
    closed = enumerated([str(j) for j in range(facts.k) if facts.closed(j)])
    said = f"{'Cluster' if few == 1 else 'Clusters'} {closed}, {few} of {facts.k},"
    said += " stays closed: it does" if few == 1 else " stay closed: they do"
    return (
        f"{said} not pass the output rules (a least size of {facts.least} rows). Rows that were in "
        f"{'it' if few == 1 else 'them'} are labelled by the nearest open centre."
    )


def _profile(facts: Facts, clusters: list[int]) -> Markup:
    if facts.centers is None:
        raise ValueError("a profile needs centres")
    names = facts.center_columns[:MOST_COLUMNS]
    ranges = {column.name: (column.low, column.high) for column in facts.columns}
    low, high = np.array([ranges[name] for name in names]).T
    centers = np.array(facts.centers)[clusters][:, : len(names)]
    where = (centers - low) / np.where(high > low, high - low, 1.0)
    drawn = plots.profile(where, clusters, names)
    return image(
        picture(drawn),
        f"Profile of {_clusters_in_words(clusters)} over {_columns_in_words(names)}: for each cluster, where its "
        "centre lies in the agreed range of each column. The numbers are in the table above.",
        "The centres as profiles: where each lies in the agreed range of a column, from 0 (the low end) to 1.",
    )


def views(facts: Facts, own_values: Floats, own_labels: NDArray[Any], whose: str) -> Iterator[Markup]:
    """Two-dimensional views of rows: by the two columns in which they spread most, and by their principal axes."""
    names = facts.center_columns or [c.name for c in facts.columns if c.holder in (None, facts.party)]
    held, values, labels = _largest_block(own_values, own_labels)
    names = [names[l] for l in held]
    partial = len(values) < len(own_values)
    values, labels = _some(values, labels)
    of_all = "" if len(values) == len(own_values) else f" ({whole(len(values))} of {whole(len(own_values))})"
    if partial:
        of_all = f"{of_all[:-1]}, of which it holds {_columns_in_words(names)})"
    ranges = {column.name: column.high - column.low for column in facts.columns}
    span = np.array([ranges[name] or 1.0 for name in names])
    clusters = [j for j in range(facts.k) if not facts.closed(j)] if facts.centers is not None else []
    centers = np.array(facts.centers)[clusters][:, held] if clusters else None
    if len(names) == 1:
        known = centers[:, 0].tolist() if centers is not None else []
        yield image(
            picture(plots.histogram(values[:, 0], labels, known, clusters, names[0])),
            f"Histogram of {names[0]} for {whole(len(values))} {whose}, stacked by cluster.",
            f"The {whose}{of_all} by {names[0]}; dashed lines are centres.",
        )
        return
    widest = np.sort(np.argsort(-(values.std(axis=0) / span), kind="stable")[:2])
    x, y = (names[l] for l in widest)
    drawn = [
        image(
            picture(
                plots.scatter(
                    values[:, widest], labels, None if centers is None else centers[:, widest], clusters, x, y
                )
            ),
            f"Scatter plot of {whole(len(values))} {whose} by {x} and {y}, coloured by cluster"
            + (", with the centres marked." if clusters else "."),
            f"The {whose}{of_all} by the two columns in which they spread most within the agreed range"
            + ("; outlined markers are centres." if clusters else "."),
        )
    ]
    if len(names) > 2 and len(values) > 2:
        unit = span / 2 if facts.options.get("scale") == "bounds" else np.ones(len(names))
        middle, axes, explained = plots.principal_axes(values / unit)
        turned = None if centers is None else (centers / unit - middle) @ axes.T
        drawn.append(
            image(
                picture(
                    plots.scatter(
                        (values / unit - middle) @ axes.T,
                        labels,
                        turned,
                        clusters,
                        f"first principal axis ({explained[0]:.0%} of the variance)",
                        f"second ({explained[1]:.0%})",
                    )
                ),
                f"Scatter plot of {whole(len(values))} {whose} along their first two principal axes, which explain "
                f"{explained.sum():.0%} of their variance, coloured by cluster.",
                f"The {whose}{of_all} along their two principal axes, fitted on these rows alone.",
            )
        )
    yield beside(drawn) if len(drawn) > 1 else drawn[0]


def _largest_block(values: Floats, labels: NDArray[Any]) -> tuple[list[int], Floats, NDArray[Any]]:
    """Of a patchwork of cells, the rows of which the same columns are held, where these are the most cells."""
    present = ~np.isnan(values)
    if present.all():
        return list(range(values.shape[1])), values, labels
    kinds, kind_of, many = np.unique(present, axis=0, return_inverse=True, return_counts=True)
    best = int(np.argmax(many * kinds.sum(axis=1)))
    rows, columns = kind_of.reshape(-1) == best, np.flatnonzero(kinds[best])
    return [int(l) for l in columns], values[rows][:, columns], labels[rows]


def _some(values: Floats, labels: NDArray[Any]) -> tuple[Floats, NDArray[Any]]:
    """As many rows as can be drawn, the same ones every time."""
    if len(values) <= MOST_POINTS:
        return values, labels
    chosen = np.sort(np.random.RandomState(0).choice(len(values), MOST_POINTS, replace=False))
    return values[chosen], labels[chosen]


# -- convergence and cost --------------------------------------------------------------------------------------------


def _convergence(facts: Facts) -> Markup:
    if facts.by_tolerance:
        said = (
            f"The run took {facts.n_iter} {_s('iteration', facts.n_iter)} and stopped because the centres' total "
            f"squared movement was at most the agreed tolerance, {facts.tol:g}."
        )
    else:
        said = (
            f"The run took {facts.n_iter} {_s('iteration', facts.n_iter)}, the most that was allowed: the centres may "
            "still have been moving. More iterations would tell."
        )
    if int(facts.options.get("n_init", "1")) > 1:
        said += " With several starts, this is the most that one of them took."
    parts = [
        Markup("<p>{}</p>").format(said),
        Markup("<p>{}</p>").format(
            "How far the centres moved is not known: only whether it was little enough is opened, as one bit per "
            "iteration. Nor is the inertia, before the end."
        ),
    ]
    if facts.seconds_per_iteration:
        taken = facts.seconds_per_iteration
        parts.append(
            image(
                picture(plots.heights(taken, "iteration", "seconds")),
                f"Seconds per iteration, for {len(taken)} {_s('iteration', len(taken))}: between "
                f"{duration(min(taken))} and {duration(max(taken))}, half of them {duration(float(np.median(taken)))} "
                "or less.",
                "How long each iteration took here, waiting for others included.",
            )
        )
    return Markup("\n").join(parts)


def _cost(facts: Facts) -> Markup:
    traffic = facts.traffic
    sent = sum(traffic.bytes_sent.values())
    figures = [("sent by " + enumerated(list(traffic.bytes_sent)), size(sent), f"{whole(traffic.messages)} messages")]
    figures.append(("rounds", whole(traffic.rounds), f"{whole(traffic.rounds_with_dealing)} with those of dealing"))
    if facts.seconds:
        figures.append(("time", duration(sum(facts.seconds.values())), ""))
    if facts.memory is not None:
        figures.append(("memory at most", size(facts.memory), ""))
    parts = [tiles(figures)]
    if len(traffic.bytes_sent) > 1:
        parts.append(
            table(
                ["party", "sent"], [[name, size(count)] for name, count in traffic.bytes_sent.items()], {1}, "By party"
            )
        )
    if facts.seconds:
        parts.append(
            table(
                ["phase", "time"],
                [[name, duration(taken)] for name, taken in facts.seconds.items()],
                numeric={1},
                caption="Time by phase",
            )
        )
    if facts.forecast:
        parts.append(table(["forecast", ""], list(facts.forecast.items()), {1}, "What had been forecast"))
    tallies = sorted(traffic.by_protocol.items(), key=lambda item: -item[1].bytes_sent)
    if tallies:
        parts.append(
            table(
                ["protocol", "what it does", "calls", "rounds", "messages", "sent"],
                [
                    [
                        name,
                        PROTOCOLS.get(name, ""),
                        whole(t.calls),
                        whole(t.rounds),
                        whole(t.messages),
                        size(t.bytes_sent),
                    ]
                    for name, t in tallies
                ],
                numeric={2, 3, 4, 5},
                caption="By protocol. Protocols call each other, so these overlap and add up to more than the whole.",
            )
        )
    if tallies and sent:
        parts.append(
            image(
                picture(
                    plots.bars(
                        [name for name, _ in tallies],
                        [t.bytes_sent for _, t in tallies],
                        [size(t.bytes_sent) for _, t in tallies],
                        "bytes sent",
                    )
                ),
                "Bytes sent by protocol, largest first: "
                + ", ".join(f"{name} {size(t.bytes_sent)}" for name, t in tallies)
                + ".",
                "Where the bytes went.",
            )
        )
    return Markup("\n").join(parts)


def _comparison(words: dict[str, str]) -> Markup:
    return Markup("<p>{}</p>").format(
        "A simulation can do what a real run cannot: pool the data and let scikit-learn cluster it from the same start."
    ) + table(["", ""], list(words.items()), caption="The secure result beside scikit-learn's")


# -- what was disclosed, and what it rests on --------------------------------------------------------------------------


def disclosed(facts: Facts) -> Markup:
    """The disclosure log in words, and beside it what nobody learnt."""
    entries = told(facts.disclosures, facts.helper, facts.parties)
    made = promised(facts)
    return Markup("\n").join(
        [
            Markup("<p>{}</p>").format(
                "Every value that left secrecy is in this table; all participants keep the same log of it. Everything "
                "else that was sent is masked, and looks random to whoever receives it."
            ),
            table(
                ["what was learnt, and by whom", "when", "times", "why"],
                [[entry.sentence, entry.when, whole(entry.times), entry.why] for entry in entries],
                numeric={2},
                caption=f"Disclosures: {whole(len(facts.disclosures))} openings",
            ),
            Markup("<h3>What nobody learnt</h3>"),
            _list(made.nobody),
            Markup("<h3>What everybody knows, the helper included</h3>"),
            _list(made.public),
        ]
    )


def _trust(facts: Facts) -> Markup:
    made = promised(facts)
    return Markup("\n").join(
        [
            Markup("<p>{}</p>").format("The promises above hold under these assumptions:"),
            _list(made.assumptions),
            Markup("<h3>What is not protected</h3>"),
            _list(made.not_protected),
        ]
    )


def promised(facts: Facts) -> Promises:
    """What the terms of this run had announced."""
    agreed, parties = facts.options, tuple(facts.parties)
    terms = Terms(
        partition=agreed["partition"],
        counts=agreed["counts"],
        labels=agreed["labels"],
        centers=agreed["centers"],
        least=facts.least,
        contribution=agreed.get("contribution", "least"),
        coalition=facts.coalition,
        sizes=agreed.get("sizes", "secret"),
        columns=tuple(column.name for column in facts.columns),
        rounded=tuple(column.name for column in facts.columns if column.step),
        starts=int(agreed.get("n_init", "1")),
        ids=agreed["partition"] == "vertical" and facts.study is not None,
        bounds=any(entry.what == "bounds" for entry in facts.disclosures),
    )
    return promises(terms, Roles(parties, parties, facts.helper), agreed["protocol"])


def _versions(facts: Facts) -> Markup:
    pairs: dict[str, object] = {"Written": facts.when} if facts.when else {}
    pairs |= dict(facts.versions)
    parts = [_pairs(pairs)]
    if facts.hashes:
        parts.append(
            table(["hash of", "SHA-256"], [[name, _code(value)] for name, value in facts.hashes.items()], (), "Hashes")
        )
    return Markup("\n").join(parts)


# -- small things ----------------------------------------------------------------------------------------------------


def _list(sentences: list[str]) -> Markup:
    items = Markup("").join(Markup("<li>{}</li>").format(sentence) for sentence in sentences)
    return Markup("<ul>{}</ul>").format(items)


def _pairs(pairs: dict[str, Any]) -> Markup:
    items = Markup("").join(Markup("<dt>{}</dt><dd>{}</dd>").format(name, value) for name, value in pairs.items())
    return Markup('<dl class="pairs">{}</dl>').format(items)


def _code(text: str) -> Markup:
    return Markup('<span class="code">{}</span>').format(text)


def _cut(text: str, most: int = 120) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _s(noun: str, count: int) -> str:
    return noun if count == 1 else noun + "s"


def _clusters_in_words(clusters: list[int]) -> str:
    return f"cluster {clusters[0]}" if len(clusters) == 1 else f"{len(clusters)} clusters"


def _columns_in_words(names: list[str]) -> str:
    return enumerated(names) if len(names) <= 8 else f"{len(names)} columns"
