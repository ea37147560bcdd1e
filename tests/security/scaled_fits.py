"""Fits with weights of columns, measures of quality and several numbers of clusters, in families with a dealer; and the
steps of `onetime` that only these have, each with two very different inputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from coterie.clustering import Layout
from coterie.protocols.interface import Problem
from coterie.protocols.metric import Metric
from coterie.protocols.onetime import OneTime
from coterie.protocols.onetime.centers import weigh_centers
from coterie.ring import Array, FixedPoint
from coterie.runtime.job import Job
from coterie.sharing import Party
from tests.security.fits import Study, far, near
from tests.security.onetime_fits import OneTimeStudy
from tests.security.onetime_primitives import WORDS, Primitive, cells, centers_of, own_part
from tests.security.primitives import shared
from tests.support import Ran

#: Sums of 32 bits at 200 rows, scores of 56, a look-up of 8: every bit of every frame is used.
HALF = 1 << 21
METRIC = Metric(mantissa=7, octaves=1, inside=False)
ENCODING = FixedPoint((-float(HALF),) * 2, (float(HALF),) * 2, ("a", "b"), 0)
SCALED = {"encoding": ENCODING, "metric": METRIC}
TWO_NUMBERS = ((0, 25), (5, 20, 40))
CHOOSING = {"clusters": 3, "choices": (2, 3), "encoding": ENCODING}


@dataclass(frozen=True)
class ScaledStudy(OneTimeStudy):
    """A study of any family; `task` changes what is agreed on."""

    protocol: str = "onetime"

    def jobs(self, data: Array) -> list[Job]:
        jobs = Study.jobs(self, data)
        task = msgspec.structs.replace(jobs[0].task, **{"protocol": self.protocol, "encoding": ENCODING, **self.task})
        return [msgspec.structs.replace(job, task=task) for job in jobs]


def spread_out(study: ScaledStudy) -> Array:
    """As `far`, in range."""
    return far(study.rows, study.columns) >> 5


def close_by(study: ScaledStudy) -> Array:
    return near(study.rows, study.columns)


def fitted(study: ScaledStudy) -> Ran:
    return study.fit(spread_out(study))


STUDIES = {
    "standardised": ScaledStudy(task={**SCALED, "quality": ()}),
    "standardised, quality": ScaledStudy(p=3, task=SCALED),
    "standardised, a patchwork": ScaledStudy("mixed", p=3, task={**SCALED, "scales": "secret"}),
    "standardised, shared centres": ScaledStudy(task={**SCALED, "centers": "shared"}),
    "standardised, drawn": ScaledStudy(p=3, drawn=True, task={**SCALED, "quality": ("silhouette",)}),
    "standardised, two starts": ScaledStudy(starts=((0, 25, 50), (5, 20, 40)), task=SCALED),
    "silhouette": ScaledStudy(task={"quality": ("silhouette",)}),
    "Calinski-Harabasz": ScaledStudy(p=3, task={"quality": ("calinski-harabasz",)}),
    "no quality": ScaledStudy(task={"quality": ()}),
    "a tolerance": ScaledStudy(task={"tol": 1e-15, "quality": ()}),
    "several k": ScaledStudy(starts=TWO_NUMBERS, task=CHOOSING),
    "several k, in secret": ScaledStudy(
        p=3, starts=TWO_NUMBERS, task={**CHOOSING, "measures": "secret", "quality": ("inertia",)}
    ),
    "several k, by silhouette": ScaledStudy(starts=TWO_NUMBERS, task={**CHOOSING, "choose": "silhouette"}),
    "several k, by silhouette, in secret": ScaledStudy(
        starts=TWO_NUMBERS, task={**CHOOSING, "choose": "silhouette", "measures": "secret", "quality": ()}
    ),
    "several k, standardised": ScaledStudy("mixed", starts=TWO_NUMBERS, task={**CHOOSING, **SCALED}),
    "several k, standardised, drawn": ScaledStudy(p=3, starts=TWO_NUMBERS, drawn=True, task={**CHOOSING, **SCALED}),
}
SECURENN = {
    name: replace(STUDIES[name], rows=30, starts=starts, protocol="securenn")
    for name, starts in [
        ("standardised, quality", ((0, 10),)),
        ("standardised, a patchwork", ((0, 10),)),
        ("several k, in secret", ((0, 10), (5, 20, 25))),
        ("several k, by silhouette", ((0, 10), (5, 20, 25))),
    ]
}
#: Everything at once, of a size that fills frames.
FILLED = ScaledStudy(
    p=3, rows=200, starts=((0, 25, 50, 75, 100, 125, 150, 175),), options={"block_rows": 64}, task=SCALED
)
#: Iterations that go on where nothing moves any more.
RESTLESS = {
    "standardised": ScaledStudy(p=3, task={**SCALED, "tol": -1.0, "max_iter": 4}),
    "several k": ScaledStudy(p=3, starts=TWO_NUMBERS, task={**CHOOSING, **SCALED, "tol": -1.0, "max_iter": 3}),
}


# -- steps -----------------------------------------------------------------------------------------------------------


def _weighed(times: int) -> Any:
    """Centres times weights: under as many different weights."""

    def role(me: Party, value: int, weight: int) -> None:
        centers = centers_of(me, np.full((512, 4), value))
        for _ in range(times):
            weigh_centers(me, centers, centers_of(me, np.full((1, 4), weight)))

    return role


def _squares(me: Party, value: int, weight: int) -> None:
    """A table, and the weighted squares of its rows."""
    layout = cells(256, me.world.p, 6)
    family = OneTime(me, Problem(layout.n, 2, (9,) * layout.d, 128, metric=METRIC))
    table = family.table(own_part(me, layout, value), layout)
    family.weigh_squares(table, shared(me, WORDS, np.full((1, 6), weight)))


def _column_weights(me: Party, scatter: int) -> None:
    family = OneTime(me, Problem(1000, 2, (1 << 16,) * 512, metric=METRIC))
    family.column_weights(shared(me, WORDS, np.full(512, scatter)))


def _silhouette(me: Party, value: int, center: int) -> None:
    """Scores of 16 bits; distances are measured in whole words."""
    n, p = 2048, me.world.p
    family = OneTime(me, Problem(n, 4, (63,), n))
    layout = Layout("horizontal", n, 1, rows=(n, *[0] * (p - 1)))
    table = family.table(own_part(me, layout, value), layout)
    centers = shared(me, WORDS, np.full((4, 1), center))
    family.silhouette(table, family.label(table, centers), centers, None)


WEIGHED = Primitive("weighed centres", _weighed(1), ((0, 0), (2**40, -5)))
TWICE_WEIGHED = Primitive("centres by two weights", _weighed(2), ((0, 0), (2**40, -5)))
SQUARES = Primitive("weighted squares", _squares, ((0, 0), (-(2**20), 2**30)))
COLUMN_WEIGHTS = Primitive("weights of columns", _column_weights, ((0,), (2**40 + 12_345,)))
SILHOUETTE = Primitive("silhouette", _silhouette, ((0, 0), (63, -63)))
PRIMITIVES = (WEIGHED, TWICE_WEIGHED, SQUARES, COLUMN_WEIGHTS, SILHOUETTE)
