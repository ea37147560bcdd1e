"""How the participants agree on one run, before anything of the data is sent.

1. Everybody posts a greeting: version, hash of each section of the study, how many rows it brings, the least cluster
   size its policy asks for, the checkpoints it holds, a fresh nonce.
2. Everybody compares. The strictest least size holds, and nobody brings more rows than the study allows. From the
   greetings follow the layout, the task, the epoch, the checkpoint to go on from, the session and the run: that of the
   checkpoint, or a new one.
3. P1 measures the link to every other participant, from which the plan follows; everybody comes to the same plan and
   the same task, or stops.
"""

from __future__ import annotations

import hashlib
import math
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, TypeVar

import msgspec
import numpy as np

from coterie import __version__
from coterie.clustering import (
    SEED_BYTES,
    Contribution,
    Layout,
    Task,
    distinct_rows,
    make_task,
)
from coterie.clustering.rules import strictest
from coterie.errors import DataError, FrameError, InputError, StudyError
from coterie.planning import planned
from coterie.study.agreement import Study, section_hashes
from coterie.study.audit import Head
from coterie.study.checkpoint import Mark, newest_common
from coterie.study.files import canonical
from coterie.study.home import encode_study, study_stays_inside
from coterie.study.policy import MOST_LEAST, check_least
from coterie.transport import Channel, World
from coterie.transport.links import Link

__all__ = ["Agreed", "Card", "Greeting", "agree_on_run", "card_of", "compare_cards", "read_letter"]

#: How a link is measured: so many round trips, and one array of so many bytes.
TRIPS, PROBE_BYTES = 3, 1 << 18
#: The most rows that a party may bring: everybody sets memory aside for them on its word.
MOST_ROWS = 1 << 27
Purpose = Literal["fit", "predict"]
#: What is said by others is held to be no more than this before anything is made of it.
Version = Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Za-z.+-]{1,40}\Z")]
Rows = Annotated[int, msgspec.Meta(ge=0, le=MOST_ROWS)]
Least = Annotated[int, msgspec.Meta(ge=1, le=MOST_LEAST)]
Coalition = Annotated[int, msgspec.Meta(ge=1, le=255)]
MOST_EPOCH = (1 << 62) - 1
Epoch = Annotated[int, msgspec.Meta(ge=0, le=MOST_EPOCH)]
Nonce = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
Run = Annotated[str, msgspec.Meta(max_length=64)]
Commitment = Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{64})?\Z")]
T = TypeVar("T")


class Card(msgspec.Struct, frozen=True):
    """What a participant says of itself to any other one that asks."""

    version: Version
    sections: dict[str, str]
    clock: float


class Front(msgspec.Struct, frozen=True):
    """As much of a greeting as every version understands."""

    card: Card


class Greeting(msgspec.Struct, frozen=True):
    """What a participant brings to a run. `model`, `fractional_bits` and `clusters` are for predictions; `commitment`
    is to its data, in a fit; `head` is the last entry of its audit log."""

    card: Card
    nonce: Nonce
    purpose: Purpose
    rows: Rows
    least: Least
    contribution: Contribution = "least"
    coalition: Coalition = 1
    restart: bool = False
    epoch: Epoch = 0
    marks: list[Mark] = []
    model: Run = ""
    fractional_bits: int = 0
    clusters: int = 0
    commitment: Commitment = ""
    head: Head | None = None


class Proposal(msgspec.Struct, frozen=True):
    """The slowest link that P1 has found, from which the plan follows, and a hash of the whole task, plan included."""

    link: Link
    task: str


@dataclass(frozen=True)
class Agreed:
    """What everybody will do, in which session; `mark`: the checkpoint to go on from; `restart`: none, because somebody
    wants it so. `run`: the session in which the run was begun, which keeps this name however often it is taken up.
    `replayed`: nothing is left of it but to open its results, perhaps once more. `greetings`: what each has said, by
    name."""

    task: Task
    world: World
    epoch: int
    mark: Mark | None
    link: Link
    run: str
    restart: bool = False
    replayed: bool = False
    greetings: Mapping[str, Greeting] = field(default_factory=dict)

    @property
    def terms(self) -> str:
        """A hash of what is computed and opened, whatever the plan."""
        whole = msgspec.structs.replace(self.task, block_rows=0, lanes=0, schedule=(), schedules=())
        return hashlib.sha256(msgspec.msgpack.encode(whole)).hexdigest()


