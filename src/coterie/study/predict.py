"""Labels for new rows, from a study's model."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie.clustering import Outcome
from coterie.clustering.nearest import nearest_open
from coterie.clustering.program import predict
from coterie.data import Rows
from coterie.errors import InputError, StudyError
from coterie.protocols import FAMILIES
from coterie.sharing import Party
from coterie.study.audit import Audit
from coterie.study.drafts import folder_for
from coterie.study.endings import declining
from coterie.study.greetings import greeting
from coterie.study.handshake import Agreed
from coterie.study.home import AtHome, encode_study, study_stays_inside
from coterie.study.ids import own_block
from coterie.study.model import Model, kept_share, load_model
from coterie.study.prepare import Orders, Ready, prepare, recognise, tell_handled
from coterie.study.results import check_out, tell_results, write_manifest, write_own_labels
from coterie.study.session import Session, about, everybody_is_done, summary, take_part
from coterie.study.signatures import verify_signatures
from coterie.study.survey_terms import refuse_survey
from coterie.study.voice import Voice

__all__ = ["predict_rows"]


def predict_rows(orders: Orders, voice: Voice | None = None) -> Path:
    """Label new rows with a study's model: here, where the centres are known here; else together."""
    voice = voice or Voice()
    known = recognise(orders)
    refuse_survey(known.study, str(orders.study))
    check_out(orders.out, known.hash, "predict")
    study = known.study
    if study.private:
        raise StudyError("rows of this study are matched in private: there are no labels, and none are predicted")
    shown, todo = study.disclosures, study.clustering
    alone = shown.centers == "revealed" and todo.partition == "horizontal" and study.scales != "secret"
    with contextlib.nullcontext() if alone else declining(orders, known, voice):
        ready = prepare(orders, known)
    voice.note(f"policy: {ready.policy_called}")
    tell_handled(ready, voice)
    if alone:
        verify_signatures(orders.study, study)
    model = None
    if ready.owns or not (alone or ready.deals):
        if orders.model is None:
            raise InputError("say which model with --model, such as results/model.json")
        model = load_model(orders.model, ready)
    if alone:
        if model is None or ready.rows is None:
            raise StudyError(f"the parties know the centres and predict alone; {ready.me.name} is not needed")
        labels = _nearest(ready, ready.rows, model)
        audit = Audit(orders.audit_path, ready.credentials)
        last = audit.record("prediction", **about(ready), policy_from=ready.policy_called, rows=len(labels), alone=True)
        with folder_for(orders.out, replace=False) as folder:
            write_own_labels(folder / "labels.parquet", ready, labels)
            write_manifest(folder, ready, "predict", model.run, last)
        return tell_results(orders.out)
    own = greeting(
        study,
        "predict",
        0 if ready.rows is None else len(ready.rows.values),
        1 if model is None else model.least,
        contribution=ready.policy.contribution,
        coalition=ready.policy.coalition,
        model="" if model is None else model.run,
        fractional_bits=0 if model is None else model.fractional_bits,
        clusters=0 if model is None else model.clusters,
    )

    with take_part(orders, ready, voice, own) as session:
        with session.role(session.agreed.task.lanes) as me:
            outcome = _predict(me, session.ready, session.agreed, model)
        _write_labels(orders, session.ready, session, outcome)
    return tell_results(orders.out)


def _write_labels(orders: Orders, ready: Ready, session: Session, outcome: Outcome) -> None:
    """What a prediction leaves: own labels, what was opened, and the manifest."""
    opened, audit = session.audit.openings(session.agreed.run), session.audit
    with folder_for(orders.out, replace=False) as folder:
        if outcome.labels is not None:
            write_own_labels(folder / "labels.parquet", ready, outcome.labels)
        (folder / "disclosures.jsonl").write_bytes(b"".join(msgspec.json.encode(entry) + b"\n" for entry in opened))
        last = audit.record("results", disclosures=summary(opened))
        write_manifest(folder, ready, "predict", session.agreed.run, last)
        everybody_is_done(session.talk, ready, audit)


def _predict(me: Party, ready: Ready, agreed: Agreed, model: Model | None) -> Outcome:
    task = agreed.task
    family = FAMILIES[task.protocol](me, task.problem)
    shape = (task.clusters, task.layout.d)
    at_home = None if model is None or not model.means else AtHome(tuple(model.means), tuple(model.deviations))
    block = own_block(ready, agreed, family, at_home)
    closed = None if model is None else _closed(model)
    if task.centers == "shared":
        share = None if model is None or not ready.serves else kept_share(model.share, task.protocol)
        centers = family.restore(share, shape)
    else:
        known = None
        if model is not None and ready.owns and (task.layout.partition == "vertical" or ready.rank == 1):
            known = np.zeros(shape, np.int64)
            columns = task.layout.own_columns(ready.rank)  # of a patchwork, everybody knows all
            known[:, columns] = np.array(model.centers, np.int64)
        centers = family.enter(known, shape)
    weights = None
    if task.metric is not None:
        kept = None if model is None or not ready.serves else kept_share(model.weights_share, task.protocol)
        weights = family.restore(kept, (1, task.layout.d))
    outcome = predict(family, task, block, centers, closed, weights)
    outcome.traffic = me.channel.traffic()
    outcome.kept = {}
    return outcome


def _closed(model: Model) -> NDArray[np.bool_]:
    return np.array(model.suppressed or [False] * model.clusters)


def _nearest(ready: Ready, own: Rows, model: Model) -> NDArray[np.int64]:
    """The closest known centre of each row, in the fixed point of the run; -1 where none is known."""
    inside = study_stays_inside(ready.study, model.least)
    encoding, _ = encode_study(ready.study, 1, inside=inside, wanted=model.fractional_bits)
    rows = encoding.encode(own.values, range(encoding.columns))
    weights = None if model.weights is None else np.array(model.weights[0], np.int64)
    return nearest_open(rows, np.array(model.centers, np.int64), _closed(model), weights)
