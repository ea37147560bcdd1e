"""Whole fits with `falcon`: two data sets with the same results give each server the same transcripts, also together
with an owner who does not serve."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import msgspec
import numpy as np
import pytest

from coterie.protocols import Falcon
from coterie.protocols.falcon import bits, servers
from coterie.protocols.falcon.servers import Trio
from coterie.ring import Array
from coterie.runtime.job import Job, do
from coterie.runtime.threads import run_threads
from coterie.sharing import Party
from coterie.transport import Channel, Recording, Traffic
from tests.security.onetime_fits import OneTimeStudy
from tests.security.transcripts import COLUMNS, ROWS, check_transcripts
from tests.security.views import condition
from tests.support import Ran, SeededEntropy

SEEDS = 20


class FalconStudy(OneTimeStudy):
    """Of three owners, who serve, and perhaps a fourth."""

    def jobs(self, data: Array) -> list[Job]:
        jobs = super().jobs(data)
        task = msgspec.structs.replace(jobs[0].task, protocol="falcon")
        return [msgspec.structs.replace(job, task=task) for job in jobs]

    def fit(self, data: Array, viewers: frozenset[int] = frozenset(), byte: int = 0, seed: int = 0) -> Ran:
        """Rank 0, which is vacant, has an empty recording."""
        jobs, made = self.jobs(data), defaultdict[int, list[Recording]](list)

        def wrap(channel: Channel) -> Channel:
            made[channel.rank].append(Recording(channel))
            return made[channel.rank][-1]

        def role(me: Party) -> tuple[Any, Traffic]:
            made[me.rank][0].frames.clear()
            condition(me.streams, set(viewers), byte)
            return do(me, jobs[me.rank]), me.channel.traffic()

        world = Falcon.world([f"P{j}" for j in range(1, self.p + 1)])
        found = run_threads(world, role, entropy=lambda rank: SeededEntropy(seed, rank), wrap=wrap)
        recordings = [made[rank][0] for rank in world.ranks]
        results = [one for one, _ in found]
        return Ran(
            [results[0], *results],
            [Recording(recordings[0].inner), *recordings],
            Traffic.together([traffic for _, traffic in found]),
        )


def study_of(partition: str, **more: Any) -> FalconStudy:
    return FalconStudy(partition, p=3, rows=ROWS, columns=COLUMNS, **{"starts": ((0, 1, 2),), **more})


CASES = [
    ("horizontal", {}, {1}),
    ("horizontal", {}, {2}),
    ("vertical", {}, {3}),
    ("mixed", {"options": {"counts": "revealed"}}, {1}),
    ("vertical", {"options": {"labels": "revealed"}}, {2}),
    pytest.param("horizontal", {}, {3}, marks=pytest.mark.slow),
    pytest.param("mixed", {}, {2}, marks=pytest.mark.slow),
    pytest.param("vertical", {"options": {"centers": "shared"}}, {1}, marks=pytest.mark.slow),
    pytest.param("horizontal", {"options": {"least": 2, "sizes": "rounded"}}, {2}, marks=pytest.mark.slow),
    pytest.param("horizontal", {"starts": ((0, 1, 2), (0, 3, 6))}, {3}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("partition", "options", "coalition"), CASES, ids=str)
def test_a_server_cannot_tell_the_data_apart(partition, options, coalition):
    check_transcripts(study_of(partition, **options), coalition, SEEDS)


def without_zero_share(monkeypatch):
    def bare(trio, ring, *shape):
        return ring.zeros(shape), ring.zeros(shape)

    for module in (servers, bits):
        monkeypatch.setattr(module, "around", bare)


def bare_cells(monkeypatch):
    """What a server enters goes out as it is."""
    from coterie.protocols.falcon import entering

    class Open(Trio):
        def fresh(self, share, ring, *shape):
            return super().fresh(share, ring, *shape) * np.uint64(0)

    monkeypatch.setattr(entering, "Trio", Open)


@pytest.mark.parametrize("plant", [without_zero_share, bare_cells])
def test_a_leak_is_seen_in_whole_fits(monkeypatch, plant):
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=r"that the data decide|another distribution|serves twice"):
        check_transcripts(study_of("horizontal"), {1}, SEEDS, planted=True)
