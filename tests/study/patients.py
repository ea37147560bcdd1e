"""A hospital's table as it is - words, dates, gaps, sizes of all kinds - and what becomes of it, worked out by hand."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie.clustering import Outcome, Task, distinct_rows
from coterie.runtime.oracle import run_oracle
from coterie.study.greetings import greeting
from coterie.study.tasks import layout_by_columns, make_study_task
from tests.study.walk import Cast

__all__ = ["APART", "COLUMNS", "FEATURES", "OPTIONS", "SEED", "Patient", "check_against_oracle", "cut", "features",
           "give", "make_patients", "prepared"]  # fmt: skip

Floats = NDArray[np.float64]
COLUMNS = ("age", "sex", "admitted", "smoker", "income", "bmi")
FEATURES = ("age", "sex=f", "sex=m", "sex=x", "admitted", "smoker", "log(income)", "bmi")
APART, SEED, CLUSTERS = 1.5, 3, 3
OPTIONS: tuple[object, ...] = (
    "--clusters", CLUSTERS, "--init", "random", "--seed", SEED, "--columns", ",".join(COLUMNS),
    "--bounds", "age=0:120,admitted=2020-01-01:2024-12-31,income=100:1000000,bmi=10:60",
    "--kinds", "admitted=date,smoker=boolean", "--categories", "sex=f|m|x", "--distance", f"sex={APART}",
    "--missing", "age=drop,bmi=25.5,sex=x,smoker=no", "--clip", "income", "--transform", "income=log",
)  # fmt: skip
HOLDERS = {
    2: {"alice": ("age", "sex", "income"), "bob": ("admitted", "smoker", "bmi")},
    3: {"alice": ("age", "sex"), "bob": ("admitted", "smoker"), "carol": ("income", "bmi")},
}


class Patient(NamedTuple):
    """A row as it stands in a table; an empty text where nothing is known."""

    id: str
    age: str
    sex: str
    admitted: str
    smoker: str
    income: str
    bmi: str


def make_patients(count: int = 102) -> list[Patient]:
    """Three groups that ages, dates and incomes tell apart, in no order."""
    random = np.random.RandomState(5)
    middles = [(25, 200, 20_000, 22), (50, 900, 80_000, 30), (78, 1600, 5_000, 26)]
    found = []
    for i in random.permutation(count).tolist():
        age, day, income, bmi = middles[i % 3]
        date = datetime.date(2020, 1, 1) + datetime.timedelta(days=int(day + random.randint(-60, 61)))
        found.append(
            Patient(
                f"{i:03d}",
                "" if i % 20 == 7 else f"{age + random.randint(-8, 9)}",
                "" if i % 17 == 3 else ("f", "m", "x")[random.randint(3)],
                date.isoformat(),
                "" if i % 19 == 2 else ("yes", "no")[random.randint(2)],
                "25" if i == 5 else f"{math.exp(random.normal(math.log(income), 0.3)):.2f}",
                "" if i % 13 == 4 else f"{bmi + random.normal(0, 1.5):.1f}",
            )
        )
    return found


def prepared(patient: Patient) -> list[float] | None:
    """The features of a row, as somebody would make them who has never seen Coterie; None if it is left out."""
    if not patient.age:
        return None
    sex = patient.sex or "x"
    days = datetime.date.fromisoformat(patient.admitted).toordinal() - datetime.date(1970, 1, 1).toordinal()
    return [
        float(patient.age),
        *(float(sex == one) for one in "fmx"),
        float(days),
        float((patient.smoker or "no") == "yes"),
        math.log(max(float(patient.income), 100.0)),
        float(patient.bmi or "25.5"),
    ]


def features(patients: list[Patient]) -> Floats:
    """Of the rows that are not left out."""
    return np.array([row for row in map(prepared, patients) if row is not None])


def cut(patients: list[Patient], parties: int) -> list[list[Patient]]:
    edges = np.linspace(0, len(patients), parties + 1).astype(int)
    return [patients[a:b] for a, b in itertools.pairwise(edges)]


def give(cast: Cast, patients: list[Patient], horizontal: bool, **files: str) -> dict[str, list[Patient]]:
    """Each party's rows or columns, by name; `files` that are not CSV."""
    parties = len(cast.parties)
    blocks = cut(patients, parties) if horizontal else [patients] * parties
    for j, (name, rows) in enumerate(zip(cast.parties, blocks, strict=True)):
        held = COLUMNS if horizontal else HOLDERS[parties][name]
        order = list(rows) if horizontal else [rows[i] for i in np.random.RandomState(j).permutation(len(rows))]
        path = cast.give(name, **{c: [getattr(one, c) for one in order] for c in ("id", *held)})
        if files.get(name) == "data.parquet":
            cast.sources[name] = ("--data", str(as_parquet(path, held)))
    return dict(zip(cast.parties, blocks, strict=True))


