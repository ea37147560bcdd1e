"""Identities whose certificates begin and end when a test says."""

from __future__ import annotations

import datetime
from pathlib import Path

import msgspec
import tomli_w

from coterie.study.identity import Identity, load_identity
from coterie.transport.certificates import create_credentials, fingerprint

__all__ = ["give_dates"]


def give_dates(folder: Path, name: str, ends_in: float, years: int = 2) -> Identity:
    """Put a key and a certificate that ends in so many days in the place of NAME's, in FOLDER."""
    begins = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=ends_in - 365 * years)
    made = create_credentials(name, years, begins)
    card = folder / f"{name}.identity.toml"
    before = load_identity(card)
    new = msgspec.structs.replace(before, fingerprint=fingerprint(made.certificate), certificate=made.certificate)
    (folder / f"{name}.key").write_text(made.key)
    card.write_text(tomli_w.dumps(msgspec.to_builtins(new), multiline_strings=True))
    return new
