"""Surveys on this machine: every role as a thread, and the plaintext oracle on what all parties have counted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coterie.protocols import FAMILIES, Ints, Plaintext, load_family
from coterie.randomness import Dealing, Streams
from coterie.runtime.threads import run_threads
from coterie.sharing import Party
from coterie.surveys import Surveyed, SurveyTask, take_survey
from coterie.transport import Metered, Traffic, World, memory_channels

__all__ = ["run_survey_oracle", "survey_in_threads"]


def survey_in_threads(task: SurveyTask, tallies: Sequence[Ints], owners: Sequence[str]) -> tuple[Surveyed, Traffic]:
    """What the first owner knows at the end, and what everybody has sent. `tallies`: what each owner enters."""
    family = FAMILIES[task.protocol]
    world = family.world(owners)

    def role(me: Party) -> tuple[Surveyed, Traffic]:
        own = tallies[world.owners.index(me.rank)] if me.owns else None
        return take_survey(family(me, task.problem), task, own), me.channel.traffic()

    load_family(family)
    results = run_threads(world, role)
    surveyed = results[list(world.ranks).index(world.owners[0])][0]
    return surveyed, Traffic.together([traffic for _, traffic in results])


def run_survey_oracle(task: SurveyTask, tallies: Sequence[Ints]) -> Surveyed:
    """What every run of the task must give, whatever the family's secrets: the same program in the clear, with the
    division of the task's family."""
    world = World(("P0", "P1"))
    channel, streams = Metered(memory_channels(world)[1]), Streams(world, 1, {})
    me = Party(channel, streams, Dealing(channel, streams))
    family = Plaintext(me, task.problem, divisions=FAMILIES[task.protocol].divisions)
    return take_survey(family, task, np.sum(list(tallies), axis=0))
