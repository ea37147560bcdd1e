"""What a survey opens: by hand, by definition on all tiny inputs, beside numpy, and alike in every family."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import InputError
from coterie.protocols import FAMILIES
from coterie.runtime.surveys import run_survey_oracle, survey_in_threads
from coterie.surveys import Surveyed, check_survey_rules, describe_columns, parts_of_quantiles
from coterie.surveys.task import WHOLE, SurveyTask
from tests.contract.replicated import Replicated
from tests.surveys.by_hand import ask, by_definition, tallies_of

NAN = float("nan")
THREE = tuple(q * WHOLE // 100 for q in (10, 50, 90))


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(FAMILIES, Replicated.name, Replicated)


def column(*values: float) -> np.ndarray:
    return np.array(values)[:, None]


def check_by_definition(task: SurveyTask, blocks: list[np.ndarray], found: Surveyed) -> None:
    expected = by_definition(task, blocks)
    assert found.closed.tolist() == expected["closed"]
    assert found.missing.tolist() == expected["missing"]
    assert found.places.tolist() == expected["places"]
    for mean, step, exact in zip(found.means, 1 << task.mean_shifts, expected["means"], strict=True):
        assert mean % step == 0
        assert mean == 0 if exact is None else abs(mean - exact) <= step / 2 + 4  # 4: a step of the shortest division


def assert_equal(one: Surveyed, other: Surveyed) -> None:
    for name in ("closed", "missing", "means", "places"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist(), name


# -- by hand -----------------------------------------------------------------------------------------------


def test_by_hand():
    """Range 0 to 8 in 8 cells; values 0, 1, 2, 3 at one party, 4, 5, 6, 7 and two missing at the other."""
    blocks = [column(0, 1, 2, 3), column(4, 5, 6, 7, NAN, NAN)]
    task = ask(blocks, cells=8, quantiles=THREE)
    (found,) = describe_columns(task, run_survey_oracle(task, tallies_of(task, blocks)))
    assert (found.rows, found.closed, found.missing) == (10, False, 2)
    assert found.mean == 4.0  # 3.5, to the nearest multiple of a cell from the middle, halves upwards
    assert found.mean_step == 1.0
    # of 8 values the 10 % quantile is the 1st, but 0.1 * 8 < 1; the median is the 4th, which is 3
    assert {q: cell and (cell.low, cell.high) for q, cell in found.quantiles.items()} == {
        "10": None,
        "50": (3.0, 4.0),
        "90": None,
    }


def test_values_beyond_the_bounds_are_counted_and_clipped():
    blocks = [column(-5, -5, -5, 1), column(9, 9, 9, 8)]
    task = ask(blocks, cells=4, quantiles=parts_of_quantiles([25, 50, 75]))
    found = run_survey_oracle(task, tallies_of(task, blocks))
    assert found.places.tolist() == [[0, 1, 5]]  # below; 1 is in the first cell; above
    (said,) = describe_columns(task, found)
    assert (said.quantiles["25"].low, said.quantiles["25"].high) == (None, 0.0)
    assert (said.quantiles["75"].low, said.quantiles["75"].high) == (8.0, None)
    assert said.mean == pytest.approx((0 * 3 + 1 + 8 * 4) / 8, abs=said.mean_step / 2)
    assert said.suggested[0] < 0 < 8 < said.suggested[1]


def test_a_column_of_one_party_stays_closed():
    """Whoever brings all values of a column but a few would be left with those few."""
    blocks = [np.column_stack([np.arange(20) % 8, np.arange(20) % 8]), np.column_stack([[1.0] * 9, [1.0] * 9])]
    blocks.append(np.column_stack([[1.0, NAN], [1.0, 2.0]]))
    task = ask(blocks, least=10, quantiles=THREE)
    found = run_survey_oracle(task, tallies_of(task, blocks))
    assert task.sets.tolist() == [[1, 1, 1], [0, 1, 1], [1, 0, 1], [1, 1, 0]]
    assert found.closed.tolist() == [False, False]  # 10 and 11 values of others than P1
    blocks[2][1, 1] = NAN
    blocks[2][0, 1] = NAN
    found = run_survey_oracle(task, tallies_of(task, blocks))
    assert found.closed.tolist() == [False, True]
    assert found.means[1] == found.missing[1] == 0
    assert found.places[1].tolist() == [-1, -1, -1]


def test_planted_rows_do_not_move_a_quantile_into_a_thin_tail():
    """P1 plants 90 rows below; the median of all is then the 2nd smallest value of P2's, which stays closed."""
    rest = np.linspace(1.5, 7.5, 30)
    planted = ask(blocks := [column(*[0.0] * 26), column(*rest)], cells=8, least=10, quantiles=(WHOLE // 2,))
    assert run_survey_oracle(planted, tallies_of(planted, blocks)).places.tolist() == [[-1]]
    honest = ask(blocks := [column(*rest), column(*rest)], cells=8, least=10, quantiles=(WHOLE // 2,))
    assert run_survey_oracle(honest, tallies_of(honest, blocks)).places.tolist() == [[5]]


def test_missing_counts_are_rounded():
    for missing, told in ((0, 0), (4, 0), (5, 10), (14, 10), (15, 20)):
        blocks = [column(*[1.0] * 30), column(*[1.0] * 30, *[NAN] * missing)]
        task = ask(blocks, least=10, quantiles=THREE)
        assert run_survey_oracle(task, tallies_of(task, blocks)).missing.tolist() == [told]


def test_a_quantile_is_not_offered_where_rows_are_too_few():
    """32 rows, of which 1 may be missing without being told: 31 values, and 4 of them on the outer side."""
    blocks = [column(*range(8)) for _ in range(4)]
    options = {"least": 4, "contribution": "off", "quantiles": parts_of_quantiles([12.9, 12.91, 50, 87.09, 87.1])}
    task = ask(blocks, **options)
    assert task.offered.tolist() == [[False, True, True, True, False]]
    found = run_survey_oracle(task, tallies_of(task, blocks))
    assert (found.places[0] >= 0).tolist() == [False, True, True, True, False]


def test_the_mean_of_coarse_values_is_rounded_more():
    blocks = [column(*[0.0, 1.0] * 20), column(*[1.0] * 40)]
    task = ask(blocks, 0, 1, cells=64, least=10, resolution=(1.0,), quantiles=THREE)
    (found,) = describe_columns(task, run_survey_oracle(task, tallies_of(task, blocks)))
    assert found.mean_step == 1 / 8  # 1/64 is a cell, and 1/10 is one value among ten
    assert found.mean == 0.75


# -- everything that is tiny -------------------------------------------------------------------------------


@pytest.mark.parametrize("least", [1, 2, 3])
def test_every_tiny_column_by_definition(least):
    """Two parties of two rows each, values below, in three cells, above, or missing: all of them."""
    values = [-1.0, 0.0, 1.5, 3.0, 4.0, NAN]
    options = {"cells": 3, "least": least, "quantiles": THREE}
    for four in product(values, repeat=4):
        blocks = [column(*four[:2]), column(*four[2:])]
        task = ask(blocks, 0, 3, **options)
        check_by_definition(task, blocks, run_survey_oracle(task, tallies_of(task, blocks)))


PARTITIONS = [{}, {"contribution": "off"}, {"coalition": 2}]


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_any_blocks_by_definition(data):
    d, p = data.draw(st.integers(1, 3)), data.draw(st.integers(2, 4))
    cells = data.draw(st.sampled_from([2, 3, 8, 64]))
    value = st.one_of(st.just(NAN), st.floats(-2, 10), st.integers(-1, 9).map(float))
    options = data.draw(st.sampled_from([*PARTITIONS, {"holders": None}]))
    if "holders" in options:
        options = {"holders": tuple(range(1, p + 1))}
        widths = [1] * p
    else:
        widths = [d] * p
    blocks = []
    for width in widths:
        rows = data.draw(st.lists(st.lists(value, min_size=width, max_size=width), min_size=1, max_size=30))
        blocks.append(np.array(rows))
    quantiles = tuple(sorted(data.draw(st.sets(st.integers(1, WHOLE - 1), min_size=1, max_size=4))))
    task = ask(blocks, cells=cells, least=data.draw(st.integers(1, 5)), quantiles=quantiles, **options)
    check_by_definition(task, blocks, run_survey_oracle(task, tallies_of(task, blocks)))


def test_beside_numpy():
    random = np.random.RandomState(3)
    blocks = [random.gamma(2, 1, (400, 3)), random.gamma(3, 1, (300, 3)), random.normal(4, 1, (500, 3))]
    blocks[0][random.uniform(size=(400, 3)) < 0.1] = NAN
    task = ask(blocks, 0, 12, least=10, contribution="off")
    pooled = np.concatenate(blocks)
    for l, one in enumerate(describe_columns(task, run_survey_oracle(task, tallies_of(task, blocks)))):
        values = pooled[~np.isnan(pooled[:, l]), l]
        assert abs(one.missing - np.isnan(pooled[:, l]).sum()) <= 5
        assert one.mean == pytest.approx(np.clip(values, 0, 12).mean(), abs=one.mean_step / 2 + 1e-3)
        for per_cent, cell in one.quantiles.items():
            exact = np.quantile(values, float(per_cent) / 100, method="inverted_cdf")
            assert (cell.low or 0) <= exact <= (cell.high or 99), (per_cent, exact)


# -- in every family ---------------------------------------------------------------------------------------

random = np.random.RandomState(0)
ROWS = [np.where(random.uniform(size=(n, 2)) < 0.2, NAN, random.uniform(-1, 9, (n, 2))) for n in (25, 18, 31)]
FAMILY_CASES = [
    ("onetime", 2, {}),
    ("onetime", 3, {"coalition": 2}),
    ("securenn", 2, {"cells": 7}),
    ("securenn", 3, {}),
    ("falcon", 2, {}),
    ("falcon", 3, {}),
    ("replicated", 2, {}),
    ("replicated", 3, {}),
]


@pytest.mark.parametrize("way", ["rows", "columns"])
@pytest.mark.parametrize(("protocol", "p", "options"), FAMILY_CASES, ids=str)
def test_families_agree_with_the_oracle(protocol, p, options, way):
    blocks = ROWS[:p]
    more = {"cells": 16, "least": 4, "quantiles": THREE, **options, "protocol": protocol}
    if way == "columns":
        more["holders"] = tuple(j for j in range(1, p + 1) for _ in range(2))
    task = ask(blocks, **more)
    tallies = tallies_of(task, blocks)
    found, _ = survey_in_threads(task, tallies, [f"P{j}" for j in range(1, p + 1)])
    expected = run_survey_oracle(task, tallies)
    assert_equal(found, expected)
    check_by_definition(task, blocks, found)
    assert not expected.closed.all()
    assert [entry.what for entry in found.disclosures] == [
        "closed columns", "missing values", "column means", "quantiles",
    ]  # fmt: skip


# -- what cannot be ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [[0], [100], [-1], [50.0001], [50, 25], [25, 25], [], list(range(1, 40))])
def test_quantiles_that_are_none(wrong):
    with pytest.raises(InputError, match="quantile"):
        parts_of_quantiles(wrong)


def test_too_few_rows_are_refused_by_name():
    task = ask([column(*range(8)), column(*[1.0] * 40)], least=10)
    with pytest.raises(InputError, match="apart from bob together hold 8 rows"):
        check_survey_rules(task, ("helper", "alice", "bob"))
    check_survey_rules(ask([column(*range(20)), column(*[1.0] * 40)], least=10))
    with pytest.raises(InputError, match="column 'a' has 8 rows"):
        check_survey_rules(ask([column(*range(8)), column(*[1.0] * 40)], least=10, holders=(1, 2)))
