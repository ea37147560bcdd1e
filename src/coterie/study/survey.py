"""A survey, from preparing at home to results on the disk."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path

import msgspec

from coterie.clustering.rules import strictest
from coterie.columns import bounds_of
from coterie.errors import InputError, StudyError
from coterie.protocols import FAMILIES
from coterie.runtime.memory import peak_bytes
from coterie.sharing import Party
from coterie.study.agreement import Study
from coterie.study.budget import commitment
from coterie.study.drafts import folder_for
from coterie.study.endings import declining
from coterie.study.files import write_file
from coterie.study.greetings import Greeting, greeting
from coterie.study.handshake import compare_tasks
from coterie.study.prepare import Orders, Ready, prepare, recognise
from coterie.study.results import check_out, tell_results, write_manifest
from coterie.study.session import Attendance, attend, everybody_is_done, log_agreed, summary
from coterie.study.survey_terms import require_survey
from coterie.study.tasks import strictest_least
from coterie.study.voice import Voice
from coterie.surveys import (
    Surveyed,
    SurveyTask,
    check_survey_rules,
    describe_columns,
    parts_of_quantiles,
    take_survey,
    tally_values,
)
from coterie.surveys.program import terms_of_survey

__all__ = ["make_survey_task", "run_survey"]


def run_survey(orders: Orders, voice: Voice | None = None) -> Path:
    """Take part in a survey, to the end; returns where the results are. It is short, and keeps no checkpoints: one that
    is broken off is begun anew by all."""
    voice = voice or Voice()
    voice.phase("checking key, study, signatures, policy and data")
    known = recognise(orders)
    require_survey(known.study, str(orders.study))
    check_out(orders.out, known.hash, "survey")
    with declining(orders, known, voice):
        ready = prepare(orders, known)
    voice.note(f"policy: {ready.policy_called}")
    with attend(orders, ready, voice, _greet(ready), lambda: "it begins anew") as here:
        with here.spent.time("agreeing on the survey"):
            task = make_survey_task(ready.study, here.greeted.greetings)
            compare_tasks(here.talk, task)
        log_agreed(here.audit, ready, here.greeted, int(task.column_rows.max()), task.least)
        with here.role() as me:
            surveyed = _survey(me, ready, task)
            here.spent.waited = me.channel.idling.waited
        surveyed.disclosures = here.audit.openings(here.greeted.run)
        here.spent.memory = peak_bytes()
        voice.phase("writing results")
        _write_results(orders.out, here, task, surveyed)
    return tell_results(orders.out)


def _greet(ready: Ready) -> Greeting:
    """What this participant brings."""
    return greeting(
        ready.study,
        "survey",
        0 if ready.rows is None else len(ready.rows.values),
        ready.policy.least_cluster_size,
        contribution=ready.policy.contribution,
        coalition=ready.policy.coalition,
        commitment=commitment(ready.credentials.lasting or ready.credentials.key, ready.hash, ready.rows),
    )


def make_survey_task(study: Study, said: Mapping[str, Greeting]) -> SurveyTask:
    """The task that follows from the study and from what everybody brings."""
    survey = require_survey(study, "STUDY")
    owners, columns = study.roles.owners, study.data.columns
    parties = [said[name] for name in owners]
    ranks = dict(zip(owners, study.world().owners, strict=True))
    rule = strictest([study.disclosures.contribution, *(one.contribution for one in parties)])
    task = SurveyTask(
        survey.protocol,
        study.column_names,
        tuple(bounds_of(column)[0] for column in columns),
        tuple(bounds_of(column)[1] for column in columns),
        tuple(one.rows for one in parties),
        tuple(ranks[column.holder] for column in columns) if survey.partition == "vertical" else (),
        survey.cells,
        parts_of_quantiles(survey.quantiles),
        tuple(column.resolution for column in columns),
        strictest_least(study, said),
        "off" if rule == "off" else "least",
        max(one.coalition for one in parties),
    )
    try:
        check_survey_rules(task, study.world().names)
    except InputError as error:
        raise StudyError(str(error)) from None
    return task


def _survey(me: Party, ready: Ready, task: SurveyTask) -> Surveyed:
    """The role of this participant."""
    own = None
    if ready.rows is not None:
        own = tally_values(task, ready.rank, ready.study.own_columns(ready.rank), ready.rows.values)
    surveyed = take_survey(FAMILIES[task.protocol](me, task.problem), task, own)
    surveyed.traffic = me.channel.traffic()
    return surveyed


def _write_results(out: Path, here: Attendance, task: SurveyTask, surveyed: Surveyed) -> None:
    """What was found, for who owns data; for everybody, what was opened and what was sent."""
    ready, audit, run = here.ready, here.audit, here.greeted.run
    with folder_for(out, replace=False) as folder:
        if ready.rows is not None:
            _write_found(folder, here, task, surveyed)
        log = b"".join(msgspec.json.encode(entry) + b"\n" for entry in surveyed.disclosures)
        write_file(folder / "disclosures.jsonl", log)
        costs = {"traffic": surveyed.traffic, "seconds": here.spent.seconds, "peak_memory_bytes": here.spent.memory}
        write_file(folder / "traffic.json", msgspec.json.format(msgspec.json.encode(costs), indent=1))
        last = audit.record(
            "results",
            disclosures=summary(surveyed.disclosures),
            bytes_sent=surveyed.traffic.bytes_sent if surveyed.traffic else {},
            suppressed=None if surveyed.closed is None else int(surveyed.closed.sum()),
        )
        write_manifest(folder, ready, "survey", run, last)
        everybody_is_done(here.talk, ready, audit)


def _write_found(folder: Path, here: Attendance, task: SurveyTask, surveyed: Surveyed) -> None:
    from coterie.report.survey import SurveyFacts, Took, suggest_command, write_survey_page
    from coterie.report.survey_words import survey_promises

    ready, spent = here.ready, here.spent
    study, roles = ready.study, ready.study.roles
    found = describe_columns(task, surveyed)
    facts = SurveyFacts(
        study.study.name,
        ready.hash,
        here.greeted.run,
        ready.me.name,
        datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        dict(zip(roles.owners, task.rows, strict=True)),
        task.least,
        task.cells,
        found,
        suggest_command(found),
    )
    write_file(folder / "survey.json", msgspec.json.format(msgspec.json.encode(facts), indent=1))
    survey = require_survey(study, "STUDY")
    promised = survey_promises(terms_of_survey(task), roles, task.protocol, task.cells, survey.quantiles)
    took = Took(spent.seconds, spent.waited, surveyed.traffic, spent.memory)
    write_survey_page(folder / "survey.html", facts, surveyed.disclosures, roles, promised, took)
