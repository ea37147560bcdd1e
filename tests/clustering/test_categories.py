"""Columns of categories: as far apart as agreed in every scale, exempt from it, and rounded together."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coterie import SecureKMeans
from coterie.clustering import at_home, category_at_home, make_scaled
from coterie.clustering.rules import grid_of
from coterie.errors import InputError
from coterie.runtime.oracle import run_oracle

NAMES, LOW, HIGH = ("age", "sex=f", "sex=m", "income"), (0, 0, 0, 0), (120, 1, 1, 1e6)
ROWS = np.array([[30, 1, 0, 5e4], [30, 0, 1, 5e4]], float)


@pytest.mark.parametrize("apart", [0.1, 0.5, 1.0, 1.5, 2.8])
@pytest.mark.parametrize("weights", [(), (1.0, 0.5, 0.5, 0.25)])
@pytest.mark.parametrize("scale", ["none", "bounds"])
def test_two_values_are_as_far_apart_as_agreed(apart, weights, scale):
    high = HIGH if scale == "bounds" else (120, 1, 1, 40)
    distances = (0, apart, apart, 0)
    encoding, metric = make_scaled(scale, "horizontal", NAMES, LOW, high, 500, 4, weights=weights, distances=distances)
    assert metric is None
    rows = ROWS.copy()
    rows[:, 3] = 5
    first, second = encoding.encode(rows, range(4))
    found = encoding.squared(int(((first - second) ** 2).sum()))
    assert found == pytest.approx(apart**2 * (weights[1] if weights else 1), rel=1e-2)


@pytest.mark.parametrize("apart", [0.1, 0.5, 1.0, 1.5, 2.8])
@pytest.mark.parametrize("rows", [50, 1000, 10**6])
@pytest.mark.parametrize("room", [0.0, 0.25, 2.0])
def test_standardised_in_secret_the_weight_is_public(apart, rows, room):
    """Weighted distances are 2^T / n times those between standardised rows."""
    low, high = (0, -room, -room, 0), (120, 1 + room, 1 + room, 1e6)
    encoding, metric = make_scaled("standard", "horizontal", NAMES, low, high, rows, 4, distances=(0, apart, apart, 0))
    assert metric is not None
    assert [bool(one) for one in metric.constants] == [False, True, True, False]
    first, second = encoding.encode(ROWS, range(4))
    weighted = float((np.array(metric.constants) * (first - second) ** 2).sum())
    unit = math.ldexp(1 / rows, metric.scale(rows, int(encoding.half.max())))
    assert weighted / unit == pytest.approx(apart**2, rel=0.03 if apart < 0.5 else 0.002)
    assert weighted < 2.02 * math.ldexp(1.0, metric.scale(rows, int(encoding.half.max())))
    assert metric.mean_factor == 0.5


def test_at_home_a_category_has_a_deviation_of_its_own():
    encoding, _ = make_scaled("standard", "vertical", NAMES, LOW, HIGH, 500, 4, distances=(0, 1.5, 1.5, 0))
    mean, deviation = category_at_home(1.5)
    home = at_home(encoding, range(4), [30, mean, mean, 5e4], [10, deviation, deviation, 1e4])
    first, second = home.encode(ROWS, range(4))
    assert home.squared(int(((first - second) ** 2).sum())) == pytest.approx(1.5**2, rel=1e-3)


def test_without_categories_nothing_changes():
    for scale in ("none", "bounds", "standard"):
        plain = make_scaled(scale, "horizontal", NAMES, LOW, (120, 1, 1, 40), 500, 4)
        assert make_scaled(scale, "horizontal", NAMES, LOW, (120, 1, 1, 40), 500, 4, distances=(0, 0, 0, 0)) == plain


def test_the_grid_of_a_category_is_twice_as_coarse_and_leaves_out_the_last():
    encoding, _ = make_scaled("bounds", "horizontal", NAMES, LOW, HIGH, 500, 4, distances=(0, 1, 1, 0))
    single = grid_of(encoding, {"sex=f": 1.0, "sex=m": 1.0}, 10)
    grouped = grid_of(encoding, {"sex=f": 1.0, "sex=m": 1.0}, 10, ((1, 2),))
    assert grouped == (0, single[1] + 1, 0, 0)


# -- in Python -----------------------------------------------------------------------------------------------------


def table(n=60):
    """Two groups by age; words beside, and gaps."""
    random = np.random.RandomState(2)
    rows = [[random.normal((30, 70)[i % 2], 3), ("f", "m", "x")[random.randint(3)]] for i in range(n)]
    return np.array(rows, object)


CATEGORIES = {"x1": ["f", "m", "x"]}


def by_hand(rows, apart=1.0):
    """Standardised ages, and one column for each word."""
    ages = np.array([row[0] for row in rows], float)
    words = np.array([[row[1] == one for one in "fmx"] for row in rows], float) * apart / math.sqrt(2)
    return np.column_stack([ages / ages.std(), words])


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
@pytest.mark.parametrize("n_parties", [2])
def test_words_beside_numbers(partition, n_parties):
    from sklearn.cluster import KMeans

    rows = table()
    model = SecureKMeans(
        2, partition=partition, n_parties=n_parties, categories=CATEGORIES, distance={"x1": 2.0}, scale="standard",
        init="random", random_state=1,
    ).fit(rows)  # fmt: skip
    own = by_hand(rows, 2.0)
    fit = KMeans(2, init=own[model.init_rows_], n_init=1).fit(own)
    np.testing.assert_array_equal(model.labels_, fit.labels_)
    assert model.features_ == ("x0", "x1=f", "x1=m", "x1=x")
    assert model.n_features_in_ == 2
    np.testing.assert_allclose(model.cluster_centers_[:, 1:].sum(axis=1), 1, atol=1e-3)
    np.testing.assert_allclose(model.inertia_, fit.inertia_, rtol=0.01)
    if partition == "horizontal":
        np.testing.assert_array_equal(model.predict(rows), model.labels_)
        assert np.isnan(model.scales_[1:]).all()
        np.testing.assert_allclose(
            model.transform(rows)[np.arange(60), model.labels_].__pow__(2).sum(), fit.inertia_, rtol=0.01
        )


def test_the_oracle_on_the_same_features():
    rows = table()
    options = {"categories": CATEGORIES, "scale": "standard", "init": "random", "random_state": 1}
    model = SecureKMeans(2, **options).fit(rows)
    from coterie.data import gather
    from coterie.data.frames import make_recipe
    from coterie.parameters import prepare_fit

    recipe = make_recipe("error", CATEGORIES, None)
    blocks = gather([rows[:30], rows[30:]], "horizontal", ("P1", "P2"), recipe=recipe)
    task, encoded, *_ = prepare_fit(SecureKMeans(2, **options), blocks)
    oracle = run_oracle(task, np.concatenate(encoded))
    np.testing.assert_array_equal(model.labels_, oracle.labels)
    np.testing.assert_array_equal(model._whole_centers, oracle.centers)


def test_rows_with_gaps_are_left_out_or_filled():
    rows = table()
    rows[[3, 40], 0] = [None, np.nan]
    kept = np.delete(np.arange(60), [3, 40])
    options = {"categories": CATEGORIES, "scale": "standard", "random_state": 1}
    dropped = SecureKMeans(2, missing="drop", **options).fit_parties([rows[:30], rows[30:]])
    whole = SecureKMeans(2, **options).fit_parties([rows[kept[kept < 30]], rows[kept[kept >= 30]]])
    np.testing.assert_array_equal(dropped.labels_[kept], whole.labels_)
    assert dropped.labels_[[3, 40]].tolist() == [-3, -3]
    np.testing.assert_array_equal(dropped.predict(rows), dropped.labels_)
    assert np.isnan(dropped.transform(rows)[[3, 40]]).all()
    assert np.isfinite(dropped.score(rows))
    filled = SecureKMeans(2, missing={"x0": 30.0}, **options).fit(rows)
    complete = rows.copy()
    complete[[3, 40], 0] = 30.0
    np.testing.assert_array_equal(filled.labels_, SecureKMeans(2, **options).fit(complete).labels_)
    np.testing.assert_array_equal(filled.predict(rows), filled.labels_)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"missing": "mean"}, "missing must be"),
        ({"missing": {"x0": "many"}}, "must be a finite number"),
        ({"missing": {"x9": 1.0}}, "missing names column 'x9'"),
        ({"categories": ["f"]}, "categories must be a dict"),
        ({"categories": {"x1": ["f"]}}, "column 'x1': there must be 2 to 100 categories"),
        ({"categories": {"x1": ["f", "m"]}}, "none of the agreed categories"),
        ({"categories": CATEGORIES, "distance": {"x0": 1.0}}, "distance names column 'x0', which has no categories"),
        ({"missing": "drop"}, "column 'x1' holds something that is not a number; name its values in categories"),
        ({"categories": CATEGORIES, "missing": "drop", "partition": "vertical"}, "drop them everywhere first"),
        ({"categories": CATEGORIES, "partition": "mixed"}, "in a patchwork"),
    ],
)
def test_what_cannot_be_declared(options, said):
    with pytest.raises(InputError, match=said):
        SecureKMeans(2, **options).fit(table())
