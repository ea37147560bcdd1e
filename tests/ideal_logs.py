"""Logs as the ideal functionality has them, for tests of disclosures; and runs without the check that holds to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest

from coterie.clustering import Task
from coterie.clustering.allowed import Allowed, groups_of, roles_of, terms_of
from coterie.ideal import learnt
from coterie.protocols import FAMILIES

Entry = tuple[str, tuple[str, ...], int | None]


def ideal_log(task: Task, p: int, iterations: Sequence[int], bounds: bool = False) -> Counter[Entry]:
    """All entries (what, to, iteration) of a fit whose starts take so many iterations each."""
    terms = msgspec.structs.replace(terms_of(task), bounds=bounds)
    entries: Counter[Entry] = Counter()
    world = FAMILIES[task.protocol].world([f"P{j}" for j in range(1, p + 1)])
    for one in learnt(terms, roles_of(world), groups_of(task, p)):
        if one.item.kind != "opened":
            continue
        places: list[int | None] = [None]
        if one.item.when == "iteration":
            places = [i for done in iterations for i in range(1, min(done, one.iterations) + 1)]
        if one.item.when == "start":
            places = [None] * len(iterations)
        assert len(places) <= one.most
        assert places or not one.always
        entries.update((one.item.what, one.to, place) for place in places)
    return entries


def let_anything_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is not checked while a run goes on: what else catches a planted opening?"""
    monkeypatch.setattr(Allowed, "__call__", lambda *_: None)
