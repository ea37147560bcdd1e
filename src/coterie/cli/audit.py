"""`coterie audit`: look back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from coterie.cli.console import Console, printable
from coterie.study.audit import check_against, verify_audit

__all__ = ["app"]

app = typer.Typer(
    help="What happened here: the log of every run, each line signed and chained to the one before.",
    no_args_is_help=True,
)
#: What a line shows of an entry.
SHOWN = ("study", "purpose", "party", "what", "detail", "resumed_after", "error", "peer")
NO_LOGS: list[Path] = []


@app.command("verify")
def verify(
    context: typer.Context,
    log: Annotated[Path, typer.Argument(help="An audit.jsonl.")] = Path("audit.jsonl"),
    against: Annotated[
        list[Path],
        typer.Option("--against", help="Another participant's log to compare with; repeatable."),
    ] = NO_LOGS,
) -> None:
    """Check that no line of the log was changed, added, moved or removed, and whose signature each bears; with
    --against, that it is the log that was shown to the others."""
    console: Console = context.obj
    found = verify_audit(log)
    for entry in found.entries:
        console.say(f"{_shown(entry, 'time')}  {_shown(entry, 'event'):10} {_about(entry)}", "entry", entry=entry)
    for print_, name in found.names.items():
        console.say(f"signed by {name}, fingerprint {print_}", "signer", name=name, fingerprint=print_)
    if found.torn:
        console.say(
            f"behind the last entry stand {found.torn} bytes of half a line, as a crash leaves them; they count for "
            "nothing",
            "torn",
            bytes=found.torn,
        )
    for path in against:
        heads = check_against(found, verify_audit(path))
        console.say(f"{path} knows {heads} heads of this log: all are in it", "compared", log=str(path), heads=heads)
    last = found.entries[-1]["hash"] if found.entries else None
    console.say(
        f"the chain and all signatures hold: {len(found.entries)} entries, the last with hash {last}",
        "verified",
        entries=len(found.entries),
        last=last,
        signers=found.names,
        torn=found.torn,
    )


def _about(entry: dict[str, Any]) -> str:
    shown = [_shown(entry, name) for name in SHOWN if entry.get(name)]
    if entry.get("to"):
        shown.append("to " + ", ".join(printable(str(name)) for name in entry["to"]))
    return " ".join(shown)


def _shown(entry: dict[str, Any], name: str) -> str:
    return printable(str(entry.get(name, "")))
