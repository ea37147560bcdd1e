"""Studies on columns of very different sizes: made, run, and held to the oracle on everybody's rows together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from coterie.cli.explain import expect_terms
from coterie.clustering import Outcome, Task, at_home
from coterie.ideal import Terms, learnt
from coterie.report.facts import Facts
from coterie.report.promises import promises
from coterie.report.trust import promises_of
from coterie.runtime.oracle import run_oracle
from coterie.study.agreement import Study
from coterie.study.greetings import greeting
from coterie.study.statement import LINES, terms_of_study
from coterie.study.tasks import make_study_task, seeds_of
from tests.study.walk import Cast, coterie

__all__ = [
    "COLUMNS",
    "GROUPS",
    "IDS",
    "OPTIONS",
    "X",
    "added_up",
    "agree",
    "blocks",
    "by_columns",
    "capture_facts",
    "check_results",
    "check_words",
    "every_file",
    "expected",
    "opened",
    "quick",
    "run_of",
    "task_of",
    "weights_of",
]

GROUPS = 3
COLUMNS = ("age", "income", "stay")
BOUNDS = {"age": (0, 120), "income": (0, 200_000), "stay": (0, 60)}
OPTIONS = (
    "--columns",
    ",".join(COLUMNS),
    "--bounds",
    ",".join(f"{name}={low}:{high}" for name, (low, high) in BOUNDS.items()),
)
#: Three groups that only ages and stays tell apart; the income, without a scale, would decide alone.
_RANDOM = np.random.RandomState(11)
X = np.concatenate(
    [
        np.column_stack([_RANDOM.normal(a, 4, 34), _RANDOM.uniform(20_000, 90_000, 34), _RANDOM.normal(s, 1, 34)])
        for a, s in ((25, 3), (50, 14), (75, 5))
    ]
)[_RANDOM.permutation(102)]
IDS = np.array([f"{i:03d}" for i in range(len(X))])


def by_columns(parties: int = 2) -> tuple[str, ...]:
    """The options of a study in which each party holds columns: the last one all that are left."""
    held = "alice=age,bob=income+stay" if parties == 2 else "alice=age,bob=income,carol=stay"
    return ("--partition", "vertical", "--id", "id", "--holds", held.replace("+", ","))


def blocks(parties: int) -> list[np.ndarray]:
    return np.array_split(X, parties)


def agree(cast: Cast, *options: object) -> Study:
    """A study, and data for everybody."""
    study = cast.agree(*OPTIONS, *options)
    if study.clustering.partition == "vertical":
        for rank, name in enumerate(cast.parties, 1):
            order = np.random.RandomState(rank).permutation(len(X))
            held = {COLUMNS[l]: X[order, l] for l in study.own_columns(rank)}
            cast.give(name, id=IDS[order], **held)
    else:
        for name, rows in zip(cast.parties, blocks(len(cast.parties)), strict=True):
            cast.give(name, **dict(zip(COLUMNS, rows.T, strict=True)))
    return study


def capture_facts(monkeypatch: pytest.MonkeyPatch) -> dict[str, Facts]:
    """In place of drawing a report, which takes longer than a run: what each participant's would show, by name and
    folder."""
    found: dict[str, Facts] = {}

    def keep(path: Path, facts: Facts, *more: Any) -> None:
        found[facts.party] = facts
        path.write_text("a report")

    monkeypatch.setattr("coterie.report.write.write_report", keep)
    return found


def run_of(cast: Cast, folder: str = "results") -> str:
    (run,) = {cast.document(name, "manifest.json", folder)["run"] for name in cast.names}
    return run


def task_of(cast: Cast, run: str, least: int = 10, folder: str = "results") -> Task:
    """What everybody agrees on in a run, if policies say nothing but the least size; with what parties have
    standardised at home in it."""
    study, parties = cast.study, len(cast.parties)
    by_rows = study.clustering.partition == "horizontal"
    counts = [len(rows) for rows in blocks(parties)] if by_rows else [len(X)] * parties
    said = {name: greeting(study, "fit", count, least) for name, count in zip(cast.parties, counts, strict=True)}
    task = msgspec.structs.replace(make_study_task(study, "fit", said), seeds=seeds_of(study, run))
    if study.clustering.scale == "standard" and not by_rows:
        for rank, name in enumerate(cast.parties, 1):
            model = cast.document(name, "model.json", folder)
            home = at_home(task.encoding, study.own_columns(rank), model["means"], model["deviations"])
            task = msgspec.structs.replace(task, encoding=home)
    return task


def expected(cast: Cast, folder: str = "results", least: int = 10) -> tuple[Task, Outcome]:
    """The oracle's outcome, from the public numbers of a run."""
    task = task_of(cast, run_of(cast, folder), least, folder)
    outcome = run_oracle(task, task.encoding.encode(X, range(len(COLUMNS))))
    return task.chosen(outcome), outcome