#: Types in which databases have these columns.
TYPES = {"age": "DOUBLE", "sex": "VARCHAR", "admitted": "DATE", "smoker": "BOOLEAN", "income": "DECIMAL(12, 2)",
         "bmi": "DOUBLE"}  # fmt: skip


def as_parquet(path: Path, columns: Sequence[str]) -> Path:
    """The same table with typed columns, and nulls for gaps."""
    import duckdb

    typed = ", ".join(f"CAST(nullif({name}, '') AS {TYPES[name]}) AS {name}" for name in columns)
    out = path.with_suffix(".parquet")
    with duckdb.connect() as connection:
        scan = f"read_csv('{path}', all_varchar = true, header = true)"
        connection.execute(f"COPY (SELECT id, {typed} FROM {scan}) TO '{out}' (FORMAT parquet)")
    return out


def scaled(x: Floats, scale: str) -> Floats:
    """The features as distances see them."""
    spread = {"standard": x.std(axis=0), "none": np.ones(x.shape[1])}.get(scale)
    if spread is None:
        day = [(datetime.date(*one) - datetime.date(1970, 1, 1)).days for one in ((2020, 1, 1), (2024, 12, 31))]
        low = np.array([0, 0, 0, 0, day[0], 0, math.log(100), 10])
        high = np.array([120, 1, 1, 1, day[1], 1, math.log(1_000_000), 60])
        spread = (high - low) / 2
    spread[1:4] = math.sqrt(2) / APART
    return x / spread


def start_of(x: Floats) -> Floats:
    return x[list(distinct_rows(np.random.RandomState(SEED), len(x), CLUSTERS))]


def check_against_oracle(cast: Cast, patients: list[Patient], folder: str = "results") -> tuple[Task, Outcome]:
    """All that the parties have is the oracle's on the pooled features, bit for bit. Rows in the study's order."""
    study = cast.study
    horizontal = study.clustering.partition == "horizontal"
    blocks = cut(patients, len(cast.parties)) if horizontal else [patients] * len(cast.parties)
    x = features(patients)
    counts = [len(features(block)) for block in blocks]
    said = {name: greeting(study, "fit", count, 10) for name, count in zip(cast.parties, counts, strict=True)}
    matched = None if horizontal else layout_by_columns(study, len(x))
    task = cast.with_homes(make_study_task(study, "fit", said, matched), folder)
    oracle = run_oracle(task, task.encoding.encode(x, range(len(FEATURES))))
    for rank, name in enumerate(cast.parties, start=1):
        model: dict[str, Any] = cast.document(name, "model.json", folder)
        own = study.own_columns(rank)
        assert model["columns"] == [FEATURES[l] for l in own]
        if oracle.centers is not None and model["centers"] is not None:
            assert model["centers"] == oracle.centers[:, own].tolist()
        if model["weights"] is not None:
            assert model["weights"] == [oracle.scales.tolist()]  # type: ignore[union-attr]
    return msgspec.structs.replace(task), oracle
