"""A column as a table has it, and the features that it becomes: the numbers per row that are clustered.

A number, a date and a boolean become one feature each; a category becomes one for each of its agreed values, 1 where a
row has that value and 0 elsewhere. Everything here is public and follows from what was agreed.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import Literal

import msgspec

__all__ = [
    "DROP",
    "ERROR",
    "Column",
    "Feature",
    "Kind",
    "bounds_of",
    "features_of",
    "fill_of",
    "find_fault",
    "format_date",
    "list_features",
    "parse_boolean",
    "parse_date",
]

Kind = Literal["number", "category", "date", "boolean"]
#: What `missing` can say, beside a value to fill in.
ERROR, DROP = "error", "drop"
EPOCH, DAY = datetime.datetime(1970, 1, 1), datetime.timedelta(days=1)
YES, NO = ("true", "yes", "t", "y", "1"), ("false", "no", "f", "n", "0")
LOGARITHMS = {"log": math.log, "log1p": math.log1p}
#: The most values that a category may have.
MOST_CATEGORIES = 100


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`low`, `high`: the public range, in the column's own units; of a date, as ISO dates. `categories`: all values of
    a category, which are `distance` apart from each other once columns are scaled. `clip`: values outside the range are
    set to its end, and not refused. `transform`: what is clustered by is the logarithm. `missing`: whether a missing
    value is an error, drops its row, or counts as this one."""

    name: str
    low: float | str = 0.0
    high: float | str = 1.0
    kind: Kind = "number"
    categories: tuple[str, ...] = ()
    distance: float = 1.0
    clip: bool = False
    transform: Literal["none", "log", "log1p"] = "none"
    missing: bool | float | str = ERROR


class Feature(msgspec.Struct, frozen=True):
    """One number per row. `column`: what it is made of. `distance`: of a category's features, how far two of its values
    are apart; 0 for all others. `room`: by how much more than the values themselves a rounded centre may leave the
    range."""

    name: str
    low: float
    high: float
    column: str
    kind: Kind = "number"
    distance: float = 0.0
    room: float = 0.0


def parse_date(text: str) -> float:
    """Days since 1970-01-01, of a date or a date and time as ISO 8601 has them. A time of day is a part of a day; with
    an offset from UTC, that of UTC. Raises ValueError for everything else."""
    found = datetime.datetime.fromisoformat(text.strip())
    if found.tzinfo is not None:
        found = found.astimezone(datetime.UTC).replace(tzinfo=None)
    return (found - EPOCH) / DAY


def format_date(days: float, to: Literal["days", "seconds"] = "days") -> str:
    """The date so many days after 1970-01-01, or date and time, as ISO 8601 has them."""
    found = EPOCH + datetime.timedelta(days=days)
    if to == "days":
        return (found + DAY / 2).date().isoformat()
    return (found + datetime.timedelta(seconds=0.5)).isoformat(timespec="seconds")


def parse_boolean(text: str) -> float:
    """1 for true, yes, t, y and 1, 0 for their opposites, whatever the case. Raises ValueError for everything else."""
    bare = text.strip().lower()
    if bare not in YES + NO:
        raise ValueError("neither yes nor no")
    return float(bare in YES)


def bounds_of(column: Column) -> tuple[float, float]:
    """The range in numbers: days for a date, 0 to 1 where there is nothing to agree on."""
    if column.kind in ("category", "boolean"):
        return 0.0, 1.0
    low, high = (_to_number(column, end) for end in (column.low, column.high))
    return low, high


def fill_of(column: Column) -> float | None:
    """The number that a missing value counts as - of a category, the place of one of its values -, if there is one."""
    if column.missing in (ERROR, DROP):
        return None
    if column.kind == "category":
        return float(column.categories.index(str(column.missing)))
    return _to_number(column, column.missing)


def _to_number(column: Column, value: bool | float | str) -> float:
    """A value of the study file, as a number. Raises ValueError if it is none of the column's."""
    if column.kind == "boolean":
        return parse_boolean(str(value)) if isinstance(value, str) else parse_boolean(f"{value:g}")
    if isinstance(value, bool) or isinstance(value, str) != (column.kind == "date"):
        raise ValueError("of another kind")
    return parse_date(value) if isinstance(value, str) else float(value)


def features_of(column: Column, rounded: bool = False) -> list[Feature]:
    """What a column becomes. `rounded`: of a category, whether opened centres are."""
    if column.kind == "category":
        # The last of g values is 1 less the others, each of which may be rounded by a quarter.
        room = (len(column.categories) - 1) / 4 if rounded else 0.0
        return [
            Feature(f"{column.name}={value}", 0.0, 1.0, column.name, "category", column.distance, room)
            for value in column.categories
        ]
    low, high = bounds_of(column)
    if column.transform == "none":
        return [Feature(column.name, low, high, column.name, column.kind)]
    logarithm = LOGARITHMS[column.transform]
    return [Feature(f"{column.transform}({column.name})", logarithm(low), logarithm(high), column.name)]


def list_features(columns: Sequence[Column]) -> list[Feature]:
    """Of all columns, in order."""
    return [feature for column in columns for feature in features_of(column)]


def find_fault(column: Column) -> str:
    """What is wrong with how a column is declared; nothing, if all is well."""
    if (column.kind == "category") != bool(column.categories):
        return "categories are for a column of kind category, and that needs them"
    if column.kind == "category":
        fault = _find_category_fault(column)
    else:
        fault = "" if column.distance == 1.0 else "a distance is for categories"
    return fault or _find_number_fault(column) or _find_missing_fault(column)


def _find_category_fault(column: Column) -> str:
    values = column.categories
    if not 2 <= len(values) <= MOST_CATEGORIES or len(set(values)) != len(values):
        return f"there must be 2 to {MOST_CATEGORIES} categories, each once"
    for value in values:
        if value != value.strip() or not value or not value.isprintable() or len(value) > 100:
            return "a category must be printable, of 1 to 100 characters, with no blanks around it"
    if not 0 < column.distance < math.inf:
        return "the distance of categories must be a number above 0"
    return ""


def _find_number_fault(column: Column) -> str:
    if column.kind in ("category", "boolean"):
        fine = (column.low, column.high, column.clip, column.transform) == (0.0, 1.0, False, "none")
        return "" if fine else f"bounds, clip and transform are not for a {column.kind}"
    try:
        low, high = bounds_of(column)
    except (ValueError, OverflowError):
        wanted = "ISO dates, such as 2024-12-31" if column.kind == "date" else "numbers"
        return f"the bounds must be {wanted}"
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        return "the bounds must be finite, low before high"
    if column.transform != "none" and column.kind != "number":
        return f"a transform is for numbers, not for a {column.kind}"
    if column.transform == "log" and low <= 0:
        return "a logarithm needs a lower bound above 0; use log1p, or other bounds"
    if column.transform == "log1p" and low < 0:
        return "log1p needs a lower bound of at least 0"
    return ""


def _find_missing_fault(column: Column) -> str:
    wanted = {
        "category": "one of the categories",
        "date": "an ISO date",
        "boolean": "true or false",
        "number": "a number",
    }[column.kind]
    try:
        fill, (low, high) = fill_of(column), bounds_of(column)
    except (ValueError, OverflowError):
        return f'missing must be "{ERROR}", "{DROP}" or {wanted}'
    if fill is not None and column.kind != "category" and not low <= fill <= high:
        return f"what a missing value counts as must lie within the bounds, be {wanted}"
    return ""
