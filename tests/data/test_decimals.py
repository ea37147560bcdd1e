"""Numbers as text: what is one and what is not. And the steps that a column's values lie on."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coterie.data.decimals import find_coarse_step, parse_number
from coterie.errors import InputError


@pytest.mark.parametrize(
    ("text", "value"),
    [("12", 12.0), (" -3 ", -3.0), ("+1", 1.0), ("1.", 1.0), (".5", 0.5), ("1e5", 1e5), ("2.5E-3", 0.0025)],
)
def test_decimal_numbers(text, value):
    assert parse_number(text) == value


@pytest.mark.parametrize(
    "text",
    ["1_000", "1e5_0", "nan", "NaN", "inf", "-Infinity", "0x10", "１２", "١", "1,5", "1 000", "+-1", "1e", ".", "",
     " ", "1e999", "9" * 400, "true", "1\n2", "½", "−1", "--1"],
)  # fmt: skip
def test_what_is_no_number(text):
    with pytest.raises(ValueError):
        parse_number(text)


@pytest.mark.parametrize("ends", ["0:1_000", "nan:1", "0:inf", "0:１２", "0x0:1", "0:"])
def test_bounds_take_no_such_number(ends):
    from coterie.cli.forecast import _parse_bounds
    from coterie.cli.parsing import parse_bounds, parse_file_bounds

    assert parse_bounds("age=0:120,income=0:5e5") == {"age": (0.0, 120.0), "income": (0.0, 5e5)}
    for read in (parse_bounds, parse_file_bounds):
        with pytest.raises(InputError, match="--bounds"):
            read(f"age={ends}")
    with pytest.raises(InputError, match="--bounds"):
        _parse_bounds(ends)


# -- steps -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([18, 19, 44, 90], 1.0),
        ([0, 1], 1.0),
        ([0, 20, 50], 10.0),
        ([0, 2, 6], 2.0),
        ([1.5, 2.0, 3.0], 0.5),
        ([0.25, 0.5, 1.75], 0.25),
        ([0.1, 0.2, 0.1 + 0.2, 7.7], 0.1),
        ([-5, 10, 35], 5.0),
        ([1000, 3000, 7000], 1000.0),
        ([2.5, 7.5, 10], 2.5),
        ([36.6, 36.9, 41.2], 0.1),
        ([1e-7, 3e-7, 4e-7], 1e-7),
        ([3e200, 5e200], 1e200),
        ([-1.7e308, 1.7e308], 1e307),
        ([1, math.nan, 4, math.inf], 1.0),
        ([1_700_000_001, 1_700_000_002, 1_700_000_904], 1.0),
    ],
)
def test_a_coarse_step_by_hand(values, step):
    assert find_coarse_step(np.array(values, float)) == pytest.approx(step, rel=1e-12)


@pytest.mark.parametrize(
    "values",
    [
        [],
        [7.0],
        [7.0, 7.0],
        [math.nan, 1.0],
        [0.123456789, 0.987654321],
        [math.pi, math.e, 1.0],
        [0.01, 499_999.99, 3.5],
        [1_700_000_000.5, 1_700_000_000.125 + 1e6],
    ],
)
def test_columns_without_a_coarse_step(values):
    assert find_coarse_step(np.array(values, float)) is None


def test_the_number_of_steps_decides():
    assert find_coarse_step(np.array([0.0, 1.0, 65_535.0])) == 1.0
    assert find_coarse_step(np.array([0.0, 1.0, 65_537.0])) is None


def test_random_columns():
    rng = np.random.default_rng(0)
    assert find_coarse_step(rng.normal(50, 9, 10_000)) is None
    assert find_coarse_step(rng.integers(0, 200, 10_000) * 0.5) == 0.5
    assert find_coarse_step(np.append(rng.integers(0, 200, 10_000), [0.3])) == 0.1
