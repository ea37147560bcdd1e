"""Passphrases of keys: asked for on a terminal, or read from an open file. They stand in no argument, no variable of
the environment and no message."""

from __future__ import annotations

import contextlib
import getpass
import os
import sys
from pathlib import Path

from coterie.errors import InputError, StudyError
from coterie.study.identity import needs_passphrase

__all__ = ["ask_new_passphrase", "passphrase_for", "read_passphrase"]

#: The longest passphrase that is read, in bytes.
MOST = 4096


def passphrase_for(key: Path, descriptor: int | None) -> bytes | None:
    """What opens a key: nothing, if it needs nothing; from the file with that number, else from the terminal. None
    where there is neither, and where the key cannot be read: loading it then says what to do."""
    try:
        if not needs_passphrase(key):
            return None
    except StudyError:
        return None
    if descriptor is not None:
        return read_passphrase(descriptor)
    if not sys.stdin.isatty():
        return None
    return _ask(f"passphrase of {key}: ")


def ask_new_passphrase(key: Path) -> bytes:
    """A passphrase for a key, asked for twice."""
    if not sys.stdin.isatty():
        raise InputError(
            "there is no terminal to ask for a passphrase; hand it over with --passphrase-fd N, where N is the number "
            "of an open file whose first line is the passphrase"
        )
    given = _ask(f"new passphrase of {key}: ")
    if not given:
        raise InputError("an empty passphrase protects nothing; nothing was written")
    if _ask("the same once more: ") != given:
        raise InputError("the two are not the same; nothing was written")
    return given


def read_passphrase(descriptor: int, option: str = "--passphrase-fd") -> bytes:
    """The next line of an open file, without its newline. No more than that is read."""
    line = b""
    try:
        while (one := os.read(descriptor, 1)) not in (b"", b"\n"):
            line += one
            if len(line) > MOST:
                raise InputError(f"{option} {descriptor}: the first line is too long for a passphrase")
    except OSError as error:
        raise InputError(f"{option} {descriptor} cannot be read ({error.strerror}); open it in the shell") from None
    if not line:
        raise InputError(f"{option} {descriptor} has no passphrase in its first line")
    return line


def _ask(prompt: str) -> bytes:
    with contextlib.suppress(EOFError):
        return getpass.getpass(prompt).encode()
    raise InputError("no passphrase was given")
