"""Which software this is: its version, and a digest of its files, which the participants of a run compare.

The digest is what these commands print in the package's folder, installed, cloned or unpacked:

    find * -type f ! -path '*__pycache__*' ! -name '*.pyc' | LC_ALL=C sort | xargs sha256sum | sha256sum
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

from coterie import __version__

__all__ = ["describe_software", "digest_files", "shorten", "software_digest"]


@cache
def software_digest() -> str:
    """Of the files that this process runs, as they were when it first asked."""
    return digest_files(Path(__file__).parent)


def digest_files(package: Path) -> str:
    """SHA-256 of a list of all files with their own SHA-256, in the order of their paths; compiled files do not count,
    since Python makes them from the others."""
    listed = []
    for folder, inner, files in os.walk(package):
        inner[:] = [name for name in inner if name != "__pycache__"]
        listed += [Path(folder, name) for name in files if not name.endswith(".pyc")]
    named = sorted((file.relative_to(package).as_posix(), file) for file in listed)
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {name}\n" for name, file in named]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def shorten(digest: str) -> str:
    """Enough of a digest to tell builds apart."""
    return digest[:12]


def describe_software() -> str:
    """The version with the short digest."""
    return f"{__version__} ({shorten(software_digest())})"
