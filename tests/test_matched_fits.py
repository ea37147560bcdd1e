"""`SecureKMeans(matching=)`: rows of data frames that belong together by their index."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans

from coterie import SecureKMeans
from coterie.data import matched
from coterie.errors import InputError
from coterie.parameters import prepare_fit
from coterie.runtime.oracle import run_oracle

RANDOM = np.random.RandomState(4)
PEOPLE = np.concatenate([RANDOM.normal(middle, 1.0, (40, 4)) for middle in (0.0, 9.0, 18.0)])
RANDOM.shuffle(PEOPLE)
IDS = [f"patient {i}" for i in range(len(PEOPLE))]
TABLE = pd.DataFrame(PEOPLE, index=IDS, columns=["age", "bmi", "pulse", "income"])
FIXED = {"partition": "vertical", "random_state": 0, "bounds": [(-20, 40)] * 4}
PRIVATE = {"matching": "private", "least_cluster_size": 4, "scale": "standard", "n_init": 3, "max_iter": 8}


def blocks_of(parties, share, seed=0):
    """Columns of overlapping rows, in an order of each party's own; and the rows that all hold."""
    random = np.random.RandomState(seed)
    chosen = random.permutation(len(TABLE))
    common, rest = chosen[:60][: round(share * 60)], chosen[60:]
    parts = np.array_split(rest, parties)
    held = [random.permutation(np.concatenate([common, part])) for part in parts]
    columns = [list(own) for own in np.array_split(TABLE.columns, parties)]
    return [TABLE.iloc[rows][own] for rows, own in zip(held, columns, strict=True)], sorted(IDS[i] for i in common)


@pytest.mark.parametrize("parties", [2, 3])
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_shared_rows_are_those_of_a_join(parties, share):
    blocks, common = blocks_of(parties, share)
    model = SecureKMeans(3, matching="shared", n_init=3, **FIXED).fit_parties(blocks)
    joined = TABLE.loc[common]
    assert model.ids_.tolist() == common
    straight = SecureKMeans(3, n_init=3, **FIXED).fit_parties([joined[block.columns] for block in blocks])
    np.testing.assert_array_equal(model.labels_, straight.labels_)
    np.testing.assert_array_equal(model.cluster_centers_, straight.cluster_centers_)
    beside = KMeans(3, init=model.cluster_centers_, n_init=1).fit(joined.to_numpy())
    np.testing.assert_array_equal(model.labels_, beside.labels_)
    (entry,) = (entry for entry in model.disclosures_ if entry.what == "matching ids")
    assert set(entry.to) == {f"P{j}" for j in range(parties + 1)}


@pytest.mark.parametrize("protocol", ["onetime", "securenn"])
@pytest.mark.parametrize("parties", [2, 3])
def test_private_rows_are_those_of_a_join_that_nobody_knows(monkeypatch, protocol, parties):
    """Bit for bit the oracle's; near what scikit-learn makes of the joined rows, as near as centres are rounded."""
    found, genuine = [], matched.place
    monkeypatch.setattr(matched, "place", lambda lists, words: found.append(genuine(lists, words)) or found[-1])
    kept = []
    monkeypatch.setattr("coterie.estimator.prepare_fit", lambda *given: kept.append(prepare_fit(*given)) or kept[-1])
    blocks, common = blocks_of(parties, 1.0)
    model = SecureKMeans(3, protocol=protocol, **{**FIXED, **PRIVATE}).fit_parties(blocks)
    ((_, members),), (prepared,) = found, kept
    assert members.sum() == len(common)
    table = np.concatenate(prepared.blocks, axis=1)
    expected = run_oracle(prepared.task, table, members.astype(np.int64))
    np.testing.assert_array_equal(model.cluster_centers_, prepared.task.encoding.decode(expected.centers))
    assert model.inertia_ == expected.inertia
    assert not hasattr(model, "labels_")
    assert not hasattr(model, "ids_")
    assert {entry.what for entry in model.disclosures_} == {
        "tags of ids", "suppression bits", "centers", "inertia",
    }  # fmt: skip
    joined = TABLE.loc[common]
    beside = KMeans(3, init=model.cluster_centers_, n_init=1).fit(joined.to_numpy())
    step = np.concatenate([block.std(ddof=0) for block in blocks]) / 2
    assert (np.abs(beside.cluster_centers_ - model.cluster_centers_) < step).all()


def test_too_few_private_rows_leave_everything_closed():
    for share in (0.0, 1 / 60):
        blocks, _ = blocks_of(2, share)
        model = SecureKMeans(3, **{**FIXED, **PRIVATE}).fit_parties(blocks)
        assert model.suppressed_.all()
        assert np.isnan(model.cluster_centers_).all()


def test_rows_without_values_have_no_match():
    blocks, common = blocks_of(2, 1.0)
    blocks[0].loc[common[0], "age"] = np.nan
    options = {**FIXED, "bounds": dict.fromkeys(TABLE, (-20, 40))}
    model = SecureKMeans(3, matching="shared", missing="drop", **options).fit_parties(blocks)
    assert model.ids_.tolist() == common[1:]
    assert len(model.labels_) == len(common) - 1


@pytest.mark.parametrize(
    ("options", "change", "said"),
    [
        ({"matching": "some"}, None, "matching='some' is not known"),
        ({"matching": "shared", "partition": "horizontal"}, None, 'partition="vertical"'),
        ({"matching": "shared"}, lambda one: one.to_numpy(), "party P1: rows are matched by the index of data frames"),
        ({"matching": "shared"}, lambda one: pd.concat([one, one[:2]]), "party P1: the index of 2 rows is that of"),
        ({"matching": "shared"}, lambda one: one.rename({one.index[0]: " "}), "party P1: the index of 1 rows is empty"),
        ({"matching": "shared"}, lambda one: one.add_suffix("x", axis=0), "no label is in the index of all"),
        ({**PRIVATE, "scale": None}, None, "needs a resolution of column 'age'"),
        ({**PRIVATE, "centers": "shared"}, None, 'needs centers="revealed"'),
        ({**PRIVATE, "least_cluster_size": 1}, None, "least cluster size of at least 2"),
        ({**PRIVATE, "n_clusters": (2, 3)}, None, "private matching cannot go with several numbers"),
        ({**PRIVATE, "init": "random"}, None, 'private matching cannot go with init="random"'),
        ({**PRIVATE, "sizes": "rounded"}, None, "private matching cannot go with sizes"),
    ],
)
def test_what_cannot_be_matched(options, change, said):
    blocks, _ = blocks_of(2, 1.0)
    if change is not None:
        blocks[0] = change(blocks[0])
    with pytest.raises(InputError, match=said):
        SecureKMeans(**{"n_clusters": 3, **FIXED, **options}).fit_parties(blocks)


def test_what_matched_rows_are_not_for():
    blocks, _ = blocks_of(2, 1.0)
    with pytest.raises(InputError, match='matching="shared" is for fit_parties'):
        SecureKMeans(3, matching="shared", **FIXED).fit(TABLE)
    with pytest.raises(InputError, match="sample_weight cannot go with"):
        SecureKMeans(3, matching="shared", **FIXED).fit_parties(blocks, sample_weight=[np.ones(80), None])
    model = SecureKMeans(3, **{**FIXED, **PRIVATE}).fit_parties(blocks)
    with pytest.raises(InputError, match="no rows are labelled"):
        model.predict_parties(blocks)
