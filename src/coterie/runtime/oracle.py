"""The plaintext oracle run on a table that one role holds whole."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from coterie.clustering import Layout, Outcome, Task, fit
from coterie.clustering.rules import Rules, round_to_grid, rules_of
from coterie.clustering.weighing import weighed_at_home
from coterie.errors import ProtocolError
from coterie.protocols import FAMILIES, Ints, Plaintext
from coterie.protocols.interface import Division, Problem
from coterie.protocols.plaintext import in_the_clear, whole
from coterie.randomness import Dealing, Streams
from coterie.sharing import Party, Secret, Shared
from coterie.transport import Metered, World, memory_channels

__all__ = ["run_oracle"]


class _Made(NamedTuple):
    """Centres, and the labels that they are the means of."""

    labels: Ints
    centers: Ints


class _Watched(Plaintext):
    """Remembers what every mean was made of."""

    def __init__(self, me: Party, problem: Problem, divisions: dict[str, Division]) -> None:
        super().__init__(me, problem, divisions=divisions)
        self.made: list[_Made] = []

    def new_centers(self, rows: Secret, labels: Secret, old: Shared) -> Shared:
        made = super().new_centers(rows, labels, old)
        self.made.append(_Made(whole(labels), whole(made)))
        return made


def run_oracle(task: Task, table: Ints, row_weights: Ints | None = None) -> Outcome:
    """What every run of the task must give, whatever the number of parties, partition and transport.

    `table` is the whole data, encoded; `row_weights` (n,): what its rows count for; in a private task, 1 or 0. The
    arithmetic is that of the task's protocol family. Where output rules hold, every opened centre is checked to be a
    mean of enough rows.
    """
    world = World(("P0", "P1"))
    channel = Metered(memory_channels(world)[1])
    streams = Streams(world, 1, {})
    me = Party(channel, streams, Dealing(channel, streams))
    n, d = table.shape
    if task.labels == "revealed":
        layout = Layout("vertical", n, d, columns=(tuple(range(d)),))
    elif weighed_at_home(task):
        layout = Layout("horizontal", n, d, rows=(n,))
    else:
        layout = Layout("mixed", n, d, owners=bytes([1]) * table.size)
    heaviest = 1 if task.private else task.most_weight
    alone = msgspec.structs.replace(task, layout=layout, private=False, most_weight=heaviest)
    family = _Watched(me, alone.problem, FAMILIES[task.protocol].divisions)
    rules = rules_of(task) if task.least > 1 else None
    outcome = fit(family, alone, table, rules=rules, row_weights=row_weights)
    if rules is not None:
        weights = np.ones(n, np.int64) if row_weights is None else row_weights
        _check_opened(family, alone, rules, outcome, weights)
    return outcome


def _check_opened(family: _Watched, task: Task, rules: Rules, outcome: Outcome, weights: Ints) -> None:
    """Every centre that was opened is the (rounded) mean of a cluster that passes the rules."""
    if outcome.suppressed is None:
        raise ProtocolError("output rules hold, and nobody has tested them")
    kept = whole(outcome.kept["centers"])
    means = [made for made in family.made if len(made.centers) == len(kept)]  # of the number of clusters that is opened
    for j in np.flatnonzero(~outcome.suppressed):
        if not any(_passes(family, task, rules, made, int(j), kept[j], weights) for made in means):
            raise ProtocolError(f"the centre of cluster {j} was opened, and no labelling of enough rows made it")


def _passes(family: _Watched, task: Task, rules: Rules, made: _Made, j: int, center: Ints, weights: Ints) -> bool:
    rounded = round_to_grid(family, task, in_the_clear(made.centers))
    if not np.array_equal(whole(rounded)[j], center):
        return False
    counts = rules.sets.members[:, rules.sets.kind_of] @ (made.labels[:, j] * weights)
    least = rules.least * max(task.most_weight, 1)
    return bool(((counts >= least) | ((counts == 0) & rules.lenient)).all())
