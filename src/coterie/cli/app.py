"""The command `coterie`: its verbs, and how what goes wrong becomes an exit code and a sentence."""

from __future__ import annotations

import os
import sys
from typing import Any, cast

import typer

from coterie.cli import audit, identity, study
from coterie.cli.console import Console
from coterie.cli.demo import demo
from coterie.cli.forecast import forecast
from coterie.cli.logs import describe_failure
from coterie.cli.relay import relay
from coterie.cli.run import predict, preflight, run
from coterie.cli.serve import serve, status
from coterie.cli.simulate import simulate
from coterie.cli.survey import survey
from coterie.software import describe_software, software_digest
from coterie.study.dumps import no_core_files

__all__ = ["app", "main"]

#: Beside the codes of `errors` and of `logs`: the command line makes no sense.
USAGE = 2
#: Options of every verb.
COMMON = ("--quiet", "-q", "--json")
HELP = """k-means across organisations, with nobody's data leaving home.

\b
Try it on this machine     demo, simulate, forecast
Agree with the others      identity, study
Run together               survey, preflight, run, predict
Carry connections          relay
Be a helper                serve, status
Look back                  audit

Exit codes: 0 done, 2 usage, 3 data, 4 study, 5 policy, 6 peer unreachable, 7 peer died, 8 authentication, 9 protocol
violation, 10 interrupted (resumable), 70 internal.
"""
app = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"coterie {describe_software()}\ndigest {software_digest()}")
        raise typer.Exit


@app.callback()
def _common(
    context: typer.Context,
    quiet: bool = typer.Option(False, "--quiet", "-q", help="Say nothing but errors."),
    json: bool = typer.Option(False, "--json", help="One JSON object a line, for machines."),
    version: bool = typer.Option(  # noqa: ARG001
        False, "--version", callback=_version, is_eager=True, help="Say which version, with the digest of its files."
    ),
) -> None:
    context.obj = Console(quiet=quiet, json=json)


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line and end with the documented exit code."""
    no_core_files()
    given = sys.argv[1:] if arguments is None else arguments
    console = Console(json="--json" in given)
    common = [word for word in given if word in COMMON]  # allowed anywhere
    try:
        code = app([*common, *(word for word in given if word not in COMMON)], standalone_mode=False)
    except typer.Abort:
        code = _failed(console, "interrupted", 10)
    except typer.TyperException as error:
        code = USAGE
        if console.json:
            console.error(cast(Any, error).format_message(), code)
        else:
            cast(Any, error).show()
    except (Exception, KeyboardInterrupt) as error:
        code = _failed(console, *describe_failure(error))
    sys.exit(code or 0)


def _failed(console: Console, text: str, code: int) -> int:
    """Say what went wrong, if there is still a terminal to say it on: one that hangs up is a reason to stop, too."""
    try:
        return console.error(text, code)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):  # else flushing them fails again, with another exit code
            os.dup2(nowhere, stream)
        return code


app.command("demo", short_help="The paper's example between real processes, as a page.")(demo)
app.command("simulate", short_help="The same on your own file, with a report.")(simulate)
app.command("forecast", short_help="Rounds, bytes, time and memory before anything runs.")(forecast)
app.add_typer(identity.app, name="identity", short_help="Make your key and certificate, or show one.")
app.add_typer(study.app, name="study", short_help="Create, explain, sign and verify what you agree on.")
app.command("survey", short_help="Look at columns together before a study: missing, means, quantiles.")(survey)
app.command("preflight", short_help="Check everything that can be checked before a run.")(preflight)
app.command("run", short_help="Take part in a study, in whatever role.")(run)
app.command("predict", short_help="Label new rows with a study's model.")(predict)
app.command("relay", short_help="Join the connections of participants who can only dial out.")(relay)
app.command("serve", short_help="Be the helper of many studies, and stay up.")(serve)
app.command("status", short_help="Say what a `coterie serve` on this machine does.")(status)
app.add_typer(audit.app, name="audit", short_help="Verify the log of what happened here.")
