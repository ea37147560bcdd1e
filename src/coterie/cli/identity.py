"""`coterie identity`: make a participant's key and certificate, or show one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.console import Console
from coterie.cli.options import PassphraseFd
from coterie.cli.passphrases import ask_new_passphrase, passphrase_for, read_passphrase
from coterie.errors import InputError
from coterie.study.identity import change_passphrase, create_identity, load_identity, load_key, renew_identity
from coterie.transport.certificates import YEARS, lifetime

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
    passphrase: Annotated[
        bool, typer.Option("--passphrase", help="Ask for a passphrase that protects the key.")
    ] = False,
    passphrase_fd: PassphraseFd = None,
    years: Annotated[int, typer.Option("--years", help="How long the certificate is valid.")] = YEARS,
) -> None:
    """Write NAME.key, which you keep, and NAME.identity.toml, which you send to whoever writes the study."""
    console: Console = context.obj
    if (address is None) == (via is None):
        raise InputError("say where the others reach you: --address HOST:PORT, or --via RELAY.identity.toml")
    relay = None if via is None else load_identity(via)
    given = None
    if passphrase_fd is not None:
        given = read_passphrase(passphrase_fd)
    elif passphrase:
        given = ask_new_passphrase(folder / f"{name}.key")
    made = create_identity(name, address or "", folder, years=years, passphrase=given, relay=relay)
    guarded = "" if given is None else " Its passphrase is kept nowhere: without it the key is lost."
    ends = f"{lifetime(made.certificate)[1]:%Y-%m-%d}"
    console.say(
        f"{folder / (name + '.key')} is your private key: keep it, and nobody else may read it.{guarded}\n"
        f"{folder / (name + '.identity.toml')} is for the others, and valid until {ends}. Fingerprint, to compare by "
        "telephone:\n"
        f"  {made.fingerprint}",
        "identity",
        name=name,
        fingerprint=made.fingerprint,
        ends=ends,
        key=str(folder / f"{name}.key"),
        identity=str(folder / f"{name}.identity.toml"),
    )


@app.command("show")
def show(context: typer.Context, identity: Annotated[Path, typer.Argument(help="A file NAME.identity.toml.")]) -> None:
    """Say whose identity a file holds, with its fingerprint."""
    console: Console = context.obj
    one = load_identity(identity)
    ends = f"{lifetime(one.certificate)[1]:%Y-%m-%d}"
    console.say(
        f"{one.name} at {one.way}\nfingerprint {one.fingerprint}\nvalid until {ends}",
        "identity",
        name=one.name,
        address=one.address,
        fingerprint=one.fingerprint,
        ends=ends,
    )


@app.command("renew")
def renew(
    context: typer.Context,
    key: Annotated[Path, typer.Argument(help="Your private key, NAME.key.")],
    passphrase_fd: PassphraseFd = None,
    years: Annotated[int, typer.Option("--years", help="How long the new certificate is valid.")] = YEARS,
) -> None:
    """Put a new key in the place of yours, for which the old one vouches, and a new identity file beside it."""
    console: Console = context.obj
    made = renew_identity(key, years=years, passphrase=passphrase_for(key, passphrase_fd))
    ends, card = f"{lifetime(made.certificate)[1]:%Y-%m-%d}", key.with_name(f"{key.stem}.identity.toml")
    console.say(
        f"{key} is a new private key. Studies that accept renewed keys (`--renewals`) go on with it: the others need "
        "not do anything. The file holds the old key, too, for studies that do not.\n"
        f"{card} is for studies to come, and valid until {ends}. Fingerprint, to compare by telephone:\n"
        f"  {made.fingerprint}",
        "renewed",
        name=made.name,
        fingerprint=made.fingerprint,
        ends=ends,
        key=str(key),
        identity=str(card),
    )


@app.command("passphrase")
def passphrase(
    context: typer.Context,
    key: Annotated[Path, typer.Argument(help="Your private key, NAME.key.")],
    remove: Annotated[bool, typer.Option("--remove", help="Leave the key without a passphrase.")] = False,
    passphrase_fd: PassphraseFd = None,
    new_passphrase_fd: Annotated[
        int | None,
        typer.Option(
            "--new-passphrase-fd", help="The number of an open file with the new passphrase; else a terminal is asked."
        ),
    ] = None,
) -> None:
    """Set, change or remove the passphrase that protects a key."""
    console: Console = context.obj
    if remove and new_passphrase_fd is not None:
        raise InputError("--remove and --new-passphrase-fd do not go together")
    old = passphrase_for(key, passphrase_fd)
    new = None
    if new_passphrase_fd is not None:
        new = read_passphrase(new_passphrase_fd, "--new-passphrase-fd")
    elif not remove:
        load_key(key, old)  # nobody chooses a new one in vain
        new = ask_new_passphrase(key)
    change_passphrase(key, old, new)
    done = "has no passphrase now" if new is None else "is protected by the new passphrase, which is kept nowhere"
    console.say(f"{key} {done}. Copies that were made before are as they were", "passphrase", protected=new is not None)
