"""A survey as a study's file has it: what can be wrong with it, and what it discloses to whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from coterie.columns import bounds_of
from coterie.errors import InputError, StudyError
from coterie.ideal import Terms, learnt

if TYPE_CHECKING:
    from coterie.study.agreement import Study, Survey

__all__ = [
    "SAID_OF_SURVEYS",
    "check_survey",
    "refuse_survey",
    "require_survey",
    "state_survey",
    "state_survey_rules",
    "terms_of_survey_study",
]

#: What [disclosures] says of a survey; all else there is about clusters.
SAID_OF_SURVEYS = ("least_cluster_size", "contribution", "statement")
#: The lines of the statement, by the name of what is learnt. These words are signed.
LINES = {
    "closed columns": "At the end {who} learn which columns stay closed, and not why.",
    "missing values": "At the end {who} learn, of each open column, how many values are missing in all, to the nearest "
    "multiple of the least size.",
    "column means": "At the end {who} learn, of each open column, the mean, to at least a cell of the public grid.",
    "quantiles": "At the end {who} learn, of each open column, in which cells of the public grid some quantiles lie.",
}


def terms_of_survey_study(study: Study, least: int = 1) -> Terms:
    """What is learnt follows from these. The least size is known when all policies are."""
    return Terms(
        partition=study.clustering.partition,
        doing="survey",
        least=least,
        contribution=study.disclosures.contribution,
        columns=study.column_names,
    )


def check_survey(study: Study, survey: Survey, must: Callable[[bool, str], None]) -> None:
    """Whatever can be wrong with [survey], and what has no place in the file of a survey. `must` raises the text
    unless the first argument is true."""
    from coterie.surveys.task import MOST_CELLS, find_grid_fault, parts_of_quantiles  # takes long to load

    must(2 <= survey.cells <= MOST_CELLS, f"[survey] cells must be between 2 and {MOST_CELLS}")
    try:
        parts_of_quantiles(survey.quantiles)
    except InputError as error:
        must(False, f"[survey] quantiles: {error}")
    usual = type(study.disclosures)()
    for name in usual.__struct_fields__:
        if name not in SAID_OF_SURVEYS:
            fine = getattr(study.disclosures, name) == getattr(usual, name)
            must(fine, f"[disclosures] {name} is about clusters, of which a survey has none; leave it out")
    must(
        study.disclosures.contribution != "none-or-least",
        '[disclosures] contribution must be "least" or "off": in a survey a rule that none at all will do would tell '
        "whether others have values",
    )
    must(not study.data.id, "[data] a survey puts no rows together: leave out the id column")
    must(study.data.matching == "equal", "[data] a survey matches no rows: leave out matching")
    for column in study.data.columns:
        must(column.weight == 1.0, f"[data] column {column.name!r}: weights are for clusters; leave them out")
        plain = column.kind == "number" and column.missing == "error" and column.transform == "none" and not column.clip
        must(plain, f"[data] column {column.name!r}: a survey takes numbers as they are; leave out what changes them")
        fault = find_grid_fault(*bounds_of(column), survey.cells)
        must(not fault, f"[data] column {column.name!r}: {fault}")


def require_survey(study: Study, command: str) -> Survey:
    if study.survey is None:
        raise StudyError(f"this is no survey but a study of clusters; take part with: coterie run {command}")
    return study.survey


def refuse_survey(study: Study, command: str) -> None:
    if study.survey is not None:
        raise StudyError(f"this is a survey, and nothing is clustered; take part with: coterie survey {command}")


def state_survey(study: Study) -> list[str]:
    """What is disclosed to whom, as the file says it."""
    roles = study.roles
    items = {one.item.what: one for one in learnt(terms_of_survey_study(study), roles)}
    lines = [said.format(who=", ".join(items[what].to)) for what, said in LINES.items()]
    included = "" if roles.dealer is None else f", {roles.dealer} included,"
    known = f"Everybody{included} knows this file and how many rows each party has."
    return [*lines, *state_survey_rules(study), *_state_trust(study), known]


def _state_trust(study: Study) -> list[str]:
    from coterie.study.statement import state_trust  # which states surveys, too

    return state_trust(study)


def state_survey_rules(study: Study) -> list[str]:
    """Which columns and quantiles are opened, as the file says it."""
    shown = study.disclosures
    least = shown.least_cluster_size
    said = [
        f"The least size is the largest that the study ({least if least > 1 else 'which names none'}) or a party's "
        "policy (10 unless it says otherwise, as for clusters) asks for. A column of which fewer values are there "
        "stays closed, and a quantile on whose outer side fewer values lie.",
    ]
    if study.clustering.partition == "vertical":
        said.append(
            "Each column is one party's, who knows all of it; nothing is put together by rows, and who contributes to "
            "a column cannot be told apart."
        )
    elif shown.contribution == "least":
        said.append(
            "A column also stays closed unless, for every party, the others together have at least that many values of "
            "it; and a quantile unless that many of the others' values lie at or before its cell, and as many at or "
            "behind it. A policy may ask this for coalitions of several parties."
        )
    return said
