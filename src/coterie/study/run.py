"""A fit in a study, from preparing at home to results on the disk."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from coterie import __version__
from coterie.clustering import Outcome, Point, Watch, fit
from coterie.local.job import Kept
from coterie.local.memory import peak_bytes
from coterie.protocols import FAMILIES
from coterie.sharing import Disclosure, Party
from coterie.study.audit import Audit
from coterie.study.budget import commitment, run_of
from coterie.study.checkpoint import Checkpoints
from coterie.study.files import canonical, folder_for
from coterie.study.handshake import Agreed, greeting
from coterie.study.ids import own_block
from coterie.study.prepare import Orders, Ready, prepare
from coterie.study.results import Spent, check_out, write_manifest, write_results
from coterie.study.session import Lanes, Voice, everybody_is_done, summary, take_part
from coterie.transport import Channel

__all__ = ["run_study"]


def run_study(orders: Orders, voice: Voice | None = None) -> Path:
    """Take part in a study, to the end; returns where the results are."""
    voice = voice or Voice()
    voice.phase("checking key, study, signatures, policy and data")
    ready = prepare(orders)
    voice.note(f"the policy is {ready.policy_called}")
    check_out(orders.out, ready.hash, "fit")
    checkpoints = Checkpoints(orders.state_path, purpose_of(ready))
    own = greeting(
        ready.study,
        "fit",
        0 if ready.rows is None else len(ready.rows.values),
        ready.policy.least_cluster_size,
        contribution=ready.policy.contribution,
        coalition=ready.policy.coalition,
        commitment=commitment(ready.credentials.key, ready.hash, ready.rows),
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
            block = own_block(ready, agreed, me)
            family = FAMILIES[agreed.task.protocol](me, agreed.task.problem)
            outcome = fit(family, agreed.task, block, watch, point)
            outcome.disclosures = audit.openings(run_of(agreed))
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
                disclosures=summary(outcome.disclosures),
                bytes_sent=outcome.traffic.bytes_sent if outcome.traffic else {},
                suppressed=None if outcome.suppressed is None else int(outcome.suppressed.sum()),
            )
            write_manifest(folder, ready, "fit", agreed.world.session.hex(), last)
            everybody_is_done(talk, ready, audit)
        checkpoints.clear()

    take_part(orders, ready, voice, own, work)
    return orders.out


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


def purpose_of(ready: Ready) -> str:
    """What must be the same to go on from a checkpoint."""
    digest = hashlib.sha256(canonical([ready.hash, ready.me.name, __version__]))
    if ready.rows is not None:
        digest.update(np.ascontiguousarray(ready.rows.values).tobytes())
        digest.update(canonical(ready.rows.ids))
    return digest.hexdigest()
