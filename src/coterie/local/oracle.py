"""The plaintext oracle run on a table that one role holds whole."""

from __future__ import annotations

import msgspec

from coterie.clustering import Layout, Outcome, Task, fit
from coterie.protocols import FAMILIES, Ints, Plaintext
from coterie.randomness import Dealing, Streams
from coterie.sharing import Party
from coterie.transport import Metered, World, memory_channels

__all__ = ["run_oracle"]


def run_oracle(task: Task, table: Ints) -> Outcome:
    """What every run of the task must give, whatever the number of parties, partition and transport.

    `table` is the whole data, encoded. The arithmetic is that of the task's protocol family.
    """
    world = World(("P0", "P1"))
    channel = Metered(memory_channels(world)[1])
    streams = Streams(world, 1, {})
    me = Party(channel, streams, Dealing(channel, streams))
    n, d = table.shape
    if task.labels == "private":
        layout = Layout("horizontal", n, d, rows=(len(table),))
    else:
        layout = Layout("vertical", n, d, columns=(tuple(range(d)),))
    alone = msgspec.structs.replace(task, layout=layout)
    family = Plaintext(me, alone.problem, FAMILIES[task.protocol].divisions)
    return fit(family, alone, table)
