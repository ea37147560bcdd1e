"""What the command line says: to people on a terminal, to a log, or to a machine."""

from __future__ import annotations

import re
import sys
from typing import Any

import msgspec
from rich.console import Console as Rich
from rich.text import Text

__all__ = ["Console", "fold", "json_line", "printable"]

#: What stands before the text of a line.
MARK = re.compile(r" *(- |ok   |NO   |\?    |note |\d\d:\d\d:\d\d )| +")


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
            self.rich.print("\n".join(fold(printable(line), self.rich) for line in text.split("\n")), markup=False)

    def show(self, renderable: Any, event: str, **fields: Any) -> None:
        """A table or the like, in place of a line."""
        if self.json:
            self._emit({"event": event, **fields})
        elif not self.quiet:
            self.rich.print(renderable)

    def error(self, text: str, code: int) -> int:
        """What went wrong, and the exit code that it leads to."""
        first, *more = f"coterie: {text}".split("\n")
        lines = [first, *(line if line.startswith(" ") else f"  {line}" for line in more)]  # none looks like a first
        plain = "\n".join(fold(printable(line), Rich(stderr=True)) for line in lines)
        line = json_line({"event": "error", "text": text, "code": code}) if self.json else plain
        print(line, file=sys.stderr, flush=True)
        return code

    @staticmethod
    def _emit(fields: dict[str, Any]) -> None:
        print(json_line(fields), flush=True)


def fold(line: str, screen: Rich) -> str:
    """A line that breaks between words where the screen ends, and goes on below where its text begins: behind the mark
    of an entry in a list, of a check, or the time. Elsewhere than on a terminal, it stays one line."""
    if not screen.is_terminal or screen.is_dumb_terminal:
        return line
    mark = MARK.match(line)
    indent = mark.end() if mark else 0
    broken = Text(line[indent:]).wrap(screen, max(screen.width - indent, 20))
    return line[:indent] + ("\n" + " " * indent).join(part.plain.rstrip() for part in broken)


def printable(text: str) -> str:
    """One line, with whatever is not printed as it is written as an escape, as in JSON."""
    return "".join(one if one.isprintable() else _escape(one) for one in text)


def _escape(one: str) -> str:
    units = one.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def json_line(fields: dict[str, Any]) -> str:
    """One object, on one line that can be shown anywhere."""
    return printable(msgspec.json.encode(fields).decode())
