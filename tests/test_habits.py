"""scikit-learn's habits: what is asked for as there, what is warned of, what is said on the way, what is refused."""

from __future__ import annotations

import re
import warnings
from itertools import product

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from coterie import SecureKMeans
from coterie.data import split
from coterie.errors import InputError
from tests.clustering.comparison import seeded_runs  # noqa: F401

RANDOM = np.random.RandomState(0)
X = RANDOM.uniform(-1, 1, (40, 3))
A, B = X[:20], X[20:]
QUICKLY = {"random_state": 0, "max_iter": 2}


# -- how many starts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("init", "starts"), [("k-means++", 1), ("random", 10)])
def test_auto_has_as_many_starts_as_scikit_learn(init, starts):
    model = SecureKMeans(3, init=init, n_init="auto", tol=0, **QUICKLY).fit(X)
    assert KMeans(3, init=init, n_init="auto").fit(X)._n_init == starts
    restarts = {entry.restart for entry in model.disclosures_ if entry.restart is not None}
    assert len(restarts) == starts
    if init == "random":
        assert model.init_rows_.shape == (10, 3)


@pytest.mark.parametrize("given", [X[:3], lambda x, k, random_state: x[:k]], ids=["array", "callable"])
def test_auto_has_one_start_where_centres_are_given(given):
    model = SecureKMeans(3, init=given, n_init="auto", tol=0, **QUICKLY).fit(X)
    assert {entry.restart for entry in model.disclosures_ if entry.restart is not None} == {0}


@pytest.mark.parametrize("given", [X[:3], X[:3].tolist(), lambda x, k, random_state: x[:k]])
def test_several_starts_from_given_centres_are_one_and_said_to_be(given):
    with pytest.warns(RuntimeWarning, match=r"performing only one init.*n_init=5") as caught:
        model = SecureKMeans(3, init=given, n_init=5, **QUICKLY).fit(X)
    assert len(caught) == 1
    single = SecureKMeans(3, init=X[:3], **QUICKLY).fit(X)
    np.testing.assert_array_equal(model.cluster_centers_, single.cluster_centers_)


def test_the_warning_points_at_the_caller():
    for fitted in (lambda m: m.fit(X), lambda m: m.fit_parties([A, B])):
        with pytest.warns(RuntimeWarning, match="only one init") as caught:
            fitted(SecureKMeans(3, init=X[:3], n_init=2, **QUICKLY))
        assert caught[0].filename == __file__


# -- a function that gives centres -----------------------------------------------------------------------


def test_a_function_is_asked_for_centres_as_by_scikit_learn():
    asked = []

    def init(x, n_clusters, random_state):
        asked.append((x, n_clusters, random_state))
        return x[random_state.permutation(len(x))[:n_clusters]]

    model = SecureKMeans(4, init=init, random_state=7).fit(X)
    ((rows, k, random_state),) = asked
    np.testing.assert_array_equal(rows, X)
    assert k == 4
    assert isinstance(random_state, np.random.RandomState)
    start = X[np.random.RandomState(7).permutation(len(X))[:4]]
    given = SecureKMeans(4, init=start).fit(X)
    np.testing.assert_array_equal(model.labels_, given.labels_)
    np.testing.assert_array_equal(model.labels_, KMeans(4, init=init, n_init=1, random_state=7).fit(X).labels_)


@pytest.mark.parametrize("partition", ["horizontal", "vertical", "mixed"])
def test_a_function_is_refused_where_nobody_sees_all_rows(partition):
    model = SecureKMeans(3, init=lambda x, k, random_state: x[:k], partition=partition)
    with pytest.raises(InputError, match=r"function as init.*no party.*fit\(X\).*give centres"):
        model.fit_parties(split(X, partition, 2))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (lambda x, k, random_state: x[: k + 1], "number of clusters"),
        (lambda x, k, random_state: x[:k, :2], "number of features of the data"),
        (lambda x, k, random_state: np.full((k, 3), np.nan), "init.*NaN"),
        (lambda x, k, random_state: x[:k] + 99, "init.*'x0'.*outside"),
        (lambda x, k, random_state: [["a"] * 3] * k, "init.*numbers"),
    ],
)
def test_bad_centres_of_a_function_are_refused(given, says):
    with pytest.raises(ValueError, match=says):
        SecureKMeans(2, init=given).fit(X)


