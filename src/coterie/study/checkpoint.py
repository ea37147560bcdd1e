"""Where a run can be taken up again: a party's shares at the end of its last two iterations, and before anything of the
result is opened.

A share alone is uniform and says nothing. Shares fit together if they were made in the same session, and no others do:
a checkpoint is known by run, session, restart and iteration. (Two attempts that went on from copies of one checkpoint
belong to the same run, and their shares do not fit together.) A file that is damaged, or that belongs to another study,
other data or other options, does not count.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie.clustering import Layout, Point
from coterie.errors import StudyError
from coterie.runtime.job import read_package, write_package
from coterie.study.files import write_file
from coterie.study.matched import Matching
from coterie.typed import convert

__all__ = ["FILE", "KEPT", "Checkpoints", "Kept", "Mark", "mark_of", "newest_common"]

KEPT = 2
FILE = re.compile(r"checkpoint-([0-9a-f]{32})-([0-9a-f]{32})-(\d+)-(\d+)-(\d+)")
#: The arrays of a matching.
MATCHED = ("kept", "slots", "members")
#: Marks come from others, too.
Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]


class Mark(NamedTuple):
    """Of which run a checkpoint is, in which session it was made, and when. `epoch` grows from session to session;
    `start` counts the restarts that are done."""

    run: Name
    session: Name
    epoch: Count
    start: Count
    iteration: Count

    @property
    def progress(self) -> tuple[int, int, int, str, str]:
        """Marks in the order of how much of the work is done."""
        return self.start, self.iteration, self.epoch, self.run, self.session


def mark_of(name: re.Match[str]) -> Mark:
    """The mark that a file's name (`FILE`) says."""
    run, session, *counts = name.groups()
    return Mark(run, session, *map(int, counts))


class Kept(NamedTuple):
    """What a checkpoint holds. `terms`: a hash of what the run is to compute and to open."""

    point: Point
    terms: str


class Checkpoints:
    """One role's checkpoints of one study, in a folder. `purpose`: a hash of all that must be the same to go on."""

    def __init__(self, folder: Path, purpose: str) -> None:
        self.folder, self.purpose = folder, purpose

    def marks(self) -> list[Mark]:
        """All that can be gone on from."""
        return sorted(mark for mark in self._listed() if self._read(mark) is not None)

    def newest(self) -> Mark | None:
        """The one furthest along."""
        return max(self.marks(), key=lambda mark: mark.progress, default=None)

    def newest_epoch(self) -> int:
        return max((mark.epoch for mark in self._listed()), default=0)

    def save(self, run: str, session: str, epoch: int, point: Point, terms: str = "", kept: int = KEPT) -> Mark:
        """Keep this one, whole or not at all, and the one before it; or as many as are said."""
        mark = Mark(run, session, epoch, point.start, point.iteration)
        stream = io.BytesIO()
        fields = {"purpose": self.purpose, "mark": mark, "terms": terms}
        write_package(stream, {**fields, "plain": dict(_plain(point))}, dict(_arrays(point)))
        body = stream.getvalue()
        write_file(self._path(mark), hashlib.sha256(body).digest() + body, mode=0o600)
        for old in sorted(self._listed(), key=lambda m: (m.epoch, m.start, m.iteration))[:-kept]:
            self._path(old).unlink(missing_ok=True)
        return mark

    def load(self, mark: Mark) -> Kept:
        found = self._read(mark)
        if found is None:
            raise StudyError(f"the checkpoint {self._path(mark)} was damaged or removed since this run began")
        fields, arrays = found
        held: dict[str, Any] = dict(fields["plain"])
        for name, array in arrays.items():
            secret, part = name.split(" ")
            if part:
                held.setdefault(secret, {})[part] = array
            else:
                held[secret] = array
        return Kept(Point(**held), fields["terms"])

    def save_matching(self, run: str, matching: Matching) -> None:
        """Keep what rows were matched to when a run began: taken up again, it goes on with these, and nobody gets to
        compare other ids. Of earlier runs nothing is kept."""
        stream = io.BytesIO()
        arrays = {name: getattr(matching, name) for name in MATCHED}
        write_package(stream, {"purpose": self.purpose, "run": run, "layout": matching.layout}, arrays)
        body = stream.getvalue()
        self._remove_matchings()
        write_file(self.folder / f"matching-{run}", hashlib.sha256(body).digest() + body, mode=0o600)

    def load_matching(self, run: str) -> Matching:
        package = _unpack(self.folder / f"matching-{run}")
        if package is None or (package[0].get("purpose"), package[0].get("run")) != (self.purpose, run):
            raise StudyError(
                f"which rows were matched when run {run} began is no longer kept in {self.folder}; begin a new run "
                "with --restart"
            )
        fields, arrays = package
        layout = convert(fields["layout"], Layout, strict=False)
        return Matching(layout, **{name: arrays.get(name) for name in MATCHED})

    def _remove_matchings(self) -> None:
        for path in self.folder.glob("matching-*"):
            path.unlink(missing_ok=True)

    def keep(self, mark: Mark) -> None:
        """Keep this one alone: the run goes on from it, and later ones that not everybody has must not push it out."""
        for other in self._listed():
            if other != mark:
                self._path(other).unlink(missing_ok=True)
        self._remove_drafts()

    def clear(self) -> None:
        """Nothing is left to go on from."""
        for mark in self._listed():
            self._path(mark).unlink(missing_ok=True)
        self._remove_drafts()
        self._remove_matchings()
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _remove_drafts(self) -> None:
        """Of a run that was killed."""
        for draft in self.folder.glob(".checkpoint-*"):
            if FILE.fullmatch(draft.name[1:].rpartition(".")[0]):
                draft.unlink(missing_ok=True)

    def _listed(self) -> list[Mark]:
        if not self.folder.is_dir():
            return []
        found = (FILE.fullmatch(file.name) for file in self.folder.iterdir())
        return [mark_of(match) for match in found if match]

    def _path(self, mark: Mark) -> Path:
        return self.folder / "-".join(["checkpoint", *map(str, mark)])

    def _read(self, mark: Mark) -> tuple[dict[str, Any], dict[str, Any]] | None:
        package = _unpack(self._path(mark))
        if package is None or package[0].get("purpose") != self.purpose or tuple(package[0]["mark"]) != mark:
            return None
        return package


def _unpack(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
    """What a file holds; None, if it is not there or was damaged."""
    try:
        raw = path.read_bytes()
        if hashlib.sha256(raw[32:]).digest() != raw[:32]:
            return None
        return read_package(io.BytesIO(raw[32:]))
    except (OSError, ValueError, msgspec.DecodeError):
        return None


def _arrays(point: Point) -> Iterator[tuple[str, NDArray[Any]]]:
    """Every array of a point, as "field part"; where a field is one array, it has no parts."""
    for field in msgspec.structs.fields(Point):
        value = getattr(point, field.name)
        if isinstance(value, dict):
            yield from ((f"{field.name} {part}", array) for part, array in value.items())
        elif isinstance(value, np.ndarray):
            yield f"{field.name} ", value


def _plain(point: Point) -> Iterator[tuple[str, Any]]:
    """All the other fields of a point."""
    for field in msgspec.structs.fields(Point):
        value = getattr(point, field.name)
        if not isinstance(value, dict | np.ndarray):
            yield field.name, value


def newest_common(held: list[list[Mark]]) -> Mark | None:
    """The checkpoint furthest along that all of these hold."""
    common = set(held[0]).intersection(*held[1:]) if held else set()
    return max(common, key=lambda mark: mark.progress, default=None)
