"""A fit beside the plaintext oracle, and fits whose randomness is injected."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from coterie import SecureKMeans
from coterie.clustering import Outcome, Task
from coterie.data import gather, split
from coterie.parameters import prepare_fit
from coterie.protocols.plaintext import whole
from coterie.runtime.oracle import run_oracle
from tests.support import SeededEntropy

#: How the data lie, and what the parties may learn: SHK-means with both divisions everywhere, and SVK-means.
WAYS = [
    *({"partition": p, "counts": c} for p in ("horizontal", "vertical", "mixed") for c in ("secret", "revealed")),
    {"partition": "vertical", "labels": "revealed"},
]


def way_name(way: dict[str, str]) -> str:
    return "-".join(way.values()) if "counts" in way else "SVK-means"


@pytest.fixture(autouse=True, scope="module")
def seeded_runs() -> Iterator[None]:
    """Runs in memory draw the same randomness every time."""

    def entropy() -> SeededEntropy:
        return SeededEntropy(0, int(threading.current_thread().name.removeprefix("coterie-")))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("coterie.runtime.threads.SystemEntropy", entropy)
        yield


def can_be_split(x: NDArray[np.float64], partition: str, parties: int) -> bool:
    """Whether `split` leaves every party something."""
    n, d = x.shape
    if partition != "mixed":
        return parties <= (n if partition == "horizontal" else d)
    return all(np.isfinite(block).any() for block in split(x, "mixed", parties))


def fit_blocks(model: SecureKMeans, blocks: Sequence[Any]) -> SecureKMeans:
    """Fit, with the warnings that are due and no others."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit_parties(blocks)
    due: set[type[Warning]] = set()
    if len(np.unique(model.labels_)) < model.n_clusters_:
        due.add(ConvergenceWarning)
    if _too_many_starts(model):
        due.add(RuntimeWarning)
    if model.scale is None and any(_one_column_decides(np.asarray(block)) for block in blocks):
        due.add(UserWarning)
    assert {one.category for one in caught} == due, [str(one.message) for one in caught]
    return model


def _too_many_starts(model: SecureKMeans) -> bool:
    return not isinstance(model.init, str) and model.n_init > 1


def _one_column_decides(block: NDArray[np.float64]) -> bool:
    columns = [column[np.isfinite(column)] for column in block.T if np.isfinite(column).any()]
    variances = [column.var() for column in columns]
    return len(variances) > 1 and max(variances) > 0.95 * sum(variances)


def task_and_table(model: SecureKMeans, blocks: Sequence[Any]) -> tuple[Task, NDArray[np.int64]]:
    """What the parties agree on, and the whole table, encoded."""
    table = gather(blocks, model.partition, [f"P{j + 1}" for j in range(len(blocks))])
    with warnings.catch_warnings():
        if _too_many_starts(model):
            warnings.simplefilter("ignore", RuntimeWarning)
        task, encoded, *_ = prepare_fit(model, table)
    return task, table.whole(lambda j: encoded[j])


def added_up(model: SecureKMeans, secret: str) -> NDArray[np.int64]:
    """The value behind the shares that the parties keep: words that add up, or bits. Of replicated shares the first."""
    parts = [kept[secret] for kept in model.shares()]
    name = next(one for one in ("bits", "words", "first-bits", "first") if one in parts[0])
    together = np.bitwise_xor if "bits" in name else np.add
    return np.asarray(together.reduce([part[name] for part in parts])).view(np.int64)


def assert_equals_oracle(model: SecureKMeans, blocks: Sequence[Any]) -> Outcome:
    """Bit for bit: centres, labels, iterations, quality, counts, shares. Returns the oracle's outcome."""
    task, table = task_and_table(model, blocks)
    expected = run_oracle(task, table)
    np.testing.assert_array_equal(model.labels_, expected.labels)
    assert model.n_iter_ == expected.n_iter
    np.testing.assert_array_equal(added_up(model, "centers"), whole(expected.kept["centers"]))
    np.testing.assert_array_equal(added_up(model, "labels"), whole(expected.kept["labels"]))
    if model.centers == "revealed":
        np.testing.assert_array_equal(model.cluster_centers_, task.encoding.decode(expected.centers))
    assert hasattr(model, "counts_") == (expected.counts is not None)
    if expected.counts is not None:
        np.testing.assert_array_equal(model.counts_, expected.counts)
    opened = (expected.inertia, expected.silhouette, expected.calinski_harabasz(len(table), model.n_clusters_))
    found = (model.inertia_, model.silhouette_, model.calinski_harabasz_)
    np.testing.assert_array_equal(found, [np.nan if value is None else value for value in opened])
    return expected