# -- what is warned of -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("partition", "options"),
    [
        *product(("horizontal", "vertical", "mixed"), ({}, {"scale": "standard"}, {"centers": "shared"})),
        ("vertical", {"labels": "revealed"}),
    ],
)
def test_fewer_distinct_rows_than_clusters(partition, options):
    x = np.tile([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]], (5, 1))
    with pytest.warns(ConvergenceWarning, match=r"distinct clusters \(3\).*n_clusters \(5\)") as caught:
        model = SecureKMeans(5, random_state=0, partition=partition, **options).fit(x)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert len(np.unique(model.labels_)) == 3
    assert model.inertia_ == 0


def test_as_many_distinct_rows_as_clusters_are_not_warned_of():
    SecureKMeans(3, random_state=0).fit(np.tile([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]], (5, 1)))


def test_clusters_that_stay_closed_are_not_said_to_be_empty():
    """Their rows are labelled by others; how many clusters have rows would tell more."""
    x = np.concatenate([X, X[:1] + 0.001, [[30, 30, 30]]])
    model = SecureKMeans(3, init=x[[0, 1, -1]], least_cluster_size=5, contribution="off").fit(x)
    assert model.suppressed_.any()
    assert len(np.unique(model.labels_)) < 3


def decides(*parties: str) -> str:
    return "|".join(rf"column 'x1' carries \d+% of the variance of party {party}'s rows.*scale=" for party in parties)


def test_a_column_that_decides_alone_is_warned_of():
    x = X * [1, 30, 1]
    with pytest.warns(UserWarning, match=decides("P1", "P2")) as caught:
        SecureKMeans(2, **QUICKLY).fit(x)
    assert [re.search("P[12]", str(one.message))[0] for one in caught] == ["P1", "P2"]
    assert {one.filename for one in caught} == {__file__}


def test_each_party_looks_at_its_own_rows_alone():
    """P2's column is as narrow as its others: what the others' rows are like, it cannot know."""
    with pytest.warns(UserWarning, match=decides("P1")) as caught:
        SecureKMeans(2, **QUICKLY).fit_parties([A * [1, 30, 1], B])
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("x", "options"),
    [
        (X * [1, 30, 1], {"scale": "standard"}),
        (X * [1, 30, 1], {"scale": "bounds"}),
        (X * [1, 30, 1], {"column_weights": {"x1": 0.01}}),
        (X * [1, 4, 1], {}),
        (X[:, :1], {}),
        (np.ones((9, 3)), {"n_clusters": 1}),
        ((X * [1, 30, 1])[:, [1, 0]], {"partition": "vertical"}),
    ],
)
def test_no_column_decides_alone(x, options):
    """Scaled, weighted, not so wide, the only one, none that varies, or the only one of its party."""
    SecureKMeans(**{"n_clusters": 2, **QUICKLY, **options}).fit(x)


# -- what is said on the way -----------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["memory", "tls"])
def test_verbose_follows_the_iterations(transport, capsys):
    model = SecureKMeans(3, init="random", n_init=2, tol=0, random_state=1, transport=transport, verbose=1).fit(X)
    lines = capsys.readouterr().out.splitlines()
    begun = [line for line in lines if line.startswith("Initialization complete")]
    assert begun == ["Initialization complete, start 1", "Initialization complete, start 2"]
    numbers = [int(line.split()[1].rstrip(",")) for line in lines if line.startswith("Iteration ")]
    first = numbers.index(1, 1)  # where the second start begins
    assert numbers == [*range(1, first + 1), *range(1, len(numbers) - first + 1)]
    assert max(numbers) == model.n_iter_ - 1  # the last one is told by the end
    said = [line for line in lines if line.startswith("Iteration ")]
    assert all(re.fullmatch(r"Iteration \d+, inertia not opened, of at most 300, \d+\.\d ms", line) for line in said)
    assert lines[-2] == f"Converged at iteration {model.n_iter_}: strict convergence."
    assert lines[-1].startswith(f"SecureKMeans: {model.n_iter_} iterations, inertia ")


def test_what_is_not_opened_is_not_said_either(capsys):
    model = SecureKMeans(3, random_state=1, verbose=1, quality=()).fit(X)
    said = capsys.readouterr().out
    assert "inertia not opened" in said
    assert f"Converged at iteration {model.n_iter_}: center shift (not opened) within tolerance." in said
    assert "inertia nan" not in said
    assert f"SecureKMeans: {model.n_iter_} iterations, inertia not opened, " in said


def test_a_fit_that_is_cut_short_is_not_said_to_have_converged(capsys):
    SecureKMeans(3, random_state=1, verbose=1, max_iter=1).fit(X)
    said = capsys.readouterr().out
    assert "Converged" not in said
    assert "Ended at iteration 1, the most that is allowed (max_iter)." in said


