"""A fit in a study, from preparing at home to results on the disk."""

from __future__ import annotations

import hashlib
import logging
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from coterie import __version__
from coterie.clustering import Outcome, Point, Watch, fit
from coterie.errors import InputError, StudyError
from coterie.events import tell
from coterie.protocols import FAMILIES
from coterie.runtime.job import Kept
from coterie.runtime.memory import peak_bytes
from coterie.sharing import Party
from coterie.study.agreement import Study
from coterie.study.budget import Budget, commitment
from coterie.study.checkpoint import KEPT, Checkpoints, Mark
from coterie.study.drafts import folder_for
from coterie.study.endings import declining
from coterie.study.files import canonical
from coterie.study.greetings import Greeting, greeting
from coterie.study.handshake import Agreed
from coterie.study.ids import own_block
from coterie.study.openings import everybody_has_saved
from coterie.study.prepare import Orders, Ready, prepare, recognise, tell_handled
from coterie.study.reconnecting import Attempt, keep_going
from coterie.study.results import check_out, tell_results, write_manifest, write_results
from coterie.study.session import Session, everybody_is_done, summary, take_part
from coterie.study.survey_terms import refuse_survey
from coterie.study.voice import Voice

__all__ = ["Fitted", "check_budget", "fit_in_study", "run_study"]

log = logging.getLogger(__name__)


class Fitted(NamedTuple):
    """Where the results are, and what this participant has learnt."""

    out: Path
    outcome: Outcome


def run_study(orders: Orders, voice: Voice | None = None) -> Path:
    """Take part in a study, to the end; returns where the results are."""
    return fit_in_study(orders, voice).out


def fit_in_study(orders: Orders, voice: Voice | None = None) -> Fitted:
    """The same, with what was learnt."""
    voice = voice or Voice()
    voice.phase("checking key, study, signatures, policy and data")
    known = recognise(orders)
    refuse_survey(known.study, str(orders.study))
    check_out(orders.out, known.hash, "fit")
    with declining(orders, known, voice):
        ready = prepare(orders, known)
    voice.note(f"policy: {ready.policy_called}")
    tell_handled(ready, voice)
    checkpoints = Checkpoints(orders.state_path(ready.hash), purpose_of(ready))
    check_state(checkpoints.folder)

    def attempt_run(attempt: Attempt) -> Fitted:
        return _attempt(orders, ready, voice, checkpoints, attempt)

    fitted = keep_going(attempt_run, known.study.participants.reconnect, voice)
    tell_results(fitted.out)
    return fitted


def _attempt(orders: Orders, ready: Ready, voice: Voice, checkpoints: Checkpoints, attempt: Attempt) -> Fitted:
    """Meet the others, and compute from the newest common checkpoint to the results."""
    study = ready.study
    own = own_greeting(ready, checkpoints, orders.restart and not attempt.began)

    def goes_on() -> str:
        return _goes_on(checkpoints.newest(), study)

    with take_part(orders, ready, voice, own, goes_on, checkpoints, attempt) as session:
        ready, agreed, audit, spent = session.ready, session.agreed, session.audit, session.spent
        point = _taken_up(agreed, checkpoints, own.marks, attempt, voice)
        attempt.began = True
        watch = _Progress(session, checkpoints, attempt)
        with session.role(session.agreed.task.lanes) as me:
            watch.me = me
            outcome, kept = _fit(me, ready, agreed, watch, point)
            spent.iterations, spent.waited = me.channel.laps, me.channel.idling.waited
        outcome.disclosures = audit.openings(agreed.run)
        spent.memory = peak_bytes()
        voice.phase("writing results")
        with folder_for(orders.out, replace=False) as folder:
            write_results(folder, ready, replace(agreed, task=agreed.task.chosen(outcome)), outcome, kept, spent)
            last = audit.record(
                "results",
                iterations=outcome.n_iter,
                disclosures=summary(outcome.disclosures),
                bytes_sent=outcome.traffic.bytes_sent if outcome.traffic else {},
                suppressed=None if outcome.suppressed is None else int(outcome.suppressed.sum()),
            )
            write_manifest(folder, ready, "fit", agreed.run, last)
            everybody_is_done(session.talk, ready, audit)
        _keep_the_end(checkpoints, watch.end)
    return Fitted(orders.out, outcome)


def _fit(me: Party, ready: Ready, agreed: Agreed, watch: Watch, point: Point | None) -> tuple[Outcome, Kept]:
    """The role of this participant in a fit: what it learns, and its shares."""
    family = FAMILIES[agreed.task.protocol](me, agreed.task.problem)
    row_weights = ready.members if ready.rows is None else ready.rows.weights
    outcome = fit(family, agreed.task, own_block(ready, agreed, family), watch, point, row_weights=row_weights)
    if outcome.inertia is not None:
        outcome.inertia *= ready.study.data.row_weights.step  # 1, where all rows count alike
    outcome.traffic = me.channel.traffic()
    family = family.of(agreed.task.chosen(outcome).problem)
    kept: Kept = {}
    for name in ("centers", "weights"):
        if me.serves and name in outcome.kept:
            kept[name] = family.export(outcome.kept[name])
    outcome.kept = {}
    return outcome, kept


