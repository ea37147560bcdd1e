"""Bad calls: an error that says which party, column or argument is wrong, and what to do."""

from __future__ import annotations

import subprocess
import threading

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from coterie import SecureKMeans, parameters
from coterie.errors import CoterieError, InputError, PartyFailed
from coterie.protocols import SecureNN
from tests.clustering.comparison import seeded_runs  # noqa: F401
from tests.data.frames import Frame

NAN, INF = np.nan, np.inf
X = np.random.RandomState(0).uniform(-1, 1, (10, 4))
A, B = X[:5], X[5:]
LEFT, RIGHT = X[:, :2], X[:, 2:]
MINE = np.where(np.arange(4) < 2, X, NAN)
YOURS = np.where(np.arange(4) < 2, NAN, X)
WIDE = [(-9, 9)] * 4


def spoilt(block, value, row=2, column=1):
    changed = np.array(block, dtype=object if isinstance(value, str) else np.float64)
    changed[row, column] = value
    return changed


def refused(*says):
    """A ValueError or TypeError whose message holds all of these words, in this order."""
    return pytest.raises((ValueError, TypeError), match="(?s)" + ".*".join(says))


BAD_BLOCKS = {
    "NaN, horizontal": ("horizontal", [A, spoilt(B, NAN)], ["P2", "'x1'", "NaN", "impute"]),
    "NaN, vertical": ("vertical", [LEFT, spoilt(RIGHT, NAN)], ["P2", "'x3'", "NaN", "impute"]),
    "infinity, horizontal": ("horizontal", [spoilt(A, INF), B], ["P1", "'x1'", "infinity", "remove"]),
    "infinity, vertical": ("vertical", [LEFT, spoilt(RIGHT, -INF)], ["P2", "'x3'", "infinity", "remove"]),
    "infinity, mixed": ("mixed", [MINE, spoilt(YOURS, INF, 2, 3)], ["P2", "'x3'", "infinity", "remove"]),
    "a string": ("horizontal", [A, spoilt(B, "high")], ["P2", "not a number", "encode"]),
    "strings that look like numbers": ("horizontal", [A, B.astype(str)], ["P2", "not a number", "encode"]),
    "missing objects": ("horizontal", [A, np.full((5, 4), None)], ["P2", "'x0'", "NaN", "impute"]),
    "complex numbers": ("horizontal", [A, B + 1j], ["P2", "number"]),
    "dates": ("horizontal", [A, np.full((5, 4), np.datetime64("2020-01-01"))], ["P2", "number"]),
    "rows of different lengths": ("horizontal", [A, [[1, 2, 3, 4], [5]]], ["P2"]),
    "one party": ("horizontal", [X], ["two parties", "there is 1"]),
    "no party": ("horizontal", [], ["two parties", "there is 0"]),
    "different widths": ("horizontal", [A, B[:, :3]], ["P2 has 3 columns", "P1 has 4", "same columns"]),
    "different heights": ("vertical", [LEFT[:9], RIGHT], ["P2 has 10 rows", "P1 has 9", "same rows"]),
    "different heights, mixed": ("mixed", [MINE, YOURS[:9]], ["P2 has 9 rows", "P1 has 10", "whole table"]),
    "different widths, mixed": ("mixed", [MINE, YOURS[:, :3]], ["P2 has 3 columns", "P1 has 4", "same columns"]),
    "a cell held twice": (
        "mixed",
        [MINE, spoilt(YOURS, 0.5, 7, 0)],
        ["row 7, column 'x0'", "both P1 and P2", "set it to NaN"],
    ),
    "a cell held by nobody": (
        "mixed",
        [MINE, spoilt(YOURS, NAN, 7, 3)],
        ["row 7, column 'x3'", "nobody", "remove the row or impute"],
    ),
    "a party without rows": ("horizontal", [X, X[:0]], ["P2 has no rows", "leave it out"]),
    "a party without cells": ("mixed", [X, np.full_like(X, NAN)], ["P2 has no rows", "leave it out"]),
    "a party without columns": ("vertical", [X, X[:, :0]], ["P2 has no columns", "leave it out"]),
    "nobody has columns": ("horizontal", [A[:, :0], B[:, :0]], ["no columns"]),
    "a block of one dimension": ("horizontal", [A, B[0]], ["P2", "2D", "1D", "reshape"]),
    "a block of three dimensions": ("horizontal", [A, B[None]], ["P2", "2D", "3D"]),
    "other column names": (
        "horizontal",
        [Frame(A, list("abcd")), Frame(B, list("abdc"))],
        ["P2", "'d'", "P1", "one order"],
    ),
    "other column names, mixed": (
        "mixed",
        [Frame(MINE, list("abcd")), Frame(YOURS, list("abce"))],
        ["P2", "'e'", "P1", "one order"],
    ),
    "more clusters than rows": ("horizontal", [A[:1], B[:1]], ["n_samples=2", "n_clusters=3", "fewer"]),
}


