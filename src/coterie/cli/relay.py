"""`coterie relay`: join the connections of participants who can only dial out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.console import Console
from coterie.cli.logs import logging_to
from coterie.cli.options import LogFile, PassphraseFd
from coterie.cli.passphrases import passphrase_for

__all__ = ["relay"]

NONE: list[Path] = []


def relay(
    context: typer.Context,
    listen: Annotated[str, typer.Option("--listen", help="HOST:PORT to listen at, such as 0.0.0.0:443.")],
    key: Annotated[Path, typer.Option("--key", help="The relay's private key; NAME.identity.toml stands beside it.")],
    study: Annotated[list[Path], typer.Option("--study", help="A study to work for; again for each.")] = NONE,
    studies: Annotated[
        Path | None, typer.Option("--studies", help="A folder of studies, looked at again when it changes.")
    ] = None,
    open_: Annotated[
        bool, typer.Option("--open", help="Also work for any study that names this relay and that all have signed.")
    ] = False,
    identity: Annotated[
        Path | None, typer.Option("--identity", help="The relay's identity file, if not beside the key.")
    ] = None,
    passphrase_fd: PassphraseFd = None,
    log: LogFile = None,
    most_connections: Annotated[int, typer.Option("--most-connections", help="In all.")] = 4096,
    most_per_study: Annotated[int, typer.Option("--most-per-study", help="Connections of one study.")] = 2048,
    most_per_participant: Annotated[int, typer.Option("--most-per-participant", help="Of one participant.")] = 1024,
) -> None:
    """Join the connections of participants who can only dial out.

    It sees who takes part in which study, sizes and times; what passes is the participants' own TLS, to which it holds
    no key. Make its identity with `coterie identity create relay --address HOST:PORT` and send relay.identity.toml to
    those who are to be reached by way of it (`coterie identity create NAME --via relay.identity.toml`).
    """
    from coterie.relay.operate import load_relay, operate
    from coterie.relay.server import Limits

    console: Console = context.obj

    def started(where: str, registered: int, fingerprint: str) -> None:
        console.say(
            f"the relay listens at {where}, for {registered} {'study' if registered == 1 else 'studies'}"
            f"{' and those that are brought' if open_ else ''}; fingerprint {fingerprint}",
            "relay",
            address=where,
            studies=registered,
            fingerprint=fingerprint,
        )

    limits = Limits(connections=most_connections, per_study=most_per_study, per_participant=most_per_participant)
    warn = lambda text: console.say(text, "note")  # noqa: E731
    credentials = load_relay(key, identity, passphrase_for(key, passphrase_fd), warn)
    with logging_to(log, "relay", console):
        ended = operate(listen, credentials, study, studies, open_, limits, started)
    console.say(f"stopped by {ended}", "stopped", signal=ended)
