"""Folders that a verb fills and may replace: only what it wrote itself, as a file in it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from coterie.errors import InputError
from coterie.typed import from_json

__all__ = ["check_folder", "write_mark"]


def check_folder(out: Path, mark: str, maker: str) -> Path:
    """Where to write, if that is new, empty, or was written by `maker` (its file `mark` says so) and not added to."""
    target = out.expanduser().resolve()
    if Path.cwd().is_relative_to(target):
        raise InputError(f"--out: {out} is the folder that you are in; name one of its own")
    if target.exists() and not target.is_dir():
        raise InputError(f"--out: {out} is a file; name a folder")
    if target.is_dir() and {path.name for path in target.iterdir()} - _written(target, mark, maker):
        raise InputError(f"--out: {out} holds something that `{maker}` did not write; name another folder")
    return target


def write_mark(path: Path, maker: str, fields: dict[str, Any]) -> None:
    """Write the file that marks its folder as written by `maker`. Among the fields, `files` names what is in it."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode({"made_by": maker, **fields})) + b"\n")


def _written(folder: Path, mark: str, maker: str) -> set[str]:
    try:
        manifest = from_json((folder / mark).read_bytes(), dict[str, Any])
        return {mark, *manifest["files"]} if manifest["made_by"] == maker else set()
    except (OSError, ValueError, KeyError, TypeError):
        return set()
