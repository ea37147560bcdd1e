"""`coterie identity`: make a participant's key and certificate, or show one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.console import Console
from coterie.errors import InputError
from coterie.study.identity import create_identity, load_identity

__all__ = ["app"]

app = typer.Typer(
    help="Who you are: a private key that stays here, and a certificate for the others.", no_args_is_help=True
)


@app.command("create")
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="What the others call you: letters, digits, '-' and '_'.")],
    address: Annotated[str | None, typer.Option("--address", help="HOST:PORT where the others reach you.")] = None,
    via: Annotated[
        Path | None,
        typer.Option("--via", help="A relay's identity file, if you only dial out; in place of --address."),
    ] = None,
    folder: Annotated[Path, typer.Option("--folder", help="Where to write the two files.")] = Path(),
) -> None:
    """Write NAME.key, which you keep, and NAME.identity.toml, which you send to whoever writes the study."""
    console: Console = context.obj
    if (address is None) == (via is None):
        raise InputError("say where the others reach you: --address HOST:PORT, or --via RELAY.identity.toml")
    made = create_identity(name, address or "", folder, None if via is None else load_identity(via))
    console.say(
        f"{folder / (name + '.key')} is your private key: keep it, and nobody else may read it.\n"
        f"{folder / (name + '.identity.toml')} is for the others. Fingerprint, to compare by telephone:\n"
        f"  {made.fingerprint}",
        "identity",
        name=name,
        fingerprint=made.fingerprint,
        key=str(folder / f"{name}.key"),
        identity=str(folder / f"{name}.identity.toml"),
    )


@app.command("show")
def show(context: typer.Context, identity: Annotated[Path, typer.Argument(help="A file NAME.identity.toml.")]) -> None:
    """Say whose identity a file holds, with its fingerprint."""
    console: Console = context.obj
    one = load_identity(identity)
    console.say(
        f"{one.name} at {one.way}\nfingerprint {one.fingerprint}",
        "identity",
        name=one.name,
        address=one.address,
        fingerprint=one.fingerprint,
    )
