"""The study file: made of options, written, and read again."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import tomli_w

from coterie import __version__
from coterie.errors import InputError, StudyError
from coterie.study.agreement import MOST_ROWS, SECTIONS, Study, StudyColumn
from coterie.study.files import decode_toml, read_text, write_file
from coterie.study.identity import Identity
from coterie.study.seating import seat_everybody
from coterie.study.statement import state_disclosures
from coterie.study.validity import check_study

__all__ = ["create_study", "load_study", "write_study"]

#: Options that stand in [disclosures].
SHOWN = ("counts", "labels", "centers", "scales", "measures", "quality", "sizes", "least_cluster_size", "contribution")


def create_study(
    name: str,
    parties: Sequence[Identity],
    helper: Identity | None = None,
    *,
    servers: Sequence[str | Identity] = (),
    clusters: int | Sequence[int],
    partition: str,
    columns: Sequence[str],
    bounds: Mapping[str, tuple[float, float]],
    holds: Mapping[str, str] | None = None,
    id_column: str = "",
    resolution: Mapping[str, float] | None = None,
    column_weights: Mapping[str, float] | None = None,
    most_rows: int = MOST_ROWS,
    **options: object,
) -> Study:
    """A checked study. Whether a helper or servers are needed follows from the protocol; a server is a party's name, or
    the identity of one who owns no data. `holds`: column name to party name, if vertical. `options`: the other fields
    of [clustering] and [disclosures]."""
    if partition == "mixed":
        raise InputError("a study is horizontal or vertical; a patchwork of cells is for SecureKMeans.fit_parties")
    listed = _list_columns(columns, bounds, holds or {}, resolution or {}, column_weights or {})
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    several = clusters if isinstance(clusters, int) else list(clusters)
    shown = {key: options.pop(key) for key in SHOWN if key in options}
    try:
        made = msgspec.convert(
            {
                "study": {"name": name, "created": created, "made_with": f"coterie {__version__}"},
                "clustering": {"clusters": several, "partition": partition, **options},
                "data": {"columns": msgspec.to_builtins(listed), "id": id_column, "most_rows": most_rows},
                "disclosures": shown,
                "participants": msgspec.to_builtins(seat_everybody(parties, helper, servers)),
            },
            Study,
        )
    except msgspec.ValidationError as error:
        raise InputError(f"the study cannot be made: {error}") from None
    made = msgspec.structs.replace(
        made, disclosures=msgspec.structs.replace(made.disclosures, statement=state_disclosures(made))
    )
    try:
        check_study(made, "the study")
    except StudyError as error:
        raise InputError(str(error)) from None
    return made


def _list_columns(
    columns: Sequence[str],
    bounds: Mapping[str, tuple[float, float]],
    holders: Mapping[str, str],
    steps: Mapping[str, float],
    weights: Mapping[str, float],
) -> list[StudyColumn]:
    """What each option says of each column; one that says something of others is refused."""
    for column in columns:
        if column not in bounds:
            raise InputError(f"--bounds has no range for column {column!r}; add {column}=LOW:HIGH")
    named = {"--bounds": bounds, "--holds": holders, "--resolution": steps, "--column-weights": weights}
    for option, given in named.items():
        for column in given:
            if column not in columns:
                raise InputError(
                    f"{option}: column {column!r} has bounds, a holder, a resolution or a weight, but is not among "
                    "--columns"
                )
    return [
        StudyColumn(
            c, float(bounds[c][0]), float(bounds[c][1]), holders.get(c, ""), steps.get(c, 0.0), weights.get(c, 1.0)
        )
        for c in columns
    ]


def load_study(path: Path) -> Study:
    study = decode_toml(read_text(path, "the study file"), Study, path, "a study file")
    check_study(study, str(path))
    return study


def write_study(path: Path, study: Study) -> None:
    """Readable, and never to be edited: every participant signs it as it is."""
    whole = msgspec.to_builtins(study)
    parts = [
        "# A Coterie study. Every participant signs this file as it is (`coterie study sign`); what is changed",
        "# afterwards is noticed. `coterie study explain` says in plain words what it means.",
    ]
    for section, meaning in SECTIONS.items():
        parts += ["", f"# {meaning}", tomli_w.dumps({section: whole[section]}, multiline_strings=True).rstrip()]
    write_file(path, ("\n".join(parts) + "\n").encode(), replace=False)
