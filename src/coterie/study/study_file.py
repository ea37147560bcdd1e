"""The study file: made of options, written, and read again."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import tomli_w

from coterie import __version__
from coterie.columns import find_fault
from coterie.errors import InputError, StudyError
from coterie.faults import describe_fault
from coterie.study.agreement import MOST_ROWS, RECONNECT, Study, sections_of
from coterie.study.declared import Declared
from coterie.study.files import decode_toml, read_text, write_file
from coterie.study.identity import Identity
from coterie.study.seating import seat_everybody
from coterie.study.statement import state_disclosures
from coterie.study.survey_terms import SAID_OF_SURVEYS
from coterie.study.validity import check_study
from coterie.study.wording import in_options, name_option
from coterie.typed import convert

__all__ = ["NO_STUDIES", "create_study", "load_study", "write_study"]

#: How names of files end that stand beside a study and are none.
NO_STUDIES = (".sig.toml", ".withdrawn.toml", ".renewed.toml", ".identity.toml", "policy.toml")
#: How many iterations there are where rows are matched in private, and nobody may learn when the centres rest.
PRIVATE_ITERATIONS = 20
#: Options that stand in [disclosures].
SHOWN = ("counts", "labels", "centers", "scales", "measures", "quality", "sizes", "least_cluster_size", "contribution")


def create_study(
    name: str,
    parties: Sequence[Identity],
    helper: Identity | None = None,
    *,
    servers: Sequence[str | Identity] = (),
    clusters: int | Sequence[int] | None = None,
    survey: Mapping[str, object] | None = None,
    partition: str,
    columns: Sequence[str],
    bounds: Mapping[str, tuple[float | str, float | str]],
    holds: Mapping[str, str | Sequence[str]] | None = None,
    id_column: str = "",
    resolution: Mapping[str, float] | None = None,
    column_weights: Mapping[str, float] | None = None,
    kinds: Mapping[str, str] | None = None,
    categories: Mapping[str, Sequence[str]] | None = None,
    distance: Mapping[str, float] | None = None,
    clip: Sequence[str] = (),
    transform: Mapping[str, str] | None = None,
    missing: Mapping[str, bool | float | str] | None = None,
    most_rows: int = MOST_ROWS,
    matching: str = "equal",
    id_rule: Mapping[str, str] | None = None,
    precedence: Sequence[str] = (),
    incomplete: str = "refuse",
    row_weights: Mapping[str, tuple[float, float]] | None = None,
    reconnect: int = RECONNECT,
    renewals: bool = False,
    software: str = "same",
    **options: object,
) -> Study:
    """A checked study. Whether a helper or servers are needed follows from the protocol; a server is a party's name, or
    the identity of one who owns no data. `holds`: column name to party name, if vertical; to the names of all who hold
    cells of it, if mixed. `bounds` to `missing` are what is declared of columns, by name (docs/columns.md); one with
    categories is of that kind. `row_weights`: the column that says what rows count for, with its step and the largest
    weight; `holds` names who holds it, if vertical. `reconnect`: seconds to meet again after a break; `renewals`: may
    keys be renewed; `software`: whether all must run the "same" files, or the same "version" will do. `options`: the
    other fields of [clustering] and [disclosures]. `survey`: the other fields of [survey], in the place of
    `clusters`."""
    if partition == "mixed" and matching == "equal":
        matching = "shared"  # who holds which cell is found by matching ids
    weighing = _row_weights(row_weights or {}, holds or {})
    holds = {column: by for column, by in (holds or {}).items() if column != weighing.get("column")}
    kinds = {**dict.fromkeys(categories or {}, "category"), **(kinds or {})}
    declared = Declared(
        kinds,
        bounds,
        categories or {},
        distance or {},
        dict.fromkeys(clip, True),
        transform or {},
        missing or {},
        {} if partition == "mixed" else holds,
        _several(holds) if partition == "mixed" else {},
        resolution or {},
        column_weights or {},
    )
    listed = declared.list_columns(columns)
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    shown = {key: options.pop(key) for key in SHOWN if key in options}
    if options.get("max_iter", 0) is None:
        del options["max_iter"]
    if matching == "private":
        options.setdefault("max_iter", PRIVATE_ITERATIONS)
    if matching == "private" or weighing:  # nothing else is told of rows that nobody knows how much they count
        shown["quality"] = [one for one in shown.get("quality", ["inertia"]) if one == "inertia"]  # type: ignore[attr-defined]
    if survey is not None and partition == "mixed":
        raise InputError("a survey is horizontal or vertical: each column is held by all parties, or by one")
    if survey is not None:
        todo: dict[str, object] = {"survey": {"partition": partition, **survey, **options}}
    elif clusters is not None:
        several = clusters if isinstance(clusters, int) else list(clusters)
        todo = {"clustering": {"clusters": several, "partition": partition, **options}}
    else:
        raise InputError("say how many clusters with --clusters, or that this is a survey with --survey")
    try:
        made = convert(
            {
                "study": {"name": name, "created": created, "made_with": f"coterie {__version__}"},
                **todo,
                "data": {
                    "columns": listed,
                    "id": id_column,
                    "most_rows": most_rows,
                    "matching": matching,
                    "id_rule": dict(id_rule or {}),
                    "precedence": list(precedence),
                    "incomplete": incomplete,
                    "row_weights": weighing,
                },
                "disclosures": shown,
                "participants": msgspec.to_builtins(
                    seat_everybody(parties, helper, servers, reconnect=reconnect, renewals=renewals, software=software)
                ),
            },
            Study,
        )
    except msgspec.ValidationError as error:
        place, fault, _ = describe_fault(error, Study)
        raise InputError(f"{name_option(place) or 'the study cannot be made'}: {fault}") from None
    for column in made.data.columns:  # the statement names what columns become
        if fault := find_fault(column):
            raise InputError(f"column {column.name!r}: {fault}")
    made = msgspec.structs.replace(
        made, disclosures=msgspec.structs.replace(made.disclosures, statement=state_disclosures(made))
    )
    try:
        check_study(made, "the study")
    except StudyError as error:
        raise InputError(in_options(str(error).removeprefix("the study: "))) from None
    return made


def _row_weights(
    given: Mapping[str, tuple[float, float]], holds: Mapping[str, str | Sequence[str]]
) -> dict[str, object]:
    """As a study file has it."""
    if len(given) > 1:
        raise InputError("--row-weights: name one column that says what rows count for")
    for column, (step, most) in given.items():
        held = {"holder": holds[column]} if column in holds else {}
        return {"column": column, "step": step, "most": most, **held}
    return {}


def _several(holds: Mapping[str, str | Sequence[str]]) -> dict[str, list[str]]:
    """By column all who hold cells of it."""
    return {column: [by] if isinstance(by, str) else list(by) for column, by in holds.items()}


def load_study(path: Path) -> Study:
    study = decode_toml(read_text(path, "the study file"), Study, path, "a study file")
    check_study(study, str(path))
    return study


def write_study(path: Path, study: Study) -> None:
    """Readable, and never to be edited: every participant signs it as it is."""
    whole = msgspec.to_builtins(study)
    if not study.data.row_weights.column:
        del whole["data"]["row_weights"]
    if study.survey is not None:
        whole["disclosures"] = {name: whole["disclosures"][name] for name in SAID_OF_SURVEYS}
    parts = [
        "# A Coterie study. Every participant signs this file as it is (`coterie study sign`); what is changed",
        "# afterwards is noticed. `coterie study explain` says in plain words what it means.",
    ]
    for section, meaning in sections_of(study).items():
        parts += ["", f"# {meaning}", tomli_w.dumps({section: whole[section]}, multiline_strings=True).rstrip()]
    write_file(path, ("\n".join(parts) + "\n").encode(), replace=False)
