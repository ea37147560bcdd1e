"""What matching of rows came to, at one participant."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from coterie.clustering import Layout
from coterie.study.prepare import Ready

__all__ = ["Matching"]


@dataclass(frozen=True, repr=False)
class Matching:
    """What matching came to, at one participant: who holds which cells of the table; at an owner, which of its rows
    take part in which order (all, if it is not said), and in which slots they stand, if not one after the other; at the
    helper of private matching, for each slot 1 if it counts, else 0."""

    layout: Layout
    kept: NDArray[np.intp] | None = None
    slots: NDArray[np.int64] | None = None
    members: NDArray[np.int64] | None = None

    def apply(self, ready: Ready) -> Ready:
        """The participant with the rows that take part."""
        if self.kept is not None:
            assert ready.rows is not None
            assert ready.order is not None
            ready = replace(ready, rows=ready.rows.take(self.kept), order=ready.order[self.kept])
        return replace(ready, slots=self.slots, members=self.members)
