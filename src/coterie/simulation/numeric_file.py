"""The numeric columns of a file, for a simulation on it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coterie.data import Wanted, read_rows
from coterie.data.files import find_numeric_columns
from coterie.errors import DataError, InputError

__all__ = ["NumericFile", "find_misfits", "read_numeric_file"]

#: Words in names that say what a column is for.
IDS = {"id", "key", "index", "number", "nr"}
CLASSES = {"class", "label", "y", "species", "cluster"}
TARGETS = {"target", "outcome"}
#: The most values that a class has.
MOST_CLASSES = 20


@dataclass(frozen=True, repr=False)
class NumericFile:
    """The numeric columns of a file (n x d), and the names of the others."""

    file: Path
    names: list[str]
    values: NDArray[np.float64]
    left_out: list[str]


def read_numeric_file(file: Path, wanted: Sequence[str], ranges: dict[str, tuple[float, float]]) -> NumericFile:
    """The wanted columns of a CSV or Parquet file, or all that hold numbers; within their ranges, where given."""
    kinds = {} if wanted else find_numeric_columns(file)
    names = list(wanted) or [name for name, numeric in kinds.items() if numeric]
    if not names:
        raise DataError(f"{file}: no column holds numbers only; name the columns to cluster by with --columns")
    for name in ranges:
        if name not in names:
            raise InputError(f"--bounds names {name!r}, which is not among the columns to cluster by")
    anything = (-math.inf, math.inf)
    rows = read_rows(str(file), [Wanted(name, *ranges.get(name, anything)) for name in names])
    return NumericFile(file, names, rows.values, [name for name, numeric in kinds.items() if not numeric])


def find_misfits(data: NumericFile) -> dict[str, str]:
    """Columns that are probably not meant to be clustered by, and why."""
    found = {}
    for name, column in zip(data.names, data.values.T, strict=True):
        words = _words(name)
        whole, values = bool((column == np.round(column)).all()), len(np.unique(column))
        if whole and values == len(column) > MOST_CLASSES and (words & IDS or _counts_up(column)):
            found[name] = "looks like an id: every row has another whole number"
        elif whole and 1 < values <= MOST_CLASSES and words & (CLASSES | TARGETS):
            found[name] = f"looks like a class: {values} whole numbers, and its name says so"
        elif words & TARGETS:
            found[name] = "looks like a target: its name says so"
    return found


def _words(name: str) -> set[str]:
    """Of a name such as patient_id, patient-id, patient id or PatientID."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def _counts_up(column: NDArray[np.float64]) -> bool:
    """Are they numbers one after another, in whatever order?"""
    return bool(column.max() - column.min() == len(column) - 1)
