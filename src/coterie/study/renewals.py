"""Renewed keys: who has signed something, or connects, with a newer key than the study pins.

A new key is vouched for by *links* (`transport.certificates`): a certificate of the new key that is signed with the old
one, and so on down to the certificate that the study pins. Whoever uses a renewed key shows the links, the newest
first: in TLS, and in what it signs. A key file holds them behind the key.

A study says whether that is accepted (`renewals`). Others keep the links that they are shown beside the study, and from
the next run on accept the newest key alone: an older one that is found or stolen opens nothing any more. TLS accepts a
link only as long as the certificate lasts that it is signed with; one that is kept counts until it ends itself.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import tomli_w

from coterie.errors import InputError, StudyError
from coterie.events import tell
from coterie.study.agreement import Section, Study
from coterie.study.files import decode_toml, read_text, write_file
from coterie.study.identity import Identity
from coterie.study.links import follow_links
from coterie.transport.certificates import fingerprint

__all__ = ["RENEWED", "keep_links", "newest_identity", "signer_of"]

log = logging.getLogger(__name__)

#: How names of files end that say what is known of renewed keys.
RENEWED = ".renewed.toml"


class Renewed(Section, frozen=True):
    """The links that a participant has shown, the newest first."""

    name: str
    links: Annotated[list[str], msgspec.Meta(min_length=1)]


def renewed_path(path: Path, name: str) -> Path:
    """What vouches for a newer key of a participant of study.toml stands in study.NAME.renewed.toml, beside it."""
    return path.with_name(f"{path.stem}.{name}{RENEWED}")


def signer_of(one: Identity, signer: str, links: Sequence[str], renewals: bool) -> str | None:
    """The certificate with this fingerprint, if it is the one that the study pins for a participant, or a newer one
    that is vouched for, if the study accepts such (`renewals`)."""
    if signer == one.fingerprint:
        return one.certificate
    led = follow_links(one.certificate, links) if renewals else []
    return led[0] if led and fingerprint(led[0]) == signer else None


def newest_identity(path: Path, study: Study, one: Identity) -> Identity:
    """A participant with the newest certificate that it is known by here."""
    file = renewed_path(path, one.name)
    if not study.participants.renewals or not file.exists():
        return one
    kept = decode_toml(read_text(file, "the renewal"), Renewed, file, "a renewal")
    led = follow_links(one.certificate, kept.links)
    if not led:
        raise StudyError(f"{file}: the certificate of {one.name} that the study pins does not vouch for what is there")
    return msgspec.structs.replace(one, fingerprint=fingerprint(led[0]), certificate=led[0])


def keep_links(path: Path, study: Study, one: Identity, links: Sequence[str]) -> bool:
    """Write down what a participant has shown: links from its newest certificate to the newest one that was known when
    this run began, `one`. False if a newer key has been seen since that does not vouch for this one: who came first
    stays."""
    pinned = next(each for each in study.everybody if each.name == one.name)
    file = renewed_path(path, one.name)
    known: list[str] = []
    with contextlib.suppress(StudyError, InputError):
        known = decode_toml(read_text(file, "the renewal"), Renewed, file, "a renewal").links
    seen = [fingerprint(link) for link in known]
    older = known[seen.index(one.fingerprint) :] if one.fingerprint in seen else []
    led = follow_links(pinned.certificate, [*links, *older])
    now = [fingerprint(link) for link in led]
    if now[len(now) - len(seen) :] != seen:
        return False
    if now == seen:
        return True
    text = f"{one.name} uses a renewed key, for which the one that the study pins vouches"
    tell(log, logging.INFO, "renewed", text, peer=one.name, fingerprint=fingerprint(led[0]))
    head = f"# What vouches for a newer key of {one.name} in {path.name}. Older ones are no longer accepted here.\n"
    with contextlib.suppress(InputError):  # whoever cannot write it is shown it again
        write_file(file, (head + tomli_w.dumps({"name": one.name, "links": led}, multiline_strings=True)).encode())
    return True
