"""A survey in plain words, with a forecast of what it will cost."""

from __future__ import annotations

from typing import Any

import msgspec

from coterie.cli.people import (
    explain_relays,
    explain_renewals,
    explain_software,
    list_participants,
    show_participants,
)
from coterie.cli.promised import bullets, list_promises
from coterie.columns import bounds_of
from coterie.errors import InputError
from coterie.planning.surveys import forecast_survey
from coterie.report.formats import format_bytes, join_names
from coterie.report.survey_words import survey_promises
from coterie.study.agreement import Study, study_hash
from coterie.study.policy import LEAST
from coterie.study.survey_terms import require_survey, state_survey_rules, terms_of_survey_study
from coterie.surveys import SurveyTask, parts_of_quantiles

__all__ = ["explain_survey"]


def explain_survey(study: Study, rows: int) -> tuple[str, dict[str, Any]]:
    """The text, and what machines get: the promises and the forecast."""
    survey, roles = require_survey(study, "STUDY"), study.roles
    least = max(study.disclosures.least_cluster_size, LEAST)
    terms = terms_of_survey_study(study, least)
    told = survey_promises(terms, roles, survey.protocol, survey.cells, survey.quantiles)
    lines = [
        f"{study.study.name}, hash {study_hash(study)}",
        "",
        "WHO TAKES PART",
        *show_participants(study),
        f"  - {explain_renewals(study)}",
        f"  - {explain_software(study)}",
        *explain_relays(study),
        "",
        "WHAT IS COMPUTED",
        f"A survey of {len(study.data.columns)} columns of {join_names(roles.owners)}, "
        f"{'each held by all' if survey.partition == 'horizontal' else 'each held by one of them'}; protocol "
        f"{survey.protocol}. Of each column, on {survey.cells} cells of its bounds: how many values are missing, the "
        f"mean, and the quantiles {', '.join(f'{q:g} %' for q in survey.quantiles)}. Nothing is clustered.",
    ]
    for column in study.data.columns:
        held = f", held by {column.holder}" if column.holder else ""
        step = f", multiples of {column.resolution:g}" if column.resolution else ""
        lines.append(f"  - {column.name}: between {column.low:g} and {column.high:g}, or beyond{step}{held}")
    lines += ["", "WHICH COLUMNS ARE OPENED", *bullets(state_survey_rules(study))]
    lines.append(
        f"  - What follows is for a least size of {least} and policies that ask for no more. What holds in the end is "
        "agreed on when the survey begins."
    )
    lines += list_promises(told, study)
    lines += ["", f"WHAT IT WILL COST, with {rows:,} rows in all"]
    costs: dict[str, Any] = {}
    try:
        costs = _forecast(study, rows, least)
        lines.append(
            f"  - {costs['rounds']:,} rounds; a party sends {format_bytes(costs['bytes_by_party'])}, all together "
            f"{format_bytes(costs['bytes'])}"
        )
    except InputError as error:
        lines.append(f"  - no forecast: {error}")
    return "\n".join(lines), {
        "participants": list_participants(study),
        "promises": msgspec.to_builtins(told),
        "forecast": costs,
    }


def _forecast(study: Study, rows: int, least: int) -> dict[str, Any]:
    """With rows spread evenly; messages grow with the number of columns and cells, and little with rows."""
    survey, world = require_survey(study, "STUDY"), study.world()
    ranks = dict(zip(study.roles.owners, world.owners, strict=True))
    columns = study.data.columns
    each = rows if survey.partition == "vertical" else max(rows // world.p, 1)
    task = SurveyTask(
        survey.protocol,
        study.column_names,
        tuple(bounds_of(column)[0] for column in columns),
        tuple(bounds_of(column)[1] for column in columns),
        (each,) * world.p,
        tuple(ranks[column.holder] for column in columns) if survey.partition == "vertical" else (),
        survey.cells,
        parts_of_quantiles(survey.quantiles),
        tuple(column.resolution for column in columns),
        least,
        "off" if study.disclosures.contribution == "off" else "least",
    )
    rounds, sent = forecast_survey(task, world)
    return {
        "rounds": rounds,
        "bytes": sum(sent.values()),
        "bytes_by_party": max(size for name, size in sent.items() if name != study.roles.dealer),
        "bytes_sent": sent,
    }
