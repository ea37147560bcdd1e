"""`coterie audit`: look back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.console import Console
from coterie.study.audit import verify_audit

__all__ = ["app"]

app = typer.Typer(
    help="What happened here: the log of every run, each line chained to the one before.", no_args_is_help=True
)


@app.command("verify")
def verify(
    context: typer.Context, log: Annotated[Path, typer.Argument(help="An audit.jsonl.")] = Path("audit.jsonl")
) -> None:
    """Check that no line of the log was changed, added, moved or removed, and say what it holds."""
    console: Console = context.obj
    entries = verify_audit(log)
    for entry in entries:
        about = " ".join(
            str(entry[field]) for field in ("study", "purpose", "resumed_after", "error", "peer") if entry.get(field)
        )
        console.say(f"{entry['time']}  {entry['event']:9} {about}", "entry", entry=entry)
    last = entries[-1]["hash"] if entries else None
    console.say(
        f"the chain holds: {len(entries)} entries, the last with hash {last}",
        "verified",
        entries=len(entries),
        last=last,
    )
