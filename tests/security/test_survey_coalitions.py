"""Whole surveys of three parties: two tables of the honest ones with the same results give every coalition, and the
helper, the same transcripts; and planted leaks.

By rows there are four columns. What the honest parties change in the twin:

- a: values above the median, which lie in other cells and have the same sum;
- b: how many values are there, of a column that stays closed;
- c: whether one value is missing, which is too few to be told;
- d: the cell of a quantile that stays closed, since it lies among one party's values alone.

By columns, each column is like the first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from coterie.errors import ProtocolError
from coterie.protocols import FAMILIES
from coterie.randomness import Dealt
from coterie.runtime.surveys import run_survey_oracle
from coterie.sharing import Shared
from coterie.surveys import SurveyTask, program
from coterie.surveys.task import WHOLE
from coterie.transport import Metered
from tests.ideal_logs import let_anything_be_opened
from tests.security.test_onetime_planted import again
from tests.security.test_surveys import survey, task_of, views
from tests.security.test_transcripts import TWICE, no_label_mask, stream_read_twice
from tests.security.transcripts import compare
from tests.surveys.by_hand import tallies_of

NAN = float("nan")
PARTIES = {1, 2, 3}
#: Seeds for each of the two tables; as many as a leak needs to show.
SEEDS, FEW = 24, 12
#: Bytes of a part that has a word for each column.
WORDS = 32
A = {
    1: ([1.1, 2.1, 3.1, 5.1, 6.1, 7.1], [1.1, 2.1, 3.1, 6.1, 6.1, 6.1]),
    2: ([0.5, 1.5, 4.5, 4.6, 6.5, 7.5], [0.5, 1.5, 4.5, 4.6, 7.0, 7.0]),
    3: ([0.6, 2.6, 4.6, 4.7, 5.6, 6.6], [0.6, 2.6, 4.6, 4.7, 6.1, 6.1]),
}
ROWS: dict[str, Any] = {"cells": 8, "least": 4, "quantiles": (WHOLE // 4, WHOLE // 2)}
COLUMNS: dict[str, Any] = {"cells": 8, "least": 2, "quantiles": (WHOLE // 2,), "holders": (1, 2, 3)}
WAYS: dict[str, dict[str, Any]] = {
    "rows": ROWS,
    "columns": COLUMNS,
    "rows, coalitions of two": {**ROWS, "least": 3, "coalition": 2},
}


def table_of(rank: int, honest: set[int], twin: bool) -> np.ndarray:
    """One party's rows."""
    there = (5 if twin else 1) if rank == max(honest) else 1
    low = [2.5] * 5 + [1.5] if twin else [1.5] * 5 + [6.5]
    moved = twin and rank in honest
    return np.column_stack(
        [
            A[rank][moved],
            [3.0] * there + [NAN] * (6 - there),
            [4.5] * 5 + [NAN if moved and rank == max(honest) else 4.5],
            low if rank == max(honest) else [4.5] * 6,
        ]
    )


def blocks_of(way: str, honest: set[int], twin: bool) -> list[np.ndarray]:
    if way == "columns":
        return [np.array(A[rank][twin and rank in honest])[:, None] for rank in sorted(PARTIES)]
    return [table_of(rank, honest, twin) for rank in sorted(PARTIES)]


