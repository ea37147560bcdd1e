"""Studies in which rows count for more or less, as their owners alone know."""

from __future__ import annotations

import re

import msgspec
import numpy as np
import pytest
from sklearn.cluster import KMeans

from coterie.clustering import at_home
from coterie.errors import DataError, Interrupted, StudyError
from coterie.report.clusters import show_clusters
from coterie.report.page import render_block
from coterie.runtime.oracle import run_oracle
from coterie.study.budget import commitment
from coterie.study.greetings import greeting
from coterie.study.prepare import prepare
from coterie.study.run import purpose_of
from coterie.study.study_file import load_study
from coterie.study.tasks import make_study_task, seeds_of
from tests.report.examples import Page
from tests.study.scaled import COLUMNS, IDS, OPTIONS, X, by_columns, capture_facts, every_file, run_of
from tests.study.walk import Cast, Stopping, coterie

RANDOM = np.random.RandomState(8)
W = RANDOM.randint(1, 9, len(X)) / 2
LEAST = 4
WEIGHED = ("--clusters", 3, "--row-weights", "weight=0.5:4")
BY_COLUMNS = [word.replace("bob=", "bob=weight,") for word in by_columns()]


def agree(cast, *options):
    """A study, and data for everybody."""
    cast.policies(least_cluster_size=LEAST)
    study = cast.agree(*OPTIONS, *WEIGHED, *options)
    if study.clustering.partition == "vertical":
        cast.give("alice", id=IDS, age=X[:, 0])
        cast.give("bob", id=IDS[::-1], income=X[::-1, 1], stay=X[::-1, 2], weight=W[::-1])
    else:
        for name, rows, weights in zip(cast.parties, np.array_split(X, 2), np.array_split(W, 2), strict=True):
            cast.give(name, **dict(zip(COLUMNS, rows.T, strict=True)), weight=weights)
    return study


