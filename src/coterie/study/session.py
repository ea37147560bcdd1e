"""A participant's life in a run, from the first connection to results on the disk."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie import __version__
from coterie.clustering import Outcome, Point, Watch, fit
from coterie.clustering.program import predict
from coterie.clustering.vertical import local_distances
from coterie.data import Rows
from coterie.data.sinks import write_labels
from coterie.errors import CoterieError, DataError, InputError, Interrupted, StudyError, TransportError, WrongSession
from coterie.local.job import Kept
from coterie.local.memory import hold_on, peak_bytes
from coterie.local.threads import run_role
from coterie.protocols import FAMILIES
from coterie.randomness import SystemEntropy
from coterie.sharing import Disclosure, Party
from coterie.study.audit import Audit
from coterie.study.checkpoint import Checkpoints
from coterie.study.files import canonical, folder_for
from coterie.study.handshake import Agreed, Greeting, agree_on_run, card_of, greeting
from coterie.study.identity import split_address
from coterie.study.prepare import Orders, Ready, prepare
from coterie.study.results import (
    Model,
    Spent,
    check_out,
    in_source_order,
    load_model,
    source_ids,
    write_manifest,
    write_results,
)
from coterie.transport import Channel
from coterie.transport.meeting import MOST_LANES, Listener, Meeting

__all__ = ["Voice", "meeting_of", "predict_rows", "run_study", "same_participants"]


class Voice:
    """Hears how a run goes on. This one says nothing."""

    def phase(self, text: str) -> None:
        """Another part of the run begins."""

    def waiting(self, names: list[str]) -> None:
        """These participants are not there yet."""

    def iterated(self, start: int, iteration: int, most: int, sent: int) -> None:
        """An iteration of at most `most` is done; so many bytes were sent from here."""


def run_study(orders: Orders, voice: Voice | None = None) -> Path:
    """Take part in a study, to the end; returns where the results are."""
    voice = voice or Voice()
    voice.phase("checking key, study, signatures, policy and data")
    ready = prepare(orders)
    check_out(orders.out, ready.hash, "fit")
    checkpoints = Checkpoints(orders.state_path, _purpose(ready))
    own = greeting(
        ready.study,
        "fit",
        0 if ready.rows is None else len(ready.rows.values),
        ready.policy.least_cluster_size,
        restart=orders.restart,
        epoch=checkpoints.newest_epoch(),
        marks=checkpoints.marks(),
    )

    def work(agreed: Agreed, talk: Channel, open_lanes: Lanes, audit: Audit, spent: Spent) -> None:
        earlier: list[Disclosure] = []
        point = None
        if agreed.mark is not None:
            point = Point(agreed.mark.start, agreed.mark.iteration)
            if agreed.mark in own.marks:  # the helper can do without
                point, earlier = checkpoints.load(agreed.mark)
            checkpoints.keep(agreed.mark)
            voice.phase(f"going on after iteration {agreed.mark.iteration}")
        elif agreed.restart:
            checkpoints.clear()
        watch = _Progress(agreed, checkpoints, voice, spent, earlier)

        def role(me: Party) -> tuple[Outcome, Kept]:
            watch.me = me
            block = _block(ready, agreed, me)
            family = FAMILIES[agreed.task.protocol](me, agreed.task.problem)
            outcome = fit(family, agreed.task, block, watch, point)
            outcome.disclosures = earlier + me.ledger.entries
            outcome.traffic = me.channel.traffic()
            kept = {} if me.is_helper else {"centers": family.export(outcome.kept["centers"])}
            outcome.kept = {}
            return outcome, kept

        outcome, kept = open_lanes(role)
        spent.memory = peak_bytes()
        voice.phase("writing results")
        with folder_for(orders.out) as folder:
            write_results(folder, ready, agreed, outcome, kept, spent)
            last = audit.record(
                "results",
                iterations=outcome.n_iter,
                disclosures=_summary(outcome.disclosures),
                bytes_sent=outcome.traffic.bytes_sent if outcome.traffic else {},
                suppressed=None if outcome.suppressed is None else int(outcome.suppressed.sum()),
            )
            write_manifest(folder, ready, "fit", agreed.world.session.hex(), last)
            _everybody_is_done(talk)
        checkpoints.clear()

    _take_part(orders, ready, voice, own, work)
    return orders.out


def predict_rows(orders: Orders, voice: Voice | None = None) -> Path:
    """Label new rows with a study's model: here, where the centres are known here; else together."""
    voice = voice or Voice()
    ready = prepare(orders)
    check_out(orders.out, ready.hash, "predict")
    model = None
    if ready.rank:
        if orders.model is None:
            raise InputError("say which model with --model, such as results/model.json")
        model = load_model(orders.model, ready.hash, ready.me.name)
    study = ready.study
    if study.disclosures.centers == "revealed" and study.clustering.partition == "horizontal":
        if model is None or ready.rows is None:
            raise StudyError(f"the parties know the centres and predict alone; {ready.me.name} is not needed")
        labels = _nearest(ready, model)
        last = Audit(orders.audit_path).record("prediction", **_about(ready), rows=len(labels), alone=True)
        with folder_for(orders.out) as folder:
            write_labels(
                folder / "labels.parquet", in_source_order(ready, labels), source_ids(ready), study.data.id or None
            )
            write_manifest(folder, ready, "predict", model.run, last)
        return orders.out
    own = greeting(
        study,
        "predict",
        0 if ready.rows is None else len(ready.rows.values),
        1 if model is None else model.least,
        model="" if model is None else model.run,
        fractional_bits=0 if model is None else model.fractional_bits,
    )

    def work(agreed: Agreed, talk: Channel, open_lanes: Lanes, audit: Audit, _spent: Spent) -> None:
        def role(me: Party) -> tuple[Outcome, Kept]:
            return _predict(me, ready, agreed, model), {}

        outcome, _ = open_lanes(role)
        with folder_for(orders.out) as folder:
            if outcome.labels is not None:
                labels = in_source_order(ready, outcome.labels)
                write_labels(folder / "labels.parquet", labels, source_ids(ready), study.data.id or None)
            log = b"".join(msgspec.json.encode(entry) + b"\n" for entry in outcome.disclosures)
            (folder / "disclosures.jsonl").write_bytes(log)
            last = audit.record("results", disclosures=_summary(outcome.disclosures))
            write_manifest(folder, ready, "predict", agreed.world.session.hex(), last)
            _everybody_is_done(talk)

    _take_part(orders, ready, voice, own, work)
    return orders.out