@pytest.mark.parametrize("case", BAD_BLOCKS)
def test_bad_blocks_are_refused(case):
    partition, blocks, says = BAD_BLOCKS[case]
    with refused(*says):
        SecureKMeans(3, partition=partition).fit_parties(blocks)


@pytest.mark.parametrize(
    ("x", "says"),
    [
        (spoilt(X, NAN), ["NaN"]),
        (spoilt(X, INF), ["infinity"]),
        (spoilt(X, "high"), ["string"]),
        (X[:2], ["n_samples=2", "n_clusters=3"]),
        (X[0], ["2D array"]),
        (X[:, :0], ["0 feature"]),
        (X[:0], ["0 sample"]),
    ],
)
def test_bad_tables_are_refused(x, says):
    with refused(*says):
        SecureKMeans(3).fit(x)


BAD_OPTIONS = [
    *(("n_clusters", value, ["n_clusters", "at least 1"]) for value in (0, -1)),
    *(("n_clusters", value, ["n_clusters", "whole number"]) for value in (2.0, "2", None, True)),
    ("n_clusters", 11, ["n_samples=10", "n_clusters=11", "fewer clusters"]),
    *(("n_parties", value, ["n_parties", "at least 2"]) for value in (1, 0, -1)),
    *(("n_parties", value, ["n_parties", "whole number"]) for value in (1.5, "two", None)),
    ("n_parties", 11, ["n_samples=10", "n_parties=11", "at least one"]),
    *(("n_init", value, ["n_init", "at least 1"]) for value in (0, -1)),
    *(("n_init", value, ["n_init", "whole number"]) for value in (1.5, "many", None)),
    *(("max_iter", value, ["max_iter", "at least 1"]) for value in (0, -1)),
    *(("max_iter", value, ["max_iter", "whole number"]) for value in (1.5, "many", None)),
    *(("tol", value, ["tol", "at least 0"]) for value in (-1e-9, NAN, INF, "small", None)),
    *(("partition", value, ["partition=", "'horizontal'"]) for value in ("diagonal", None, 1, ["horizontal"])),
    *(("protocol", value, ["protocol", "'securenn'"]) for value in ("plaintext", None, 1, ["securenn"])),
    *(("counts", value, ["counts=", "'secret'"]) for value in ("hidden", None, True)),
    *(("labels", value, ["labels=", "'private'"]) for value in ("hidden", None, True)),
    ("labels", "revealed", ["labels", "partition=.vertical"]),
    *(("centers", value, ["centers=", "'shared'"]) for value in ("hidden", None, True)),
    *(("transport", value, ["transport=", "'memory'"]) for value in ("pigeon", None, 1)),
    *(("scale", value, ["scale=", "'bounds'"]) for value in ("unit", True, 1)),
    *(("fractional_bits", value, ["fractional_bits", "whole number"]) for value in ("many", 1.5, None)),
    ("fractional_bits", 60, ["fractional_bits=60", "use at most"]),
    ("fractional_bits", 2, ["column 'x0'", "fractional_bits=2", "use scale"]),
    *(("plan", value, ["plan", "block_rows"]) for value in ("fast", None, 4, {"block_rows": "a"})),
    ("plan", {"block_rows": 0}, ["plan", "block_rows", "at least 1"]),
    ("plan", {"rows": 2}, ["plan", "rows"]),
    *(("plan", {"lanes": value}, ["plan", "lanes"]) for value in (-1, 1000, "a")),
    *(("plan", {"schedule": value}, ["plan"]) for value in ("chain", (0,), 3)),
    ("random_state", "lucky", ["RandomState"]),
    ("init", "k-means+", ["init=", r"use .k-means\+\+., .random., an array of centres or a function"]),
    *(("init", value, ["init has shape", r"\(2, 4\)"]) for value in (X[:3], X[:2, :3], X[0], None)),
    ("init", np.full((2, 4), NAN), ["init", "NaN"]),
    ("init", np.full((2, 4), INF), ["init", "'x0'", "infinity"]),
    ("init", np.full((2, 4), 99.0), ["init", "'x0'", "outside", "widen the bounds"]),
    ("init", [["a"] * 4] * 2, ["init"]),
    ("init", [[1, 2, 3, 4], [5]], ["init"]),
    ("bounds", "wide", ["bounds=", "use .auto"]),
    *(("bounds", value, ["bounds has shape", r"\(4, 2\)"]) for value in (WIDE[:3], (-9, 9), None, np.zeros((2, 4)))),
    ("bounds", [*WIDE[:2], (9, -9), (-9, 9)], ["bounds of column 'x2'", "low before high"]),
    ("bounds", [*WIDE[:3], (-9, INF)], ["bounds of column 'x3'", "finite"]),
    ("bounds", [*WIDE[:3], (-9, NAN)], ["bounds of column 'x3'", "finite"]),
    ("bounds", {"x0": (-9, 9)}, ["bounds", "'x1'"]),
    ("bounds", [*WIDE[:2], (-0.1, 0.1), (-9, 9)], ["P1", "'x2'", "outside", "widen the bounds or clip"]),
    ("bounds", [*WIDE[:3], ("low", "high")], ["bounds"]),
    ("bounds", [*WIDE[:3], (-9, 0, 9)], ["bounds"]),
]


