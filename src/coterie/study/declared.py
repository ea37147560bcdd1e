"""What the options of a study say of each of its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from coterie.errors import InputError

__all__ = ["Declared"]

#: Columns of these kinds have no range to agree on.
WITHOUT_BOUNDS = ("category", "boolean")
#: Fields that another option fills.
OPTIONS = {"holders": "holds"}


class Declared(NamedTuple):
    """What each option says, by column."""

    kinds: Mapping[str, str]
    bounds: Mapping[str, tuple[float | str, float | str]]
    categories: Mapping[str, Sequence[str]]
    distance: Mapping[str, float]
    clip: Mapping[str, bool]
    transform: Mapping[str, str]
    missing: Mapping[str, bool | float | str]
    holds: Mapping[str, str | Sequence[str]]
    holders: Mapping[str, Sequence[str]]
    resolution: Mapping[str, float]
    column_weights: Mapping[str, float]

    def list_columns(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """The columns, as a study file has them. Refuses an option that says something of another column, and a column
        without bounds."""
        for option, given in self._asdict().items():
            for column in given:
                if column not in names:
                    called = OPTIONS.get(option, option).replace("_", "-")
                    raise InputError(f"--{called} names column {column!r}, which is not among --columns")
        return [self._describe(name) for name in names]

    def _describe(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = {"name": name}
        kind = self.kinds.get(name, "number")
        if name in self.bounds:
            found["low"], found["high"] = self.bounds[name]
        elif kind not in WITHOUT_BOUNDS:
            raise InputError(f"--bounds has no range for column {name!r}; add {name}=LOW:HIGH")
        for field, given in (
            ("kind", self.kinds),
            ("categories", self.categories),
            ("distance", self.distance),
            ("clip", self.clip),
            ("transform", self.transform),
            ("missing", self.missing),
            ("holder", self.holds),
            ("holders", self.holders),
            ("resolution", self.resolution),
            ("weight", self.column_weights),
        ):
            if name in given:
                found[field] = given[name]
        return found
