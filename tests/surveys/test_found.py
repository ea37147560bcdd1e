"""What a survey says in the units of the data, what it suggests, and the same in Python, in one process."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import coterie
from coterie.errors import InputError, ProtocolError
from coterie.surveys import Surveyed, describe_columns
from coterie.surveys.found import Cell, ColumnFound, suggest_options
from tests.surveys.by_hand import ask

NAN = float("nan")


def column(**quantiles: Cell | None) -> ColumnFound:
    named = {name.removeprefix("q"): cell for name, cell in quantiles.items()}
    return ColumnFound("age", 0.0, 150.0, 400, False, 20, 10, 51.5625, 2.34375, named)


@pytest.mark.parametrize(
    ("quantiles", "suggested"),
    [
        ({"q1": Cell(20, 22), "q50": Cell(50, 52), "q99": Cell(78, 80)}, (0, 110)),  # 60 wide, and 30 on either side
        ({"q5": Cell(40, 42), "q95": Cell(58, 60)}, (30, 70)),
        ({"q5": Cell(40.04, 42), "q95": Cell(58, 60.04)}, (30, 71)),  # outwards
        ({"q1": None, "q25": Cell(40, 42), "q75": Cell(58, 60), "q99": None}, (0, 150)),  # nothing near the ends
        ({"q5": Cell(40, 42), "q75": Cell(58, 60)}, (0, 150)),
        ({"q5": Cell(None, 0), "q95": Cell(140, 142)}, (-80, 150)),  # beyond the lower bound
        ({"q5": Cell(20, 22), "q95": Cell(150, None)}, (0, 220)),
        ({"q50": None}, None),
        ({}, None),
    ],
)
def test_bounds_that_are_suggested(quantiles, suggested):
    assert column(**quantiles).suggested == suggested


def test_options_that_are_suggested():
    known = column(q5=Cell(40, 42), q95=Cell(58, 60))
    closed = ColumnFound("pay", 0.0, 1e6, 400, True)
    assert suggest_options([known, closed]) == {
        "--columns": "age",
        "--bounds": "age=30:70",
        "--missing": "age=51.6",
    }
    assert suggest_options([closed]) == {}


def test_who_was_told_nothing_says_nothing():
    with pytest.raises(ProtocolError):
        describe_columns(ask([np.zeros((3, 1)), np.zeros((3, 1))]), Surveyed())


def frames(rows: int = 200) -> list[pd.DataFrame]:
    random = np.random.RandomState(1)
    found = []
    for _ in range(2):
        ages = random.normal(50, 15, rows)
        ages[:20] = NAN
        found.append(pd.DataFrame({"age": ages, "bmi": random.normal(26, 4, rows)}))
    return found


BOUNDS = {"age": (0, 150), "bmi": (0, 100)}


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_in_python(partition):
    alice, bob = frames()
    blocks = [alice, bob] if partition == "horizontal" else [alice[["age"]], bob[["bmi"]]]
    found = coterie.survey(blocks, BOUNDS, partition=partition)
    age, bmi = found.columns
    assert (age.rows, age.missing) == ((400, 40) if partition == "horizontal" else (200, 20))
    assert bmi.mean == pytest.approx(26, abs=2)
    assert age.quantiles["50"].low < 52 < 60
    assert found.suggestion.startswith("--columns age,bmi --bounds age=")
    assert found.disclosures[0].what == "closed columns"
    assert found.traffic.rounds > 10


def test_arrays_have_names_of_their_own():
    random = np.random.RandomState(2)
    blocks = [random.uniform(0, 1, (60, 1)), random.uniform(0, 1, (80, 2))]
    found = coterie.survey(blocks, dict.fromkeys(("x0", "x1", "x2"), (0, 1)), partition="vertical")
    assert [(one.name, one.rows) for one in found.columns] == [("x0", 60), ("x1", 80), ("x2", 80)]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"blocks": [np.zeros((20, 1))]}, "at least two parties"),
        ({"blocks": [np.zeros((20, 1)), np.zeros((20, 2))]}, "different numbers of columns"),
        ({"blocks": [np.zeros((20, 1)), np.full((20, 1), np.inf)]}, "P2: the block holds values that are infinite"),
        ({"blocks": [np.zeros((20, 1)), [["a"]] * 20]}, "P2: the block holds something that is not a number"),
        ({"blocks": [np.zeros((20, 1)), np.zeros((0, 1))]}, "P2: expected a 2D block"),
        ({"blocks": [pd.DataFrame({"a": [1.0]}), pd.DataFrame({"b": [1.0]})]}, "different columns"),
        ({"blocks": [pd.DataFrame({"a": [1.0]})] * 2, "partition": "vertical"}, "the same name"),
        ({"bounds": {}}, "no range for column 'x0'"),
        ({"bounds": {"x0": (1, 1)}}, "finite, low before high"),
        ({"partition": "mixed"}, "rows or columns"),
        ({"protocol": "paillier"}, "protocol must be one of"),
        ({"contribution": "none-or-least"}, "contribution"),
        ({"cells": 1}, "cells"),
        ({"least_size": 0}, "least_size"),
        ({"least_size": 50}, "together hold 40 rows"),
    ],
    ids=str,
)
def test_calls_that_make_no_sense(changes, words):
    options = {"blocks": [np.zeros((20, 1))] * 2, "bounds": {"x0": (0, 1)}, **changes}
    with pytest.raises(InputError, match=words):
        coterie.survey(options.pop("blocks"), options.pop("bounds"), **options)
