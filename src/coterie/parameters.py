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
    at_home,
    distinct_rows,
    make_scaled,
    make_task,
    relative_weights,
    stays_inside,
)
from coterie.data import Blocks
from coterie.errors import InputError
from coterie.ideal import MOST_CHOICES
from coterie.planning import check_plan, planned
from coterie.protocols import FAMILIES, Ints
from coterie.ring import FixedPoint, widen
from coterie.sharing import Disclosure

if TYPE_CHECKING:
    from coterie.estimator import SecureKMeans

__all__ = [
    "Prepared",
    "check_parameters",
    "check_whole_number",
    "encode_blocks",
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
}


class Prepared(NamedTuple):
    """The task, each party's block, and what was disclosed to agree on it."""

    task: Task
    blocks: list[Ints]
    disclosed: list[Disclosure]


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


def prepare_fit(model: SecureKMeans, table: Blocks, names: Sequence[str] | None = None, init: Any = None) -> Prepared:
    """With data; `names` of the columns, if they are not the blocks' own; `init`, if that is not the model's."""
    init = model.init if init is None else init
    if callable(init):
        raise InputError("a function as init sees all rows, which no party does: it is for fit(X); give centres")
    n, choices = table.layout.n, check_choices(model.n_clusters)
    k = choices[-1]
    if k > n:
        raise InputError(f"n_samples={n} should be >= n_clusters={k}; use fewer clusters")
    columns = tuple(names or table.names)
    everybody = FAMILIES[model.protocol].world(name_parties(len(table.blocks))).everybody
    low, high, disclosed = _find_bounds(model.bounds, table, columns, everybody)
    resolution = _check_resolution(model.resolution, columns, table.layout.partition)
    wanted = None if model.fractional_bits == "auto" else int(model.fractional_bits)
    weights = _check_weights(model.column_weights, columns)
    rounded = bool(resolution) and model.least_cluster_size > 1
    inside = stays_inside(model.centers, model.scales, model.partition, not isinstance(init, str), rounded)
    encoding, metric = make_scaled(
        model.scale, table.layout.partition, columns, low, high, n, k, inside=inside, wanted=wanted, weights=weights
    )
    if model.scale == "standard" and table.layout.partition == "vertical":
        bounds = FixedPoint(tuple(low), tuple(high), columns, 0)
        encoding, disclosed = standardise_at_home(encoding, bounds, table), []
    task = make_task(
        model.protocol,
        k,
        table.layout,
        encoding,
        resolution=resolution,
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
        quality=_check_quality(model.quality),
    )
    task = planned(task, len(table.blocks), model.plan)
    return Prepared(task, encode_blocks(task, table), disclosed)


def _check_quality(wanted: Any) -> tuple[str, ...]:
    if isinstance(wanted, str) or not isinstance(wanted, Sequence) or any(one not in QUALITY for one in wanted):
        raise InputError(f"quality must be a sequence of {', '.join(map(repr, QUALITY))}, not {wanted!r}")
    return tuple(one for one in QUALITY if one in wanted)


def _check_weights(wanted: Any, columns: Sequence[str]) -> tuple[float, ...]:
    if wanted is not None and not isinstance(wanted, Mapping):
        raise InputError('column_weights must be a dict of column name to number, such as {"age": 2}')
    return relative_weights(wanted, columns)


def standardise_at_home(encoding: FixedPoint, bounds: FixedPoint, table: Blocks) -> FixedPoint:
    """By columns, each party knows the mean and standard deviation of its own. Ranges that were given hold, too."""
    for j, block in enumerate(table.blocks):
        own = table.layout.own_columns(j + 1)
        bounds.encode(block, own, f"party P{j + 1}: ")
        encoding = at_home(encoding, own, block.mean(axis=0), block.std(axis=0))
    return encoding


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
    centers = _numbers("init", init)
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


def _check_resolution(wanted: Any, columns: Sequence[str], partition: str) -> Mapping[str, float]:
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
    if partition == "vertical":
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
        pairs = _numbers("bounds", [wanted[name] for name in columns])
    else:
        pairs = _numbers("bounds", wanted)
    if pairs.shape != (d, 2):
        raise InputError(f"bounds has shape {pairs.shape}; one (low, high) per column is {(d, 2)}")
    bad = ~(np.isfinite(pairs).all(axis=1) & (pairs[:, 0] <= pairs[:, 1]))
    if bad.any():
        raise InputError(f"bounds of column {columns[int(np.argmax(bad))]!r} must be finite, low before high")
    return pairs[:, 0].tolist(), pairs[:, 1].tolist(), []


def encode_blocks(task: Task, table: Blocks) -> list[Ints]:
    return [
        task.encoding.encode(block, table.layout.own_columns(j + 1), f"party P{j + 1}: ")
        for j, block in enumerate(table.blocks)
    ]


def name_parties(parties: int) -> tuple[str, ...]:
    return tuple(f"P{j}" for j in range(1, parties + 1))


def _numbers(name: str, value: Any) -> Floats:
    """An argument that must be an array of numbers."""
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of numbers, in rows of equal length") from None


def check_whole_number(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    if value < least:
        raise InputError(f"{name} must be at least {least}, not {value}")
    return int(value)