def labels_of(cast: Cast, folder: str = "results") -> list[int]:
    """In the table's order; where rows are everybody's, the same at all."""
    if cast.study.clustering.partition == "horizontal":
        return [label for name in cast.parties for label in cast.labels(name, folder)["label"]]
    found = []
    for name in cast.parties:
        told = cast.labels(name, folder)
        found.append([label for _, label in sorted(zip(told["id"], told["label"], strict=True))])
    assert all(one == found[0] for one in found)
    return found[0]


def check_results(
    cast: Cast, facts: dict[str, Facts], folder: str = "results", least: int = 10
) -> tuple[Task, Outcome]:
    """All that the parties have is the oracle's, bit for bit."""
    task, oracle = expected(cast, folder, least)
    assert oracle.labels is not None
    assert labels_of(cast, folder) == oracle.labels.tolist()
    for rank, name in enumerate(cast.parties, start=1):
        model = cast.document(name, "model.json", folder)
        assert model["clusters"] == task.clusters
        if oracle.centers is not None:
            own = oracle.centers[:, task.layout.own_columns(rank)]
            assert model["centers"] == own.tolist()
            names = [COLUMNS[l] for l in task.layout.own_columns(rank)]
            shown = np.array([[float(row[one] or "nan") for one in names] for row in cast.centers(name, folder)])
            decoded = task.encoding.decode(own, task.layout.own_columns(rank))
            open_ = slice(None) if oracle.suppressed is None else ~oracle.suppressed
            np.testing.assert_array_equal(shown[open_], decoded[open_])
        mine = facts[name]
        assert (mine.k, mine.inertia, mine.silhouette) == (task.clusters, oracle.inertia, oracle.silhouette)
        assert repr(mine.k_measures) == repr(oracle.k_measures)  # NaN where it is not told
        assert mine.calinski_harabasz == oracle.calinski_harabasz(len(X), oracle.open_clusters(task.clusters))
    return task, oracle


def weights_of(oracle: Outcome) -> list[int]:
    """Of columns, opened or not."""
    return [int(v) for v in np.asarray(oracle.kept["weights"].share).reshape(-1).view(np.int64)]  # type: ignore[attr-defined]


def quick(ways: Iterable[str], *names: str) -> list[Any]:
    """All of them for a test: those that are named in every run of the tests, the others where there is time."""
    return [pytest.param(way, marks=() if way in names else pytest.mark.slow) for way in ways]


def added_up(cast: Cast, field: str) -> list[list[int]]:
    """A secret, from all parties' models together: nobody has them all."""
    shares = [np.array(cast.document(name, "model.json")[field], np.uint64) for name in cast.parties]
    return np.add.reduce(shares).view(np.int64).tolist()


def opened(cast: Cast, name: str, *, folder: str = "results") -> set[tuple[str, frozenset[str]]]:
    """What a participant's results say was opened, and to whom."""
    lines = cast.at(name, folder, "disclosures.jsonl").read_bytes().splitlines()
    return {(entry["what"], frozenset(entry["to"])) for entry in map(msgspec.json.decode, lines)}


def check_words(cast: Cast, facts: dict[str, Facts], least: int = 10) -> Terms:
    """The log of every participant, the signed statement, `explain` and the report say the same: what `ideal.py` has.
    Returns the terms."""
    study = cast.study
    terms = terms_of_study(study, least)
    items = [one for one in learnt(terms, study.roles) if one.item.kind == "opened"]
    ideal = {(one.item.what, frozenset(one.to)) for one in items}
    for name in cast.names:
        assert opened(cast, name) == ideal
    said, heads = study.disclosures.statement, {(one.item.what, one.item.when) for one in items}
    heads -= {("counts", "end")} if study.roles.owners_serve else set()  # known from the last iteration
    for key, line in LINES.items():
        words = line if isinstance(line, str) else line.get(study.clustering.partition)
        if words is None:
            assert key not in heads
            continue
        pattern = re.sub(r"\\{[a-z]+\\}", r"[\\w ,]+", re.escape(words))
        kept = key[0] == "share of the centres" and study.disclosures.centers == "shared"
        assert any(re.fullmatch(pattern, one) for one in said) == (key in heads or kept), key
    told = promises(expect_terms(study), study.roles, study.clustering.protocol)
    explained = " ".join(coterie("study", "explain", cast.study_file("alice")).out.split())
    if expect_terms(study) == terms:
        assert {(one.what, frozenset(one.to)) for one in told.openings} == ideal
        for one in told.openings:
            assert one.sentence in explained
        for name in cast.names:
            shown = promises_of(facts[name])
            assert shown.openings == told.openings
            assert (shown.nobody, shown.not_protected) == (told.nobody, told.not_protected)
            assert shown.assumptions == told.assumptions
    return terms


def every_file(folder: Path) -> str:
    """All that somebody keeps, as text."""
    return "\n".join(path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file())