@pytest.mark.parametrize(
    ("option", "value", "says"), BAD_OPTIONS, ids=[f"{name}={str(value)[:20]}" for name, value, _ in BAD_OPTIONS]
)
def test_bad_options_are_refused(option, value, says):
    with refused(*says):
        SecureKMeans(**{"n_clusters": 2, option: value}).fit(X)


def test_options_are_checked_before_the_blocks():
    with refused("counts="):
        SecureKMeans(2, counts="hidden").fit_parties([A, B])


def test_more_parties_than_columns_are_refused():
    with refused("n_features=4", "n_parties=5", "fewer parties"):
        SecureKMeans(2, n_parties=5, partition="vertical").fit(X)


def test_more_parties_than_a_mixed_table_can_name_are_refused():
    """A cell's owner is one byte."""
    with refused("parties"):
        SecureKMeans(2, n_parties=300, partition="mixed").fit(np.zeros((400, 2)))


@pytest.mark.parametrize(
    ("partition", "blocks", "names"),
    [
        ("horizontal", [A, spoilt(B, 5)], ["P2", "'x1'"]),
        ("vertical", [LEFT, spoilt(RIGHT, -5)], ["P2", "'x3'"]),
        ("mixed", [spoilt(MINE, 5), YOURS], ["P1", "'x1'"]),
        ("horizontal", [A, spoilt(B, INF)], ["P2", "'x1'", "infinity"]),
        ("horizontal", [Frame(A, list("abcd")), Frame(spoilt(B, 5), list("abcd"))], ["P2", "'b'"]),
    ],
)
def test_data_out_of_the_given_bounds_are_refused(partition, blocks, names):
    with refused(*names, r"agreed range: \[-1, 1\]"):
        SecureKMeans(2, partition=partition, bounds=[(-1, 1)] * 4).fit_parties(blocks)


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_values_beyond_all_reason_are_refused_or_fitted(scale):
    """Their squares are no numbers of double precision: not an exception from the midst of the protocol."""
    try:
        model = SecureKMeans(2, random_state=0).fit(X * scale)
    except ValueError as error:
        assert "column" in str(error) or "range" in str(error)
    else:
        assert np.isfinite(model.cluster_centers_).all()


def test_a_column_too_narrow_beside_another_is_refused():
    with refused("column 'x1'", "steps", "use scale="):
        SecureKMeans(2).fit(X * [1e9, 1, 1, 1])


@pytest.mark.parametrize("method", ["predict", "transform", "score"])
def test_nothing_works_before_the_fit(method):
    with pytest.raises(NotFittedError, match="not fitted"):
        getattr(SecureKMeans(2), method)(X)


def test_no_prediction_and_no_shares_before_the_fit():
    with pytest.raises(NotFittedError, match="not fitted"):
        SecureKMeans(2).predict_parties([A, B])
    with pytest.raises(NotFittedError, match="not fitted"):
        SecureKMeans(2).shares()


@pytest.fixture(scope="module")
def models():
    """A model of each partition and kind of centres, on three parties."""
    options = {"n_clusters": 2, "n_parties": 3, "counts": "revealed", "max_iter": 2, "random_state": 0}
    return {
        (partition, centers): SecureKMeans(**options, partition=partition, centers=centers).fit(X)
        for partition in ("horizontal", "vertical")
        for centers in ("revealed", "shared")
    }


@pytest.mark.parametrize("method", ["predict", "transform", "score"])
def test_shared_centres_are_for_predict_parties(models, method):
    with refused("centers=.shared", "predict_parties"):
        getattr(models["horizontal", "shared"], method)(X)


