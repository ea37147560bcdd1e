"""Where a run can be taken up again: a party's shares at the end of its last two iterations.

A share alone is uniform and says nothing. Shares of one epoch (one start of all processes) fit together, and no
others: a checkpoint is known by epoch, restart and iteration. A file that is damaged, or that belongs to another
study, other data or other options, does not count.
"""

from __future__ import annotations

import hashlib
import io
import re
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from coterie.clustering import Point
from coterie.local.job import read_package, write_package
from coterie.sharing import Disclosure
from coterie.study.files import write_file

__all__ = ["Checkpoints", "Mark", "newest_common"]

KEPT = 2
FILE = re.compile(r"checkpoint-(\d+)-(\d+)-(\d+)")


class Mark(NamedTuple):
    """When a checkpoint was made."""

    epoch: int
    start: int
    iteration: int

    @property
    def progress(self) -> tuple[int, int, int]:
        """Marks in the order of how much of the work is done."""
        return self.start, self.iteration, self.epoch


class Checkpoints:
    """One role's checkpoints of one study, in a folder. `purpose`: a hash of all that must be the same to go on."""

    def __init__(self, folder: Path, purpose: str) -> None:
        self.folder, self.purpose = folder, purpose

    def marks(self) -> list[Mark]:
        """All that can be gone on from."""
        return sorted(mark for mark in self._listed() if self._read(mark) is not None)

    def newest_epoch(self) -> int:
        return max((mark.epoch for mark in self._listed()), default=0)

    def save(self, epoch: int, point: Point, disclosures: list[Disclosure]) -> None:
        """Keep this one, whole or not at all, and the one before it."""
        mark = Mark(epoch, point.start, point.iteration)
        stream = io.BytesIO()
        arrays = {f"{name} {part}": array for name in ("centers", "best") for part, array in _held(point, name).items()}
        fields = {"purpose": self.purpose, "mark": mark, "most": point.most, "disclosures": disclosures}
        write_package(stream, fields, arrays)
        body = stream.getvalue()
        write_file(self._path(mark), hashlib.sha256(body).digest() + body, mode=0o600)
        for old in sorted(self._listed(), key=lambda m: (m.epoch, m.start, m.iteration))[:-KEPT]:
            self._path(old).unlink(missing_ok=True)

    def load(self, mark: Mark) -> tuple[Point, list[Disclosure]]:
        found = self._read(mark)
        assert found is not None, "a mark that was listed"
        fields, arrays = found
        held: dict[str, dict[str, Any]] = {"centers": {}, "best": {}}
        for name, array in arrays.items():
            secret, part = name.split(" ")
            held[secret][part] = array
        point = Point(mark.start, mark.iteration, fields["most"], held["centers"] or None, held["best"] or None)
        return point, [msgspec.convert(entry, Disclosure, strict=False) for entry in fields["disclosures"]]

    def keep(self, mark: Mark) -> None:
        """The run goes on from this one. Later ones that not everybody has must not push it out."""
        for other in self._listed():
            if other != mark:
                self._path(other).unlink(missing_ok=True)

    def clear(self) -> None:
        """Nothing is left to go on from."""
        for mark in self._listed():
            self._path(mark).unlink(missing_ok=True)
        for draft in self.folder.glob(".checkpoint-*"):  # of a run that was killed
            draft.unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _listed(self) -> list[Mark]:
        if not self.folder.is_dir():
            return []
        found = (FILE.fullmatch(file.name) for file in self.folder.iterdir())
        return [Mark(*map(int, match.groups())) for match in found if match]

    def _path(self, mark: Mark) -> Path:
        return self.folder / f"checkpoint-{mark.epoch}-{mark.start}-{mark.iteration}"

    def _read(self, mark: Mark) -> tuple[dict[str, Any], dict[str, Any]] | None:
        try:
            raw = self._path(mark).read_bytes()
            if hashlib.sha256(raw[32:]).digest() != raw[:32]:
                return None
            package = read_package(io.BytesIO(raw[32:]))
        except (OSError, ValueError, msgspec.DecodeError):
            return None
        if package is None or package[0].get("purpose") != self.purpose or tuple(package[0]["mark"]) != mark:
            return None
        return package


def _held(point: Point, name: str) -> dict[str, Any]:
    held: dict[str, Any] | None = getattr(point, name)
    return held or {}


def newest_common(held: list[list[Mark]]) -> Mark | None:
    """The checkpoint furthest along that every data party holds."""
    common = set(held[0]).intersection(*held[1:]) if held else set()
    return max(common, key=lambda mark: mark.progress, default=None)
