"""What a survey will cost, exact in rounds and bytes: run dry at the dealer's chair or, without a dealer, rehearsed."""

from __future__ import annotations

import numpy as np

from coterie.planning.dry_run import DryChannel, DryParty
from coterie.protocols import FAMILIES
from coterie.randomness import Dealing, Streams
from coterie.runtime.threads import run_threads
from coterie.sharing import Party
from coterie.surveys import SurveyTask, take_survey
from coterie.surveys.tally import tally_size
from coterie.transport import Traffic, World

__all__ = ["forecast_survey"]


def forecast_survey(task: SurveyTask, world: World) -> tuple[int, dict[str, int]]:
    """Rounds, and bytes that each sends, by name. Nothing of it depends on the data, nor on which columns are open."""
    family = FAMILIES[task.protocol]
    if world.dealer is not None:
        channel = DryChannel(world, stop=False)
        streams = Streams(world, 0, {})  # without secrets, from which nothing can be drawn
        me = DryParty(channel, streams, Dealing(channel, streams))
        take_survey(family(me, task.problem), task, None)
        rounds, *sent = channel.taken().tolist()
        return rounds, {world.names[rank]: sent[rank] for rank in world.ranks}

    def role(me: Party) -> Traffic:
        own = np.zeros(tally_size(task), np.int64) if me.owns else None
        take_survey(family(me, task.problem), task, own)
        return me.channel.traffic()

    traffic = Traffic.together(run_threads(world, role))
    return traffic.rounds, {name: traffic.bytes_sent.get(name, 0) for name in world.everybody}
