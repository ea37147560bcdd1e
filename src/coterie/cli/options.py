"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.errors import InputError

__all__ = [
    "AuditLog",
    "Data",
    "Decimal",
    "Delimiter",
    "Encoding",
    "Key",
    "Listen",
    "LogFile",
    "Out",
    "PassphraseFd",
    "Patience",
    "PolicyFile",
    "ProxyUrl",
    "Query",
    "Stall",
    "StudyFile",
    "TableName",
    "Wait",
    "check_times",
]

#: The longest --timeout, in seconds: a day.
MOST_PATIENCE = 86_400

StudyFile = Annotated[Path, typer.Argument(help="The study file, with everybody's signatures beside it.")]
Key = Annotated[Path, typer.Option("--key", help="Your private key.")]
PassphraseFd = Annotated[
    int | None,
    typer.Option(
        "--passphrase-fd",
        help="The number of an open file whose first line is your key's passphrase; else a terminal is asked.",
    ),
]
Data = Annotated[
    str | None,
    typer.Option("--data", help="Your data: a CSV, Parquet or DuckDB file, or postgresql://…; none if you own none."),
]
TableName = Annotated[str | None, typer.Option("--table", help="The table, in a DuckDB file.")]
Query = Annotated[str | None, typer.Option("--query", help="A SELECT, for DuckDB and PostgreSQL.")]
Delimiter = Annotated[
    str | None, typer.Option("--delimiter", help="What separates values in a CSV file, if not a comma (.tsv: a tab).")
]
Decimal = Annotated[str, typer.Option("--decimal", help="The decimal mark in a CSV file: . or ,")]
Encoding = Annotated[str, typer.Option("--encoding", help="How a CSV file is encoded, such as windows-1252.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="The folder for the results: a new or an empty one.")]
PolicyFile = Annotated[Path | None, typer.Option("--policy", help="Your policy; policy.toml beside the key.")]
AuditLog = Annotated[Path | None, typer.Option("--audit", help="Your audit log; audit.jsonl beside the key.")]
Listen = Annotated[str | None, typer.Option("--listen", help="HOST:PORT to listen at, if not the study's address.")]
ProxyUrl = Annotated[
    str | None,
    typer.Option(
        "--proxy", help="http://HOST:PORT of an HTTP proxy to dial through; by default HTTPS_PROXY. Empty: none."
    ),
]
LogFile = Annotated[
    Path | None, typer.Option("--log", help="A file to append JSON lines to, for operators: what happened and when.")
]
Wait = Annotated[float, typer.Option("--wait", help="Seconds to wait for the others to start.")]
Patience = Annotated[
    float, typer.Option("--timeout", help="Seconds that a peer may be silent before it counts as lost.")
]
Stall = Annotated[
    float | None,
    typer.Option("--stall", help="Seconds that a peer may send nothing but signs of life; by default 30 x --timeout."),
]


def check_times(timeout: float, wait: float, stall: float | None) -> None:
    """Refuse times that cannot be meant, and what is no number."""
    if not 0 < timeout <= MOST_PATIENCE:
        raise InputError(f"--timeout is a number of seconds, more than 0 and at most {MOST_PATIENCE:,}")
    if not wait >= 0:
        raise InputError("--wait is a number of seconds, at least 0")
    if stall is not None and not stall > 0:
        raise InputError("--stall is a number of seconds, more than 0")
