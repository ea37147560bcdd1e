"""Names, texts and paths, quoted for SQL."""

from __future__ import annotations

import os
import re

__all__ = ["quote_name", "quote_path", "quote_text"]


def quote_name(name: str) -> str:
    """A name, quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """A text, quoted for SQL."""
    return "'" + text.replace("'", "''") + "'"


def quote_path(path: str) -> str:
    """The literal by which DuckDB, which takes paths for patterns, finds this file and no other."""
    return quote_text(re.sub(r"[*?\[]", r"[\g<0>]", os.path.abspath(path)))
