"""What the command line says: to people on a terminal, to a log, or to a machine."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
from rich.console import Console as Rich

__all__ = ["Console", "json_line", "printable"]


class Console:
    """Lines on standard output, errors on standard error. With `json`, one object a line.

    Texts may come from files that others have written: what could move the cursor, hide or reorder what is shown is
    spelt out.
    """

    def __init__(self, quiet: bool = False, json: bool = False) -> None:
        self.quiet, self.json = quiet, json
        self.rich = Rich(stderr=False, highlight=False)
        self.rich.soft_wrap = not self.rich.is_terminal  # on a terminal, lines break between words

    @property
    def live(self) -> bool:
        """May lines be drawn over?"""
        return self.rich.is_terminal and not self.rich.is_dumb_terminal and not self.quiet and not self.json

    def say(self, text: str, event: str = "message", **fields: Any) -> None:
        """A line for people; to machines, the event and its fields."""
        if self.json:
            self._emit({"event": event, "text": text, **fields})
        elif not self.quiet:
            self.rich.print("\n".join(map(printable, text.split("\n"))), markup=False)

    def show(self, renderable: Any, event: str, **fields: Any) -> None:
        """A table or the like, in place of a line."""
        if self.json:
            self._emit({"event": event, **fields})
        elif not self.quiet:
            self.rich.print(renderable)

    def error(self, text: str, code: int) -> int:
        """What went wrong, and the exit code that it leads to."""
        line = json_line({"event": "error", "text": text, "code": code}) if self.json else f"coterie: {printable(text)}"
        print(line, file=sys.stderr, flush=True)
        return code

    @staticmethod
    def _emit(fields: dict[str, Any]) -> None:
        print(json_line(fields), flush=True)


def printable(text: str) -> str:
    """One line, with whatever is not printed as it is written as an escape, as in JSON."""
    return "".join(one if one.isprintable() else _escape(one) for one in text)


def _escape(one: str) -> str:
    units = one.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def json_line(fields: dict[str, Any]) -> str:
    """One object, on one line that can be shown anywhere."""
    return printable(msgspec.json.encode(fields).decode())