Role = Callable[[Party], tuple[Outcome, Kept]]
Lanes = Callable[[Role], tuple[Outcome, Kept]]


def _take_part(
    orders: Orders,
    ready: Ready,
    voice: Voice,
    own: Greeting,
    work: Callable[[Agreed, Channel, Lanes, Audit, Spent], None],
) -> None:
    """Meet the others, agree with them, do the work; whatever happens is said to the others and to the audit log."""
    audit = Audit(orders.audit_path)
    audit.record(
        "started",
        **_about(ready),
        purpose=own.purpose,
        policy=msgspec.to_builtins(ready.policy),
        policy_from=ready.policy_called,
        rows=own.rows,
        source=None if ready.rows is None else ready.rows.source,
    )
    try:
        with hold_on(), _signals(), meeting_of(orders, ready) as meeting:
            voice.phase("waiting for the others")
            spent = Spent()
            with spent.time("waiting for the others"), same_participants():
                (talk,) = meeting.connect([0], timeout=orders.wait, waiting=voice.waiting)
            try:
                with spent.time("agreeing on the run"):
                    agreed = agree_on_run(talk, ready.study, own.purpose, own)
                audit.record(
                    "agreed",
                    run=agreed.world.session.hex(),
                    epoch=agreed.epoch,
                    resumed_after=None if agreed.mark is None else agreed.mark.iteration,
                    rows=agreed.task.layout.n,
                    least_cluster_size=agreed.task.least,
                    peers={one.name: one.fingerprint for one in ready.study.everybody if one.name != ready.me.name},
                )

                def open_lanes(role: Role) -> tuple[Outcome, Kept]:
                    voice.phase("computing")
                    with spent.time("computing"):
                        main, *lanes = meeting.connect(range(1, agreed.task.lanes + 2), agreed.world)
                        return run_role(main, SystemEntropy(), role, lanes)

                work(agreed, talk, open_lanes, audit, spent)
            except BaseException as error:
                peer = error.peer if isinstance(error, TransportError) else ""
                names = ready.study.names
                talk.abort(names.index(peer) if peer in names else ready.rank, type(error).__name__)
                raise
            talk.close()
    except BaseException as error:
        audit.record(
            "stopped",
            error=type(error).__name__,
            peer=getattr(error, "peer", "") or None,
            code=error.exit_code if isinstance(error, CoterieError) else 70,
        )
        if isinstance(error, KeyboardInterrupt):
            raise Interrupted("interrupted; started again, with all the others, the run goes on") from None
        raise
    audit.record("done", study_hash=ready.hash)