def test_without_verbose_nothing_is_said(capfd):
    """The same over TLS: tests/test_reporting.py."""
    SecureKMeans(3, random_state=1).fit(X)
    assert capfd.readouterr() == ("", "")


def test_verbose_changes_nothing():
    quiet, loud = (SecureKMeans(3, random_state=1, verbose=verbose).fit(X) for verbose in (0, 1))
    np.testing.assert_array_equal(quiet.labels_, loud.labels_)
    assert quiet.disclosures_ == loud.disclosures_


# -- kinds of numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "kept"), [(np.float32, np.float32), (np.float64, np.float64), (int, np.float64)])
def test_centres_have_the_data_s_kind_of_numbers(given, kept):
    x = (X * 100).astype(given)
    model = SecureKMeans(3, **QUICKLY).fit(x)
    assert model.cluster_centers_.dtype == kept
    np.testing.assert_array_equal(model.predict(x), model.labels_)


# -- what is refused -------------------------------------------------------------------------------------

BAD = [
    *(("n_clusters", value, ["n_clusters", "at least two"]) for value in ([], [3], (4, 4), range(3, 4))),
    *(("n_clusters", value, ["n_clusters", "at least 2"]) for value in ([1, 2], range(5), [-1, 3])),
    *(("n_clusters", value, ["n_clusters", "whole number"]) for value in ([2.0, 3], ["2", "3"], [None, 2], "23")),
    ("n_clusters", range(2, 42), ["n_samples=40", "n_clusters=41", "fewer clusters"]),
    ("n_init", "many", ["n_init", "whole number"]),
    *(("choose", value, ["choose=", "'calinski-harabasz', 'silhouette'"]) for value in ("elbow", None, 3)),
    *(("measures", value, ["measures=", "'revealed', 'secret'"]) for value in ("hidden", None, True)),
    *(("scale", value, ["scale=", "'bounds', 'standard'"]) for value in ("robust", True, 1)),
    *(("scales", value, ["scales=", "'revealed', 'secret'"]) for value in ("hidden", None, True)),
    *(
        ("quality", value, ["quality", "'inertia', 'silhouette', 'calinski-harabasz'"])
        for value in ("inertia", ["elbow"], None, 1, [["inertia"]])
    ),
    *(("column_weights", value, ["column_weights", "dict"]) for value in ([1, 2, 3], "x0", 2)),
    ("column_weights", {"x9": 1}, ["column_weights", "'x9'", "not in the data"]),
    *(
        ("column_weights", {"x1": value}, ["column_weights", "'x1'", "above 0"])
        for value in (0, -1, np.nan, np.inf, "2", None)
    ),
    ("column_weights", {"x1": 1000}, ["column_weights", "factor of 100"]),
    ("tol", -1e-9, ["tol", "at least 0"]),
]


def _name(value: object) -> str:
    return str(value)[:24]


@pytest.mark.parametrize(("option", "value", "says"), BAD, ids=[f"{name}={_name(value)}" for name, value, _ in BAD])
def test_bad_options_are_refused_by_name(option, value, says):
    for fitted in (lambda m: m.fit(X), lambda m: m.fit_parties([A, B])):
        with pytest.raises((ValueError, TypeError), match="(?s)" + ".*".join(says)):
            fitted(SecureKMeans(**{"n_clusters": 2, option: value}))


@pytest.mark.parametrize("bits", [8, 17, 40])
def test_fractional_bits_that_do_not_fit_standardised_columns(bits):
    with pytest.raises(InputError, match=f"fractional_bits={bits}.*standardised.*at most 16"):
        SecureKMeans(2, scale="standard", fractional_bits=bits).fit(X)


def test_fractional_bits_that_fit_are_taken():
    assert SecureKMeans(2, scale="standard", fractional_bits=12, **QUICKLY).fit(X)._encoding.f == 12


@pytest.mark.parametrize("given", [X[:3], lambda x, k, random_state: x[:k]])
def test_centres_cannot_be_given_for_several_numbers_of_clusters(given):
    with pytest.raises(InputError, match=r"several n_clusters.*no centres"):
        SecureKMeans([2, 3], init=given).fit(X)


def test_arguments_that_are_good_are_not_warned_of():
    options = {"n_clusters": [2, 3], "n_init": "auto", "choose": "silhouette", "quality": ["silhouette"]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SecureKMeans(**options, column_weights={"x0": 2}, scale="standard", **QUICKLY).fit(X)
