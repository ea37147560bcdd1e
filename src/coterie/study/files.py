"""Files as a study needs them: written whole or not at all, read with errors that say which file."""

from __future__ import annotations

import os
import re
import tempfile
import tomllib
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from coterie.errors import CoterieError, InputError, StudyError
from coterie.faults import describe_fault
from coterie.study.wording import in_toml, other_file
from coterie.typed import convert

__all__ = ["check_name", "decode_toml", "read_text", "sync_folder", "write_file"]

T = TypeVar("T")
#: A key of so many parts that Python's reader of TOML takes the square of their number in time.
LONG_KEY = re.compile(r"""(?<![\w\\-])(?:(?:[\w-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*')[ \t]*\.[ \t]*){32}""", re.ASCII)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


def check_name(name: str) -> str:
    """A participant's name stands in file names and in everybody's messages."""
    if not NAME.fullmatch(name):
        raise InputError(f"{name!r} cannot be a name; use up to 40 letters, digits, '-' and '_'")
    return name


def read_text(path: Path, what: str, error: type[CoterieError] = StudyError) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise error(f"{path} is not a text file; is it {what}?") from None
    except OSError as problem:
        raise error(f"{what} {path} cannot be read ({problem.strerror})") from None


def decode_toml(text: str, kind: type[T], path: Path, what: str, error: type[CoterieError] = StudyError) -> T:
    """A typed value from TOML; what is wrong is said with the section and key where it stands."""
    try:
        if LONG_KEY.search(text):
            raise tomllib.TOMLDecodeError("a key has too many parts")
        return convert(tomllib.loads(text), kind)
    except (tomllib.TOMLDecodeError, RecursionError, msgspec.ValidationError) as problem:
        fault = _describe(problem, kind)
    other = other_file(text)
    if other and not set(other.split()) & set(what.split()) - {"a", "file"}:
        raise error(f"{path} is {other}, not {what}")
    raise error(f"{path} is not {what}: {fault}")


def _describe(problem: Exception, kind: type[Any]) -> str:
    """Never a part of the file itself: it may be a private key."""
    if isinstance(problem, msgspec.ValidationError):
        place, fault, whole = describe_fault(problem, kind)
        return ": ".join(filter(None, [in_toml(place, whole), fault]))
    where = re.search(r"\(at ([a-z0-9, ]*)\)", str(problem))
    return f"it cannot be read as TOML{f', at {where[1]}' if where else ''}"


def write_file(path: Path, content: bytes, mode: int = 0o644, replace: bool = True) -> None:
    """Whole or not at all; with `replace=False` an existing file stays and is an error."""
    if not replace and path.exists():
        raise InputError(f"{path} is there already; move it away or choose another name")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # created with mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)  # it has its name already, if a signal came just then
            raise
        sync_folder(path.parent)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror})") from None


def sync_folder(folder: Path) -> None:
    """What was renamed there stays so, whatever happens."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def canonical(value: Any) -> bytes:
    """The one way to write a value down for hashing: JSON with sorted keys."""
    return msgspec.json.encode(value, order="sorted")
