"""Whole fits with injected entropy, on data given as encoded whole numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coterie.clustering import Task
from coterie.data import gather, split
from coterie.ring import Array, FixedPoint
from coterie.runtime.job import Job, do
from tests.ideal_logs import Entry, ideal_log
from tests.security.views import conditioned
from tests.support import Ran

REACH = 1 << 25  # the encoded range is -REACH..REACH, as many steps as n = 60 rows allow


@dataclass(frozen=True)
class Study:
    """What is agreed on before anybody looks at data. `drawn`: rows to start from are drawn in secret, as many as there
    are in `starts`. `weigher`: who gives rows their weights, which follow from the data and are as secret."""

    partition: str = "horizontal"
    p: int = 2
    rows: int = 60
    columns: int = 2
    starts: tuple[tuple[int, ...], ...] = ((0, 25, 50),)
    drawn: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    weigher: str = ""

    @property
    def clusters(self) -> int:
        return len(self.starts[0])

    @property
    def _start(self) -> dict[str, Any]:
        if not self.drawn:
            return {"starts": self.starts}
        return {"seeds": tuple(bytes([start]) for start in range(len(self.starts)))}

    def jobs(self, data: Array) -> list[Job]:
        """A job for every role, the helper's first."""
        names = [f"P{j}" for j in range(1, self.p + 1)]
        table = gather(split(data.astype(np.float64), self.partition, self.p), self.partition, names)
        bounds = (float(REACH),) * self.columns
        encoding = FixedPoint(tuple(-b for b in bounds), bounds, table.names, 0)
        task = Task(
            "securenn", self.clusters, table.layout, encoding, max_iter=2, tol=0.0, **self._start, **self.options
        )
        blocks = [encoding.encode(block, table.layout.own_columns(j + 1)) for j, block in enumerate(table.blocks)]
        jobs = [Job(task), *(Job(task, block=block) for block in blocks)]
        if self.weigher == "dealer":
            jobs[0].row_weights = (data[:, 0] % 3 > 0).astype(np.int64)
        elif self.weigher == "owners":
            weights = 1 + data[:, 0] % task.most_weight
            for rank in range(1, self.p + 1):
                if self.partition == "horizontal" or rank == 1:
                    jobs[rank].row_weights = weights[table.layout.own_rows(rank)]
        return jobs

    def fit(self, data: Array, viewers: frozenset[int] = frozenset(), byte: int = 0, seed: int = 0) -> Ran:
        """Fit; the streams that `viewers` hold are constant."""
        jobs = self.jobs(data)
        ran = conditioned(self.p, lambda me: do(me, jobs[me.rank]), set(viewers), byte, seed)
        assert ran.results[0].outcome.n_iter == 2, "the data were chosen such that no run stops early"
        return ran


def near(rows: int, columns: int) -> Array:
    """Rows that lie close to each other, around zero; not so close that clusters tie, and stay closed."""
    return np.random.default_rng(1).integers(-50, 50, (rows, columns)) << 8


def far(rows: int, columns: int) -> Array:
    """Rows all over the range, most of them in one corner of it."""
    rng = np.random.default_rng(2)
    data = rng.integers(-REACH, REACH, (rows, columns), endpoint=True)
    data[rows // 3 :] = rng.integers(REACH - 1000, REACH, (rows - rows // 3, columns))
    return data


#: From rows that k-means++ draws.
DRAWN = {
    "drawn": Study(drawn=True),
    "drawn, three parties": Study("mixed", p=3, drawn=True, options={"block_rows": 16}),
    "drawn, restarts": Study("vertical", rows=30, starts=((0, 10), (5, 20)), drawn=True),
    "drawn, labels revealed": Study("vertical", p=3, rows=120, columns=3, drawn=True, options={"labels": "revealed"}),
}
#: Rows that have weights.
HEAVY = {"most_weight": 5, "quality": ("inertia",)}
PRIVATE = {"private": True, "least": 2, "quality": ("inertia",)}
WEIGHED = {
    "weights": Study(options=HEAVY, weigher="owners"),
    "weights, drawn, three parties": Study(p=3, drawn=True, options=HEAVY | {"centers": "shared"}, weigher="owners"),
    "weights, vertical": Study("vertical", drawn=True, options=HEAVY, weigher="owners"),
    "private matching": Study("vertical", drawn=True, options=PRIVATE, weigher="dealer"),
    "private matching, three parties": Study("vertical", p=3, columns=3, drawn=True, options=PRIVATE, weigher="dealer"),
}
STUDIES = {
    "horizontal": Study(),
    "horizontal, three parties": Study(p=3),
    "counts revealed": Study(options={"counts": "revealed"}),
    "mixed": Study("mixed", p=2),
    "vertical": Study("vertical"),
    "vertical, labels revealed": Study("vertical", p=3, rows=120, columns=3, options={"labels": "revealed"}),
    "centers shared": Study(options={"centers": "shared"}),
    "restarts": Study(rows=30, starts=((0, 10), (5, 20))),
    "blocks": Study(options={"block_rows": 16}),
    **DRAWN,
    **WEIGHED,
}


def disclosed(ran: Ran) -> Counter[Entry]:
    """What the roles' logs say, all alike: what was opened, to whom, in which iteration."""
    logs = [
        Counter((entry.what, entry.to, entry.iteration) for entry in report.outcome.disclosures)
        for report in ran.results
    ]
    assert all(log == logs[0] for log in logs)
    return logs[0]


def allowed(study: Study) -> Counter[Entry]:
    """What the ideal functionality says, for two iterations of every restart."""
    (job, *_) = study.jobs(far(study.rows, study.columns))
    return ideal_log(job.task, study.p, [2] * len(study.starts))


def check_disclosures(study: Study) -> None:
    """A fit opens what the ideal functionality says for its options, and nothing else."""
    assert disclosed(study.fit(far(study.rows, study.columns))) == allowed(study)
