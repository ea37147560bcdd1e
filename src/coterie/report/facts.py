"""Everything that one party may know of its run, and that its report shows."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie import __version__
from coterie.ideal import Roles
from coterie.sharing import Disclosure
from coterie.transport import Lap, Traffic

if TYPE_CHECKING:
    from coterie.clustering import Layout, Outcome, Task

__all__ = [
    "OWNERS",
    "ColumnFacts",
    "Facts",
    "Participant",
    "RoleName",
    "describe_choices",
    "describe_role",
    "facts_of",
    "facts_of_all",
    "rows_per_cluster",
    "versions",
]

#: What somebody is in a run. Where there is a helper, all data parties hold shares and compute.
RoleName = Literal["data party", "helper", "data party and server", "server"]
OWNERS: tuple[RoleName, ...] = ("data party", "data party and server")
SERVERS: tuple[RoleName, ...] = ("server", "data party and server")
#: What can be told of how good clusters are.
QUALITY = ("inertia", "silhouette", "calinski-harabasz")


class Participant(msgspec.Struct, frozen=True):
    """One that takes part, and how it is known to be that."""

    name: str
    role: RoleName
    address: str | None = None
    fingerprint: str | None = None

    @property
    def owns(self) -> bool:
        return self.role in OWNERS

    @property
    def serves(self) -> bool:
        """Is it named as a server?"""
        return self.role in SERVERS


def describe_role(roles: Roles, name: str) -> RoleName:
    """What a participant is, as people read it."""
    if name == roles.dealer:
        return "helper"
    if name not in roles.owners:
        return "server"
    return "data party and server" if roles.dealer is None and name in roles.servers else "data party"


class ColumnFacts(msgspec.Struct, frozen=True):
    """A column of the whole table: its public range (NaN where this party does not know one); where columns are held
    by one party each, by whom; where opened centres are rounded, to multiples of what (from the middle of the range);
    what its squared differences count for, if not 1; where columns are standardised, its standard deviation, as far as
    this party knows it, and whether it is capped: varies too little to weigh as much as it should. `date`: values are
    days since 1970-01-01."""

    name: str
    low: float
    high: float
    holder: str | None = None
    step: float | None = None
    weight: float = 1.0
    deviation: float | None = None
    capped: bool = False
    date: bool = False


class Facts(msgspec.Struct, kw_only=True):
    """What one party knows at the end. Nothing of it is another party's secret.

    `options` holds what was agreed on, in words, by the names of the estimator's arguments ("partition", "protocol",
    "counts", "labels" and "centers" are always there). `least`, `coalition` and the options "contribution" and "sizes"
    are the output rules. `centers` (k x `center_columns`) are in data units, None where
    this party learns none; a suppressed cluster's row is not shown, whatever it holds. `sizes` are None, in all or for
    a cluster, where they were not disclosed; `own_rows` counts this party's rows per cluster, from its labels.
    `range_name` is what the columns' ranges are called. `own_table`: what was done about missing values of this party's
    rows and such, in sentences.
    `scatter` is the inertia of a single cluster, where it was opened. `seconds` are by phase; `laps` are of the
    iterations of all starts, since the run was begun or taken up again; `waited` is how long, while it computed, it
    only waited for messages. `traffic` is what this party counted. `forecast` and `comparison` are pairs of words.
    """

    title: str
    study: str | None = None
    study_hash: str | None = None
    party: str
    role: RoleName = "data party"
    when: str = ""
    participants: list[Participant]
    options: dict[str, str]
    columns: list[ColumnFacts]
    range_name: str = "agreed range"
    rows: dict[str, int]
    n: int
    k: int
    center_columns: list[str] = []
    centers: list[list[float]] | None = None
    suppressed: list[bool] = []
    sizes: list[int | None] | None = None
    own_rows: list[int] | None = None
    least: int = 1
    coalition: int = 1
    inertia: float | None = None
    scatter: float | None = None
    silhouette: float | None = None
    calinski_harabasz: float | None = None
    k_measures: dict[int, float] = {}
    n_iter: int
    max_iter: int
    tol: float
    seconds: dict[str, float] = {}
    laps: list[Lap] = []
    waited: float | None = None
    memory: int | None = None
    traffic: Traffic
    disclosures: list[Disclosure]
    versions: dict[str, str] = {}
    hashes: dict[str, str] = {}
    own_table: list[str] = []
    forecast: dict[str, str] | None = None
    comparison: dict[str, str] | None = None

    @property
    def d(self) -> int:
        return len(self.columns)

    @property
    def p(self) -> int:
        return len(self.parties)

    @property
    def parties(self) -> list[str]:
        return [one.name for one in self.participants if one.owns]

    @property
    def roles(self) -> Roles:
        """Who owns, serves and deals."""
        owners = tuple(self.parties)
        servers = tuple(one.name for one in self.participants if one.serves)
        helper = next((one.name for one in self.participants if one.role == "helper"), None)
        return Roles(owners, servers or owners, helper)

    @property
    def by_tolerance(self) -> bool:
        """Did the run stop because the centres no longer moved? (At the last iteration nobody asks.)"""
        return self.n_iter < self.max_iter

    @property
    def quality(self) -> list[str]:
        """What was told of how good the clusters are."""
        return [one for one in QUALITY if one in self.options.get("quality", ", ".join(QUALITY)).split(", ")]

    def closed(self, cluster: int) -> bool:
        """Does the cluster stay closed?"""
        return bool(self.suppressed) and self.suppressed[cluster]

    def __repr__(self) -> str:
        return f"<Facts of {self.party}>"  # never a result


def facts_of(
    task: Task,
    outcome: Outcome,
    rank: int,
    participants: Sequence[Participant],
    options: dict[str, str] | None = None,
    ranges: Sequence[tuple[float, float]] | None = None,
    deviations: dict[str, float] | None = None,
    dates: Collection[str] = (),
    **more: Any,
) -> Facts:
    """The facts of the one at this rank (0: who owns no data; participants stand in the order of their ranks).

    `options` are added to those that the task holds. `ranges` of columns, if not those of the encoding. `deviations`:
    of columns that were standardised at home, by name. `dates`: the names of columns of dates. `more` are further
    fields, `title` among them.
    """
    layout = task.layout
    owners = [one for one in participants if one.owns]
    me = owners[rank - 1] if rank else participants[0]
    spread = _deviations(task, outcome) if deviations is None else deviations
    columns = _list_columns(task, outcome, owners, ranges, spread, dates)
    facts = Facts(
        party=me.name,
        role=me.role,
        participants=list(participants),
        options=_agreed_options(task) | (options or {}),
        columns=columns,
        rows={one.name: int(layout.own_rows(j).sum()) for j, one in enumerate(owners, 1)},
        n=layout.n,
        k=task.clusters,
        least=task.least,
        coalition=task.coalition,
        n_iter=outcome.n_iter,
        max_iter=task.max_iter,
        tol=task.tol,
        inertia=outcome.inertia,
        scatter=outcome.scatter,
        silhouette=outcome.silhouette,
        calinski_harabasz=outcome.calinski_harabasz(layout.n, outcome.open_clusters(task.clusters)),
        k_measures=outcome.k_measures,
        traffic=outcome.traffic or Traffic(),
        disclosures=outcome.disclosures,
        **more,
    )
    _add_clusters(facts, task, outcome)
    return facts


def facts_of_all(task: Task, whole: Outcome, participants: Sequence[Participant], *args: Any, **more: Any) -> Facts:
    """What all parties together know, where they are one user; arguments as of `facts_of`. Everybody's rows are not
    anybody's own."""
    facts = facts_of(task, whole, 1, participants, *args, **more)
    facts.party, facts.own_rows = "all parties together", None
    return facts


