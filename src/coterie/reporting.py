"""Reports for Python: pages that a notebook shows and a program writes, and what a fit of `SecureKMeans` tells one."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from coterie.clustering import Outcome
from coterie.clustering.allowed import roles_of
from coterie.data import Blocks
from coterie.errors import InputError
from coterie.report.facts import Facts, Participant, describe_choices, describe_role, facts_of_all, versions
from coterie.study.files import write_file
from coterie.transport import World

if TYPE_CHECKING:
    from coterie.parameters import Prepared  # loads scikit-learn, which a study does without

__all__ = ["Page", "facts_of_fit"]


class Page:
    """A report, which a notebook shows; `str` of it is its HTML."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<Page of {len(self._text):,} characters>"

    def _repr_html_(self) -> str:
        page = html.escape(self._text, quote=True)
        return f'<iframe srcdoc="{page}" width="100%" height="600" sandbox></iframe>'

    def write(self, path: str | os.PathLike[str]) -> Path:
        """To a file, whole or not at all."""
        file = Path(path)
        if file.is_dir():
            raise InputError(f"{file} is a folder; name a file for the report, such as {file / 'report.html'}")
        if not file.parent.is_dir():
            raise InputError(f"the report cannot be written to {file}: there is no folder {file.parent}; make it first")
        write_file(file, self._text.encode())
        return file


def facts_of_fit(world: World, table: Blocks, prepared: Prepared, whole: Outcome, seconds: float) -> Facts:
    """What a report shows of a fit: what all parties together know, who are one user here."""
    task, roles = prepared.task, roles_of(world)
    matched = {} if table.matched is None else {"matching": "private" if table.private else "shared"}
    weighed = {"row_weights": "sample_weight"} if task.most_weight else {}
    known = msgspec.structs.replace(
        whole,
        centers=whole.centers if task.centers == "revealed" else None,
        labels=None if task.private else whole.labels,
        inertia=None if whole.inertia is None else whole.inertia * prepared.weight_unit,
        disclosures=prepared.disclosed + whole.disclosures,
    )
    task = task.chosen(whole)
    return facts_of_all(
        task,
        known,
        [Participant(name, describe_role(roles, name)) for name in world.everybody],
        {**matched, **weighed, **describe_choices(prepared.task.choices, task.choose, task.measures)},
        **_spread_at_home(table, task.encoding.names if task.encoding.reach != 1.0 else ()),
        title=f"{task.clusters} clusters of {task.layout.n:,} rows",
        when=datetime.now().astimezone().isoformat(" ", "seconds"),
        seconds={"clustering, all roles side by side": seconds},
        versions=versions("scikit-learn"),
    )


def _spread_at_home(table: Blocks, names: Sequence[str]) -> dict[str, Any]:
    """Where parties have standardised their columns at home, no range is agreed on; each knows that of its data."""
    if not names:
        return {}
    ranges, deviations = [(0.0, 0.0)] * len(names), {}
    for j, block in enumerate(table.blocks):
        for l, column in zip(table.layout.own_columns(j + 1), np.asarray(block).T, strict=True):
            ranges[l] = float(column.min()), float(column.max())
            if not (table.features and table.features[l].distance):
                deviations[names[l]] = float(column.std())
    return {"ranges": ranges, "deviations": deviations, "range_name": "range in the data"}
