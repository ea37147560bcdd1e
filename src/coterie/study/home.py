"""Columns that a party standardises at home: where it holds them whole, nobody else has to know how far they spread."""

from __future__ import annotations

from typing import NamedTuple

from coterie.clustering import Task, at_home
from coterie.ring import FixedPoint
from coterie.study.prepare import Ready

__all__ = ["AtHome", "home_encoding", "standardised_at_home"]


class AtHome(NamedTuple):
    """Of this party's columns."""

    means: tuple[float, ...]
    deviations: tuple[float, ...]


def standardised_at_home(ready: Ready) -> AtHome | None:
    """How this party standardises its columns, by its rows; None where it does not."""
    todo = ready.study.clustering
    if todo.scale != "standard" or todo.partition != "vertical" or ready.rows is None:
        return None
    values = ready.rows.values
    return AtHome(tuple(map(float, values.mean(axis=0))), tuple(map(float, values.std(axis=0))))


def home_encoding(ready: Ready, task: Task, known: AtHome | None = None) -> FixedPoint:
    """The encoding in this party's own units. `known`: for new rows, how those of the fit were standardised."""
    found = standardised_at_home(ready)
    if found is None:
        return task.encoding
    return at_home(task.encoding, ready.study.own_columns(ready.rank), *(known or found))
