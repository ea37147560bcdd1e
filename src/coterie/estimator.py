"""SecureKMeans: the scikit-learn face of Coterie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from coterie.clustering import QUALITY, Outcome, put_together
from coterie.clustering.nearest import nearest_open
from coterie.data import Blocks, gather, split
from coterie.errors import InputError, ProtocolError
from coterie.notices import say_result, warn_of_one_column, warn_of_result
from coterie.parameters import check_choices, check_parameters, check_whole_number, name_parties, prepare_fit
from coterie.prediction import check_like_the_fit, prediction_jobs
from coterie.protocols import FAMILIES
from coterie.runtime.job import Job, Kept, Report, do
from coterie.sharing import Disclosure

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
    protocol : {"onetime", "securenn"}, default="onetime"
        The protocol family. "onetime": the helper only ever sends, and it is fast. "securenn": the paper's.
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
        Says what a fit came to; with `transport="memory"`, iteration by iteration.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features), unless `centers="shared"`
    labels_ : array of shape (n_samples,)
        Labels for the final centres.
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

    def fit(self, X: Any, y: Any = None) -> SecureKMeans:  # noqa: ARG002
        """Cluster X, which is split over `n_parties` parties first."""
        check_parameters(self)
        x = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2, ensure_min_features=1)
        parties = check_whole_number("n_parties", self.n_parties, 2)
        blocks = split(x, self.partition, parties)  # type: ignore[arg-type]
        names = [str(name) for name in getattr(self, "feature_names_in_", [])] or None
        init = (
            self.init(x, check_choices(self.n_clusters)[-1], check_random_state(self.random_state))
            if callable(self.init)
            else None
        )
        return self._fit(gather(blocks, self.partition, name_parties(parties)), names, init, x.dtype)  # type: ignore[arg-type]

    def fit_parties(self, blocks: Sequence[Any], y: Any = None) -> SecureKMeans:  # noqa: ARG002
        """Cluster the table of which each party holds a block.

        Horizontal: rows with the same columns. Vertical: columns of the same rows, in one order. Mixed:
        arrays of the whole table's shape with NaN for "not mine"; every cell is held by exactly one party.
        """
        check_parameters(self)
        table = gather(list(blocks), self.partition, name_parties(len(blocks)))  # type: ignore[arg-type]
        self.n_features_in_ = table.layout.d
        if all(hasattr(block, "columns") for block in blocks):
            self.feature_names_in_ = np.array(table.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self._fit(table, None)

    def _fit(self, table: Blocks, names: list[str] | None, init: Any = None, dtype: Any = np.float64) -> SecureKMeans:
        task, encoded, disclosed = prepare_fit(self, table, names, init)
        warn_of_one_column(self, table, task.encoding.names)
        jobs = [Job(task), *(Job(task, block=block) for block in encoded)]
        reports = self._run(jobs)
        outcomes = [report.outcome for report in reports.values()]
        whole = put_together(task, outcomes)
        assert whole.labels is not None
        assert whole.centers is not None
        assert whole.traffic is not None
        self._metric, self._weights, self._rows = task.metric, whole.scales, task.layout.n
        self._encoding, self._kept = task.encoding, {rank: report.kept for rank, report in reports.items()}
        self._columns, self._parties = task.layout.columns, len(table.blocks)
        self.bounds_ = np.column_stack([task.encoding.low, task.encoding.high])
        self.labels_ = whole.labels.astype(np.int32)
        for optional in (
            "cluster_centers_",
            "_whole_centers",
            "counts_",
            "init_rows_",
            "suppressed_",
            "sizes_",
            "scales_",
            "capped_",
        ):
            if hasattr(self, optional):
                delattr(self, optional)
        if self.centers == "revealed":
            self._whole_centers = whole.centers
            self.cluster_centers_ = task.encoding.decode(self._whole_centers).astype(dtype, copy=False)
        self.n_clusters_ = whole.chosen or task.clusters
        self.k_measures_ = whole.k_measures
        self._closed = np.zeros(self.n_clusters_, np.bool_)
        if whole.suppressed is not None:
            self.suppressed_ = self._closed = whole.suppressed
            if self.centers == "revealed":
                self.cluster_centers_[self._closed] = np.nan
        if whole.sizes is not None:
            self.sizes_ = whole.sizes
        if whole.capped is not None:
            self.capped_ = whole.capped
        if whole.scales is not None:
            assert task.metric is not None
            factors = self._factors() / task.metric.relative_factors(task.layout.d)
            self.scales_ = np.where(factors > 0, 1 / np.sqrt(np.where(factors > 0, factors, 1.0)), 0.0)
        if whole.counts is not None:
            self.counts_ = whole.counts
        if whole.start_rows:
            self.init_rows_ = np.array(whole.start_rows[0] if len(whole.start_rows) == 1 else whole.start_rows)
        opened = self.n_clusters_ - int(self._closed.sum())
        told = (whole.inertia, whole.silhouette, whole.calinski_harabasz(task.layout.n, opened))
        self.inertia_, self.silhouette_, self.calinski_harabasz_ = (math.nan if v is None else v for v in told)
        self.n_iter_ = whole.n_iter
        self._n_features_out = self.n_clusters_
        self.disclosures_ = disclosed + _agreed_log(outcomes)
        self.traffic_ = whole.traffic
        warn_of_result(self, task.encoding.names)
        if self.verbose:
            say_result(self)
        return self

    def predict(self, X: Any) -> NDArray[np.int32]:
        """The closest centre of each row, computed here, in the fixed point of the fit."""
        return self._closest(self._rows_for_centers(X))

    def transform(self, X: Any) -> Floats:
        """Distances of each row to each centre, computed here."""
        x, factors = self._rows_for_centers(X), self._factors()
        return np.sqrt(np.stack([(factors * (x - c) ** 2).sum(axis=1) for c in self.cluster_centers_], axis=1))

    def _factors(self) -> Floats:
        """What squared differences in data units are multiplied with, column by column."""
        factors: Floats = 1 / self._encoding.unit**2
        if self._metric is None or self._weights is None:
            return factors
        scale = self._metric.scale(self._rows, int(self._encoding.half.max()))
        return np.asarray(factors * np.ldexp(self._weights * float(self._rows), 2 * self._encoding.f - scale))

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Minus the inertia of the rows."""
        distances = self.transform(X)
        return -float((distances[np.arange(len(distances)), self.predict(X)] ** 2).sum())

    def fit_transform(self, X: Any, y: Any = None) -> Floats:
        """Fit, then the distances of X's rows to the centres."""
        return self.fit(X, y).transform(X)

    def predict_parties(self, blocks: Sequence[Any]) -> NDArray[np.int32]:
        """Label new rows that lie like the data, by the secure protocol; blocks may have no rows.

        Needs as many parties as the fit where centres are shared or columns are. (Where every party knows centres and
        scales and holds whole rows, each labels its own at home.) Returns the labels of all rows, of which each party
        learns its own; `traffic_` and `disclosures_` stay those of the fit.
        """
        check_is_fitted(self)
        table = gather(list(blocks), self.partition, name_parties(len(blocks)), empty_blocks=True)  # type: ignore[arg-type]
        check_like_the_fit(self, table, blocks)
        if table.layout.n == 0:
            return np.empty(0, np.int32)
        if self._metric is not None and self._metric.inside:
            found = [self.predict(block) for block in table.blocks if len(block)]
            return np.concatenate(found)
        jobs = prediction_jobs(self, table)
        whole = put_together(jobs[0].task, [report.outcome for report in self._run(jobs).values()])
        assert whole.labels is not None
        return whole.labels.astype(np.int32)

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

    # -- the parts of a fit ------------------------------------------------------------------------------

    def _run(self, jobs: Sequence[Job]) -> dict[int, Report]:
        """Do the jobs, by rank; the reports by rank. At rank 0 only if this family has somebody there."""
        world = FAMILIES[self.protocol].world(name_parties(len(jobs) - 1))
        if self.transport == "tls":
            from coterie.runtime.processes import run_processes

            return dict(zip(world.ranks, run_processes(world, jobs), strict=True))
        from coterie.runtime.threads import run_threads

        said = {world.owners[0]: print} if self.verbose else {}
        reports = run_threads(world, lambda me: do(me, jobs[me.rank], said.get(me.rank)), lanes=jobs[0].task.lanes)
        return dict(zip(world.ranks, reports, strict=True))

    def _rows_for_centers(self, X: Any) -> Floats:
        check_is_fitted(self)
        if not hasattr(self, "cluster_centers_"):
            raise InputError('the centres are shared (centers="shared"); use predict_parties')
        if self._metric is not None and self._weights is None and not self._closed.all():
            raise InputError('the scales are secret (scales="secret"); use predict_parties')
        x: Floats = validate_data(self, X, dtype=np.float64, reset=False)
        return x

    def _closest(self, x: Floats) -> NDArray[np.int32]:
        """Labels as the protocol gives them: ties to the lowest index, on rows rounded to fixed point."""
        encoding = self._encoding
        rows = np.rint((x - encoding.shift) / encoding.unit * 2.0**encoding.f)
        return nearest_open(rows, self._whole_centers, self._closed, self._weights).astype(np.int32)


def _agreed_log(outcomes: Sequence[Outcome]) -> list[Disclosure]:
    """The disclosure log, which every role must have written alike."""
    log = outcomes[0].disclosures
    for outcome in outcomes[1:]:
        if [msgspec.to_builtins(e) for e in outcome.disclosures] != [msgspec.to_builtins(e) for e in log]:
            raise ProtocolError("the roles wrote different disclosure logs")
    return log