@contextlib.contextmanager
def same_participants() -> Iterator[None]:
    """Before they agree on a session, peers only misunderstand each other if they count the participants otherwise."""
    try:
        yield
    except WrongSession as error:
        raise StudyError(
            f"{error}: it has another study, or another version; compare [participants] of the study files"
        ) from None


@contextlib.contextmanager
def meeting_of(orders: Orders, ready: Ready, lanes: int = MOST_LANES) -> Iterator[Meeting]:
    """Listen where the study says, and answer those who belong to it."""
    host, port = split_address(orders.listen or ready.me.address)
    try:
        listener = Listener(host, port)
    except OSError as error:
        raise InputError(
            f"{ready.me.name} cannot listen on {host}:{port} ({error.strerror}). Is another run using the port? Behind "
            "a forwarded address, say where to listen with --listen HOST:PORT"
        ) from None
    meeting = Meeting(
        ready.world,
        ready.rank,
        ready.credentials,
        ready.peers,
        listener,
        orders.patience,
        lanes,
        card=lambda: card_of(ready.study),
    )
    try:
        yield meeting
    finally:
        meeting.close()


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """Being told to stop is an exception like any other, so that the others hear of it."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise Interrupted(
            f"stopped by {signal.Signals(number).name}; started again, with all the others, the run goes on"
        )

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Progress(Watch):
    """Keeps a checkpoint of every iteration and says how far the run is."""

    def __init__(
        self, agreed: Agreed, checkpoints: Checkpoints, voice: Voice, spent: Spent, earlier: list[Disclosure]
    ) -> None:
        self.agreed, self.checkpoints, self.voice, self.spent, self.earlier = agreed, checkpoints, voice, spent, earlier
        self.me: Party | None = None
        self.last = time.perf_counter()

    def iterated(self, point: Callable[[], Point]) -> None:
        assert self.me is not None
        now = time.perf_counter()
        self.spent.iterations.append(now - self.last)
        here = point()
        self.checkpoints.save(self.agreed.epoch, here, self.earlier + self.me.ledger.entries)
        self.voice.iterated(here.start, here.iteration, self.agreed.task.max_iter, self.me.channel.bytes_sent)
        self.last = time.perf_counter()


def _everybody_is_done(talk: Channel) -> None:
    """Results count when everybody has theirs ready: then all are shown, or none."""
    for other in talk.world.peers(talk.rank):
        talk.post(other, b"ready")
    for other in talk.world.peers(talk.rank):
        talk.collect(other)


def _block(ready: Ready, agreed: Agreed, me: Party) -> NDArray[np.int64] | None:
    """This party's rows, encoded; after all parties have found that they hold the same ids, if vertical."""
    if agreed.task.layout.partition == "vertical":
        compare_ids(me, ready.rows)
    if ready.rows is None:
        return None
    try:
        return agreed.task.encoding.encode(ready.rows.values, ready.study.own_columns(ready.rank))
    except InputError as error:  # the bounds were checked when the data was read
        raise DataError(f"{ready.rows.source}: {error}") from None


