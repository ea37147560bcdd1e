"""What the parameters of `SecureKMeans` amount to: checked, and with data, a task and encoded blocks."""

from __future__ import annotations

import math
import numbers
import reprlib
import warnings
from collections.abc import Iterable, Mapping, Sequence, Sized
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from coterie.clustering import (
    QUALITY,
    SEED_BYTES,
    Task,
    distinct_rows,
    make_scaled,
    make_task,
    relative_weights,
    stays_inside,
)
from coterie.columns import Feature
from coterie.data import Blocks
from coterie.encoded import category_groups, encode_blocks, private_resolution, standardise_at_home
from coterie.errors import InputError
from coterie.ideal import MOST_CHOICES
from coterie.matching import MATCHING, PLACING
from coterie.planning import check_plan, planned
from coterie.protocols import FAMILIES, Ints
from coterie.ring import FixedPoint, widen
from coterie.row_weights import to_numbers, to_whole
from coterie.runtime.job import Job
from coterie.sharing import Disclosure

if TYPE_CHECKING:
    from coterie.estimator import SecureKMeans

__all__ = [
    "Prepared",
    "check_parameters",
    "check_whole_number",
    "name_parties",
    "prepare_fit",
]

Floats = NDArray[np.float64]
#: With n_init="auto", as scikit-learn has it.
AUTO_RESTARTS = {"random": 10}
CHOICES = {
    "partition": ("horizontal", "vertical", "mixed"),
    "counts": ("secret", "revealed"),
    "labels": ("private", "revealed"),
    "centers": ("revealed", "shared"),
    "transport": ("memory", "tls"),
    "scale": (None, "bounds", "standard"),
    "scales": ("revealed", "secret"),
    "choose": ("calinski-harabasz", "silhouette"),
    "measures": ("revealed", "secret"),
    "contribution": ("least", "none-or-least", "off"),
    "sizes": ("secret", "rounded"),
    "matching": ("equal", "shared", "private"),
}


class Prepared(NamedTuple):
    """The task, each party's block, what was disclosed to agree on it; what each party's rows count for, and what a
    weight of 1 stands for; where rows are matched in private, which count, for the helper."""

    task: Task
    blocks: list[Ints]
    disclosed: list[Disclosure]
    row_weights: list[Ints | None]
    weight_unit: float = 1.0
    members: Ints | None = None

    @property
    def jobs(self) -> list[Job]:
        """Of every role, the helper first."""
        given = self.row_weights or [None] * len(self.blocks)
        owners = [Job(self.task, block=own, row_weights=w) for own, w in zip(self.blocks, given, strict=True)]
        return [Job(self.task, row_weights=self.members), *owners]


def check_parameters(model: SecureKMeans) -> None:
    """Everything that can be wrong without data."""
    for name, allowed in CHOICES.items():
        value = getattr(model, name)
        if not (value is None or isinstance(value, str)) or value not in allowed:
            raise InputError(f"{name}={value!r} is not known; use one of {', '.join(map(repr, allowed))}")
    if not isinstance(model.protocol, str) or model.protocol not in FAMILIES:
        raise InputError(f"protocol={model.protocol!r} is not known; use one of {', '.join(map(repr, FAMILIES))}")
    check_choices(model.n_clusters)
    if model.n_init != "auto":
        check_whole_number("n_init", model.n_init, 1)
    check_whole_number("max_iter", model.max_iter, 1)
    if check_whole_number("least_cluster_size", model.least_cluster_size, 1) > 1:
        for option in ("counts", "labels"):
            if getattr(model, option) == "revealed":
                raise InputError(f'{option}="revealed" would tell what least_cluster_size keeps back; use one of them')
    elif model.sizes == "rounded":
        raise InputError('sizes="rounded" are multiples of least_cluster_size, which must be above 1')
    if not isinstance(model.tol, numbers.Real) or not 0 <= model.tol < math.inf:
        raise InputError(f"tol must be a number of at least 0, not {model.tol!r}")
    if model.fractional_bits != "auto":
        check_whole_number("fractional_bits", model.fractional_bits, -64)
    if model.labels == "revealed" and model.partition != "vertical":
        raise InputError('labels="revealed" is SVK-means, which needs partition="vertical"')
    check_plan(model.plan)


