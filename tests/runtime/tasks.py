"""Small jobs for the tests of local runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.clustering import Layout, Task
from coterie.protocols import Ints
from coterie.ring import FixedPoint
from coterie.runtime.job import Job

NAMES = ("P0", "P1", "P2")
#: Three clear groups of four points, encoded.
TABLE: Ints = np.array([[x + dx, y + dy] for x, y in ((0, 0), (900, 0), (0, 900)) for dx in (0, 7) for dy in (0, 11)])


def task(**options: Any) -> Task:
    """Rows 0..4 of the table at P1, the others at P2; three clusters from a start in each group."""
    encoding = FixedPoint((-16.0, -16.0), (16.0, 16.0), ("x", "y"), 6)
    layout = Layout("horizontal", len(TABLE), 2, rows=(5, len(TABLE) - 5))
    usual = {"protocol": "securenn", "clusters": 3, "layout": layout, "encoding": encoding, "starts": ((1, 6, 8),)}
    return Task(**usual | options)


def jobs(**options: Any) -> list[Job]:
    agreed = task(**options)
    return [Job(agreed), Job(agreed, block=TABLE[:5]), Job(agreed, block=TABLE[5:])]


def endless(**options: Any) -> list[Job]:
    """Nothing moves by less than nothing: the iterations never stop."""
    return jobs(tol=-1.0, max_iter=10**9, **options)