def describe_choices(choices: Sequence[int], choose: str, measures: str) -> dict[str, str]:
    """The numbers of clusters that one was chosen from, and how; nothing, where there was one."""
    if len(choices) < 2:
        return {}
    return {"chosen": ", ".join(map(str, choices)), "choose": choose, "measures": measures}


def _list_columns(
    task: Task,
    outcome: Outcome,
    owners: Sequence[Participant],
    ranges: Sequence[tuple[float, float]] | None,
    spread: dict[str, float],
    dates: Collection[str],
) -> list[ColumnFacts]:
    layout, encoding, weights = task.layout, task.encoding, _column_weights(task)
    found = ranges or list(zip(encoding.low, encoding.high, strict=True))
    capped = np.zeros(layout.d, np.bool_) if outcome.capped is None else outcome.capped
    return [
        ColumnFacts(
            name,
            float(low),
            float(high),
            _holder(layout, l, owners),
            _step(task, l),
            weights[l],
            spread.get(name),
            bool(capped[l]),
            name in dates,
        )
        for l, (name, (low, high)) in enumerate(zip(encoding.names, found, strict=True))
    ]


def _add_clusters(facts: Facts, task: Task, outcome: Outcome) -> None:
    """What this role has learnt of each cluster: whether it is closed, its centre, its size, own rows in it."""
    encoding = task.encoding
    if outcome.suppressed is not None:
        facts.suppressed = [bool(flag) for flag in outcome.suppressed]
    if outcome.centers is not None:
        facts.center_columns = [encoding.names[l] for l in outcome.center_columns]
        facts.centers = encoding.decode(outcome.centers, outcome.center_columns).tolist()
    if outcome.labels is not None and outcome.rows is not None:
        facts.own_rows = rows_per_cluster(outcome.labels, task.clusters)
        if outcome.rows.all():  # whoever learns all labels learns the sizes
            facts.sizes = [None if facts.closed(j) else count for j, count in enumerate(facts.own_rows)]
    if outcome.sizes is not None:
        facts.sizes = [None if facts.closed(j) else int(size) for j, size in enumerate(outcome.sizes)]
    if outcome.counts is not None:
        facts.sizes = [int(count) for count in outcome.counts]


