"""What a sample of mutants comes to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec

from tests.mutation.mutants import Mutant

__all__ = ["DETECTED", "Fate", "Tried", "interval", "table"]

Fate = Literal["killed", "timed out", "survived"]
#: A test failed, or could not even be imported; or the tests took far longer than they do without the change.
DETECTED = ("killed", "timed out")
Z = 1.959964  # 95 %


class Tried(msgspec.Struct, frozen=True):
    """A mutant, what became of it, the lines that it changes, and how many seconds it took."""

    mutant: Mutant
    fate: Fate
    lines: list[str]
    seconds: float


def interval(hits: int, count: int, z: float = Z) -> tuple[float, float]:
    """Wilson's interval for a share (Wilson, 1927): also right for small counts and for shares near 0 and 1."""
    if count == 0:
        return 0.0, 1.0
    share, square = hits / count, z * z
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = z / (1 + square / count) * math.sqrt(share * (1 - share) / count + square / (4 * count * count))
    return max(middle - half, 0.0), min(middle + half, 1.0)


def table(tried: Sequence[Tried], wanted: int, seed: int, places: int) -> str:
    """Score and survivors, in Markdown."""
    folders = Counter(_folder(one) for one in tried)
    caught = Counter(_folder(one) for one in tried if one.fate in DETECTED)
    lines = [
        f"{len(tried)} of a sample of {wanted} mutants (seed {seed}, {places} places) were tried.",
        "",
        "| folder | tried | detected | score | 95 % |",
        "|---|---|---|---|---|",
        *(_row(name, caught[name], folders[name]) for name in sorted(folders)),
        _row("**all**", sum(caught.values()), len(tried)),
        "",
    ]
    survivors = [one for one in tried if one.fate not in DETECTED]
    lines += [f"{len(survivors)} survived:", ""] if survivors else ["None survived."]
    for one in survivors:
        lines += [
            f"- `{one.mutant.module}:{one.mutant.line}` {one.mutant.operator.removeprefix('core/')}",
            "",
            "  ```diff",
        ]
        lines += [f"  {line}" for line in one.lines]
        lines += ["  ```"]
    return "\n".join(lines) + "\n"


def _row(name: str, caught: int, count: int) -> str:
    low, high = interval(caught, count)
    share = caught / count if count else 0.0
    return f"| {name} | {count} | {caught} | {share:.1%} | {low:.1%} to {high:.1%} |"


def _folder(one: Tried) -> str:
    return one.mutant.module.split("/")[2]
