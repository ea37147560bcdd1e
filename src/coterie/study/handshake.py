"""How the participants agree on one run, before anything of the data is sent.

1. Everybody posts a greeting: version and digest of the software, hash of each section of the study, how many rows it
   brings, the least cluster size its policy asks for, the checkpoints it holds, a fresh nonce.
2. Everybody compares. The strictest least size holds, and nobody brings more rows than the study allows. From the
   greetings follow the layout, the task, the epoch, the checkpoint to go on from, the session and the run: that of the
   checkpoint, or a new one.
3. P1 measures the link to every other participant, from which the plan follows; everybody comes to the same plan and
   the same task, or stops.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from coterie.clustering import Layout, Task
from coterie.errors import DataError, FrameError, PolicyError, StudyError
from coterie.planning import planned
from coterie.study.agreement import Study
from coterie.study.checkpoint import Mark, newest_common
from coterie.study.files import canonical
from coterie.study.greetings import MOST_EPOCH, Front, Greeting, Purpose, compare_cards, read_letter
from coterie.study.tasks import make_study_task, seeds_of
from coterie.transport import Channel, World
from coterie.transport.links import Link

__all__ = ["Agreed", "Greeted", "Proposal", "agree_on_task", "check_brought", "compare_tasks", "greet_everybody"]

#: How a link is measured: so many round trips, and one array of so many bytes.
TRIPS, PROBE_BYTES = 3, 1 << 18


class Proposal(msgspec.Struct, frozen=True):
    """The slowest link that P1 has found, from which the plan follows, and a hash of the whole task, plan included."""

    link: Link
    task: str


@dataclass(frozen=True, kw_only=True)
class Greeted:
    """Who is there, in which session; `mark`: the checkpoint to go on from; `restart`: none, because somebody wants it
    so. `run`: the session in which the run was begun, which keeps this name however often it is taken up. `replayed`:
    nothing is left of it but to open its results, perhaps once more. `greetings`: what each has said, by name."""

    world: World
    epoch: int
    mark: Mark | None
    run: str
    restart: bool = False
    replayed: bool = False
    greetings: Mapping[str, Greeting] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Agreed(Greeted):
    """What everybody will do."""

    task: Task
    link: Link

    @property
    def terms(self) -> str:
        """A hash of what is computed and opened, whatever the plan."""
        whole = msgspec.structs.replace(self.task, block_rows=0, lanes=0, schedule=(), schedules=(), collect_from=0)
        return hashlib.sha256(msgspec.msgpack.encode(whole)).hexdigest()


def greet_everybody(channel: Channel, study: Study, own: Greeting) -> Greeted:
    """Step 1, at every participant: who brings what, and in which session."""
    me, others = channel.rank, channel.world.peers(channel.rank)
    for other in others:
        channel.post(other, msgspec.msgpack.encode(own))
    greetings = {me: own}
    letters = {other: channel.collect(other) for other in others}
    for other in others:
        name = channel.world.names[other]
        compare_cards(study, read_letter(letters[other], Front, name, "greeting").card, name, channel.world.names[me])
        greetings[other] = read_letter(letters[other], Greeting, name, "greeting")
    for other in others:
        if greetings[other].purpose != own.purpose:
            name = channel.world.names[other]
            raise StudyError(f"{name} has started a {greetings[other].purpose}, not a {own.purpose}")
    world = channel.world
    ordered = [greetings[rank] for rank in world.ranks]
    said = dict(zip(world.everybody, ordered, strict=True))
    _check_claimed_rows(study, said)
    restart = any(one.restart for one in ordered)
    # nothing of a dealer is needed; an owner who does not serve holds no share, but must bring the same data
    mark = None if restart else newest_common([greetings[rank].marks for rank in world.players])
    starts = study.clustering.starts
    if mark is not None and (mark.start > starts or mark.iteration > study.clustering.max_iter):
        name = world.names[world.owners[0]]
        raise FrameError(f"{name} holds a checkpoint that makes no sense (of a restart that there is not)", name)
    epoch = min(1 + max(one.epoch for one in ordered), MOST_EPOCH)  # whoever claims the most stops nobody for good
    nonces = b"".join(one.nonce for one in ordered)
    common = canonical([own.card.sections, epoch, own.purpose, mark, restart])
    session = hashlib.sha256(b"coterie session" + common + nonces).digest()[:16]
    run = session.hex() if mark is None else mark.run
    return Greeted(
        world=replace(world, session=session),
        epoch=epoch,
        mark=mark,
        run=run,
        restart=restart,
        replayed=mark is not None and mark.start == starts,
        greetings=said,
    )


def agree_on_task(
    channel: Channel, study: Study, purpose: Purpose, greeted: Greeted, matched: Layout | None = None
) -> Agreed:
    """Steps 2 and 3: what is computed, and how. `matched`: who holds what, where rows were matched."""
    task = make_study_task(study, purpose, greeted.greetings, matched)
    if purpose == "fit":
        task = msgspec.structs.replace(task, seeds=seeds_of(study, greeted.run))
    task, link = _plan(channel, task)
    return Agreed(**vars(greeted), task=task, link=link)


def compare_tasks(channel: Channel, task: msgspec.Struct) -> None:
    """Where there is nothing to plan: everybody tells everybody a hash of the task, and all must be the same."""
    own = hashlib.sha256(msgspec.msgpack.encode(task)).digest()
    others = channel.world.peers(channel.rank)
    for other in others:
        channel.post(other, own)
    for other in others:
        if channel.collect(other) != own:
            name = channel.world.names[other]
            raise FrameError(f"{name} is about to compute something else than what was agreed on", name)


def _check_claimed_rows(study: Study, said: Mapping[str, Greeting]) -> None:
    """Everybody sets memory aside for as many rows as a party says that it has."""
    most = study.data.most_rows
    for name in study.roles.owners:
        if said[name].rows > most:
            raise DataError(
                f"{name} says that it has {said[name].rows} rows; the study allows each party at most {most}"
            )


def check_brought(greeted: Greeted, study: Study, most: int | None) -> None:
    """Do the parties bring more rows, in all, than this participant's limits allow? `most`: None for no limit."""
    brought = {name: greeted.greetings[name].rows for name in study.roles.owners}
    if most is not None and sum(brought.values()) > most:
        each = ", ".join(f"{name} {rows:,}" for name, rows in brought.items())
        raise PolicyError(
            f"the parties bring more rows than are served here (--most-rows {most}): {each}; {sum(brought.values()):,} "
            "in all"
        )