def card_of(study: Study) -> bytes:
    return msgspec.msgpack.encode(Card(__version__, section_hashes(study), time.time()))


def compare_cards(study: Study, theirs: Card, name: str) -> None:
    """Does another participant have the same study and version?"""
    if theirs.version != __version__:
        raise StudyError(
            f"{name} runs Coterie {theirs.version}, here runs {__version__}; all must run the same version"
        )
    mine = section_hashes(study)
    different = [f"[{section}]" for section in mine if theirs.sections.get(section) != mine[section]]
    if different or set(theirs.sections) != set(mine):
        raise StudyError(f"{name} has another study: section {', '.join(different)} differs; compare the study files")


def agree_on_run(channel: Channel, study: Study, purpose: Purpose, own: Greeting) -> Agreed:
    """Steps 1 to 3, at every participant."""
    me, others = channel.rank, channel.world.peers(channel.rank)
    for other in others:
        channel.post(other, msgspec.msgpack.encode(own))
    greetings = {me: own}
    letters = {other: channel.collect(other) for other in others}
    for other in others:
        name = channel.world.names[other]
        compare_cards(study, read_letter(letters[other], Front, name, "greeting").card, name)
        greetings[other] = read_letter(letters[other], Greeting, name, "greeting")
    for other in others:
        if greetings[other].purpose != purpose:
            raise StudyError(f"{channel.world.names[other]} has started a {greetings[other].purpose}, not a {purpose}")
    world = channel.world
    ordered = [greetings[rank] for rank in world.ranks]
    said = dict(zip(world.everybody, ordered, strict=True))
    _check_claimed_rows(study, said)
    task = _task(study, purpose, said)
    restart = any(one.restart for one in ordered)
    # nothing of a dealer is needed; an owner who does not serve holds no share, but must bring the same data
    mark = None if restart else newest_common([greetings[rank].marks for rank in world.players])
    starts = study.clustering.starts
    if mark is not None and (mark.start > starts or mark.iteration > task.max_iter):
        name = world.names[world.owners[0]]
        raise FrameError(f"{name} holds a checkpoint that makes no sense (of a restart that there is not)", name)
    epoch = min(1 + max(one.epoch for one in ordered), MOST_EPOCH)  # whoever claims the most stops nobody for good
    nonces = b"".join(one.nonce for one in ordered)
    common = canonical([own.card.sections, epoch, purpose, mark, restart])
    session = hashlib.sha256(b"coterie session" + common + nonces).digest()[:16]
    run = session.hex() if mark is None else mark.run
    if purpose == "fit":
        task = msgspec.structs.replace(task, seeds=_seeds(study, run))
    task, link = _plan(channel, task)
    replayed = mark is not None and mark.start == starts
    return Agreed(task, replace(world, session=session), epoch, mark, link, run, restart, replayed, said)


def _check_claimed_rows(study: Study, said: Mapping[str, Greeting]) -> None:
    """Everybody sets memory aside for as many rows as a party says that it has."""
    most = study.data.most_rows
    for name in study.roles.owners:
        if said[name].rows > most:
            raise DataError(
                f"{name} says that it has {said[name].rows} rows; the study allows each party at most {most}"
            )


def read_letter(raw: bytes, kind: type[T], name: str, what: str) -> T:
    """What another participant says, if it can be read and makes sense."""
    try:
        return msgspec.msgpack.decode(raw, type=kind)
    except (ValueError, RecursionError):  # ValueError: msgspec's, or text that is not UTF-8
        raise FrameError(f"{name} sent a {what} that makes no sense", name) from None


def greeting(study: Study, purpose: Purpose, rows: int, least: int, **more: object) -> Greeting:
    most = min(MOST_ROWS, study.data.most_rows)
    if rows > most:
        raise DataError(f"there are {rows} rows; at most {most} are allowed")
    card = Card(__version__, section_hashes(study), time.time())
    return Greeting(card, secrets.token_bytes(16), purpose, rows, least, **more)  # type: ignore[arg-type]


