"""An insider with a key, who may bring what rows and rules it likes, against what a survey promises of the others.

Each attack has the survey that honest people would have signed; what is left to it is said in docs/survey.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import coterie
from coterie.errors import InputError, PolicyError, StudyError
from coterie.runtime.surveys import run_survey_oracle
from coterie.study.survey import run_survey
from coterie.surveys import Surveyed, SurveyTask, describe_columns, parts_of_quantiles, program
from coterie.surveys.tally import places_of
from coterie.surveys.task import HALF_BITS, WHOLE
from tests.study.walk import Cast
from tests.surveys.by_hand import ask, tallies_of

NAN = float("nan")
LEAST = 10
MEDIAN = (WHOLE // 2,)
SPREAD = np.random.default_rng(0).normal(50, 15, 500)


def column(values: object) -> np.ndarray:
    return np.array(values, np.float64)[:, None]


def take(blocks: list[np.ndarray], low: float = 0.0, high: float = 150.0, **options: object) -> Surveyed:
    task = ask(blocks, low, high, **{"least": LEAST, **options})
    return run_survey_oracle(task, tallies_of(task, blocks))


def with_missing(count: int) -> np.ndarray:
    return column(np.where(np.arange(len(SPREAD)) < count, NAN, SPREAD))


# -- how many values are missing ---------------------------------------------------------------------------


def quantiles_about(rows: int) -> tuple[int, ...]:
    """Quantiles of which each opens for one value more than the next: those with m of about so many behind them."""
    wanted = {-(-LEAST * WHOLE // (rows - less)) for less in range(24)}
    return tuple(sorted(wanted))


def patterns(way: str, told: int) -> set[tuple[bool, ...]]:
    """Which quantiles are open, over all numbers of missing values that are told as this one."""
    held = {"holders": (1, 2)} if way == "columns" else {}
    quantiles = quantiles_about(500 if way == "columns" else 1000)
    found = set()
    for missing in range(max(told - 5, 0), told + 5):
        surveyed = take([with_missing(missing), column(SPREAD)], cells=4, quantiles=quantiles, **held)
        assert surveyed.missing[0] == told
        found.add(tuple((surveyed.places[0] >= 0).tolist()))
    return found


@pytest.mark.parametrize("way", ["rows", "columns"])
@pytest.mark.parametrize("told", [0, 10])
def test_open_and_closed_quantiles_do_not_count_missing_values(way, told):
    (which,) = patterns(way, told)
    assert any(which), "some open, so that there was something to see"
    assert not all(which)


@pytest.mark.parametrize("way", ["rows", "columns"])
def test_quantiles_by_the_exact_number_would_count_them(monkeypatch, way):
    """The fault: whether a quantile opens depends on how many values are there, and not on how many are said to be."""
    opened = program.open_places
    monkeypatch.setattr(SurveyTask, "offered", property(lambda self: self.column_rows[:, None] * self.tails > 0))
    monkeypatch.setattr(
        program, "open_places", lambda family, task, counts, sure: opened(family, task, counts, counts.total[0])
    )
    assert len(patterns(way, 0)) == 5, "each of 0 to 4"


def test_a_quantile_has_the_least_size_beyond_it_whatever_is_missing():
    """The rule that does not count exactly is stricter, never laxer."""
    quantiles = quantiles_about(1000)
    for missing in range(25):
        places = take([with_missing(missing), column(SPREAD)], cells=4, quantiles=quantiles).places[0]
        for part, place in zip(quantiles, places.tolist(), strict=True):
            assert place < 0 or part * (1000 - missing) >= LEAST * WHOLE


def test_own_missing_values_make_one_threshold():
    """What remains, and docs/survey.md says: with 4 of its own, whether others have none or at least one. Of these, no
    more is told until there are ten more."""
    told = [take([with_missing(4), with_missing(others)], quantiles=MEDIAN).missing[0] for others in range(12)]
    assert told == [0] + [10] * 10 + [20]


# -- the smallest and the largest value --------------------------------------------------------------------


@pytest.mark.parametrize("extreme", ["lowest", "highest"])
def test_extreme_values_of_others_are_in_no_output(extreme):
    """A row of Bob's is as far out as can be, or in the middle of his m outermost ones: all quantiles are the same, for
    every number of rows that Alice plants beyond him, and every quantile there is. (The mean takes it as lying on the
    bounds; it has a share of a value's range over all values in it.)"""
    sign = 1 if extreme == "lowest" else -1
    tail = 75 + sign * np.concatenate([np.full(LEAST - 1, -30.0), np.linspace(-20, 60, 200)])
    moved = tail.copy()
    moved[:3] = 75 - sign * np.array([70.0, 74.0, 200.0])
    for planted in (0, 5, 50, 200, 400):
        alice = column([75 - sign * 70.0] * planted + [75 + sign * 20.0] * 20)
        for start in range(1, 100, 24):
            options = {"quantiles": tuple(q * WHOLE // 100 for q in range(start, min(start + 24, 100))), "cells": 64}
            one, other = (take([alice, column(bob)], **options) for bob in (tail, moved))
            assert one.places.tolist() == other.places.tolist()
            opened = one.places[one.places >= 0]
            low, high = np.sort(take_places(tail, options["cells"]))[[LEAST - 1, -LEAST]]
            assert ((opened >= low) & (opened <= high)).all()


def take_places(values: np.ndarray, cells: int) -> np.ndarray:
    return places_of(ask([column(values)] * 2, 0.0, 150.0, cells=cells), 0, values)


@pytest.mark.parametrize("wrong", [0.0, 100.0, 1e-9, 99.9999999, 1e-300, 0.0004, NAN, math.inf, -5.0])
def test_the_ends_are_no_quantiles(wrong):
    with pytest.raises(InputError, match="is no quantile"):
        parts_of_quantiles([wrong])


# -- columns that one party holds --------------------------------------------------------------------------


@pytest.mark.parametrize("others", [0, 1, 9])
def test_a_column_that_hardly_anybody_else_has_is_all_zeros(others):
    """Alone with it, or nearly so: whatever these few values are, and whatever Alice brings, nothing is opened."""
    found = []
    for value in (1.0, 149.0):
        bob = np.full(40, NAN)
        bob[:others] = value
        surveyed = take([column(SPREAD), column(bob)], quantiles=MEDIAN)
        found.append([getattr(surveyed, name).tolist() for name in ("closed", "missing", "means", "places")])
    assert found == [[[True], [0], [0], [[-1]]]] * 2


@pytest.mark.parametrize("together", [1, 2])
def test_two_who_take_off_their_values_together(together):
    """Carol has 9 values. A policy that fears two colluding parties keeps the column closed."""
    blocks = [column(SPREAD[:40]), column(SPREAD[40:80]), column(SPREAD[80:89])]
    assert take(blocks, quantiles=MEDIAN, coalition=together).closed.tolist() == [together == 2]


# -- means -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cells", [2, 3, 4, 5, 64, 1000, 1024])
@pytest.mark.parametrize("resolution", [0.0, 1.0, 75.0, 150.0])
@pytest.mark.parametrize("least", [2, 3, 10])
def test_no_mean_is_finer_than_a_cell_or_than_one_value_in_the_least_size(cells, resolution, least):
    task = ask([column(SPREAD)] * 2, 0.0, 150.0, cells=cells, least=least, resolution=(resolution,))
    step = 150.0 / (1 << HALF_BITS + 1) * (1 << int(task.mean_shifts[0]))
    assert step >= 150.0 / cells
    assert step >= resolution / least


@pytest.mark.parametrize("protocol", ["onetime", "securenn"])
@pytest.mark.parametrize("cells", [2, 3])
def test_means_on_the_coarsest_grids(protocol, cells):
    """In shares as in the clear, at both bounds, too."""
    for values in ([0.0] * 20, [1.0] * 20, [0.2] * 19 + [1.0], [0.8] * 20):
        blocks = [column(values), column(values)]
        (found,) = coterie.survey(blocks, {"x0": (0, 1)}, cells=cells, protocol=protocol).columns
        assert found.mean_step == 0.5
        assert 0 <= found.mean <= 1
        assert abs(found.mean - np.mean(values)) <= found.mean_step / 2 + 1e-3


def test_planting_does_not_sharpen_the_mean_of_others():
    """Over all that Alice could bring in one run, what the mean tells of the sum of Bob's values is no finer than a
    step for each value that there is: it takes twice as many rows to hide a row twice as well."""
    bob = column(SPREAD[:20])
    task = ask([bob, bob], 0.0, 150.0, cells=64, least=LEAST, quantiles=MEDIAN)
    step = 1 << int(task.mean_shifts[0])
    for own in (10, 40, 160):
        blocks = [column([75.0] * own), bob]
        asked = ask(blocks, 0.0, 150.0, cells=64, least=LEAST, quantiles=MEDIAN)
        tallies = tallies_of(asked, blocks)
        told = set()
        for more in range(-step * 8, step * 8, step // 2):  # the sum of Bob's values, encoded
            tallies[1][-1] += more
            told.add(int(run_survey_oracle(asked, tallies).means[0]))
            tallies[1][-1] -= more
        assert len(told) <= 16 * step / (step * (own + 20)) + 2


# -- bounds and grids --------------------------------------------------------------------------------------

UNFIT = [(0.0, 5e-324), (0.0, 1e-310), (1.0, 1.0 + 2**-52), (1e16, 1e16 + 4), (-1.7e308, 1.7e308), (0.0, 1.7e308)]


@pytest.mark.parametrize("ends", UNFIT, ids=str)
def test_bounds_on_which_no_grid_can_be_laid_are_refused(ends):
    with pytest.raises(InputError, match="column 'x0': the bounds"):
        coterie.survey([np.ones((20, 1))] * 2, {"x0": ends})


@pytest.mark.parametrize("ends", [(0.0, 1e300), (-1e300, 1e300), (0.0, 1e-290), (1.0, 1.00001), (1e9, 1e9 + 10)])
def test_any_other_bounds_give_bounds_again(ends):
    """Values in, below and above the range: what is suggested is a range, wider than nothing."""
    low, high = ends
    for value in (low, low / 2 + high / 2, high, -1.7e308, 1.7e308):
        (found,) = coterie.survey([np.full((20, 1), value)] * 2, {"x0": ends}, quantiles=[50]).columns
        left, right = found.suggested
        assert math.isfinite(left)
        assert math.isfinite(right)
        assert left < right
        bounds = f"{left:.12g}:{right:.12g}".split(":")
        assert float(bounds[0]) < float(bounds[1])


# -- several surveys ---------------------------------------------------------------------------------------

ASKED = ("--survey", "--columns", "age", "--bounds", "age=0:150", "--cells", 8, "--quantiles", 50)


@pytest.fixture
def cast(tmp_path: Path) -> Iterator[Cast]:
    with Cast(tmp_path) as made:
        made.agree(*ASKED)
        made.give("alice", age=SPREAD[:60])
        made.give("bob", age=["" if np.isnan(value) else value for value in with_missing(17)[:60, 0]])
        yield made


def survey(cast: Cast, folder: str) -> dict[str, object]:
    return cast.take_part(run_survey, each={name: {"out": cast.at(name, folder)} for name in cast.names})


def told(cast: Cast, folder: str) -> int:
    return cast.document("alice", "survey.json", folder)["columns"][0]["missing"]


def test_the_same_data_under_a_least_size_of_ones_choice_are_refused(cast):
    """Alice raises the least size of her policy by one from survey to survey: multiples of 10, of 11, of 12, ..., and
    none of her data has changed."""
    assert not any(isinstance(end, BaseException) for end in survey(cast, "first").values())
    assert told(cast, "first") == 20
    cast.policy("alice", least_cluster_size=11)
    ended = survey(cast, "second")
    assert isinstance(ended["bob"], PolicyError), ended
    assert "had a least size of 10" in str(ended["bob"])
    assert "this one has a least size of 11" in str(ended["bob"])
    assert not any(cast.at(name, "second").exists() for name in cast.names)
    assert not [entry for entry in cast.audit("bob") if entry["event"] == "opening"][4:]
    cast.at("alice", "policy.toml").unlink()
    assert not any(isinstance(end, BaseException) for end in survey(cast, "third").values())


def test_who_allows_it_learns_what_several_least_sizes_tell(cast):
    """With `other_data = "log"` it goes on; and two least sizes leave fewer numbers than one: 17 lies between 15 and
    24, and between 17 and 27."""
    for name in cast.names:
        cast.policy(name, other_data="log")
    survey(cast, "first")
    cast.policy("alice", least_cluster_size=11, other_data="log")
    ended = survey(cast, "second")
    assert not any(isinstance(end, BaseException) for end in ended.values()), ended
    assert (told(cast, "first"), told(cast, "second")) == (20, 22)


def test_own_rows_that_change_are_refused(cast):
    """Two surveys of which the second has one row of Alice's less: refused by Bob, too, who cannot see her data."""
    survey(cast, "first")
    cast.give("alice", age=SPREAD[:59])
    cast.policy("alice", other_data="log")
    ended = survey(cast, "second")
    assert isinstance(ended["bob"], PolicyError), ended
    assert "alice returns to this study with other data" in str(ended["bob"])


def test_without_a_row_the_others_see_what_the_rules_say_and_no_more():
    """Where all agree to two surveys: of all single rows of Bob's that can be left out, few move anything, and what
    moves is a quantile to the next cell or a mean by a step."""
    alice, bob = column(SPREAD[:200]), SPREAD[200:400]
    quantiles = parts_of_quantiles([5, 25, 50, 75, 95])
    whole = take([alice, column(bob)], quantiles=quantiles, cells=64)
    step = 1 << int(ask([alice] * 2, 0.0, 150.0).mean_shifts[0])
    moved = 0
    for row in range(len(bob)):
        less = take([alice, column(np.delete(bob, row))], quantiles=quantiles, cells=64)
        assert less.missing.tolist() == whole.missing.tolist()
        assert abs(int(less.means[0]) - int(whole.means[0])) in (0, step)
        both = (less.places >= 0) & (whole.places >= 0)
        moved += bool((less.places != whole.places).any())
        assert (np.abs(less.places - whole.places)[both] <= 1).all()
    assert moved < len(bob)


def test_another_grid_needs_other_signatures(cast):
    """After a survey, or a study, on the same data: the edges of other cells lie between those of the first."""
    survey(cast, "first")
    assert cast.create(*ASKED[:6], 9, *ASKED[7:]).code == 0
    cast.study_file("alice").write_bytes((cast.folder / "study.toml").read_bytes())
    ended = cast.take_part(run_survey, ["alice"], out=cast.at("alice", "second"))
    assert isinstance(ended["alice"], StudyError)
    assert "was changed after" in str(ended["alice"])


def test_descriptions_of_closed_columns_hold_no_number():
    blocks = [column(SPREAD), column([NAN] * 40)]
    task = ask(blocks, 0.0, 150.0, least=LEAST, quantiles=MEDIAN)
    (found,) = describe_columns(task, run_survey_oracle(task, tallies_of(task, blocks)))
    assert (found.missing, found.mean, found.quantiles, found.suggested) == (None, None, {}, None)
