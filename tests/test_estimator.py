"""SecureKMeans as a scikit-learn estimator: its contract, prediction, what it keeps and what it drops."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from coterie import SecureKMeans
from coterie.data import split
from coterie.errors import InputError
from coterie.transport import HEADER_BYTES
from tests.clustering.comparison import WAYS, added_up, seeded_runs, way_name  # noqa: F401
from tests.data.frames import Frame
from tests.support import one_column_decides

X = np.random.RandomState(6).uniform(-1, 1, (20, 4))
NEW = np.random.RandomState(7).uniform(-1.4, 1.4, (9, 4))
QUICKLY = {"n_clusters": 3, "random_state": 0, "counts": "revealed"}
PARTITIONS = ("horizontal", "vertical", "mixed")


@pytest.fixture(scope="module")
def model():
    return SecureKMeans(**QUICKLY).fit(X)


@pytest.fixture(scope="module")
def models():
    """A model for each partition and kind of centres, on three parties."""
    return {
        (partition, centers): SecureKMeans(**QUICKLY, n_parties=3, partition=partition, centers=centers).fit(X)
        for partition in PARTITIONS
        for centers in ("revealed", "shared")
    }


# -- the contract of scikit-learn ------------------------------------------------------------------------


#: As scikit-learn says of its own KMeans: starts are drawn from other rows, if some are left out or repeated.
OTHER_STARTS = {"check_sample_weight_equivalence_on_dense_data": "the rows to start from are others"}


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
@parametrize_with_checks([SecureKMeans()], expected_failed_checks=lambda _: OTHER_STARTS)
def test_scikit_learn_s_checks_pass(estimator, check):
    check(estimator)


def test_arguments_are_stored_as_they_are():
    init = X[:3]
    given = SecureKMeans(3, init=init, tol="not checked here")
    assert given.get_params()["init"] is init
    assert given.get_params()["tol"] == "not checked here"
    assert not [name for name in vars(given) if name.endswith("_")]


def test_a_clone_has_the_arguments_and_not_the_fit(model):
    cloned = clone(model)
    assert cloned.get_params() == model.get_params()
    assert not hasattr(cloned, "labels_")


def test_parameters_can_be_set_anew():
    again = SecureKMeans(2).set_params(n_clusters=4, max_iter=1, counts="revealed").fit(X)
    assert again.cluster_centers_.shape == (4, 4)


def test_a_pipeline_clusters_like_its_steps():
    scaled = StandardScaler().fit_transform(X)
    pipeline = make_pipeline(StandardScaler(), SecureKMeans(**QUICKLY)).fit(X)
    alone = SecureKMeans(**QUICKLY).fit(scaled)
    np.testing.assert_array_equal(pipeline[-1].labels_, alone.labels_)
    np.testing.assert_array_equal(pipeline.predict(NEW), alone.predict(StandardScaler().fit(X).transform(NEW)))
    assert list(pipeline.get_feature_names_out()) == ["securekmeans0", "securekmeans1", "securekmeans2"]


def test_fit_predict_and_fit_transform_are_fit_and_then_the_other(model):
    np.testing.assert_array_equal(SecureKMeans(**QUICKLY).fit_predict(X), model.labels_)
    np.testing.assert_array_equal(SecureKMeans(**QUICKLY).fit_transform(X), model.transform(X))


def test_a_second_fit_forgets_the_first():
    model = SecureKMeans(**QUICKLY).fit(X)
    model.set_params(centers="shared", counts="secret", init=X[:3, :2], max_iter=1).fit(X[:, :2])
    for gone in ("cluster_centers_", "counts_", "init_rows_"):
        assert not hasattr(model, gone)
    assert model.n_features_in_ == 2


def test_names_of_columns_are_kept_where_all_blocks_have_them():
    names = ["age", "pay", "debt", "rent"]
    model = SecureKMeans(**QUICKLY).fit_parties([Frame(X[:8], names), Frame(X[8:], names)])
    assert list(model.feature_names_in_) == names
    assert not hasattr(model.fit_parties([X[:8], X[8:]]), "feature_names_in_")


def test_bounds_may_be_given_by_name():
    bounds = dict.fromkeys(["age", "pay", "debt", "rent"], (-1, 1))
    blocks = [Frame(X[:, :2], ["age", "pay"]), Frame(X[:, 2:], ["debt", "rent"])]
    named = SecureKMeans(**QUICKLY, partition="vertical", bounds=bounds).fit_parties(blocks)
    listed = SecureKMeans(**QUICKLY, partition="vertical", bounds=[(-1, 1)] * 4).fit_parties([X[:, :2], X[:, 2:]])
    np.testing.assert_array_equal(named.cluster_centers_, listed.cluster_centers_)
    np.testing.assert_array_equal(named.bounds_, [(-1, 1)] * 4)


def test_automatic_bounds_are_the_data_s_range_widened_twofold(model):
    middle, half = (X.max(axis=0) + X.min(axis=0)) / 2, np.ptp(X, axis=0) / 2
    np.testing.assert_allclose(model.bounds_, np.column_stack([middle - 2 * half, middle + 2 * half]))


# -- labels, distances, score ----------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS, ids=way_name)
def test_the_data_s_own_labels_are_predicted(way):
    model = SecureKMeans(3, random_state=0, **way).fit(X)
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_ties_are_predicted_as_they_are_fitted():
    """On a grid, rows lie half-way between centres; equal centres are frequent, too."""
    grid = np.stack(np.meshgrid(np.arange(4.0), np.arange(4.0)), axis=-1).reshape(16, 2)
    model = SecureKMeans(4, init=grid[[5, 6, 9, 6]], counts="revealed").fit(grid)
    np.testing.assert_array_equal(model.predict(grid), model.labels_)
    np.testing.assert_array_equal(model.predict_parties([grid[:3], grid[3:]]), model.labels_)


def distances_to(model, rows):
    return np.sqrt(((rows[:, None] - model.cluster_centers_) ** 2).sum(axis=2))


def test_transform_is_the_distance_to_each_centre(model):
    np.testing.assert_allclose(model.transform(NEW), distances_to(model, NEW))


def test_score_is_minus_the_inertia(model):
    assert model.score(NEW) == pytest.approx(-(distances_to(model, NEW).min(axis=1) ** 2).sum())
    assert model.score(X) == pytest.approx(-model.inertia_, rel=1e-3)


def test_scaled_distances_are_in_units_of_the_bounds():
    bounds = np.array([(-1, 1), (-2, 2), (-4, 4), (-8, 8)])
    model = SecureKMeans(**QUICKLY, bounds=bounds, scale="bounds").fit(X)
    unit = bounds[:, 1]
    expected = np.sqrt((((NEW[:, None] - model.cluster_centers_) / unit) ** 2).sum(axis=2))
    np.testing.assert_allclose(model.transform(NEW), expected)
    assert model.score(X) == pytest.approx(-model.inertia_, rel=1e-3)
    means = np.stack([X[model.labels_ == j].mean(axis=0) for j in range(3)])
    np.testing.assert_allclose(model.cluster_centers_, means, atol=1e-3)


@pytest.mark.parametrize("far", [10, 1e3, 1e6, 1e12, 1e100])
def test_rows_far_outside_the_bounds_are_predicted_too(model, far):
    rows = far * np.random.RandomState(1).uniform(-1, 1, (50, 4))
    np.testing.assert_array_equal(model.predict(rows), distances_to(model, rows).argmin(axis=1))


@one_column_decides
def test_prediction_does_not_overflow_where_narrow_columns_lie_beside_wide_ones():
    """Values that the wide column may hold, in 200 narrow ones: squared distances pass 2^63 on the way."""
    x = np.random.RandomState(0).uniform(-1, 1, (4, 201)) * [16_000, *[1] * 200]
    model = SecureKMeans(2, init=x[:2], counts="revealed", max_iter=1).fit(x)
    direction = np.sign(model.cluster_centers_[1] - model.cluster_centers_[0])
    reach = np.linspace(0.998, 1.002, 2001) * 2.0 ** (31.5 - model._encoding.f) / np.sqrt(200)
    rows = reach[:, None] * direction
    rows[:, 0] = model.cluster_centers_[:, 0].mean()
    np.testing.assert_array_equal(model.predict(rows), distances_to(model, rows).argmin(axis=1))


def test_the_paper_s_blobs_are_found():
    x, truth = make_blobs(60, centers=[(5, 3), (5, -5), (-5, 5), (-3, -5)], cluster_std=0.3, random_state=0)
    start = np.stack([x[truth == j][0] for j in range(4)])
    model = SecureKMeans(4, init=start).fit(x)
    np.testing.assert_array_equal(model.labels_, truth)
    means = np.stack([x[truth == j].mean(axis=0) for j in range(4)])
    np.testing.assert_allclose(model.cluster_centers_, means, atol=0.01)


# -- secure prediction -----------------------------------------------------------------------------------


@pytest.mark.parametrize("centers", ["revealed", "shared"])
@pytest.mark.parametrize("partition", PARTITIONS)
def test_parties_predict_what_the_estimator_predicts(models, partition, centers):
    secure = models[partition, centers].predict_parties(split(NEW, partition, 3))
    np.testing.assert_array_equal(secure, models[partition, "revealed"].predict(NEW))


@pytest.mark.parametrize("centers", ["revealed", "shared"])
def test_blocks_without_rows_may_take_part_in_a_prediction(models, centers):
    expected = models["horizontal", "revealed"].predict(NEW)
    horizontal = models["horizontal", centers]
    np.testing.assert_array_equal(horizontal.predict_parties([NEW[:0], NEW, NEW[:0]]), expected)
    np.testing.assert_array_equal(horizontal.predict_parties([NEW[:4], NEW[:0], NEW[4:]]), expected)
    nothing = np.full_like(NEW, np.nan)
    np.testing.assert_array_equal(models["mixed", centers].predict_parties([nothing, NEW, nothing]), expected)


@pytest.mark.parametrize("partition", PARTITIONS)
def test_no_rows_at_all_have_no_labels(models, partition):
    blocks = split(NEW, partition, 3)
    labels = models[partition, "shared"].predict_parties([block[:0] for block in blocks])
    assert labels.shape == (0,)
    assert labels.dtype == models[partition, "shared"].labels_.dtype


def test_with_revealed_centres_other_parties_may_predict(models):
    rows = split(NEW, "horizontal", 5)
    np.testing.assert_array_equal(
        models["horizontal", "revealed"].predict_parties(rows), models["horizontal", "revealed"].predict(NEW)
    )


def test_predictions_can_be_repeated_and_cut_into_blocks(models):
    model = clone(models["horizontal", "shared"]).set_params(max_iter=1).fit(X)
    blocks = split(NEW, "horizontal", 3)
    first = model.predict_parties(blocks)
    np.testing.assert_array_equal(model.set_params(plan={"block_rows": 2}).predict_parties(blocks), first)


def test_prediction_over_tls(models):
    model = clone(models["vertical", "shared"]).set_params(n_parties=2).fit(X)
    blocks = split(NEW, "vertical", 2)
    expected = model.predict_parties(blocks)
    np.testing.assert_array_equal(model.set_params(transport="tls").predict_parties(blocks), expected)


# -- what is kept ----------------------------------------------------------------------------------------


def test_a_pickled_estimator_predicts_and_has_no_shares(models):
    model = models["horizontal", "revealed"]
    restored = pickle.loads(pickle.dumps(model))  # noqa: S301
    np.testing.assert_array_equal(restored.predict(NEW), model.predict(NEW))
    np.testing.assert_array_equal(restored.predict_parties(split(NEW, "horizontal", 3)), model.predict(NEW))
    assert restored.disclosures_ == model.disclosures_
    assert restored.traffic_ == model.traffic_
    with pytest.raises(InputError, match="fit it again"):
        restored.shares()


def test_a_pickled_estimator_with_shared_centres_says_that_they_are_gone(models):
    restored = pickle.loads(pickle.dumps(models["horizontal", "shared"]))  # noqa: S301
    with pytest.raises(InputError, match=r"not kept.*fit it again"):
        restored.predict_parties(split(NEW, "horizontal", 3))


def test_nothing_of_the_shares_is_in_the_pickle(models):
    model = models["horizontal", "shared"]
    raw = pickle.dumps(model)
    for kept in model.shares():
        for parts in kept.values():
            assert not [name for name, part in parts.items() if part.tobytes() in raw]


@pytest.mark.parametrize("centers", ["revealed", "shared"])
@pytest.mark.parametrize("partition", PARTITIONS)
def test_shares_add_up_to_one_hot_labels_and_centres(models, partition, centers):
    model = models[partition, centers]
    assert len(model.shares()) == 3
    np.testing.assert_array_equal(added_up(model, "labels"), np.eye(3, dtype=np.int64)[model.labels_])
    np.testing.assert_allclose(
        model._encoding.decode(added_up(model, "centers")), models[partition, "revealed"].cluster_centers_
    )


def test_no_two_of_three_parties_can_add_up_labels():
    model = SecureKMeans(**QUICKLY, protocol="securenn", n_parties=3).fit(X)
    one_hot = added_up(model, "labels")
    for kept in model.shares():
        assert (one_hot - kept["labels"]["words"].view(np.int64) != one_hot).all()


def test_starting_rows_are_distinct_and_public():
    options = {"init": "random", "random_state": 3, "counts": "revealed", "max_iter": 1}
    single, several = SecureKMeans(5, **options).fit(X), SecureKMeans(5, **options, n_init=3).fit(X)
    assert single.init_rows_.shape == (5,)
    assert several.init_rows_.shape == (3, 5)
    for rows in (single.init_rows_, *several.init_rows_):
        assert len(set(rows)) == 5
        assert set(rows) <= set(range(len(X)))
    np.testing.assert_array_equal(several.init_rows_[0], single.init_rows_)
    assert len({tuple(rows) for rows in several.init_rows_}) == 3


def test_rows_that_are_drawn_in_secret_are_nowhere(model):
    assert not hasattr(model, "init_rows_")
    assert "start rows" not in {entry.what for entry in model.disclosures_}


def test_given_centres_have_no_starting_rows():
    assert not hasattr(SecureKMeans(2, init=X[:2], counts="revealed", max_iter=1).fit(X), "init_rows_")


def test_the_same_random_state_gives_the_same_result_and_another_another(model):
    again = SecureKMeans(**QUICKLY).fit(X)
    np.testing.assert_array_equal(again.cluster_centers_, model.cluster_centers_)
    options = {**QUICKLY, "init": "random", "max_iter": 1}
    one, same, other = (SecureKMeans(**{**options, "random_state": seed}).fit(X) for seed in (0, 0, 1))
    np.testing.assert_array_equal(same.init_rows_, one.init_rows_)
    assert set(other.init_rows_) != set(one.init_rows_)


def test_restarts_are_no_worse_than_any_of_them():
    several = SecureKMeans(**QUICKLY, init="random", n_init=4).fit(X)
    singles = [SecureKMeans(3, init=X[rows], counts="revealed").fit(X).inertia_ for rows in several.init_rows_]
    assert several.inertia_ <= min(singles)


def test_revealed_counts_are_those_of_the_final_labels(model):
    np.testing.assert_array_equal(model.counts_, np.bincount(model.labels_, minlength=3))


# -- traffic and talk ------------------------------------------------------------------------------------


def test_traffic_adds_up():
    model = SecureKMeans(**QUICKLY, init="random", protocol="securenn").fit(X)
    traffic = model.traffic_
    assert set(traffic.bytes_sent) == {"P0", "P1", "P2"}
    assert sum(traffic.bytes_sent.values()) >= HEADER_BYTES * traffic.messages > 0
    assert 0 < traffic.rounds <= traffic.rounds_with_dealing
    assert 0 < traffic.rounds_per_iteration <= traffic.rounds_with_dealing_per_iteration
    labelling = traffic.by_protocol["LabelSamples"]
    assert labelling.calls == model.n_iter_ + 1
    assert traffic.by_protocol["MatDist"].calls == labelling.calls + 1  # and for the silhouette
    for tally in traffic.by_protocol.values():
        assert 0 < tally.messages <= traffic.messages
        assert 0 < tally.bytes_sent <= sum(traffic.bytes_sent.values())
        assert 0 < tally.rounds <= tally.rounds_with_dealing <= traffic.rounds_with_dealing


def test_traffic_does_not_depend_on_the_values():
    """Message sizes and rounds follow from shapes and the number of iterations alone."""
    options = {"counts": "revealed", "tol": 0, "max_iter": 2, "bounds": [(-1, 1)] * 4}
    one, other = (SecureKMeans(3, init=x[:3], **options).fit(x).traffic_ for x in (X, X[::-1] ** 3))
    assert one == other


def test_verbose_says_how_it_went(capsys):
    quiet = SecureKMeans(2, random_state=0, counts="revealed", max_iter=1).fit(X)
    assert capsys.readouterr() == ("", "")
    quiet.set_params(verbose=1).fit(X)
    said = capsys.readouterr().out
    for word in ("1 iterations", "inertia", f"{quiet.traffic_.rounds} rounds", "bytes"):
        assert word in said