def prepare_fit(
    model: SecureKMeans,
    table: Blocks,
    names: Sequence[str] | None = None,
    init: Any = None,
    row_weights: Sequence[Floats | None] = (),
) -> Prepared:
    """With data; `names` of the columns, if they are not the blocks' own; `init`, if that is not the model's;
    `row_weights`: what each party gives to its rows."""
    init = model.init if init is None else init
    if callable(init):
        raise InputError("a function as init sees all rows, which no party does: it is for fit(X); give centres")
    n, choices = table.layout.n, check_choices(model.n_clusters)
    k = choices[-1]
    if k > n:
        raise InputError(f"n_samples={n} should be >= n_clusters={k}; use fewer clusters")
    columns = tuple(names or table.names)
    declared = table.features
    everybody = FAMILIES[model.protocol].world(name_parties(len(table.blocks))).everybody
    low, high, disclosed = _find_bounds(_by_feature(model.bounds, declared, (0.0, 1.0)), table, columns, everybody)
    whole_weights, most_weight, unit = to_whole(row_weights, n, model.least_cluster_size > 1)
    if most_weight:
        disclosed.append(Disclosure("largest weight", everybody, "weights become whole numbers"))
    by_columns = table.layout.partition == "vertical"
    resolution = _check_resolution(_by_feature(model.resolution, declared), columns, by_columns and not table.private)
    groups = category_groups(declared)
    for group in groups:
        room = (len(group) - 1) / 4 if columns[group[0]] in resolution else 0.0
        for l in group:
            low[l], high[l] = -room, 1.0 + room
    wanted = None if model.fractional_bits == "auto" else int(model.fractional_bits)
    weights = _check_weights(_by_feature(model.column_weights, declared), columns)
    rounded = bool(resolution) and model.least_cluster_size > 1
    inside = stays_inside(model.centers, model.scales, model.partition, not isinstance(init, str), rounded)
    encoding, metric = make_scaled(
        model.scale,
        table.layout.partition,
        columns,
        low,
        high,
        n * max(most_weight, 1),
        k,
        inside=inside,
        wanted=wanted,
        weights=weights,
        distances=[feature.distance for feature in declared],
    )
    if model.scale == "standard" and by_columns:
        bounds = FixedPoint(tuple(low), tuple(high), columns, 0)
        encoding = standardise_at_home(encoding, bounds, table, resolution)
        disclosed = [entry for entry in disclosed if entry.what != "bounds"]
    if table.matched is not None:
        disclosed.append(_matching_disclosed(model.protocol, table))
    if table.private:
        resolution = private_resolution(
            model.centers, model.scale, encoding, resolution, [columns[l] for group in groups for l in group]
        )
    task = make_task(
        model.protocol,
        k,
        table.layout,
        encoding,
        resolution=resolution,
        groups=groups,
        metric=metric,
        scales=model.scales,
        counts=model.counts,
        labels=model.labels,
        centers=model.centers,
        **_start(model, init, encoding, n, choices),
        choices=choices if len(choices) > 1 else (),
        choose=model.choose,
        measures=model.measures,
        max_iter=int(model.max_iter),
        tol=float(model.tol),
        least=int(model.least_cluster_size),
        contribution=model.contribution,
        sizes=model.sizes,
        quality=tuple(
            one for one in _check_quality(model.quality) if one == "inertia" or not (most_weight or table.private)
        ),
        most_weight=most_weight,
        private=table.private,
    )
    task = planned(task, len(table.blocks), model.plan)
    members = None if table.matched is None else table.matched.members
    return Prepared(task, encode_blocks(task, table), disclosed, whole_weights, unit, members)


def _matching_disclosed(protocol: str, table: Blocks) -> Disclosure:
    """What is learnt when rows are matched, as in a study."""
    world = FAMILIES[protocol].world(name_parties(len(table.blocks)))
    if world.dealer is None:
        raise InputError(f'rows are matched by a helper, and protocol="{protocol}" has none')
    if table.private:
        return Disclosure("tags of ids", (world.names[world.dealer],), PLACING)
    return Disclosure("matching ids", world.everybody, MATCHING)


def _check_quality(wanted: Any) -> tuple[str, ...]:
    if isinstance(wanted, str) or not isinstance(wanted, Sequence) or any(one not in QUALITY for one in wanted):
        raise InputError(f"quality must be a sequence of {', '.join(map(repr, QUALITY))}, not {wanted!r}")
    return tuple(one for one in QUALITY if one in wanted)


def _check_weights(wanted: Any, columns: Sequence[str]) -> tuple[float, ...]:
    if wanted is not None and not isinstance(wanted, Mapping):
        raise InputError('column_weights must be a dict of column name to number, such as {"age": 2}')
    return relative_weights(wanted, columns)


def _by_feature(wanted: Any, features: Sequence[Feature], category: Any = None) -> Any:
    """What is said of columns, said of the features that they became; `category`: of those of one, if nothing is."""
    if not features or not isinstance(wanted, Mapping):
        return wanted
    found = {feature.name: wanted[feature.column] for feature in features if feature.column in wanted}
    fixed = {feature.name: category for feature in features if feature.distance and category is not None}
    others = {name: value for name, value in wanted.items() if name not in {one.column for one in features}}
    return {**others, **found, **fixed}


def check_choices(wanted: Any) -> tuple[int, ...]:
    """The numbers of clusters to try, in order: one, or several to choose from."""
    if isinstance(wanted, str) or not isinstance(wanted, Iterable):
        return (check_whole_number("n_clusters", wanted, 1),)
    if not isinstance(wanted, Sized) or len(list(islice(wanted, MOST_CHOICES + 1))) > MOST_CHOICES:
        raise InputError(
            f"n_clusters must be a whole number, or a range, list or tuple of at most {MOST_CHOICES} to choose from, "
            f"not {reprlib.repr(wanted)}"
        )
    found = sorted({check_whole_number("n_clusters", one, 2) for one in wanted})
    if len(found) < 2:
        raise InputError(f"n_clusters must be a whole number, or at least two to choose from, not {wanted!r}")
    return tuple(found)


