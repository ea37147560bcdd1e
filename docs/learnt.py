"""The tables of the guide that say who learns what, made from `coterie.ideal`. `python docs/learnt.py` renews them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from coterie.ideal import HOLDERS, ITEMS, WHAT, Item, Learnt, Role, Roles, Terms, learnt
from coterie.report.promises import promises

__all__ = ["PAGES", "TABLES", "renew"]

HERE = Path(__file__).parent
PAGES = (HERE / "data-protection.md", HERE / "output-rules.md")
BLOCK = re.compile(r"(?P<begin><!-- learnt: (?P<name>[a-z ]+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)
PARTIES = ("a data party", "another")
ROLES = Roles(PARTIES, PARTIES, "the helper")
#: A study with default options and policies: its least cluster size, and how columns are scaled.
USUAL, SCALE = 10, "standard"
PARTITIONS = {"horizontal": "rows", "vertical": "columns", "mixed": "cells"}
PARTS = {
    ("row", "one"): "of its own rows",
    ("row", "all"): "of all rows, since it holds cells of each",
    ("row", "some"): "of the rows of which it holds cells",
    ("column", "one"): "in its own columns",
    ("column", "all"): "in all columns",
}
#: Conditions that are not an option and its value.
CONDITIONS = {
    "tells_labels": 'always, but for `matching="private"`',
    "ids": "in a vertical or mixed study",
    "row_weights": "rows have weights (in Python only)",
    "bounds": '`bounds="auto"` (in Python only)',
    "ruled": "with a least cluster size",
    "weighted": '`scale="standard"`, where rows are split',
    "chooses": "`n_clusters` is a range",
    "tells_inertia": "`quality` names the inertia or Calinski-Harabasz, and it is not among the measures of k",
    "tells_scatter": "`quality` names Calinski-Harabasz, and it is not among the measures of k",
    "tells_silhouette": "`quality` names the silhouette, and there are two clusters or more",
}


def table(*rows: Iterable[str]) -> str:
    """Rows of cells, the head first, as Markdown."""
    head, *body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([head, "|---" * (head.count("|") - 1) + "|", *body])


def everybody_knows() -> str:
    """What is public anyway."""
    return "\n".join(f"- {sentence}" for sentence in promises(horizontal(), ROLES).public)


def said(item: Item) -> str:
    text = WHAT.get(item.what, "") or str(item.sentence).rstrip(".")
    return text[0].lower() + text[1:]


def roles_and_partitions() -> str:
    """A row for each item that somebody learns with default options: who learns it, and what of it."""
    terms = {name: Terms(partition=name, least=USUAL, ids=name == "vertical", scale=SCALE) for name in PARTITIONS}
    items = [item for item in ITEMS if any(map(item.holds, terms.values())) and (item.kind == "opened" or seen(item))]
    rows = [
        [said(item), *(part(item, one) for one in terms.values()), yes(item, "dealer"), yes(item, "network")]
        for item in items
    ]
    held = [f"a data party that holds {what} ({name})" for name, what in PARTITIONS.items()]
    return table(["what is learnt", *held, "the helper", "somebody on the network"], *rows)


def seen(item: Item) -> bool:
    return "network" in item.to


def part(item: Item, terms: Terms) -> str:
    """What of an item a data party learns."""
    if not item.holds(terms):
        return "no"
    return PARTS[item.each, HOLDERS[item.each][terms.partition]] if item.each else "yes"


def yes(item: Item, role: Role) -> str:
    return "yes" if role in item.to else "no"


def whom(item: Item) -> str:
    if item.each == "row":
        return "those who hold values of the row"
    if item.each == "column":
        return "the data parties (where columns are split, each column to its holder)"
    if item.to == ("dealer",):
        return "the helper"
    return "everybody, the helper too" if "dealer" in item.to else "the data parties"


def condition(item: Item) -> str:
    """Under which options; that it is a fit goes without saying."""
    if item.only.get("doing") == "survey":
        return "in a [survey](survey.md)"
    found = [CONDITIONS.get(name) or f'`{name}="{value}"`' for name, value in item.only.items() if name != "doing"]
    return ", ".join(found) or "always"


def names_in_the_log() -> str:
    """Everything that is ever opened."""
    rows = [
        [f"`{item.what}`", WHAT[item.what], whom(item), item.moment, condition(item), item.precision or "exactly"]
        for item in ITEMS
        if item.kind == "opened"
    ]
    return table(["in the log", "what is opened", "to whom", "when", "if", "how precisely"], *rows)


def horizontal(**more: Any) -> Terms:
    return Terms(**{"partition": "horizontal", "least": USUAL, "scale": SCALE, **more})


def vertical(**more: Any) -> Terms:
    return Terms(**{"partition": "vertical", "ids": True, "scale": SCALE, **more})


#: What an option changes: its name, the terms without it and with it, and what else to know.
OPTIONS: tuple[tuple[str, Terms | None, Terms, str], ...] = (
    ("a least cluster size of 1, in the study and all policies", horizontal(), horizontal(least=1),
     "every centre is opened, whatever it is a mean of"),
    ('`sizes="rounded"`', horizontal(), horizontal(sizes="rounded"), ""),
    ('`scale="bounds"` or none', horizontal(), horizontal(scale="bounds"),
     "each column counts by its public range, or by its numbers as they are"),
    ('`scales="secret"`', horizontal(), horizontal(scales="secret"),
     "new rows are then labelled by all together"),
    ("`quality` without the silhouette", horizontal(), horizontal(quality=("inertia", "calinski-harabasz")), ""),
    ("`quality` without Calinski-Harabasz", horizontal(), horizontal(quality=("inertia", "silhouette")), ""),
    ("an empty `quality`", horizontal(), horizontal(quality=()), "nothing says how good the clusters are"),
    ("`n_clusters` is a range, by Calinski-Harabasz", horizontal(), horizontal(chooses=True, starts=2),
     "the measures are inertias, and that of a single cluster; of the chosen k they are not opened a second time"),
    ("`n_clusters` is a range, by silhouette", horizontal(), horizontal(chooses=True, choose="silhouette", starts=2),
     "of the chosen k the silhouette is not opened a second time"),
    ('`n_clusters` is a range, `measures="secret"`', horizontal(),
     horizontal(chooses=True, measures="secret", starts=2), "of the other k nothing is opened but stop bits"),
    ("a column's `resolution`", horizontal(), horizontal(rounded=("age",)),
     "that column of the centres, and the inertia, are rounded"),
    ('`counts="revealed"` (only without a least cluster size)', vertical(), vertical(counts="revealed"), ""),
    ('`labels="revealed"` (SVK-means, vertical; only without a least cluster size)', vertical(),
     vertical(labels="revealed"),
     "from the labels each party computes its own columns of the centres of every iteration, and all counts"),
    ('`centers="shared"`', horizontal(), horizontal(centers="shared"),
     'each party keeps a share; with `labels="revealed"` each still has its own columns'),
    ("`n_init` above 1", horizontal(), horizontal(starts=2),
     "with revealed counts or labels those, too, of *every* start; otherwise nothing of the starts that did not win, "
     "nor which one won"),
    ('`bounds="auto"` (in Python only)', horizontal(), horizontal(bounds=True), ""),
    ("a prediction from shared centres, or in a vertical study", None, vertical(doing="predict"),
     "everybody learns how many new rows there are, and where; ids are compared in a vertical study only"),
    ('`protocol="securenn"`', horizontal(), horizontal(),
     "the helper does receive masked and blinded values, [which say nothing to it](protocols/securenn.md)"),
    ('`protocol="falcon"`', horizontal(), horizontal(),
     "there is no helper: [three servers](protocols/falcon.md) compute, and learn the stop bit, a chosen k and which "
     "clusters stay closed, also one that owns no data; revealed counts are opened to them in every iteration"),
)  # fmt: skip


def what_options_change() -> str:
    """The difference that an option makes to what is opened."""
    rows = []
    for called, without, with_it, remark in OPTIONS:
        before, after = opened(without), opened(with_it)
        more = [told(ones) for ones in grouped(one for key, one in after.items() if key not in before)]
        more += [
            f"{said(one.item)}, of every start"
            for key, one in after.items()
            if key in before and one.most > before[key].most
        ]
        less = [told(ones) for ones in grouped(one for key, one in before.items() if key not in after)]
        rows.append([called, "; ".join(more), "; ".join(less), remark])
    return table(["option", "opened besides", "no longer opened", "remarks"], *rows)


def opened(terms: Terms | None) -> dict[tuple[str, str], Learnt]:
    items = () if terms is None else learnt(terms, ROLES)
    return {(one.item.what, one.item.when): one for one in items if one.item.kind == "opened"}


def grouped(items: Iterable[Learnt]) -> Iterable[list[Item]]:
    """Items of one name together."""
    found: dict[str, list[Item]] = {}
    for one in items:
        found.setdefault(one.item.what, []).append(one.item)
    return found.values()


def told(items: list[Item]) -> str:
    return f"{said(items[0])}, {' and '.join(item.moment for item in items)}, to {whom(items[0])}"


def under_output_rules() -> str:
    """What is learnt at the end where output rules hold."""
    terms = horizontal(sizes="rounded")
    rows = [
        [said(item), whom(item), yes(item, "dealer"), yes(item, "network"), item.precision or "exactly"]
        for item in ITEMS
        if item.when == "end" and item.holds(terms)
    ]
    head = ["what is learnt at the end", "by whom", "the helper", "somebody on the network", "how precisely"]
    return table(head, *rows)


TABLES: dict[str, Callable[[], str]] = {
    "everybody knows": everybody_knows,
    "roles and partitions": roles_and_partitions,
    "options": what_options_change,
    "names in the log": names_in_the_log,
    "output rules": under_output_rules,
}


def renew(text: str) -> str:
    """A page with its tables as they should be."""
    return BLOCK.sub(lambda found: f"{found['begin']}{TABLES[found['name']]()}\n{found['end']}", text)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(renew(page.read_text(encoding="utf-8")), encoding="utf-8")
