"""What a simulation says of itself beside scikit-learn: what equals what, from which start, and why it may differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from coterie.clustering import distinct_rows
from coterie.report.page import render_block
from coterie.report.write import make_sections
from coterie.runtime.job import do
from coterie.runtime.threads import run_threads
from coterie.simulation import pages, run
from coterie.simulation.comparison import Comparison, compare_with_sklearn
from coterie.simulation.numeric_file import NumericFile, find_misfits
from coterie.simulation.run import Simulation, run_simulation
from tests.study.walk import read_parquet

RANDOM = np.random.RandomState(8)
#: Three groups of forty that ages and stays tell apart; incomes are large and tell nothing.
GROUPS = np.concatenate(
    [
        np.column_stack([RANDOM.normal(a, 3, 40), RANDOM.uniform(20_000, 90_000, 40), RANDOM.normal(s, 1, 40)])
        for a, s in ((25, 3), (50, 14), (75, 5))
    ]
)[RANDOM.permutation(120)]
NAMES = ["age", "income", "stay"]


@pytest.fixture(autouse=True)
def in_threads(monkeypatch):
    """Roles are threads: processes take longer to begin than to cluster a hundred rows."""

    def run_roles(world, jobs, usage, link=None):
        reports = run_threads(world, lambda me: do(me, jobs[me.rank]), lanes=jobs[0].task.lanes)
        usage.seconds, usage.busy, usage.peak = ([0.5] * len(jobs), [0.25] * len(jobs), [1 << 20] * len(jobs))
        return reports

    monkeypatch.setattr(run, "run_processes", run_roles)


def simulate(
    values: np.ndarray, clusters: Any = 3, names: Sequence[str] = NAMES, ranges: Any = None, **more: Any
) -> Simulation:
    data = NumericFile(Path(__file__), list(names), values, [])
    arguments = {"partition": "horizontal", "n_parties": 2, "scale": "standard", "random_state": 1, **more}
    return run_simulation(data, clusters, {"least_cluster_size": 10, **arguments}, ranges or {}, "loopback")


def described(done: Simulation) -> tuple[Comparison, dict[str, str]]:
    beside = compare_with_sklearn(done)
    layout = done.task.layout
    return beside, beside.describe(done, np.ones(layout.n, np.bool_), range(layout.d))


# -- beside scikit-learn -------------------------------------------------------------------------------------


@pytest.mark.parametrize("partition", ["horizontal", "vertical", "mixed"])
def test_from_the_same_start_and_as_users_call_it(partition):
    done = simulate(GROUPS, partition=partition)
    beside, words = described(done)
    assert words["labels"] == "all 120 identical, from the same start"
    z = StandardScaler().fit_transform(GROUPS)
    for how, x in (("its defaults", GROUPS), ("its defaults, standardised", z)):
        theirs = KMeans(3, random_state=0).fit(x)
        (called,) = (one for one in beside.called if one.how == how)
        assert called.theirs == theirs.inertia_
        assert called.rand == adjusted_rand_score(theirs.labels_, done.whole.labels)
        ours = sum(((x[done.whole.labels == j] - x[done.whole.labels == j].mean(axis=0)) ** 2).sum() for j in range(3))
        assert called.ours == pytest.approx(ours)
        assert words[f"with {how}"] == called.describe()
        assert f"{called.ours:.6g} here, {called.theirs:.6g} there" in words[f"with {how}"]
        assert f"adjusted Rand index {called.rand:.3f}" in words[f"with {how}"]
    plain, standard = (one.rand for one in beside.called)
    assert standard == 1.0
    assert plain < 0.2, "without scales the income decides alone"
    shown = float(words["inertia"].split()[0])
    assert shown == pytest.approx(beside.inertia, rel=0.01)


@pytest.mark.parametrize("scale", [None, "bounds"])
def test_other_scales_are_compared_in_their_own_units(scale):
    done = simulate(GROUPS, scale=scale)
    beside, words = described(done)
    assert words["labels"].startswith("all 120 identical")
    assert done.whole.inertia == pytest.approx(beside.inertia, rel=0.01)


def test_the_range_of_a_column_is_the_datas_where_none_is_agreed_on():
    _, words = described(simulate(GROUPS, partition="vertical"))
    column = words["largest difference of a centre"].split("in column ")[1].split(" ")[0]
    assert f"(range {np.ptp(GROUPS[:, NAMES.index(column)]):,.4g})" in words["largest difference of a centre"]


# -- empty clusters ------------------------------------------------------------------------------------------


def test_an_empty_cluster_is_why_results_differ():
    """Two starts on rows that are alike: the second has no rows. scikit-learn moves it away, here it stays."""
    x = np.concatenate([np.zeros((30, 2)), RANDOM.normal(6, 1, (30, 2)), RANDOM.normal([0, 12], 1, (30, 2))])
    seed = next(
        seed for seed in range(1000) if (np.array(distinct_rows(np.random.RandomState(seed), 90, 4)) < 30).sum() == 2
    )
    done = simulate(x, 4, ["x", "y"], random_state=seed, init="random", least_cluster_size=1)
    beside, words = described(done)
    assert beside.emptied
    assert len(set(done.whole.labels.tolist())) == 3
    assert "a cluster lost all its rows on the way: here it keeps its centre" in words["labels"]
    assert "rounding" not in words["labels"]
    assert pages.summarise(done, beside)["lost_a_cluster"]


def test_where_no_cluster_is_empty_nothing_is_said_of_it():
    done = simulate(GROUPS)
    beside, words = described(done)
    assert not beside.emptied
    assert not any("lost all its rows" in text for text in words.values())


# -- several numbers of clusters -----------------------------------------------------------------------------


@pytest.mark.parametrize("choose", ["calinski-harabasz", "silhouette"])
def test_the_chosen_number_is_compared(choose):
    done = simulate(GROUPS, range(2, 5), choose=choose, column_weights=None)
    beside, words = described(done)
    assert done.choices == (2, 3, 4)
    assert set(done.whole.k_measures) == {2, 3, 4}
    assert len(beside.centers) == done.task.clusters
    assert words["labels"].startswith("all 120 identical")
    most = f"at most {done.whole.n_iter} here, over all numbers of clusters; {beside.n_iter} there"
    assert words["iterations"] == most
    summary = pages.summarise(done, beside)
    assert (summary["tried"], summary["clusters"]) == ([2, 3, 4], done.task.clusters)
    assert {k: one for k, one in summary["measures"].items() if one is not None} == {
        str(k): value for k, value in done.whole.k_measures.items() if not np.isnan(value)
    }
    assert done.options["measures"] == "revealed"
    assert pages._forecast(done) is None  # nobody knows how many iterations each number took


@pytest.mark.parametrize("choose", ["calinski-harabasz", "silhouette"])
def test_inertias_of_what_is_open_are_said_to_be_that(choose):
    """With closed clusters: an inertia is of rows at open centres; none is told beside those of other numbers."""
    few = np.concatenate([GROUPS, GROUPS[:6] + np.array([900, 0, 900])])
    done = simulate(few, range(3, 5), choose=choose)
    beside, words = described(done)
    assert not done.open.all()
    note = "(here all rows count to the nearest open centre)"
    if choose == "calinski-harabasz":
        assert done.whole.inertia is None
        assert words["inertia"].startswith(f"not opened here, {beside.inertia:.8g} there")
        assert note not in words["inertia"]
    else:
        assert done.whole.inertia > beside.inertia
        assert words["inertia"].endswith(note)
    assert pages.summarise(done, beside)["measures"][str(done.task.clusters)] is None
    assert words["with its defaults"].endswith("here rows of closed clusters are labelled by the nearest open centre")


# -- pages ---------------------------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path, monkeypatch):
    """A folder, and what each report would say (by party), without its pictures."""
    found: dict[str, Any] = {}

    def keep(path: Path, facts: Any, *more: Any) -> None:
        found[facts.party] = facts

    monkeypatch.setattr(pages, "write_report", keep)
    monkeypatch.setattr(pages, "write_overview", lambda path, facts, *more: keep(path, facts))

    def write(done: Simulation) -> dict[str, Any]:
        pages.write_pages(tmp_path, done, compare_with_sklearn(done))
        return found

    write.folder = tmp_path
    return write


def test_labels_and_centres_are_written(written):
    done = simulate(GROUPS)
    written(done)
    assert read_parquet(written.folder / "labels.parquet")["label"] == done.whole.labels.tolist()
    lines = (written.folder / "centers.csv").read_text().splitlines()
    assert lines[0].split(",") == ["cluster", *NAMES]
    found = np.array([[float(v) for v in line.split(",")[1:]] for line in lines[1:]])
    np.testing.assert_array_equal(found, done.task.encoding.decode(done.whole.centers))


def test_by_columns_each_report_knows_its_own_columns_alone(written):
    """Ranges and standard deviations are the holder's to know: no others were agreed on."""
    found = written(simulate(GROUPS, partition="vertical", n_parties=3))
    for j, name in enumerate(NAMES):
        column = found[f"P{j + 1}"].columns[j]
        assert (column.low, column.high) == (GROUPS[:, j].min(), GROUPS[:, j].max())
        assert column.deviation == pytest.approx(GROUPS[:, j].std())
        for other in ("P0", *(f"P{i + 1}" for i in range(3) if i != j)):
            hidden = found[other].columns[j]
            assert hidden.name == name
            assert np.isnan([hidden.low, hidden.high]).all()
            assert hidden.deviation is None
        assert found[f"P{j + 1}"].range_name == "range in the data"
    whole = found["all parties together"]
    assert not np.isnan([[column.low, column.high] for column in whole.columns]).any()
    (agreed,) = (part for part in make_sections(found["P0"], None, None) if part.anchor == "agreed")
    text = "".join(map(render_block, agreed.blocks))
    assert "Columns and their ranges in the data" in text
    assert "nan" not in text