def _start(model: SecureKMeans, init: Any, encoding: FixedPoint, n: int, choices: tuple[int, ...]) -> dict[str, Any]:
    """What the centres start from, as a task says it: with several numbers of clusters, for one after another."""
    k = choices[-1]
    if isinstance(init, str):
        random = check_random_state(model.random_state)
        restarts = AUTO_RESTARTS.get(init, 1) if model.n_init == "auto" else int(model.n_init)
        if init == "k-means++":
            return {"seeds": tuple(random.bytes(SEED_BYTES) for _ in range(restarts * len(choices)))}
        if init == "random":
            return {"starts": tuple(distinct_rows(random, n, k) for k in choices for _ in range(restarts))}
        raise InputError(f'init={init!r} is not known; use "k-means++", "random", an array of centres or a function')
    if model.n_init != "auto" and int(model.n_init) > 1:
        said = "Explicit initial center position passed: performing only one init in SecureKMeans instead of"
        warnings.warn(f"{said} n_init={model.n_init}", RuntimeWarning, stacklevel=5)
    if len(choices) > 1:
        raise InputError("with several n_clusters to choose from, no centres can be given to start from")
    centers = to_numbers("init", init)
    if centers.shape != (k, encoding.columns):
        rows_fit = centers.ndim == 2 and len(centers) == k
        raise InputError(
            "The shape of the initial centers (init) does not match the number of "
            f"{'features of the data' if rows_fit else 'clusters'}: init has shape {centers.shape}; centres for this "
            f"data have shape {(k, encoding.columns)}"
        )
    if np.isnan(centers).any():
        raise InputError("init holds NaN")
    whole = encoding.encode(centers, range(encoding.columns), "init: ")
    return {"centers_given": tuple(tuple(int(v) for v in row) for row in whole)}


def _check_resolution(wanted: Any, columns: Sequence[str], labels_known: bool) -> Mapping[str, float]:
    """The steps on which values of columns lie, checked."""
    if wanted is None:
        return {}
    if not isinstance(wanted, Mapping):
        raise InputError('resolution must be a dict of column name to step, such as {"age": 1}')
    for name, step in wanted.items():
        if name not in columns:
            raise InputError(f"resolution names column {name!r}, which is not in the data")
        if not isinstance(step, numbers.Real) or not 0 < float(step) < math.inf:
            raise InputError(f"resolution of column {name!r} must be a number above 0, not {step!r}")
    if labels_known:
        raise InputError(
            "resolution is for rows: where columns are split, every party learns every label and so the sizes"
        )
    return wanted


def _find_bounds(
    wanted: Any, table: Blocks, columns: Sequence[str], everybody: tuple[str, ...]
) -> tuple[list[float], list[float], list[Disclosure]]:
    """The public range of each column, and the disclosure to everybody that "auto" is."""
    d = table.layout.d
    if isinstance(wanted, str):
        if wanted != "auto":
            raise InputError(f'bounds={wanted!r} is not known; use "auto", an array or a dict')
        low, high = np.full(d, np.inf), np.full(d, -np.inf)
        for j, block in enumerate(table.blocks):
            own = table.layout.own_columns(j + 1)
            if np.isinf(block).any():
                l = own[int(np.argmax(np.isinf(block).any(axis=0)))]
                raise InputError(f"party P{j + 1}: column {columns[l]!r} holds an infinity; remove such rows")
            low[own] = np.fmin(low[own], np.fmin.reduce(block, axis=0, initial=np.inf))
            high[own] = np.fmax(high[own], np.fmax.reduce(block, axis=0, initial=-np.inf))
        low, high = widen(low, high)
        entry = Disclosure("bounds", everybody, "bounds='auto' takes them from the data, widened twofold")
        return low.tolist(), high.tolist(), [entry]
    if isinstance(wanted, Mapping):
        missing = [name for name in columns if name not in wanted]
        if missing:
            raise InputError(f"bounds has no range for column {missing[0]!r}")
        pairs = to_numbers("bounds", [wanted[name] for name in columns])
    else:
        pairs = to_numbers("bounds", wanted)
    if pairs.shape != (d, 2):
        raise InputError(f"bounds has shape {pairs.shape}; one (low, high) per column is {(d, 2)}")
    bad = ~(np.isfinite(pairs).all(axis=1) & (pairs[:, 0] <= pairs[:, 1]))
    if bad.any():
        raise InputError(f"bounds of column {columns[int(np.argmax(bad))]!r} must be finite, low before high")
    return pairs[:, 0].tolist(), pairs[:, 1].tolist(), []


def name_parties(parties: int) -> tuple[str, ...]:
    return tuple(f"P{j}" for j in range(1, parties + 1))


def check_whole_number(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    if value < least:
        raise InputError(f"{name} must be at least {least}, not {value}")
    return int(value)
