"""Any change to the file of a survey, and any option of `study create --survey`, ends in an error that names the field
and says what is wrong, or in a survey that can be taken; never in an internal error.

Hypothesis makes the changes; what it does not find by itself stands among the examples. `tests/fuzz/files.py` changes
bytes of signed files; here the meaning changes, and the one who writes the file is the attacker.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import tomli_w
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coterie.errors import InputError, StudyError
from coterie.runtime.surveys import run_survey_oracle
from coterie.study.agreement import Study
from coterie.study.identity import load_identity
from coterie.study.statement import state_disclosures
from coterie.study.study_file import create_study, load_study, write_study
from coterie.study.survey import make_survey_task
from coterie.surveys import SurveyTask, describe_columns, tally_values
from coterie.surveys.task import MOST_CELLS, MOST_QUANTILES
from tests.study.walk import Cast

ASKED = ("--survey", "--columns", "age,bmi", "--bounds", "age=0:150,bmi=0:100")
Path_ = tuple[str | int, ...]


@pytest.fixture(scope="module")
def cast(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cast]:
    with Cast(tmp_path_factory.mktemp("survey")) as made:
        assert made.create(*ASKED).code == 0
        yield made


#: Numbers at which something happens, beside any others.
numbers = st.one_of(
    st.floats(),
    st.integers(-(2**70), 2**70),
    st.sampled_from(
        [0, 1, 2, -1, 1024, 1025, 5e-324, 1e-310, 1.7e308, -1.7e308, 1e16, 10**400, math.nan, math.inf, 0.1]
    ),
)
texts = st.one_of(
    st.text(max_size=8), st.sampled_from(["", "least", "off", "none-or-least", "mixed", "vertical", "drop"])
)
scalars = st.one_of(numbers, texts, st.booleans())
values = st.one_of(scalars, st.lists(scalars, max_size=4), st.dictionaries(st.text(max_size=4), scalars, max_size=2))

#: Where a survey says something: a field that stands there, or that could.
COLUMN = ("name", "low", "high", "kind", "categories", "distance", "clip", "transform", "missing", "holder", "holders",
          "resolution", "weight", "unknown")  # fmt: skip
PLACES: list[Path_] = [
    *(("survey", name) for name in ("partition", "protocol", "cells", "quantiles", "unknown")),
    *(("data", "columns", at, name) for at in (0, 1) for name in COLUMN),
    *(("data", name) for name in ("id", "most_rows", "matching", "id_rule", "precedence", "incomplete", "row_weights",
                                  "columns", "unknown")),
    *(("disclosures", name) for name in ("least_cluster_size", "contribution", "statement", "counts", "labels", "sizes",
                                         "quality", "centers", "unknown")),
    *(("study", name) for name in ("name", "created", "made_with", "format", "unknown")),
    ("participants",), ("survey",), ("data",), ("disclosures",), ("study",), ("clustering",), ("unknown",),
]  # fmt: skip


def change(document: dict[str, Any], place: Path_, value: Any) -> None:
    *way, last = place
    inner: Any = document
    for key in way:
        inner = inner[key]
    inner[last] = value


def write(folder: Path, document: dict[str, Any]) -> Path | None:
    """The document as a file; None, if TOML has no such value. Where it can be read, with the statement that it
    amounts to: an attacker would see to that."""
    path = folder / "changed.toml"
    try:
        text = tomli_w.dumps(document)
    except (TypeError, ValueError, AttributeError):
        return None
    try:
        study = msgspec.convert(tomllib.loads(text), Study)
        document["disclosures"]["statement"] = state_disclosures(study)
        text = tomli_w.dumps(document)
    except Exception:
        pass  # it is for `load_study` to say what is wrong
    path.write_text(text, encoding="utf-8")
    return path


class Said:
    """As much of a greeting as makes a task."""

    rows, least, contribution, coalition = 40, 10, "least", 1


def take(study: Study) -> None:
    """In the clear: values in, below and above the range, and missing ones."""
    said = {name: Said() for name in study.roles.owners}
    try:
        task: SurveyTask = make_survey_task(study, said)  # type: ignore[arg-type]
    except StudyError:
        return  # too few rows for the least size, by name
    tallies = []
    for rank in study.world().owners:
        own = study.own_columns(rank)
        low, high = (np.array([ends[l] for l in own]) for ends in (task.low, task.high))
        mixed = np.where(np.arange(40)[:, None] % 3 == 0, high, low / 2 + high / 2)
        mixed[:5], mixed[5:10], mixed[10:14] = -1.7e308, 1.7e308, np.nan
        tallies.append(tally_values(task, rank, own, mixed))
    for found in describe_columns(task, run_survey_oracle(task, tallies)):
        if found.suggested is not None:
            assert found.suggested[0] < found.suggested[1]


def check_file(cast: Cast, place: Path_, value: Any) -> None:
    document = tomllib.loads((cast.folder / "study.toml").read_text(encoding="utf-8"))
    change(document, place, value)
    path = write(cast.folder, document)
    if path is None:
        return
    try:
        study = load_study(path)
    except StudyError as error:
        assert str(error).startswith(str(path)), "the error names the file"
        assert names_field(str(error), place), f"{place}: {error}"
        return
    take(study)


def names_field(text: str, place: Path_) -> bool:
    """Does an error say where it is? By the section and the field; of a column, by its name or number; of a name, by
    itself; of a value that is wrong beside others, by one of these."""
    section, last = str(place[0]), str(place[-1])
    return section in text or last in text or "column" in text or "the name" in text


@settings(deadline=None, max_examples=150, derandomize=True)
@given(place=st.sampled_from(PLACES), value=values)
@example(place=("data", "columns", 0, "high"), value=5e-324)
@example(place=("data", "columns", 0, "high"), value=1.7e308)
@example(place=("data", "columns", 0, "low"), value=-1.7e308)
@example(place=("data", "columns", 0, "high"), value=10**400)
@example(place=("data", "columns", 0, "resolution"), value=1e-320)
@example(place=("data", "columns", 0, "resolution"), value=math.nan)
@example(place=("data", "columns", 0, "resolution"), value=150.0)
@example(place=("data", "columns", 0, "missing"), value=10**400)
@example(place=("data", "columns", 0, "weight"), value=math.nan)
@example(place=("data", "columns"), value=[])
@example(place=("survey", "quantiles"), value=[1e-9])
@example(place=("survey", "quantiles"), value=[99.9999999])
@example(place=("survey", "quantiles"), value=[math.nan])
@example(place=("survey", "quantiles"), value=[10**400])
@example(place=("survey", "quantiles"), value=[])
@example(place=("survey", "cells"), value=10**30)
@example(place=("survey", "cells"), value=True)
@example(place=("survey", "partition"), value="vertical")
@example(place=("disclosures", "least_cluster_size"), value=2**70)
@example(place=("study", "name"), value="a\x1b[2Jb")
def test_a_changed_file_is_refused_by_field_or_can_be_taken(cast, place, value):
    check_file(cast, place, value)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(low=numbers, high=numbers, cells=st.integers(2, 64), resolution=st.sampled_from([0.0, 0.5, 1.0, 1e-300, 1e300]))
@example(low=0, high=1e300, cells=2, resolution=1e-300)
@example(low=1e16, high=1e16 + 4, cells=64, resolution=0.0)
@example(low=0, high=1e-320, cells=4, resolution=0.0)
def test_any_bounds_in_a_file(cast, low, high, cells, resolution):
    document = tomllib.loads((cast.folder / "study.toml").read_text(encoding="utf-8"))
    document["data"]["columns"][0].update(low=low, high=high, resolution=resolution)
    document["survey"]["cells"] = cells
    path = write(cast.folder, document)
    assert path is not None
    try:
        study = load_study(path)
    except StudyError as error:
        assert re.search(r"\[data\].*column 'age'|data\.columns\[0\]", str(error)), error
        return
    take(study)


# -- options -----------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    quantiles=st.lists(st.one_of(numbers, st.floats(0.001, 99.999).map(lambda q: round(q, 3))), max_size=30),
    cells=st.integers(-5, 2000),
    ends=st.tuples(numbers, numbers),
    least=st.one_of(st.integers(-3, 50), st.just(2**70)),
    contribution=st.sampled_from(["least", "off", "none-or-least", ""]),
)
@example(quantiles=[50], cells=8, ends=(0, 1), least=10, contribution="least")
def test_any_options_make_a_survey_or_say_what_is_wrong(cast, quantiles, cells, ends, least, contribution):
    people = [load_identity(cast.identity(name)) for name in cast.names]
    helper, *parties = people
    options = {"cells": cells, "quantiles": quantiles}
    try:
        study = create_study(
            "a survey", parties, helper, survey=options, partition="horizontal", columns=["age"],
            bounds={"age": ends}, least_cluster_size=least, contribution=contribution,
        )  # fmt: skip
    except InputError as error:
        fields = r"cells|quantile|bounds|age|columns\[0\]|least.cluster.size|contribution"
        assert re.search(fields, str(error)), error
        return
    assert 2 <= cells <= MOST_CELLS
    assert 1 <= len(quantiles) <= MOST_QUANTILES
    path = cast.folder / "made.toml"
    path.unlink(missing_ok=True)
    write_study(path, study)
    assert load_study(path) == study
    take(study)