def expected(cast):
    """The oracle's outcome, from what nobody has together."""
    study, by_rows = cast.study, cast.study.clustering.partition == "horizontal"
    said = {name: greeting(study, "fit", len(X) // (2 if by_rows else 1), LEAST) for name in cast.parties}
    task = msgspec.structs.replace(make_study_task(study, "fit", said), seeds=seeds_of(study, run_of(cast)))
    if not by_rows:
        home = at_home(task.encoding, range(3), X.mean(axis=0), X.std(axis=0))
        task = msgspec.structs.replace(task, encoding=home)
    return task, run_oracle(task, task.encoding.encode(X, range(3)), (2 * W).astype(np.int64))


@pytest.mark.parametrize("way", [(), ("--scale", "bounds"), BY_COLUMNS], ids=["rows", "rows, bounds", "columns"])
def test_a_study_equals_the_oracle(tmp_path, monkeypatch, way):
    facts = capture_facts(monkeypatch)
    with Cast(tmp_path) as cast:
        agree(cast, *way, "--n-init", 6)  # one start may leave a cluster too small to be opened
        cast.run()
        task, oracle = expected(cast)
        assert not oracle.suppressed.any()
        centers = task.encoding.decode(oracle.centers)
        for rank, name in enumerate(cast.parties, 1):
            own = cast.study.own_columns(rank)
            np.testing.assert_allclose(facts[name].centers, centers[:, own], rtol=1e-12)
            assert facts[name].inertia == oracle.inertia / 2
            labels = cast.labels(name)["label"]
            rows = range(len(X)) if way == BY_COLUMNS else np.array_split(np.arange(len(X)), 2)[rank - 1]
            here = [oracle.labels[i] for i in (reversed(rows) if (name, way) == ("bob", BY_COLUMNS) else rows)]
            assert labels == here
        unit = X.std(axis=0) if "bounds" not in way else np.array([60, 100_000, 30])
        beside = KMeans(3, init=centers / unit, n_init=1, tol=1e-4).fit(X / unit, sample_weight=W)
        assert (np.abs(beside.cluster_centers_ * unit - centers) < 0.02 * unit).all()
        np.testing.assert_array_equal(beside.labels_, oracle.labels)


@pytest.mark.parametrize("way", [("--scale", "bounds"), BY_COLUMNS], ids=["rows", "columns"])
def test_the_report_has_the_weighted_inertia_and_no_index_that_counts_rows_alike(tmp_path, monkeypatch, way):
    """Worked out on the rows as they are, each times its weight. Scatter, the other part of a Calinski-Harabasz index,
    is not weighed in secret: it is neither opened nor told, and no study may ask for it."""
    facts = capture_facts(monkeypatch)
    with Cast(tmp_path) as cast:
        agree(cast, *way, "--init", "random", "--seed", 4, "--tol", 0)  # the same start in every run
        cast.run()
        task, _ = expected(cast)
        labels = np.concatenate([cast.labels(name)["label"] for name in cast.parties])[: len(X)]
        means = np.array([np.average(X[labels == j], axis=0, weights=W[labels == j]) for j in range(3)])
        unit = X.std(axis=0) if way == BY_COLUMNS else np.array([60, 100_000, 30])
        inertia = float((W[:, None] * ((X - means[labels]) / unit) ** 2).sum())
        for name in cast.parties:
            assert (facts[name].scatter, facts[name].calinski_harabasz) == (None, None)
            undrawn = msgspec.structs.replace(facts[name], centers=None)
            page = Page("".join(map(render_block, show_clusters(undrawn, None, None, "own rows")))).text
            told = re.search(r"The inertia is ([\d.,]+): .*, each times the weight of its row, in", page)
            assert told is not None
            assert float(told[1].replace(",", "")) == pytest.approx(inertia, rel=2e-3)
            for word in ("Calinski-Harabasz index is", "With a single cluster", "root mean square"):
                assert word not in page
            log = cast.at(name, "results", "disclosures.jsonl").read_text()
            assert '"inertia"' in log
            assert '"scatter"' not in log
        assert task.quality == ("inertia",)


def test_a_study_that_asks_for_the_index_is_refused(tmp_path):
    with Cast(tmp_path) as cast:
        cast.create(*OPTIONS, *WEIGHED)
        study = cast.folder / "study.toml"
        assert load_study(study).disclosures.quality == ("inertia",)  # what goes with weights
        text = study.read_text()
        study.write_text(text.replace('"inertia",', '"inertia", "calinski-harabasz",'))
        assert study.read_text() != text
        with pytest.raises(StudyError, match="quality may name the inertia alone where rows have weights"):
            load_study(study)


def test_weights_are_told_to_nobody(tmp_path):
    """One that nothing else is stands in no file that is written, reports included."""
    with Cast(tmp_path) as cast:
        cast.policies(least_cluster_size=LEAST)
        cast.agree(*OPTIONS, "--clusters", 3, "--row-weights", "weight=0.0001:0.9876")
        weights = RANDOM.uniform(0.5, 0.9, len(X)).round(4)
        weights[3] = 0.95431234
        for name, rows, own in zip(cast.parties, np.array_split(X, 2), np.array_split(weights, 2), strict=True):
            cast.give(name, **dict(zip(COLUMNS, rows.T, strict=True)), weight=own)
        told = coterie("study", "explain", cast.study_file("alice")).out
        assert "Rows count for what column weight says, at most 0.9876, to a multiple of 0.0001" in told
        cast.run()
        assert "0.95431234" in cast.at("alice", "data.csv").read_text()
        cast.at("alice", "data.csv").unlink()
        for name in cast.names:
            for form in ("0.95431234", "95431234", "0.9543"):
                assert form not in every_file(cast.at(name)), name


def test_a_study_is_taken_up_again_with_the_same_weights(tmp_path, monkeypatch):
    facts = capture_facts(monkeypatch)
    with Cast(tmp_path) as cast:
        agree(cast, "--init", "random", "--seed", 4, "--tol", 0)
        ends = cast.take_part(voices={"bob": Stopping(2)})
        assert isinstance(ends["bob"], Interrupted)
        cast.run()
        assert cast.entry("alice", "agreed")["resumed_after"] == 2
        task, oracle = expected(cast)
        assert facts["alice"].inertia == oracle.inertia / 2
        np.testing.assert_allclose(facts["alice"].centers, task.encoding.decode(oracle.centers), rtol=1e-12)


def test_other_weights_are_other_data(tmp_path):
    with Cast(tmp_path) as cast:
        agree(cast)
        before = prepare(cast.orders("alice"))
        cast.give("alice", **dict(zip(COLUMNS, X[:51].T, strict=True)), weight=W[:51] + 0.5 * (W[:51] < 4))
        after = prepare(cast.orders("alice"))
        key = before.credentials.key
        assert commitment(key, before.hash, before.rows) != commitment(key, after.hash, after.rows)
        assert purpose_of(before) != purpose_of(after)


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([0.0] + [1.0] * 50, r"data row 1 \(line 2\), column 'weight'"),
        ([9.0] * 51, r"column 'weight', 51 cells"),
        (["x"] * 51, "column 'weight'"),
    ],
)
def test_weights_that_cannot_be(tmp_path, weights, said):
    with Cast(tmp_path) as cast:
        agree(cast)
        cast.give("alice", **dict(zip(COLUMNS, X[:51].T, strict=True)), weight=weights)
        with pytest.raises(DataError, match=said):
            prepare(cast.orders("alice"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--row-weights", "weight=1"), "is not weight=STEP:LARGEST"),
        (("--row-weights", "weight=1:2,other=1:2"), "name one column"),
        (("--row-weights", "age=1:2"), "cannot both say what rows count for"),
        (("--row-weights", "weight=0:2"), "multiples of a step above 0"),
        (("--row-weights", "weight=1:100000"), "at most 65535 steps"),
        (("--row-weights", "weight=1:2", "--counts", "revealed"), "counts must be secret where rows have weights"),
        (("--row-weights", "weight=1:2", "--clusters", "2:4"), "clusters must be one number where rows have weights"),
        (("--row-weights", "weight=1:2", *by_columns()), "must be held by one party in a vertical study"),
    ],
)
def test_weights_that_are_refused(tmp_path, options, said):
    with Cast(tmp_path) as cast:
        identities = [word for name in cast.parties for word in ("--party", cast.at(name, f"{name}.identity.toml"))]
        helper = ("--helper", cast.at("helper", "helper.identity.toml"))
        made = coterie("study", "create", tmp_path / "new.toml", *identities, *helper, *OPTIONS, "-k", 3, *options)
        assert made.code == 2
        assert said in made.err.replace("\n", " ")
        assert not (tmp_path / "new.toml").exists()
