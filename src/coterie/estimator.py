"""SecureKMeans: the scikit-learn face of Coterie."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from coterie.clustering import QUALITY, put_together
from coterie.clustering.nearest import nearest_open
from coterie.data import Blocks, gather, split
from coterie.data.frames import LEFT_OUT, make_recipe
from coterie.errors import InputError
from coterie.fitted import render_report, rows_for_centers, run_jobs, split_raw, spread_labels, take_result
from coterie.notices import say_result, warn_of_one_column, warn_of_result
from coterie.parameters import check_choices, check_parameters, check_whole_number, name_parties, prepare_fit
from coterie.prediction import check_like_the_fit, prediction_jobs
from coterie.reporting import Page
from coterie.row_weights import check_parties_weights, split_weights
from coterie.runtime.job import Kept

__all__ = ["SecureKMeans"]

Floats = NDArray[np.float64]


class SecureKMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """k-means over several parties' data, on secret shares.

    Every party is a thread of this process (`transport="memory"`) or a process of its own over TLS
    (`"tls"`); both run the protocol in full. What the fitted estimator holds is the union of what the
    parties may know.

    Parameters
    ----------
    n_clusters : int or several, such as range(2, 11), default=8
        k; of several the best by `choose` is opened, and of the others nothing but, with `measures="revealed"`, that.
    choose : {"calinski-harabasz", "silhouette"}, default="calinski-harabasz"
        By what the best of several numbers of clusters is chosen.
    measures : {"revealed", "secret"}, default="revealed"
        Whether what each of them comes to is opened, or nothing but which is chosen.
    partition : {"horizontal", "vertical", "mixed"}, default="horizontal"
        How the data lie: rows per party, columns per party, or a patchwork of cells.
    n_parties : int, default=2
        Over how many parties `fit(X)` splits X. `fit_parties` has one party per block.
    protocol : {"onetime", "securenn", "falcon"}, default="onetime"
        The protocol family. "onetime": the helper only ever sends, and it is fast. "securenn": the paper's. "falcon":
        three servers and no helper that deals (two parties are joined by a third server); no two of the servers may
        work together.
    counts : {"secret", "revealed"}, default="secret"
        Whether the data parties learn the clusters' sizes in every iteration.
    labels : {"private", "revealed"}, default="private"
        "private": only the holders of a row's cells learn its label, at the end. "revealed": SVK-means,
        vertical only: all data parties learn all labels in every iteration.
    centers : {"revealed", "shared"}, default="revealed"
        Whether centres are opened at the end, or each party keeps its share, for `predict_parties`.
    init : {"k-means++", "random"}, array of shape (n_clusters, n_features), or callable, default="k-means++"
        k-means++ in secret, with as many candidates for each centre as scikit-learn has: the first row's number is
        public, and nobody learns which others are drawn (with `labels="revealed"` all parties do). "random": distinct
        public random row numbers; the rows stay secret. Or centres; or, for `fit(X)` only, a function of X, n_clusters
        and a RandomState that gives them.
    n_init : int or "auto", default=1
        Restarts; inertias are compared in secret and only the winner is opened. "auto": 10 with `init="random"`, else
        1, as in scikit-learn.
    max_iter : int, default=300
    tol : float, default=1e-4
        Stop when the centres' total squared movement is at most this part of the columns' mean variance, as
        scikit-learn does; the variance stays secret.
    bounds : "auto", array of shape (n_features, 2), or dict of column name to (low, high), default="auto"
        The public range of each column. "auto" takes the data's range widened twofold, and logs that as
        a disclosure. A value outside is an error.
    missing : "error", "drop", or dict of column name to what to fill in, default="error"
        What to do about missing values. "drop", where parties hold rows, leaves such rows out: their label is -3, as
        with scikit-learn's HDBSCAN. Columns of arrays are called x0, x1, and so on.
    matching : {"equal", "shared", "private"}, default="equal"
        For `fit_parties` of data frames with columns of the same rows, which their index names (docs/matching.md):
        whether all must hold the same rows; or those that all hold are found; or nobody learns which these are. Then
        there are no labels, and output rules are needed.
    categories : dict of column name to a list of all its values, default=None
        Columns of words or codes; each becomes one column for each value, 1 or 0, exempt from scaling
        (docs/columns.md).
    distance : dict of column name to float, default=None
        How far two values of a category are apart, in distances between scaled rows, if not 1.
    scale : {None, "bounds", "standard"}, default=None
        "bounds": columns are scaled by half their public range while clustering. "standard": to a variance of 1 over
        all parties' rows, which is worked out in secret; where columns are split, each party does that at home. Centres
        come back in data units, `inertia_`, `transform` and `score` stay in scaled units.
    scales : {"revealed", "secret"}, default="revealed"
        With `scale="standard"` and revealed centres: whether the columns' standard deviations are opened at the end. If
        not, new rows are labelled by `predict_parties` only.
    column_weights : dict of column name to float, default=None
        What squared differences in a column count for, after scaling; 1 where nothing is said. They count relative to
        the largest: `inertia_`, `transform` and `score` are those of columns times the root of that.
    least_cluster_size : int, default=1
        Output rules (docs/output-rules.md): a cluster is opened only if it has at least so many rows, both when its
        centre was made and in the end. Of a closed one nothing is opened, and its rows are labelled by the nearest
        open centre (-1 if none is open). 1 switches all output rules off; studies between organisations have 10.
    contribution : {"least", "none-or-least", "off"}, default="least"
        With a least size above 1, where rows come from several parties: without any one party's rows, a cluster must
        still have that many; or none, or that many; or the rule is off.
    resolution : dict of column name to float, default=None
        With a least size above 1: the step that a column's values are multiples of, such as {"age": 1}. Opened
        centres are rounded so that they tell no cluster's size.
    sizes : {"secret", "rounded"}, default="secret"
        With a least size above 1: whether sizes of open clusters are opened, rounded to multiples of the least size.
    quality : sequence of {"inertia", "silhouette", "calinski-harabasz"}, default=all three
        What is opened at the end of how good the clusters are. "calinski-harabasz" takes the inertia, and the inertia
        that a single cluster would have; "silhouette" is simplified (distances to centres), each row's to an eighth.
    fractional_bits : "auto" or int, default="auto"
        The precision of fixed point.
    plan : "auto" or dict, default="auto"
        How the run is cut up, such as {"block_rows": 4096}.
    transport : {"memory", "tls"}, default="memory"
    random_state : int, RandomState or None, default=None
        For public choices (what draws the starting rows) only; never for the cryptographic randomness.
    verbose : int, default=0
        1: prints iterations as they pass, and what a fit came to. Nothing that is not public.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features), unless `centers="shared"`
    labels_ : array of shape (n_samples,)
        Labels for the final centres; with `matching="shared"` of the rows in `ids_`, with "private" there are none.
    ids_ : array of str, with `matching="shared"`
        Which rows all parties hold, in order.
    inertia_ : float
    n_clusters_ : int
        The number of clusters that was chosen.
    k_measures_ : dict of int to float
        What each of several numbers of clusters comes to; empty, if that is not opened.
    silhouette_, calinski_harabasz_ : float
        NaN where they are not opened, or not defined.
    n_iter_ : int
        With restarts, the most iterations that one of them took: which of them won stays secret.
    init_rows_ : array of shape (n_clusters,), or (n_init, n_clusters) with restarts
        The rows that the centres started from, where they are public: with `init="random"` or `labels="revealed"`.
    counts_ : array of shape (n_clusters,), with `counts="revealed"`
    suppressed_ : bool array of shape (n_clusters,), with a least cluster size above 1
        Which clusters stay closed; their rows of `cluster_centers_` are NaN.
    sizes_ : array of shape (n_clusters,), with `sizes="rounded"`
    scales_ : array of shape (n_features,), with `scale="standard"` where that is opened
        Standard deviations of the columns, to 12 bits; 0 for a column that does not vary.
    capped_ : bool array of shape (n_features,), with `scale="standard"`
        Columns that vary so little, for their bounds, that they weigh less than they should; use tighter bounds.
    features_ : tuple of str
        What the columns of `cluster_centers_` are: the columns or, of one with categories, "sex=f" and so on.
    bounds_ : array of shape (n_features, 2)
    traffic_ : Traffic
    disclosures_ : list of Disclosure
        Every value that was opened: `what`, `to`, `reason`, `iteration`.
    """

    def __init__(
        self,
        n_clusters: Any = 8,
        *,
        partition: str = "horizontal",
        n_parties: int = 2,
        protocol: str = "onetime",
        counts: str = "secret",
        labels: str = "private",
        centers: str = "revealed",
        init: Any = "k-means++",
        n_init: Any = 1,
        max_iter: int = 300,
        tol: float = 1e-4,
        bounds: Any = "auto",
        choose: str = "calinski-harabasz",
        measures: str = "revealed",
        matching: str = "equal",
        missing: Any = "error",
        categories: Any = None,
        distance: Any = None,
        scale: str | None = None,
        scales: str = "revealed",
        column_weights: Any = None,
        least_cluster_size: int = 1,
        contribution: str = "least",
        resolution: Any = None,
        sizes: str = "secret",
        quality: Any = QUALITY,
        fractional_bits: Any = "auto",
        plan: Any = "auto",
        transport: str = "memory",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.partition = partition
        self.n_parties = n_parties
        self.protocol = protocol
        self.counts = counts
        self.labels = labels
        self.centers = centers
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.bounds = bounds
        self.choose = choose
        self.measures = measures
        self.matching = matching
        self.missing = missing
        self.categories = categories
        self.distance = distance
        self.scale = scale
        self.scales = scales
        self.column_weights = column_weights
        self.least_cluster_size = least_cluster_size
        self.contribution = contribution
        self.resolution = resolution
        self.sizes = sizes
        self.quality = quality
        self.fractional_bits = fractional_bits
        self.plan = plan
        self.transport = transport
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> SecureKMeans:  # noqa: ARG002
        """Cluster X, which is split over `n_parties` parties first. `sample_weight` (n,): what rows count for; each
        party gives it for its own rows, or P1 for all if these are not split, and it is never opened."""
        check_parameters(self)
        if self.matching != "equal":
            raise InputError(f'matching="{self.matching}" is for fit_parties, where parties may hold different rows')
        if make_recipe(self.missing, self.categories, self.distance) is not None:
            return self._fit_declared(X, sample_weight)
        x = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2, ensure_min_features=1)
        parties = check_whole_number("n_parties", self.n_parties, 2)
        blocks = split(x, self.partition, parties)  # type: ignore[arg-type]
        names = [str(name) for name in getattr(self, "feature_names_in_", [])] or None
        init = (
            self.init(x, check_choices(self.n_clusters)[-1], check_random_state(self.random_state))
            if callable(self.init)
            else None
        )
        table = gather(blocks, self.partition, name_parties(parties))  # type: ignore[arg-type]
        rows = table.layout.rows or [table.layout.n] * parties
        row_weights = [] if sample_weight is None else split_weights(sample_weight, rows, self.partition)
        return self._fit(table, names, init, x.dtype, row_weights)

    def fit_parties(
        self,
        blocks: Sequence[Any],
        y: Any = None,  # noqa: ARG002
        sample_weight: Sequence[Any] | None = None,
        *,
        align: bool = False,
    ) -> SecureKMeans:
        """Cluster the table of which each party holds a block.

        Horizontal: rows with the same columns. Vertical: columns of the same rows, in one order. Mixed:
        arrays of the whole table's shape with NaN for "not mine"; every cell is held by exactly one party.
        Data frames of the same rows must have the same index; with `align` they are put into the first one's order.
        `sample_weight`: for each party what its rows count for; where rows are not split, one party gives it for all,
        and the others None. Never opened.
        """
        check_parameters(self)
        names, recipe = name_parties(len(blocks)), make_recipe(self.missing, self.categories, self.distance)
        if self.matching != "equal" and sample_weight is not None:
            raise InputError(f'sample_weight cannot go with matching="{self.matching}"')
        table = gather(
            list(blocks),
            self.partition,  # type: ignore[arg-type]
            names,
            align=align,
            recipe=recipe,
            matching=self.matching,
        )
        columns = list(dict.fromkeys(one.column for one in table.features)) or list(table.names)
        self.n_features_in_ = len(columns)
        if all(hasattr(block, "columns") for block in blocks):
            self.feature_names_in_ = np.array(columns, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        row_weights = [] if sample_weight is None else check_parties_weights(sample_weight, table)
        return self._fit(table, None, row_weights=row_weights)

    def _fit_declared(self, X: Any, sample_weight: Any) -> SecureKMeans:
        """Cluster X, in which not all is numbers: cut into blocks as it is."""
        if callable(self.init):
            raise InputError("a function as init is for tables of numbers; give centres")
        blocks = split_raw(X, self.partition, check_whole_number("n_parties", self.n_parties, 2))
        rows = [len(one) for one in blocks]
        weights = None if sample_weight is None else split_weights(sample_weight, rows, self.partition)
        return self.fit_parties(blocks, sample_weight=weights)

    def _fit(
        self,
        table: Blocks,
        names: list[str] | None,
        init: Any = None,
        dtype: Any = np.float64,
        row_weights: Sequence[Floats | None] = (),
    ) -> SecureKMeans:
        prepared = prepare_fit(self, table, names, init, row_weights)
        warn_of_one_column(self, table, prepared.task.encoding.names)
        began = time.perf_counter()
        reports = run_jobs(self, prepared.jobs)
        take_result(self, table, prepared, reports, time.perf_counter() - began, dtype)
        warn_of_result(self, prepared.task.encoding.names)
        if self.verbose:
            say_result(self)
        return self

    def predict(self, X: Any) -> NDArray[np.int32]:
        """The closest centre of each row, computed here, in the fixed point of the fit."""
        x, kept = rows_for_centers(self, X)
        return spread_labels(self._closest(x), (kept,))

    def transform(self, X: Any) -> Floats:
        """Distances of each row to each centre, computed here."""
        (x, kept), factors = rows_for_centers(self, X), self._factors()
        found = np.full((len(kept), self.n_clusters_), np.nan)
        found[kept] = np.sqrt(np.stack([(factors * (x - c) ** 2).sum(axis=1) for c in self.cluster_centers_], axis=1))
        return found

    def _factors(self) -> Floats:
        """What squared differences in data units are multiplied with, column by column."""
        factors: Floats = 1 / self._encoding.unit**2
        if self._metric is None or self._weights is None:
            return factors
        scale = self._metric.scale(self._rows, int(self._encoding.half.max()))
        return np.asarray(factors * np.ldexp(self._weights * float(self._rows), 2 * self._encoding.f - scale))

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> NDArray[np.int32]:
        """Fit, then the cluster of each row."""
        return self.fit(X, y, sample_weight).labels_

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:  # noqa: ARG002
        """Minus the inertia of the rows."""
        distances, labels = self.transform(X), self.predict(X)
        rows = np.flatnonzero(labels != LEFT_OUT)
        squares = distances[rows, labels[rows]] ** 2
        weights = np.ones(len(labels)) if sample_weight is None else np.asarray(sample_weight, np.float64)
        return -float(squares @ weights[rows])

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Floats:
        """Fit, then the distances of X's rows to the centres."""
        return self.fit(X, y, sample_weight).transform(X)

    def predict_parties(self, blocks: Sequence[Any]) -> NDArray[np.int32]:
        """Label new rows that lie like the data, by the secure protocol; blocks may have no rows.

        Needs as many parties as the fit where centres are shared or columns are. (Where every party knows centres and
        scales and holds whole rows, each labels its own at home.) Returns the labels of all rows, of which each party
        learns its own; `traffic_` and `disclosures_` stay those of the fit.
        """
        check_is_fitted(self)
        if self.matching == "private":
            raise InputError('with matching="private" no rows are labelled: a label would tell whether a row matches')
        recipe, names = make_recipe(self.missing, self.categories, self.distance), name_parties(len(blocks))
        table = gather(list(blocks), self.partition, names, empty_blocks=True, recipe=recipe)  # type: ignore[arg-type]
        check_like_the_fit(self, table, blocks)
        if table.layout.n == 0:
            return spread_labels(np.empty(0, np.int32), table.kept)
        if self._metric is not None and self._metric.inside:
            found = [self._closest(block) for block in table.blocks if len(block)]
            return spread_labels(np.concatenate(found), table.kept)
        jobs = prediction_jobs(self, table)
        whole = put_together(jobs[0].task, [report.outcome for report in run_jobs(self, jobs).values()])
        assert whole.labels is not None
        return spread_labels(whole.labels.astype(np.int32), table.kept)

    def report(self, path: str | os.PathLike[str] | None = None, X: Any = None) -> Page | Path:
        """What all parties together know, what was disclosed and what it took: the page, which a notebook shows (`str`
        is its HTML), or with `path` that of the file it is written to. With X, the rows of the fit, they are drawn."""
        page = Page(render_report(self, X))
        return page if path is None else page.write(path)

    def shares(self) -> list[Kept]:
        """Every party's shares of the centres and, without output rules, of the one-hot labels: to compute on.

        They are not pickled with the estimator: together they are the values themselves.
        """
        check_is_fitted(self)
        if not hasattr(self, "_kept"):
            raise InputError("shares are not kept when an estimator is pickled or copied; fit it again")
        return [kept for kept in self._kept.values() if kept]

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__().copy()
        state.pop("_kept", None)
        return state

    def _closest(self, x: Floats) -> NDArray[np.int32]:
        """Labels as the protocol gives them: ties to the lowest index, on rows rounded to fixed point."""
        encoding = self._encoding
        rows = np.rint((x - encoding.shift) / encoding.unit * 2.0**encoding.f)
        return nearest_open(rows, self._whole_centers, self._closed, self._weights).astype(np.int32)
