"""The page of a survey: what was found of each column, what that suggests, and what was disclosed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from coterie.ideal import Roles
from coterie.report.blocks import Block, Bullets, Code, Grid, Heading, Pairs, Paragraph, Section
from coterie.report.cost import show_sent, show_times
from coterie.report.formats import format_count, format_value
from coterie.report.log import describe_log
from coterie.report.page import write_page
from coterie.report.promises import Promises
from coterie.sharing import Disclosure
from coterie.surveys.found import Cell, ColumnFound, suggest_options
from coterie.transport import Traffic

__all__ = ["SurveyFacts", "Took", "suggest_command", "write_survey_page"]


class SurveyFacts(msgspec.Struct):
    """What one owner may know of a survey, in its own words. `rows`: of each owner."""

    study: str
    study_hash: str
    run: str
    party: str
    when: str
    rows: dict[str, int]
    least: int
    cells: int
    columns: list[ColumnFound]
    suggestion: str = ""


class Took(NamedTuple):
    """What a survey took of one owner: seconds by phase, those of computing in which it only waited, what it sent, and
    its memory at most."""

    seconds: dict[str, float]
    waited: float | None
    traffic: Traffic | None
    memory: int | None


def suggest_command(found: Sequence[ColumnFound]) -> str:
    """Options to paste into `coterie study create`; nothing, where too little is known."""
    return " ".join(f"{option} {shlex.quote(value)}" for option, value in suggest_options(list(found)).items())


def write_survey_page(
    path: Path, facts: SurveyFacts, disclosures: Sequence[Disclosure], roles: Roles, promised: Promises, took: Took
) -> None:
    """One HTML file that stands alone."""
    opened = [one for one in facts.columns if not one.closed]
    sections = [
        Section("columns", "Columns", _show_columns(facts, opened)),
        Section("suggestion", "What that suggests", _show_suggestion(opened)),
        Section("disclosures", "What was disclosed", _show_disclosures(disclosures, roles, promised)),
        Section("trust", "What that rests on", [Bullets(promised.assumptions), Heading("What is not protected"),
                                                Bullets(promised.not_protected)]),
        Section("course", "How it ran", _show_course(took)),
        Section("hashes", "Written and hashes", [Pairs({"Written": facts.when, "Study": Code(facts.study_hash),
                                                        "Run": Code(facts.run)})]),
    ]  # fmt: skip
    write_page(
        path,
        sections,
        title=f"{facts.study}: survey, as {facts.party} knows it",
        eyebrow="Coterie: a survey before a study",
        lede=f"{len(opened)} of {len(facts.columns)} columns are open. Everything here is on a public grid of "
        f"{facts.cells} cells a column; nothing is exact.",
        footer=f"Written by Coterie at {facts.party}, {facts.when}. It shows what this party may know, and is meant "
        "for this party.",
    )


def _show_course(took: Took) -> list[Block]:
    sent = [] if took.traffic is None else [Heading("What was sent"), *show_sent(took.traffic, took.memory)]
    return [*show_times(took.seconds, took.waited), *sent]


def _show_columns(facts: SurveyFacts, opened: Sequence[ColumnFound]) -> list[Block]:
    blocks: list[Block] = [
        Pairs({f"Rows of {name}": format_count(rows) for name, rows in facts.rows.items()}),
        Grid(
            ["column", "bounds asked", "rows", "missing", "mean", "open"],
            [
                [
                    one.name,
                    f"{one.low:g} to {one.high:g}",
                    format_count(one.rows),
                    describe_missing(one),
                    describe_mean(one),
                    "no" if one.closed else "yes",
                ]
                for one in facts.columns
            ],
            numeric={2},
            caption="Columns",
        ),
    ]
    for one in opened:
        cells = [[f"{per_cent} %", describe_cell(cell, one)] for per_cent, cell in one.quantiles.items()]
        blocks += [Heading(one.name), Grid(["quantile", "lies"], cells, caption=f"Quantiles of {one.name}")]
    if len(opened) < len(facts.columns):
        blocks.append(Paragraph("Of a closed column nothing is opened, and not why: too few values are there, or too "
                                "few of others than some party."))  # fmt: skip
    return blocks


def describe_missing(one: ColumnFound) -> str | None:
    if one.missing is None:
        return None
    if one.missing == 0 and one.missing_step > 1:
        return f"fewer than {-(-one.missing_step // 2)}"
    return f"{'about ' if one.missing_step > 1 else ''}{format_count(one.missing)}"


def describe_mean(one: ColumnFound) -> str | None:
    if one.mean is None:
        return None
    span = one.high - one.low
    return f"{format_value(one.mean, span)} (to {format_value(one.mean_step / 2, span)} up or down)"


def describe_cell(cell: Cell | None, one: ColumnFound) -> str:
    span = one.high - one.low
    if cell is None:
        return "not opened: too few rows beyond it"
    if cell.low is None:
        return f"below {format_value(one.low, span)}, outside the bounds"
    if cell.high is None:
        return f"above {format_value(one.high, span)}, outside the bounds"
    return f"between {format_value(cell.low, span)} and {format_value(cell.high, span)}"


def _show_suggestion(opened: Sequence[ColumnFound]) -> list[Block]:
    command = suggest_command(opened)
    if not command:
        return [Paragraph("Too little is known for a suggestion.")]
    return [
        Paragraph(
            "For coterie study create. Bounds reach from the lowest to the highest quantile that is known and half "
            "as much further, within the bounds that were asked. They promise nothing of values beyond these "
            "quantiles: what general knowledge says of a column comes first."
        ),
        Grid(["option", "to paste"], [[name, Code(value)] for name, value in suggest_options(list(opened)).items()]),
    ]


def _show_disclosures(disclosures: Sequence[Disclosure], roles: Roles, promised: Promises) -> list[Block]:
    entries = describe_log(disclosures, roles)
    return [
        Grid(
            ["what was learnt, and by whom", "when", "times", "why"],
            [[one.sentence, one.when, format_count(one.times), one.why] for one in entries],
            numeric={2},
            caption=f"Disclosures: {format_count(len(disclosures))} openings",
        ),
        Heading("What nobody learnt"),
        Bullets(promised.nobody),
        Heading("What everybody knows" + (", the helper included" if roles.dealer else "")),
        Bullets(promised.public),
    ]
