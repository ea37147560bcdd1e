"""Rows where they live: a table in blocks, and steps that go to a block by name.

The rows, masks and labels of a block stay with it. What a step takes along and brings back is public or no larger than
the centres or, to find a start, than a group of rows; labels alone come back row by row, to be opened. So whoever keeps
a block needs the family, the problem and the steps that are declared here, and nothing else: a lane of this process, or
another machine of the same organisation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ProtocolError
from coterie.sharing import Secret, Shared

__all__ = ["STEPS", "Labels", "Resident", "Table", "block_step", "cut", "labels_of", "step_name", "table_of"]

Step = TypeVar("Step", bound=Callable[..., Any])
STEPS: dict[str, Callable[..., Any]] = {}


def step_name(step: Callable[..., Any]) -> str:
    return f"{step.__module__}.{step.__qualname__}"


def block_step(step: Step) -> Step:
    """Declare a step on a block: step(family, block, what it takes along...)."""
    STEPS[step_name(step)] = step
    return step


class Resident:
    """A block of rows, by their numbers, and what stays with it, by name. `holders`: who holds cells of these rows;
    `cells`: how many each of them holds; `groups`: in how many groups its rows lie, where rows are drawn
    (`seeding.py`)."""

    __slots__ = ("cells", "groups", "held", "holders", "number", "rows")

    def __init__(
        self, number: int, rows: NDArray[np.int64], holders: tuple[int, ...] = (), cells: tuple[int, ...] = ()
    ) -> None:
        self.number, self.rows, self.holders, self.cells = number, rows, holders, cells
        self.held: dict[str, Any] = {}
        self.groups = 0

    @property
    def kind(self) -> Hashable:
        """Blocks of the same kind cost the same."""
        return len(self.rows), self.holders, self.cells, self.groups

    def places(self, numbers: Sequence[int]) -> tuple[list[int], list[int]]:
        """Which of the numbers are rows of this block, and where in it they stand."""
        order = np.argsort(self.rows, kind="stable")
        at = np.searchsorted(self.rows, numbers, sorter=order)
        here = [i for i, place in enumerate(at) if place < len(order) and self.rows[order[place]] == numbers[i]]
        return here, [int(order[at[i]]) for i in here]

    def __repr__(self) -> str:
        return f"<Resident {self.number}>"  # never what it holds

    def __reduce__(self) -> NoReturn:
        raise TypeError("a block cannot be pickled")


class Table(Secret):
    """The rows of all (n, d), in blocks. `rough`: weights of columns under which the rows' squares are kept."""

    __slots__ = ("_labelled", "blocks", "rough", "shape")

    def __init__(self, shape: tuple[int, ...], blocks: Sequence[Resident]) -> None:
        self.shape, self.blocks = shape, blocks
        self.rough: Shared | None = None
        self._labelled = 0

    def name_labels(self) -> str:
        self._labelled += 1
        return f"labels {self._labelled}"


class Labels(Secret):
    """One-hot labels, which stay with their blocks under a name until nobody asks for them any more. They may be
    under way: the first use waits for them."""

    __slots__ = ("_brought", "_wait", "name", "table")

    def __init__(self, table: Table, name: str, wait: Callable[[], list[Any]]) -> None:
        self.table, self.name, self._wait = table, name, wait
        self._brought: list[Any] | None = None

    @property
    def blocks(self) -> Sequence[Resident]:
        return self.table.blocks

    def brought(self) -> list[Any]:
        """What labelling has brought back, block by block."""
        if self._brought is None:
            self._brought = self._wait()
        return self._brought

    def settle(self) -> None:
        self.brought()

    def __del__(self) -> None:
        for block in self.blocks:
            block.held.pop(self.name, None)


def cut(n: int, size: int) -> list[Resident]:
    """Blocks of rows that follow each other."""
    return [Resident(b, np.arange(at, min(at + size, n))) for b, at in enumerate(range(0, max(n, 1), size))]


def table_of(value: Secret) -> Table:
    if not isinstance(value, Table):
        raise ProtocolError(f"a {type(value).__name__} is no table of rows")
    return value


def labels_of(value: Secret) -> Labels:
    if not isinstance(value, Labels):
        raise ProtocolError(f"a {type(value).__name__} is no labelling")
    return value
