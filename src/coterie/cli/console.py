"""What the command line says: to people on a terminal, to a log, or to a machine."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
from rich.console import Console as Rich

__all__ = ["Console"]


class Console:
    """Lines on standard output, errors on standard error. With `json`, one object a line."""

    def __init__(self, quiet: bool = False, json: bool = False) -> None:
        self.quiet, self.json = quiet, json
        self.rich = Rich(stderr=False, soft_wrap=True, highlight=False)

    @property
    def live(self) -> bool:
        """May lines be drawn over?"""
        return self.rich.is_terminal and not self.quiet and not self.json

    def say(self, text: str, event: str = "message", **fields: Any) -> None:
        """A line for people; to machines, the event and its fields."""
        if self.json:
            self._emit({"event": event, "text": text, **fields})
        elif not self.quiet:
            self.rich.print(text, markup=False)

    def show(self, renderable: Any, event: str, **fields: Any) -> None:
        """A table or the like, in place of a line."""
        if self.json:
            self._emit({"event": event, **fields})
        elif not self.quiet:
            self.rich.print(renderable)

    def error(self, text: str, code: int) -> int:
        """What went wrong, and the exit code that it leads to."""
        line = _line({"event": "error", "text": text, "code": code}) if self.json else f"coterie: {text}"
        print(line, file=sys.stderr, flush=True)
        return code

    @staticmethod
    def _emit(fields: dict[str, Any]) -> None:
        print(_line(fields), flush=True)


def _line(fields: dict[str, Any]) -> str:
    return msgspec.json.encode(fields).decode()