def test_by_columns_ranges_that_are_given_are_everybodys(written):
    ranges = {"age": (0.0, 120.0), "income": (0.0, 2e5), "stay": (-5.0, 60.0)}
    found = written(simulate(GROUPS, partition="vertical", ranges=ranges))
    for facts in found.values():
        assert {column.name: (column.low, column.high) for column in facts.columns} == ranges
        assert facts.range_name == "agreed range"


def test_by_rows_scales_are_everybodys(written):
    found = written(simulate(GROUPS))
    for name in ("P1", "P2", "all parties together"):
        for l, column in enumerate(found[name].columns):
            assert column.deviation == pytest.approx(GROUPS[:, l].std(), rel=2**-10)
    assert all(column.deviation is None for column in found["P0"].columns)


# -- columns that are not meant ------------------------------------------------------------------------------


def columns(**given: Any) -> NumericFile:
    return NumericFile(Path("x.csv"), list(given), np.column_stack(list(given.values())).astype(float), [])


def test_columns_that_are_probably_not_meant():
    n = 60
    many = RANDOM.permutation(n) * 7 + 3
    found = find_misfits(
        columns(
            patient_id=many,
            PatientID=many + 1,
            row=np.arange(n) + 100,
            target=np.arange(n) % 3,
            Outcome=RANDOM.normal(size=n),
            Class=np.arange(n) % 2,
            age=RANDOM.normal(size=n),
            income=many * 11,
            sex=np.arange(n) % 2,
            weight=RANDOM.uniform(size=n),
            identity=RANDOM.normal(size=n),
            y=RANDOM.normal(size=n),
        )
    )
    assert {name: why.split(":")[0] for name, why in found.items()} == {
        "patient_id": "looks like an id",
        "PatientID": "looks like an id",
        "row": "looks like an id",
        "target": "looks like a class",
        "Outcome": "looks like a target",
        "Class": "looks like a class",
    }


def test_a_small_file_says_little_of_ids():
    assert find_misfits(columns(row=np.arange(12), age=np.arange(12) * 5)) == {}
