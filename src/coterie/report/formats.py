"""Counts, bytes, times, values and lists of names, as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, isfinite, log10

__all__ = ["format_bytes", "format_count", "format_duration", "format_value", "join_names", "pluralise", "spell_number"]


def join_names(names: Sequence[str]) -> str:
    """a, b and c"""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def pluralise(noun: str, count: int) -> str:
    return noun if count == 1 else noun + "s"


def spell_number(count: int) -> str:
    """As a word, if it is a small one."""
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    return words[count] if 0 <= count < len(words) else str(count)


def format_count(count: int) -> str:
    """1,234,567"""
    return f"{count:,}"


def format_bytes(count: float) -> str:
    """A number of bytes, to three digits: 12.3 MB."""
    if count < 1000:
        return f"{count:.0f} bytes"
    for unit in ("kB", "MB", "GB", "TB"):  # noqa: B007
        count /= 1000
        if count < 999.5:
            break
    return f"{count:.3g} {unit}"


def format_duration(seconds: float) -> str:
    """How long something takes: 12 ms, 0.4 s, 42.5 s, 1 min 20 s, 2 h 05 min, 3 days 4 h."""
    if seconds < 0.0995:
        return f"{1000 * seconds:.2g} ms" if seconds > 0 else "0 s"
    if seconds < 0.995:
        return f"{seconds:.2g} s"
    if seconds < 59.95:
        return f"{seconds:.1f} s".replace(".0 ", " ")
    if seconds < 3599.5:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours < 48:
        return f"{hours} h {minutes:02} min" if minutes else f"{hours} h"
    days, hours = divmod(round(seconds / 3600), 24)
    return f"{days} days {hours} h" if hours else f"{days} days"


def format_value(value: float, span: float = 0.0) -> str:
    """A value of a column, as finely as matters in a range of this span."""
    if not isfinite(value):
        return str(value)
    if span <= 0 or not isfinite(span):
        return f"{value:.6g}"
    places = 3 - floor(log10(span))
    if places > 12 or abs(value) >= 1e15:
        return f"{value:.6g}"
    text = f"{value:,.{max(places, 0)}f}"
    return text[1:] if text.startswith("-") and not text.strip("-0.,") else text