def both_tables(way: str, coalition: set[int]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The data and their twin, which the honest parties alone have changed."""
    honest = PARTIES - coalition
    data, twin = (blocks_of(way, honest, changed) for changed in (False, True))
    for rank in PARTIES & coalition:
        assert np.array_equal(data[rank - 1], twin[rank - 1], equal_nan=True)
    return data, twin


def check(way: str, coalition: set[int], seeds: int = SEEDS, protocol: str = "onetime") -> None:
    """The coalition cannot tell the data from their twin."""
    data, twin = both_tables(way, coalition)
    one = views(protocol, data, coalition, range(seeds), **WAYS[way])
    two = views(protocol, twin, coalition, range(seeds, 2 * seeds), **WAYS[way])
    compare(one, two, WORDS)


COALITIONS = [{1, 2}, {1, 3}, {2, 3}, {0}, {1}]


@pytest.mark.parametrize("coalition", COALITIONS, ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_both_tables_have_the_same_results(way, coalition):
    """By the oracle; and what is counted at home differs in every column."""
    tables = both_tables(way, coalition)
    task = task_of("onetime", tables[0], **WAYS[way])
    tallies = [tallies_of(task, blocks) for blocks in tables]
    first, second = (run_survey_oracle(task, one) for one in tallies)
    for name in ("closed", "missing", "means", "places"):
        assert getattr(first, name).tolist() == getattr(second, name).tolist(), name
    assert first.closed.tolist() == ([False] * 3 if way == "columns" else [False, True, False, False])
    counts = [np.sum(one, axis=0)[: -task.columns].reshape(task.contributors, task.columns, -1) for one in tallies]
    changed = (counts[0] != counts[1]).any(axis=(0, 2))
    honest = PARTIES - coalition
    assert changed.tolist() == ([rank in honest for rank in (1, 2, 3)] if way == "columns" else [True] * 4)
    if way == "rows":
        assert first.places[3].tolist() == [-1, 5], "one quantile of the last column stays closed"


QUICK = [
    ("rows", {1, 2}),
    ("rows", {2, 3}),
    ("rows", {0}),
    ("columns", {1, 3}),
]
REST = [
    (way, coalition, protocol)
    for way in WAYS
    for coalition in COALITIONS
    for protocol in ("onetime", "securenn")
    if protocol == "securenn" or (way, coalition) not in QUICK
]


@pytest.mark.parametrize(("way", "coalition"), QUICK, ids=str)
def test_a_coalition_cannot_tell_the_tables_apart(way, coalition):
    check(way, coalition)


@pytest.mark.slow
@pytest.mark.parametrize(("way", "coalition", "protocol"), REST, ids=str)
def test_no_coalition_can_tell_the_tables_apart(way, coalition, protocol):
    check(way, coalition, SEEDS if protocol == "onetime" else FEW, protocol)


# -- planted leaks -----------------------------------------------------------------------------------------

Plant = Callable[[pytest.MonkeyPatch], None]


def leave_out(purpose: str, mask: str) -> Plant:
    """A plant: the masks of this name of all steps of this purpose are zero, at the helper likewise."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        give = Dealt.mask

        def bare(self: Dealt, name: str) -> Any:
            whole = give(self, name)
            return np.zeros_like(whole) if (self.material.purpose, name) == (purpose, mask) else whole

        monkeypatch.setattr(Dealt, "mask", bare)

    plant.__name__ = f"no {mask} in {purpose}"
    return plant


def use_again(purpose: str, mask: str) -> Plant:
    """A plant: the first of the masks of this name serves all steps of this purpose."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        again(monkeypatch, purpose, mask)

    plant.__name__ = f"one {mask} for every {purpose}"
    return plant


def send_count_to_the_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    """P3 sends the helper how many values it has, of all columns together."""
    for name in ("onetime", "securenn"):
        _send_count(monkeypatch, FAMILIES[name])


def _send_count(monkeypatch: pytest.MonkeyPatch, family: type[Any]) -> None:
    enter = family.enter

    def indiscreet(self: Any, own: Any, shape: Any) -> Any:
        entered = enter(self, own, shape)
        if self.me.rank == 3:
            self.me.channel.send(0, own[:-4].sum(keepdims=True).astype(np.uint64))
        if self.me.deals:
            self.me.channel.receive(3, np.uint64, (1,))
        return entered

    monkeypatch.setattr(family, "enter", indiscreet)


def open_quantiles_below_the_least_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every quantile is opened: under the agreed name, to the agreed recipients, once."""

    def careless(family: Any, task: SurveyTask, counts: program.Counts, sure: Shared) -> Shared:
        wanted = np.array(task.quantiles, np.int64)[:, None]
        before = counts.upto[0][:, None, :] * WHOLE - counts.total[0][:, None, None] * wanted
        (place,) = program._count_negative(family, [before])
        return place + 1

    monkeypatch.setattr(program, "open_places", careless)


def open_missing_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of missing values is opened as it is: again where and when it should be."""
    rounded = program.rounded_sizes
    monkeypatch.setattr(program, "rounded_sizes", lambda family, least, missing: rounded(family, 1, missing))


def open_totals_at_each_party(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many values of each column are there is opened under a name of its own."""
    few = program.too_few

    def curious(family: Any, task: SurveyTask, counts: program.Counts) -> Shared:
        family.open(counts.total[0], family.me.world.owners, "values", "curiosity")
        return few(family, task, counts)

    monkeypatch.setattr(program, "too_few", curious)


#: With where a leak must be found.
PLANTS: list[tuple[Plant, str, set[int], str]] = [
    (leave_out("sign", "R"), "rows", {1, 2}, "byte that the data decide: .*(frame P3|opening)"),
    (leave_out("sign", "R"), "columns", {1, 2}, "byte that the data decide: .*(frame P3|opening)"),
    (leave_out("sign tree", "masks"), "rows", {1, 2}, "byte that the data decide: .*(frame P3|opening)"),
    (leave_out("truncation", "R"), "rows", {1, 2}, "byte that the data decide: .*(frame P3|opening)"),
    (leave_out("mean", "R"), "rows", {1, 2}, "byte that the data decide: .*(frame P3|opening)"),
    (no_label_mask, "rows", {1, 2}, "byte that the data decide: .*(frame P3|opening)"),
    (use_again("sign", "R"), "rows", {1, 2}, f"{TWICE}.*(frame P3|opening)"),
    (stream_read_twice, "rows", {1, 2}, TWICE),
    (open_quantiles_below_the_least_size, "rows", {1, 2}, "byte that the data decide"),
    (open_quantiles_below_the_least_size, "rows", {1}, "byte that the data decide"),
    (open_missing_exactly, "rows", {1, 2}, "byte that the data decide"),
]


def named(value: object) -> str | None:
    return value.__name__ if callable(value) else None


@pytest.mark.parametrize(("plant", "way", "coalition", "found"), PLANTS, ids=named)
def test_a_planted_leak_is_found(monkeypatch, plant, way, coalition, found):
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=found):
        check(way, coalition, FEW)