def _task(study: Study, purpose: Purpose, said: Mapping[str, Greeting]) -> Task:
    """The task that follows from the study and from what everybody brings."""
    todo, world = study.clustering, study.world()
    parties = [said[name] for name in study.roles.owners]
    least = max(study.disclosures.least_cluster_size, *(one.least for one in parties))
    check_least(least, study, "the strictest policy among the participants")
    layout = _layout(study, [one.rows for one in parties])
    if purpose == "predict":
        return _prediction(study, layout, said, least)
    n, k = layout.n, todo.choices[-1]
    if n > MOST_ROWS:
        raise StudyError(f"there are {n} rows in all; at most {MOST_ROWS} can be clustered")
    if k > n:
        raise StudyError(f"there are {n} rows in all, fewer than the {k} clusters that the study asks for")
    try:
        encoding, metric = encode_study(study, n, inside=study_stays_inside(study, least))
    except InputError as error:
        raise StudyError(f"[data] of the study: {error}") from None
    try:
        return make_task(
            todo.protocol,
            k,
            layout,
            encoding,
            names=world.names,
            resolution={column.name: column.resolution for column in study.data.columns},
            metric=metric,
            scales=study.disclosures.scales,
            counts=study.disclosures.counts,
            labels=study.disclosures.labels,
            centers=study.disclosures.centers,
            starts=_random_starts(study, n),
            choices=todo.choices if len(todo.choices) > 1 else (),
            choose=todo.choose,
            measures=study.disclosures.measures,
            quality=tuple(study.disclosures.quality),
            max_iter=todo.max_iter,
            tol=todo.tol,
            least=least,
            contribution=strictest([study.disclosures.contribution, *(one.contribution for one in parties)]),
            coalition=max(one.coalition for one in parties),
            sizes=study.disclosures.sizes,
        )
    except InputError as error:
        raise StudyError(str(error)) from None


def _random_starts(study: Study, n: int) -> tuple[tuple[int, ...], ...]:
    """Where every start begins, if it begins at random rows: public."""
    todo = study.clustering
    if todo.init != "random":
        return ()
    random = np.random.RandomState(todo.seed)
    return tuple(distinct_rows(random, n, k) for k in todo.choices for _ in range(todo.restarts))


def _seeds(study: Study, run: str) -> tuple[bytes, ...]:
    """Of k-means++, for every start: from the study's seed and, by the run's name, from the nonces of those who began
    it. A run that is taken up again has the same."""
    todo = study.clustering
    if todo.init != "k-means++":
        return ()
    starts = [canonical(["coterie seed", todo.seed, run, start]) for start in range(todo.starts)]
    return tuple(hashlib.sha256(start).digest()[:SEED_BYTES] for start in starts)


def _layout(study: Study, counts: list[int]) -> Layout:
    """Who holds what, from how many rows each owner has."""
    owners, d = study.roles.owners, len(study.data.columns)
    if study.clustering.partition == "horizontal":
        return Layout("horizontal", sum(counts), d, rows=tuple(counts))
    for name, count in zip(owners, counts, strict=True):
        if count != counts[0]:
            raise DataError(
                f"{name} has {count} rows where {owners[0]} has {counts[0]}; in a vertical study all parties "
                "hold the same rows"
            )
    columns = tuple(tuple(study.own_columns(rank)) for rank in study.world().owners)
    return Layout("vertical", counts[0], d, columns=columns)


def _prediction(study: Study, layout: Layout, said: Mapping[str, Greeting], least: int) -> Task:
    name = study.roles.owners[0]
    first = said[name]
    for other in study.roles.players:
        mine, its = ((one.model, one.fractional_bits, one.clusters) for one in (first, said[other]))
        if mine != its:
            raise StudyError(f"{other} brings the model of another run than {name}; use results of the same run")
    k = first.clusters
    if k not in study.clustering.choices:
        raise FrameError(f"{name} brings a model that makes no sense (of {k} clusters)", name)
    try:
        encoding, metric = encode_study(study, 1, wanted=first.fractional_bits)
    except InputError as error:
        raise FrameError(f"{name} brings a model that makes no sense ({error})", name) from None
    protocol, centers = study.clustering.protocol, study.disclosures.centers
    scales = study.disclosures.scales
    return make_task(
        protocol, k, layout, encoding, checked=False, centers=centers, least=least, metric=metric, scales=scales
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
