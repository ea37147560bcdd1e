"""Folders that are filled out of sight and then shown whole.

A draft is a hidden folder with a file that says so (`MARK`) and, beside that, the folder to be shown. Where nothing
stands yet, this one is renamed into its place. A folder that is there already and is empty (a mounted volume, say, or
one behind a link) stays: files are moved into it one by one, manifest.json last.

Nothing is deleted that Coterie did not write: of the drafts that killed runs leave, only those that hold known files.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from coterie.errors import InputError
from coterie.study.files import sync_folder
from coterie.typed import convert, from_json

__all__ = ["folder_for", "is_empty", "remove_left_over", "try_place"]

MARK, SHOWN, LAST = "draft-of-coterie", "shown", "manifest.json"
TEXT = b"Coterie is writing a folder here. What a killed run has left is removed by a later one.\n"
#: What a run, a prediction or a survey writes, under its own name or under that of a file that is being written.
OURS = re.compile(
    r"\.?(survey\.json|survey\.html|"
    r"centers\.csv|labels\.parquet|model\.json|report\.html|disclosures\.jsonl|traffic\.json|manifest\.json)"
    r"(\.part|\.[a-z0-9_]{8})?"
)


def is_empty(folder: Path) -> bool:
    """Nothing is in there but what a file system puts there."""
    return not any(one.name != "lost+found" for one in folder.iterdir())


def try_place(path: Path) -> None:
    """Find out whether a folder can be shown there: begin a draft, write in it, and remove it again."""
    near = path if path.is_dir() else next(folder for folder in path.absolute().parents if folder.exists())
    try:
        draft = _begin(near, path.name)
        try:
            with (draft / SHOWN / LAST).open("wb") as file:
                file.write(TEXT)
                file.flush()
                os.fsync(file.fileno())
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise InputError(f"--out {path}: nothing can be written in {near} ({error.strerror})") from None


@contextmanager
def folder_for(path: Path, replace: bool = True) -> Iterator[Path]:
    """A folder to fill, which is shown as `path` when all went well, and is gone when not. `replace`: a folder that is
    there and holds something is replaced; otherwise it stays, and is an error."""
    try:
        inside = path.is_dir() and is_empty(path)
        if not inside:
            path.parent.mkdir(parents=True, exist_ok=True)
        draft = _begin(path if inside else path.parent, path.name)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror})") from None
    try:
        yield draft / SHOWN
        for file in filter(Path.is_file, (draft / SHOWN).rglob("*")):
            with file.open("rb") as stream:
                os.fsync(stream.fileno())
        if inside:
            _move_in(draft / SHOWN, path)
        elif replace and path.exists():
            _swap(draft, path)
        else:
            os.rename(draft / SHOWN, path)  # fails if something has come to be there
        sync_folder(path if inside else path.parent)
        remove_left_over(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror})") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def remove_left_over(path: Path) -> None:
    """Remove what killed runs have left of `path`: drafts beside or inside it, and files that one of them was moving
    in. Drafts that somebody has put something into stay."""
    name = re.compile(rf"\.{re.escape(path.name)}\.draft-[a-z0-9_]{{8}}")
    for folder in (path, path.parent):
        with suppress(OSError):
            for draft in [one for one in folder.iterdir() if name.fullmatch(one.name) and _is_left_over(one)]:
                if folder == path and not (path / LAST).exists():
                    _remove_moved(draft, path)
                shutil.rmtree(draft, ignore_errors=True)


def _begin(folder: Path, name: str) -> Path:
    draft = Path(tempfile.mkdtemp(prefix=f".{name}.draft-", dir=folder))
    try:
        (draft / MARK).write_bytes(TEXT)
        (draft / SHOWN).mkdir(mode=0o700)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return draft


def _move_in(shown: Path, path: Path) -> None:
    """All of it, or nothing. Others may look into a folder that was there before: the files are for their owner."""
    moved = []
    try:
        for one in sorted(shown.iterdir(), key=lambda file: (file.name == LAST, file.name)):
            target = path / one.name
            if os.path.lexists(target):
                raise InputError(f"{target} has come to be there since this run began; choose another folder")
            one.chmod(one.stat().st_mode & 0o700)
            moved.append(target)
            os.rename(one, target)
    except BaseException:
        for target in moved:
            if target.is_dir():
                shutil.rmtree(target, ignore_errors=True)
            else:
                target.unlink(missing_ok=True)
        raise


def _swap(draft: Path, path: Path) -> None:
    """What was there goes into the draft, which is removed; or comes back."""
    before = draft / "before"
    os.rename(path, before)
    try:
        os.rename(draft / SHOWN, path)
    except BaseException:  # an OSError, or a signal
        if not path.exists():
            os.rename(before, path)
        raise


def _is_left_over(draft: Path) -> bool:
    """Is it a draft that holds nothing but what Coterie writes?"""
    mark, shown = draft / MARK, draft / SHOWN
    if draft.is_symlink() or shown.is_symlink() or not mark.is_file() or mark.read_bytes() != TEXT:
        return False
    inside = [one for one in draft.rglob("*") if one not in (mark, shown)]
    return all(one.parent == shown and one.is_file() and OURS.fullmatch(one.name) for one in inside)


def _remove_moved(draft: Path, path: Path) -> None:
    """Files that were moved out of a draft, as its manifest knows them; those of other content stay."""
    try:
        manifest = from_json((draft / SHOWN / LAST).read_bytes(), dict[str, Any])
        files = convert(manifest.get("files"), dict[str, str])
    except (OSError, ValueError, RecursionError):  # nothing was moved before there was a manifest
        return
    for name, digest in files.items():
        file = path / name
        if OURS.fullmatch(name) and file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == digest:
            file.unlink()