def _plan(channel: Channel, task: Task) -> tuple[Task, Link]:
    """Step 3: P1 measures and says what follows from it; everybody else comes to the same, or stops."""
    names, p, others = channel.world.names, channel.world.p, channel.world.peers(1)
    if channel.rank == 1:
        link = _measured(channel, others)
        task = planned(task, p, "auto", link)
        proposal = Proposal(link, _digest(task))
        for other in others:
            channel.post(other, msgspec.msgpack.encode(proposal))
        return task, link
    _be_measured(channel)
    proposal = read_letter(channel.collect(1), Proposal, names[1], "plan")
    link = proposal.link
    if not (0 <= link.round_trip < math.inf and 1 <= link.bandwidth < math.inf):
        raise FrameError(f"{names[1]} sent a plan that makes no sense (for an impossible link)", names[1])
    task = planned(task, p, "auto", link)
    if _digest(task) != proposal.task:
        raise FrameError(f"{names[1]} is about to compute something else than what was agreed on", names[1])
    return task, link


def _digest(task: Task) -> str:
    return hashlib.sha256(msgspec.msgpack.encode(task)).hexdigest()


def _measured(channel: Channel, others: list[int]) -> Link:
    """The slowest of the links from here: the shortest of several round trips, and how fast an array arrives."""
    trips, widths = [], []
    for other in others:
        took = []
        for _ in range(TRIPS):
            began = time.perf_counter()
            channel.post(other, b"ping")
            channel.collect(other)
            took.append(time.perf_counter() - began)
        began = time.perf_counter()
        channel.send(other, np.zeros(PROBE_BYTES, np.uint8))
        channel.collect(other)
        sending = time.perf_counter() - began - min(took)
        trips.append(min(took))
        widths.append(PROBE_BYTES / max(sending, 1e-6))
    return Link(round(max(trips), 6), float(max(round(min(widths)), 1)))


def _be_measured(channel: Channel) -> None:
    for _ in range(TRIPS):
        channel.collect(1)
        channel.post(1, b"pong")
    channel.receive(1, np.uint8, (PROBE_BYTES,))
    channel.post(1, b"pong")