def compare_ids(me: Party, rows: Rows | None) -> None:
    """Do all data parties hold the same ids? One bit, to everybody.

    1. The data parties derive a fresh key, which the helper lacks. Each sends the helper HMAC(key, its sorted ids).
    2. The helper tells all of them whether the tags are equal.

    Sees: the helper, random numbers and which of them are equal; a data party the bit. No data party gets another's
    tag, against which it could try guesses.
    """
    me.ledger.record("equal ids", me.world.names, "a vertical study needs the same rows at every party")
    if me.is_helper:
        tags = [me.channel.collect(j) for j in me.world.data_ranks]
        same = all(hmac.compare_digest(tag, tags[0]) for tag in tags)
        for j in me.world.data_ranks:
            me.channel.tell(j, same)
    else:
        assert rows is not None
        key = me.streams.common("ids").read(32).tobytes()
        me.channel.post(0, hmac.digest(key, canonical(rows.ids), "sha256"))
        same = me.channel.hear(0)
    if not same:
        where = "" if rows is None else f" Those of {me.world.names[me.rank]} are in {rows.source}."
        raise DataError(
            f"the parties do not all hold the same ids; in a vertical study they must.{where} Agree on a list of ids "
            "and leave out the others"
        )


def _predict(me: Party, ready: Ready, agreed: Agreed, model: Model | None) -> Outcome:
    task = agreed.task
    family = FAMILIES[task.protocol](me, task.problem)
    shape = (task.clusters, task.layout.d)
    block = _block(ready, agreed, me)
    called = np.arange(1, task.clusters + 1)
    if task.centers == "shared":
        if model is not None and model.suppressed:
            called[model.suppressed] = 0
        share = None if model is None else {"words": np.array(model.share, np.uint64).reshape(shape)}
        centers = family.restore(share, shape)
    else:
        known = None
        if model is not None:
            known = np.zeros(shape, np.int64)
            known[:, ready.study.own_columns(ready.rank)], called = _stand_ins(model)
        centers = family.contribute(known, shape)
    outcome = predict(family, task, block, centers, called if task.least > 1 else None)
    outcome.disclosures, outcome.traffic = list(me.ledger.entries), me.channel.traffic()
    outcome.kept = {}
    return outcome


def _stand_ins(model: Model) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Own columns of the centres, and what each cluster's label is to be, plus 1. Nobody knows a suppressed centre: the
    first known one stands in for it, under its own name, so that rows go to the closest centre that is known."""
    centers, called = np.array(model.centers, np.int64), np.arange(1, model.clusters + 1)
    closed = np.array(model.suppressed or [False] * model.clusters)
    if closed.all():
        return centers, np.zeros_like(called)
    first = int(np.argmin(closed))
    centers[closed], called[closed] = centers[first], first + 1
    return centers, called


def _nearest(ready: Ready, model: Model) -> NDArray[np.int64]:
    """The closest known centre of each row, in the fixed point of the run; -1 where none is known."""
    from coterie.ring import FixedPoint

    assert ready.rows is not None
    columns = ready.study.data.columns
    encoding = FixedPoint(
        tuple(c.low for c in columns),
        tuple(c.high for c in columns),
        ready.study.column_names,
        model.fractional_bits,
        ready.study.clustering.scale == "bounds",
    )
    rows = encoding.encode(ready.rows.values, range(len(columns)))
    known = np.flatnonzero(~np.array(model.suppressed or [False] * model.clusters))
    if not len(known):
        return np.full(len(rows), -1, np.int64)
    centers = np.array(model.centers, np.int64)[known]
    return known[local_distances(rows, centers).argmin(axis=1)]


def _purpose(ready: Ready) -> str:
    """What must be the same to go on from a checkpoint."""
    digest = hashlib.sha256(canonical([ready.hash, ready.me.name, __version__]))
    if ready.rows is not None:
        digest.update(np.ascontiguousarray(ready.rows.values).tobytes())
        digest.update(canonical(ready.rows.ids))
    return digest.hexdigest()


def _about(ready: Ready) -> dict[str, Any]:
    return {
        "study": ready.study.study.name,
        "study_hash": ready.hash,
        "party": ready.me.name,
        "certificate": ready.me.fingerprint,
        "version": __version__,
    }


def _summary(disclosures: list[Disclosure]) -> list[dict[str, Any]]:
    """What was opened to whom, and how often."""
    counted: dict[tuple[str, tuple[str, ...], str], int] = {}
    for entry in disclosures:
        key = entry.what, entry.to, entry.reason
        counted[key] = counted.get(key, 0) + 1
    return [{"what": w, "to": list(to), "reason": r, "times": times} for (w, to, r), times in counted.items()]
