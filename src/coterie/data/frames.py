"""Data frames and arrays as features: what `SecureKMeans` is told of missing values and categories.

The same declarations as a study's (`coterie.columns`), and the same code makes features of them.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.columns import DROP, ERROR, Column, Feature, features_of, find_fault
from coterie.data.features import Cells, make_features
from coterie.errors import DataError, InputError

__all__ = ["LEFT_OUT", "Prepared", "Recipe", "make_recipe", "prepare_block"]

Floats = NDArray[np.float64]
#: The label of a row that was left out for a missing value: the one that scikit-learn's HDBSCAN gives such rows.
LEFT_OUT = -3


class Recipe(NamedTuple):
    """What is declared of columns, by name. `missing`: "error", "drop", or what to fill in."""

    missing: str | Mapping[str, float | str]
    categories: Mapping[str, tuple[str, ...]]
    distance: Mapping[str, float]

    @property
    def drops(self) -> bool:
        return self.missing == DROP

    def check_names(self, names: Sequence[str]) -> None:
        """Refuse what is said of columns that are not there."""
        missing = {} if isinstance(self.missing, str) else self.missing
        for option, given in (("missing", missing), ("categories", self.categories), ("distance", self.distance)):
            for name in given:
                if name not in names:
                    raise InputError(f"{option} names column {name!r}, which is not in the data")

    def declare(self, name: str) -> Column:
        """A column of this name."""
        missing = self.missing if isinstance(self.missing, str) else self.missing.get(name, ERROR)
        if name not in self.categories:
            return Column(name, -math.inf, math.inf, missing=missing)
        values, apart = self.categories[name], float(self.distance.get(name, 1.0))
        return Column(name, kind="category", categories=values, distance=apart, missing=missing)


def make_recipe(missing: Any, categories: Any, distance: Any) -> Recipe | None:
    """What these parameters amount to, checked; None, if columns are numbers and complete."""
    for name, given in (("categories", categories), ("distance", distance)):
        if given is not None and not isinstance(given, Mapping):
            raise InputError(f'{name} must be a dict of column name, such as {{"sex": …}}, not {type(given).__name__}')
    if not (isinstance(missing, str) and missing in (ERROR, DROP)) and not isinstance(missing, Mapping):
        raise InputError(f'missing must be "{ERROR}", "{DROP}", or a dict of column name to what to fill in')
    values = {str(name): tuple(_word(one) for one in given) for name, given in (categories or {}).items()}
    fills = missing if isinstance(missing, str) else {str(name): given for name, given in missing.items()}
    if not isinstance(fills, str):
        fills = {name: _word(given) if name in values else _number(name, given) for name, given in fills.items()}
    recipe = Recipe(fills, values, {str(name): given for name, given in (distance or {}).items()})
    for name in recipe.distance:
        if name not in values:
            raise InputError(f"distance names column {name!r}, which has no categories")
    for name in values:
        if fault := find_fault(recipe.declare(name)):
            raise InputError(f"column {name!r}: {fault}")
    return None if recipe.missing == ERROR and not values else recipe


def _number(name: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, numbers.Real) or not math.isfinite(float(given)):
        raise InputError(f"missing: what to fill in for column {name!r} must be a finite number")
    return float(given)


def _word(value: Any) -> str:
    """A value as text; a whole number without a point, as it was before a missing value beside it made it a float."""
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral) and float(value).is_integer():
        return str(int(float(value)))
    return str(value)


class Prepared(NamedTuple):
    """A party's block as features, which rows are kept, and what they are features of."""

    values: Floats
    kept: NDArray[np.bool_]
    features: tuple[Feature, ...]


def prepare_block(given: Any, names: Sequence[str], recipe: Recipe, party: str) -> Prepared:
    """The features of a block whose columns have these names."""
    array = np.asarray(given, dtype=object)
    if array.ndim != 2:
        raise InputError(f"party {party}: expected a 2D block (rows, columns), got {array.ndim}D")
    columns = [recipe.declare(name) for name in names]
    features = tuple(feature for column in columns for feature in features_of(column))
    kept = np.zeros(len(array), np.bool_)
    if not len(array):
        return Prepared(np.empty((0, len(features))), kept, features)
    cells = [_read_column(array[:, l], column, party) for l, column in enumerate(columns)]
    try:
        values, rows, _ = make_features(columns, cells, f"party {party}", lambda rows: {i: f"row {i}" for i in rows})
    except DataError as error:
        raise InputError(str(error)) from None
    kept[rows] = True
    return Prepared(values, kept, features)


def _read_column(values: NDArray[np.object_], column: Column, party: str) -> Cells:
    absent = np.array([one is None or _is_na(one) or bool(one != one) for one in values])
    if column.kind == "category":
        texts = [None if gone else _word(one) for one, gone in zip(values, absent, strict=True)]
        return Cells(texts=np.array([*texts, None], object)[:-1])
    if any(isinstance(one, str) for one in values):
        raise InputError(
            f"party {party}: column {column.name!r} holds something that is not a number; name its values in categories"
        )
    try:
        return Cells(np.where(absent, np.nan, values).astype(np.float64))
    except (TypeError, ValueError):
        raise InputError(f"party {party}: column {column.name!r} holds something that is not a number") from None


def _is_na(value: Any) -> bool:
    """pandas has a missing value that is neither equal to itself nor not."""
    return type(value).__name__ in ("NAType", "NaTType")
