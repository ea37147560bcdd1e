"""`model.report()`: the page of a fit, in a notebook and as a file, by the page builder of the command line."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from coterie import SecureKMeans
from coterie.errors import InputError
from coterie.report.formats import format_value
from coterie.report.write import make_sections
from coterie.reporting import Page
from tests.report.examples import Page as Read

RANDOM = np.random.RandomState(3)
#: Two groups of twenty, in three columns.
X = np.round(RANDOM.normal(0, 1, (40, 3)) + 20 * np.repeat([[0], [1]], 20, axis=0), 4)
#: In no bound and no mean.
CANARY = 5.31416
X[3, 1] = CANARY
GIVEN = {"n_clusters": 2, "random_state": 0, "bounds": [(-40, 40)] * 3}


def fitted(**more: Any) -> SecureKMeans:
    return SecureKMeans(**{**GIVEN, **more}).fit(X)


def read(model: SecureKMeans, *given: Any) -> Read:
    return Read(str(model.report(None, *given)))


@pytest.fixture(scope="module")
def model() -> SecureKMeans:
    return fitted()


def test_a_page_to_look_at_and_to_keep(model, tmp_path):
    page, file = model.report(), model.report(tmp_path / "report.html")
    assert isinstance(page, Page)
    assert str(page).startswith("<!doctype html>")
    assert page._repr_html_().startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert repr(page) == f"<Page of {len(str(page)):,} characters>"
    assert file == tmp_path / "report.html"
    assert isinstance(file, Path)
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]
    for anchor in [section.anchor for section in make_sections(model._facts, None, None)]:
        assert f'id="{anchor}"' in file.read_text()


def test_it_says_what_came_of_the_fit_and_how_it_ran(model):
    text = read(model).text
    assert "2 clusters of 40 rows" in text
    assert "Every role ran as a thread of one process" in text
    assert "one program held everybody's data" in text
    assert "over TLS" not in text
    assert "none of whom showed the others their data" not in text
    assert f"Disclosures: {len(model.disclosures_)} openings" in text
    assert f"The inertia is {model.inertia_:.3f}" in text
    assert f"The Calinski-Harabasz index is {format_value(index := model.calinski_harabasz_, index / 100)}" in text
    for value in model.cluster_centers_.ravel():
        assert format_value(value, 80.0) in text


def test_over_tls_it_says_so_and_without_verbose_only_then(capfd):
    model = fitted(transport="tls", max_iter=1)
    assert capfd.readouterr() == ("", "")
    model.set_params(transport="memory")  # what it is set to later does not count
    assert "Every role ran as a process of its own on one machine, over TLS" in read(model).text


def test_values_are_in_it_only_if_they_are_handed_in(model):
    bare, drawn = str(model.report()), str(model.report(X=X))
    assert "The rows of all parties" in drawn
    assert "The rows of all parties" not in bare
    assert str(CANARY) not in bare
    with pytest.raises(InputError, match="X has 39 rows, and the fit had 40"):
        model.report(X=X[:39])


def test_what_is_kept_back_is_not_in_it():
    shared = read(fitted(centers="shared", quality=())).text
    assert "The centres were not disclosed" in shared
    assert "The inertia is" not in shared
    closed = read(fitted(least_cluster_size=30, contribution="off")).text
    assert "All 2 clusters stay closed" in closed


def test_rows_that_match_in_private_are_not_counted():
    frames = [pd.DataFrame(X[:, [0]], columns=["a"]), pd.DataFrame(X[:, 1:], columns=["b", "c"])]
    model = SecureKMeans(
        2, partition="vertical", matching="private", scale="standard", least_cluster_size=5, max_iter=2, random_state=0
    ).fit_parties([frame.set_axis([f"p{i}" for i in range(40)]) for frame in frames])
    page = read(model)
    assert "The sizes of the clusters were not disclosed" in page.text
    assert "where rows are matched in private, nobody asks whether the centres rest" in page.text
    with pytest.raises(InputError, match="rows have no labels"):
        model.report(X=X)


def test_weights_of_rows_are_in_the_inertia():
    weights = RANDOM.randint(1, 5, 40) / 4
    model = SecureKMeans(**GIVEN).fit(X, sample_weight=weights)
    text = read(model).text
    assert "each times the weight of its row" in text
    assert f"The inertia is {model.inertia_:.3f}" in text
    assert "Calinski-Harabasz index" not in text


def test_a_choice_and_columns_that_are_standardised_at_home():
    model = fitted(n_clusters=range(2, 4), partition="vertical", scale="standard")
    text = read(model, X).text
    assert "2 clusters were chosen, of 2 or 3." in text
    assert "Columns and their ranges in the data" in text
    for deviation in X.std(axis=0):
        assert f"{deviation:.3f}"[:4] in text


def test_it_is_there_after_a_copy(model):
    assert str(pickle.loads(pickle.dumps(model)).report()) == str(model.report())  # noqa: S301


def test_a_model_that_is_not_fitted_has_none(tmp_path):
    with pytest.raises(NotFittedError):
        SecureKMeans(2).report(tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_not_there_is_named(model, tmp_path):
    with pytest.raises(InputError, match=r"there is no folder .*absent; make it first"):
        model.report(tmp_path / "absent" / "report.html")
    with pytest.raises(InputError, match=r"is a folder; name a file for the report, such as .*report\.html"):
        model.report(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_page_that_cannot_be_written_leaves_the_old_one(model, tmp_path, monkeypatch):
    file = tmp_path / "report.html"
    file.write_text("the old one")

    def full(*given: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        model.report(file)
    assert file.read_text() == "the old one"
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]
