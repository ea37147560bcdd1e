"""`coterie run`, `coterie predict`, `coterie preflight`: a participant's part in a study."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    check_times,
)
from coterie.cli.passphrases import passphrase_for
from coterie.events import tell

if TYPE_CHECKING:
    from coterie.study.prepare import Orders

__all__ = ["check_orders", "predict", "preflight", "run"]

logger = logging.getLogger(__name__)
RESULTS, LABELS = Path("results"), Path("predictions")


def check_orders(orders: Orders) -> Orders:
    """Refuse times and addresses that cannot be meant."""
    from coterie.study.identity import split_address

    check_times(orders.patience, orders.wait, orders.stall)
    if orders.listen is not None:
        split_address(orders.listen, "--listen")
    return orders


def run(
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
    restart: Annotated[bool, typer.Option("--restart", help="Start over, whatever checkpoints there are.")] = False,
    state: Annotated[
        Path | None, typer.Option("--state", help="The folder for checkpoints; KEY.state, beside the key, if left out.")
    ] = None,
) -> None:
    """Take part in a study: the same command everywhere, without --data where no data is owned.

    Started again after it was stopped, with all the others, a run goes on where it was. Started again when it is done,
    with another --out, it gives everybody the same results once more.
    """
    from coterie.cli.closing import show_end
    from coterie.cli.progress import Progress
    from coterie.data.csv_file import CsvFormat
    from coterie.study.prepare import Orders
    from coterie.study.run import run_study
    from coterie.study.study_file import load_study

    console: Console = context.obj
    orders = Orders(
        study, key, data, table, query, out, policy, audit, state,
        listen=listen, proxy=proxy, wait=wait, patience=timeout, restart=restart, stall=stall, own_process=True,
        csv=CsvFormat(delimiter, decimal, encoding), passphrase=passphrase_for(key, passphrase_fd),
    )  # fmt: skip
    with logging_to(log, "run", console):
        orders, agreed = check_orders(orders), load_study(study)
        with Progress(console) as voice:
            where = run_study(orders, voice)
    show_end(console, where, agreed)


def predict(
    context: typer.Context,
    study: StudyFile,
    key: Key,
    passphrase_fd: PassphraseFd = None,
    model: Annotated[Path | None, typer.Option("--model", help="Your model: results/model.json.")] = None,
    data: Data = None,
    table: TableName = None,
    query: Query = None,
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    out: Out = LABELS,
    policy: PolicyFile = None,
    audit: AuditLog = None,
    listen: Listen = None,
    proxy: ProxyUrl = None,
    wait: Wait = 3600.0,
    timeout: Patience = 10.0,
    stall: Stall = None,
    log: LogFile = None,
) -> None:
    """Label new rows: alone where you know the centres, else together with all the others."""
    from coterie.cli.progress import Progress
    from coterie.data.csv_file import CsvFormat
    from coterie.study.predict import predict_rows
    from coterie.study.prepare import Orders

    console: Console = context.obj
    orders = Orders(
        study, key, data, table, query, out, policy, audit,
        model=model, listen=listen, proxy=proxy, wait=wait, patience=timeout, stall=stall, own_process=True,
        csv=CsvFormat(delimiter, decimal, encoding), passphrase=passphrase_for(key, passphrase_fd),
    )  # fmt: skip
    with logging_to(log, "predict", console), Progress(console) as voice:
        where = predict_rows(check_orders(orders), voice)
    console.say(f"done: labels are in {where}", "done", out=str(where))


def preflight(
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
    policy: PolicyFile = None,
    listen: Listen = None,
    proxy: ProxyUrl = None,
    wait: Annotated[float, typer.Option("--wait", help="Seconds to wait for others to come up.")] = 0.0,
    timeout: Patience = 10.0,
    log: LogFile = None,
) -> None:
    """Check key, study, signatures, policy and data and, as far as the others are up, connections. Nothing of the data
    leaves."""
    from coterie.data.csv_file import CsvFormat
    from coterie.study.preflight import Finding
    from coterie.study.preflight import preflight as check
    from coterie.study.prepare import Orders

    console: Console = context.obj

    def told(finding: Finding) -> None:
        mark = "note" if finding.remark else {True: "ok  ", False: "NO  ", None: "?   "}[finding.fine]
        console.say(f"{mark} {finding.what}: {finding.text}", "check", what=finding.what, fine=finding.fine)
        text = f"{finding.what}: {finding.text}"
        tell(logger, logging.INFO, "check", text, what=finding.what, fine=finding.fine, remark=finding.remark)

    orders = Orders(
        study, key, data, table, query,
        policy=policy, listen=listen, proxy=proxy, wait=wait, patience=timeout,
        csv=CsvFormat(delimiter, decimal, encoding), passphrase=passphrase_for(key, passphrase_fd),
    )  # fmt: skip
    with logging_to(log, "preflight", console):
        found = check(check_orders(orders), told)
    unseen = [finding.what for finding in found if finding.fine is None]
    rest = f"; {', '.join(unseen)} could not be checked yet" if unseen else ""
    console.say(f"ready to run{rest}", "ready", unseen=unseen)
