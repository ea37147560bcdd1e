"""Each party's block as whole numbers: standardised at home, in slots, rounded, as the options have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from coterie.clustering import SD_REACH, Task, at_home, category_at_home
from coterie.columns import Feature
from coterie.data import Blocks
from coterie.errors import InputError
from coterie.protocols import Ints
from coterie.ring import FixedPoint

__all__ = ["category_groups", "encode_blocks", "private_resolution", "standardise_at_home"]


def standardise_at_home(
    encoding: FixedPoint, bounds: FixedPoint, table: Blocks, resolution: Mapping[str, float]
) -> FixedPoint:
    """By columns, each party knows the mean and standard deviation of its own. Ranges that were given hold, too."""
    for j, block in enumerate(table.blocks):
        own = table.layout.own_columns(j + 1)
        bounds.encode(block, own, f"party P{j + 1}: ")
        means, deviations = block.mean(axis=0), block.std(axis=0)
        for i, l in enumerate(own):
            if table.features and (apart := table.features[l].distance):
                means[i], deviations[i] = category_at_home(apart)
            elif table.private:  # opened centres are rounded to a part of this unit
                deviations[i] = max(deviations[i], resolution.get(encoding.names[l], 0.0))
        encoding = at_home(encoding, own, means, deviations)
    return encoding


def category_groups(features: Sequence[Feature]) -> tuple[tuple[int, ...], ...]:
    """Which features belong to one category."""
    names = dict.fromkeys(feature.column for feature in features if feature.distance)
    return tuple(tuple(l for l, feature in enumerate(features) if feature.column == name) for name in names)


def encode_blocks(task: Task, table: Blocks) -> list[Ints]:
    """Each party's rows as whole numbers; in slots, with zeros elsewhere, where rows are matched in private."""
    found = [
        task.encoding.encode(block, table.layout.own_columns(j + 1), f"party P{j + 1}: ")
        for j, block in enumerate(table.blocks)
    ]
    if table.matched is None or not table.private:
        return found
    placed = [np.zeros((table.layout.n, own.shape[1]), np.int64) for own in found]
    for whole, own, slots in zip(placed, found, table.matched.slots, strict=True):
        whole[slots] = own
    return placed


def private_resolution(
    centers: str, scale: str | None, encoding: FixedPoint, given: Mapping[str, float], categories: Sequence[str]
) -> Mapping[str, float]:
    """Where rows are matched in private, centres are rounded in every column: an exact mean would tell which match."""
    if centers != "revealed":
        raise InputError('matching="private" needs centers="revealed"')
    if scale == "standard":
        half = (np.array(encoding.high) - np.array(encoding.low)) / 2
        units = dict(zip(encoding.names, (half / SD_REACH).tolist(), strict=True))
        return {**units, **dict.fromkeys(categories, 1.0)}
    for name in encoding.names:
        if name not in given:
            raise InputError(
                f'matching="private" needs a resolution of column {name!r}, or scale="standard": an exact mean would '
                "tell which rows match"
            )
    return given