def own_greeting(ready: Ready, checkpoints: Checkpoints, restart: bool) -> Greeting:
    """What this participant brings to a fit."""
    return greeting(
        ready.study,
        "fit",
        0 if ready.rows is None else len(ready.rows.values),
        ready.policy.least_cluster_size,
        contribution=ready.policy.contribution,
        coalition=ready.policy.coalition,
        commitment=commitment(ready.credentials.lasting or ready.credentials.key, ready.hash, ready.rows),
        restart=restart,
        epoch=checkpoints.newest_epoch(),
        marks=checkpoints.marks(),
    )


def check_budget(orders: Orders, ready: Ready) -> str:
    """Is another run allowed, as far as can be known at home? Says how much is used, and notes nothing."""
    checkpoints = Checkpoints(orders.state_path(ready.hash), purpose_of(ready))
    budget = Budget(orders.ledger_beside, ready, None)
    budget.check_own(own_greeting(ready, checkpoints, orders.restart))
    return budget.describe()


def _taken_up(
    agreed: Agreed, checkpoints: Checkpoints, own: list[Mark], attempt: Attempt, voice: Voice
) -> Point | None:
    """Where the run goes on; from the start, where no checkpoint is agreed on."""
    mark = agreed.mark
    if mark is None:
        if agreed.restart:
            checkpoints.clear()
        return None
    point = Point(mark.start, mark.iteration)
    if mark in own:  # whoever deals can do without
        point, terms = checkpoints.load(mark)
        if terms != agreed.terms:
            raise StudyError(
                f"run {agreed.run} was begun under other rules (another least cluster size, say) than the participants "
                "bring now; bring the same ones, or begin a new run with --restart"
            )
    checkpoints.keep(mark)
    of_which = "" if attempt.began else " of an earlier run"
    voice.note("opens the results of an earlier run" if agreed.replayed else f"{_after(mark)}{of_which}")
    return point


def _keep_the_end(checkpoints: Checkpoints, end: Mark | None) -> None:
    """Others may lack their results: what is needed to open them once more stays."""
    if end is None:
        checkpoints.clear()
    else:
        checkpoints.keep(end)


def _goes_on(mark: Mark | None, study: Study) -> str:
    """Where a run goes on, if all have the checkpoint that is the newest here."""
    if mark is None:
        return ""
    if mark.start == study.clustering.starts:
        return "it goes on with the results"
    return f"it {_after(mark)}"


def _after(mark: Mark) -> str:
    return f"goes on after iteration {mark.iteration}{f' of start {mark.start + 1}' if mark.start else ''}"


class _Progress(Watch):
    """Keeps a checkpoint of every iteration, and one of the end, and says how far the run is."""

    def __init__(self, session: Session, checkpoints: Checkpoints, attempt: Attempt) -> None:
        self.attempt = attempt
        self.session, self.agreed, self.checkpoints = session, session.agreed, checkpoints
        self.me: Party | None = None
        self.end = self.agreed.mark if self.agreed.replayed else None

    def iterated(self, point: Callable[[], Point]) -> None:
        here = point()
        self._save(here)
        sent = 0 if self.me is None else self.me.channel.bytes_sent
        self.session.voice.iterated(here.start, here.iteration, self.agreed.task.max_iter, sent)
        where = f"iteration {here.iteration}{f' of start {here.start + 1}' if here.start else ''}"
        fields = {"iteration": here.iteration, "start": here.start, "bytes_sent": sent}
        tell(log, logging.INFO, "iteration", f"{where} is done", **fields)

    def finished(self, point: Callable[[], Point]) -> None:
        if not self.agreed.replayed:
            self.end = self._save(point(), KEPT + 1)  # an owner who does not serve may be ahead of the servers
            everybody_has_saved(self.session.talk)
            self.checkpoints.keep(self.end)

    def _save(self, point: Point, kept: int = KEPT) -> Mark:
        session = self.agreed.world.session.hex()
        self.attempt.advanced = True
        return self.checkpoints.save(self.agreed.run, session, self.agreed.epoch, point, self.agreed.terms, kept)


def check_state(folder: Path) -> None:
    """Can checkpoints be written there? Found out before anybody connects."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"a try")
            file.flush()
    except OSError as error:
        raise InputError(
            f"checkpoints cannot be written in {folder} ({error.strerror}); name another folder with --state"
        ) from None


def purpose_of(ready: Ready) -> str:
    """What must be the same to go on from a checkpoint: the study, the data, and what this party lets be opened."""
    rules = ready.policy.least_cluster_size, ready.policy.contribution, ready.policy.coalition
    digest = hashlib.sha256(canonical([ready.hash, ready.me.name, __version__, rules]))
    if ready.rows is not None:
        digest.update(np.ascontiguousarray(ready.rows.values).tobytes())
        digest.update(canonical(ready.rows.ids))
        digest.update(b"" if ready.rows.weights is None else ready.rows.weights.astype("<i8").tobytes())
    return digest.hexdigest()