@pytest.mark.parametrize("method", ["predict", "transform", "score"])
def test_new_rows_have_as_many_columns_as_the_data(models, method):
    with refused("3 features", "expecting 4"):
        getattr(models["horizontal", "revealed"], method)(X[:, :3])


BAD_PREDICTIONS = [
    ("horizontal", "revealed", [A[:, :3], B[:, :3]], ["3 columns", "has 4"]),
    ("vertical", "revealed", [X[:, :1], X[:, 1:2], X[:, 2:3]], ["3 columns", "has 4"]),
    ("horizontal", "revealed", [X], ["two parties"]),
    ("horizontal", "revealed", [A, spoilt(B, NAN)], ["P2", "'x1'", "NaN"]),
    ("horizontal", "revealed", [A, spoilt(B, 99)], ["P2", "'x1'", "outside"]),
    ("horizontal", "revealed", [A, spoilt(B, "high")], ["P2", "not a number"]),
    ("horizontal", "shared", [A, B], ["3 parties", "2 blocks"]),
    ("vertical", "shared", [LEFT, RIGHT], ["3 parties", "2 blocks"]),
    ("vertical", "revealed", [LEFT, RIGHT], ["3 parties|columns"]),
    ("vertical", "revealed", [X[:, :1], X[:, 1:2], X[:, 2:]], ["P1", "column"]),
]


@pytest.mark.parametrize(("partition", "centers", "blocks", "says"), BAD_PREDICTIONS)
def test_bad_predictions_are_refused(models, partition, centers, blocks, says):
    """Where columns are split, the centres' columns belong to their owners: others must not get them."""
    with refused(*says):
        models[partition, centers].predict_parties(blocks)


def test_predictions_for_other_columns_than_the_fit_s_are_refused():
    names = list("abcd")
    model = SecureKMeans(2, max_iter=1, counts="revealed").fit_parties([Frame(A, names), Frame(B, names)])
    swapped = list("abdc")
    with refused("column"):
        model.predict_parties([Frame(A, swapped), Frame(B, swapped)])


def fail_at_p2(monkeypatch, error):
    """Make P2 fail in the midst of the first iteration."""
    honest = SecureNN.sums

    def failing(self, *args):
        if self.me.rank == 2:
            raise error
        return honest(self, *args)

    monkeypatch.setattr(SecureNN, "sums", failing)


@pytest.mark.parametrize("parties", [2, 3])
def test_a_party_s_exception_reaches_the_caller_with_its_name(monkeypatch, parties):
    cause = RuntimeError("out of paper")
    fail_at_p2(monkeypatch, cause)
    before = set(threading.enumerate())
    with pytest.raises(PartyFailed, match="party P2: RuntimeError: out of paper") as caught:
        SecureKMeans(2, protocol="securenn", n_parties=parties, random_state=0).fit(X)
    assert caught.value.party == "P2"
    assert caught.value.__cause__ is cause
    assert set(threading.enumerate()) <= before


def test_an_exception_of_coterie_s_own_keeps_its_type(monkeypatch):
    fail_at_p2(monkeypatch, CoterieError("refused"))
    with pytest.raises(CoterieError, match="party P2: refused") as caught:
        SecureKMeans(2, protocol="securenn", random_state=0).fit(X)
    assert type(caught.value) is CoterieError


def test_over_tls_it_reaches_the_caller_too_and_no_process_outlives_it(monkeypatch):
    """P2 is sent rows of the wrong width, so that its process fails where it puts them in their place."""
    processes, start = [], subprocess.Popen

    def followed(*args, **options):
        processes.append(start(*args, **options))
        return processes[-1]

    honest = parameters.encode_blocks

    def spoilt_at_p2(task, table):
        first, second = honest(task, table)
        return [first, second[:, :3]]

    monkeypatch.setattr("coterie.runtime.processes.subprocess.Popen", followed)
    monkeypatch.setattr(parameters, "encode_blocks", spoilt_at_p2)
    before = set(threading.enumerate())
    with pytest.raises(InputError, match="party P2: the block has shape") as caught:
        SecureKMeans(2, random_state=0, transport="tls").fit(X)
    assert caught.value.party == "P2"
    assert len(processes) == 3
    assert all(process.poll() is not None for process in processes)
    assert set(threading.enumerate()) <= before


def test_a_failed_fit_leaves_the_next_one_unharmed(monkeypatch):
    model = SecureKMeans(2, protocol="securenn", random_state=0, counts="revealed")
    with monkeypatch.context() as patch:
        fail_at_p2(patch, RuntimeError("once"))
        with pytest.raises(PartyFailed):
            model.fit(X)
    assert set(model.fit(X).labels_) == {0, 1}
