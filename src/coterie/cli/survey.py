"""`coterie survey`: a participant's part in a survey of columns, before a study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from coterie.cli.console import Console
from coterie.cli.logs import logging_to
from coterie.cli.options import (
    AuditLog,
    Data,
    Decimal,
    Delimiter,
    Encoding,
    Key,
    Listen,
    LogFile,
    Out,
    PassphraseFd,
    Patience,
    PolicyFile,
    ProxyUrl,
    Query,
    Stall,
    StudyFile,
    TableName,
    Wait,
)
from coterie.cli.passphrases import passphrase_for
from coterie.cli.run import check_orders
from coterie.typed import from_json

__all__ = ["survey"]

RESULTS = Path("survey")


def survey(
    context: typer.Context,
    study: StudyFile,
    key: Key,
    passphrase_fd: PassphraseFd = None,
    data: Data = None,
    table: TableName = None,
    query: Query = None,
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    out: Out = RESULTS,
    policy: PolicyFile = None,
    audit: AuditLog = None,
    listen: Listen = None,
    proxy: ProxyUrl = None,
    wait: Wait = 3600.0,
    timeout: Patience = 10.0,
    stall: Stall = None,
    log: LogFile = None,
) -> None:
    """Look at columns together before a study: missing values, means and quantiles, on a public grid.

    The study is made by `coterie study create --survey`. The same command everywhere, without --data where no data is
    owned. Values may be missing and lie outside of the bounds. A survey that was stopped begins anew.
    """
    from coterie.cli.progress import Progress
    from coterie.data.csv_file import CsvFormat
    from coterie.study.prepare import Orders
    from coterie.study.survey import run_survey

    console: Console = context.obj
    orders = Orders(
        study, key, data, table, query, out, policy, audit,
        listen=listen, proxy=proxy, wait=wait, patience=timeout, stall=stall, own_process=True,
        csv=CsvFormat(delimiter, decimal, encoding), passphrase=passphrase_for(key, passphrase_fd),
    )  # fmt: skip
    with logging_to(log, "survey", console), Progress(console) as voice:
        where = run_survey(check_orders(orders), voice)
    suggestion = _suggestion(where / "survey.json")
    if suggestion:
        console.say(f"for coterie study create: {suggestion}", "suggestion", options=suggestion)
    page = where / "survey.html"
    read = f"; to read: {page}" if page.exists() else ""
    console.say(f"done: what was found is in {where}{read}", "done", out=str(where))


def _suggestion(path: Path) -> str:
    """What the survey suggests for a study; nothing at one who owns no data."""
    if not path.exists():
        return ""
    return str(from_json(path.read_bytes(), dict[str, Any])["suggestion"])