def _agreed_options(task: Task) -> dict[str, str]:
    """What the task holds, in words, by the names of the estimator's arguments."""
    partition = task.layout.partition
    agreed = {
        "partition": partition,
        "protocol": task.protocol,
        "counts": task.counts,
        "labels": task.labels,
        "centers": task.centers,
        "sizes": task.sizes,
        "scale": _scale(task),
        **({} if task.metric is None else {"scales": task.scales if task.centers == "revealed" else "secret"}),
        "quality": ", ".join(task.quality) or "none",
        "init": "k-means++" if task.seeds else "random" if task.starts else "given",
        "n_init": str(task.restarts),
        "max_iter": str(task.max_iter),
        "tol": f"{task.tol:g}",
        "fractional_bits": str(task.encoding.f),
    }
    if task.least > 1:
        agreed["least_cluster_size"] = str(task.least)
        if partition != "vertical":
            agreed |= {"contribution": task.contribution, "coalition": str(task.coalition)}
    if task.seeds:
        agreed["seeds"] = ", ".join(seed.hex() for seed in task.seeds)
    if task.starts:
        agreed["start"] = "; ".join(", ".join(map(str, start)) for start in task.starts)
    return agreed


def _scale(task: Task) -> str:
    standard = task.metric is not None or task.encoding.reach != 1.0
    return "standard" if standard else "bounds" if task.encoding.scaled else "none"


def _column_weights(task: Task) -> list[float]:
    """What columns count for, relative to the largest."""
    factors = () if task.metric is None else task.metric.factors
    whole = [factor / max(factors) for factor in factors]
    others = list(task.encoding.weights) if task.metric is None else []
    return whole or others or [1.0] * task.layout.d


def _deviations(task: Task, outcome: Outcome) -> dict[str, float]:
    """The standard deviations that weights of columns stand for, where these were opened; none of a capped column, or
    of a category, whose weight is not that of its spread."""
    metric, encoding, weights = task.metric, task.encoding, outcome.scales
    if metric is None or weights is None:
        return {}
    shift = metric.scale(task.layout.n, int(encoding.half.max())) - 2 * encoding.f
    found = {}
    for l, name in enumerate(encoding.names):
        constant = bool(metric.constants) and metric.constants[l] > 0
        if not constant and (outcome.capped is None or not outcome.capped[l]):
            factor = metric.factors[l] / max(metric.factors) if metric.factors else 1.0
            variance = math.ldexp(factor / weights[l], shift) / task.layout.n if weights[l] else 0.0
            found[name] = float(encoding.unit[l]) * math.sqrt(variance)
    return found


def _holder(layout: Layout, column: int, owners: Sequence[Participant]) -> str | None:
    return next((owners[j].name for j, held in enumerate(layout.columns) if column in held), None)


def _step(task: Task, column: int) -> float | None:
    """To multiples of what opened centres are rounded, in data units."""
    shift = task.grid[column] if task.grid else 0
    return float(task.encoding.unit[column]) * 2.0 ** (shift - task.encoding.f) if shift else None


def rows_per_cluster(labels: NDArray[Any], clusters: int) -> list[int]:
    """How many of these labels each cluster has; -1, where all clusters are closed, is left out."""
    counts: list[int] = np.bincount(labels[labels >= 0], minlength=clusters).tolist()
    return counts


def versions(*more: str) -> dict[str, str]:
    """The versions of what a run depends on, by distribution; `more` are further ones."""
    import platform
    import ssl
    from importlib.metadata import version

    found = {"coterie": __version__, "Python": platform.python_version()}
    found |= {name: version(name) for name in ("numpy", "numba", "cryptography", "msgspec", *more)}
    return found | {"OpenSSL": ssl.OPENSSL_VERSION.split()[1], "system": f"{platform.system()} {platform.machine()}"}