@pytest.mark.parametrize(
    ("protocol", "found"), [("onetime", "the helper received an array"), ("securenn", "data decide.*frame P3 to P0")]
)
def test_a_count_that_is_sent_to_the_helper_is_refused_and_would_be_found(monkeypatch, protocol, found):
    send_count_to_the_helper(monkeypatch)
    if protocol == "onetime":
        with pytest.raises(ProtocolError, match="declares no array from P3 to P0"):
            survey(protocol, both_tables("rows", {0})[0], set(), 0, **ROWS)
    monkeypatch.setattr(Metered, "begin_protocol", lambda self, *declared: None)
    with pytest.raises(AssertionError, match=found):
        check("rows", {0}, 4, protocol)


def test_an_opening_of_its_own_is_refused_and_would_be_found(monkeypatch):
    open_totals_at_each_party(monkeypatch)
    with pytest.raises(ProtocolError, match="was to be opened"):
        survey("onetime", both_tables("rows", {1, 2})[0], {1, 2}, 0, **ROWS)
    let_anything_be_opened(monkeypatch)
    with pytest.raises(AssertionError, match="byte that the data decide"):
        check("rows", {1, 2}, FEW)


def test_without_a_plant_as_few_runs_find_nothing():
    for coalition in ({1, 2}, {0}):
        check("rows", coalition, FEW)
