"""When certificates end: errors for those that have, and a word before it happens."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from coterie.errors import StudyError
from coterie.study.identity import Identity
from coterie.transport.certificates import lifetime

__all__ = ["check_lifetimes", "find_endings"]

#: One's own certificate counts as ended so long before it does, so that nobody whose clock is ahead refuses it; and a
#: new one has begun as long before it was made.
MARGIN = datetime.timedelta(days=1)
#: How long before the end there is a word of it.
SOON = datetime.timedelta(days=30)


def check_lifetimes(everybody: Iterable[Identity], own: str) -> None:
    """Refuse a certificate that has ended, or not begun, of a participant or of a relay by way of which one is reached.
    The others check the same, by their clocks."""
    now = datetime.datetime.now(datetime.UTC)
    for one in _with_relays(everybody):
        begins, ends = lifetime(one.certificate)
        if now < begins:
            raise StudyError(
                f"the certificate of {one.name} is valid from {begins:%Y-%m-%d} on, and the clock here says "
                f"{now:%Y-%m-%d}; set the clock"
            )
        if one.name == own and now > ends - MARGIN:
            raise StudyError(f"the certificate of {own} ended on {ends:%Y-%m-%d}. {renew_it(own)}")
        if one.name != own and now > ends:
            raise StudyError(f"the certificate of {one.name} ended on {ends:%Y-%m-%d}: {one.name} has to renew it")


def find_endings(everybody: Iterable[Identity], own: str) -> list[str]:
    """Which certificates end soon, in words."""
    now = datetime.datetime.now(datetime.UTC)
    found = []
    for one in _with_relays(everybody):
        left = lifetime(one.certificate)[1] - now
        if left < SOON:
            when = f"the certificate of {one.name} ends on {now + left:%Y-%m-%d}, in {max(left.days, 0)} days"
            found.append(f"{when}. {renew_it(own)}" if one.name == own else f"{when}: {one.name} has to renew it")
    return found


def _with_relays(everybody: Iterable[Identity]) -> list[Identity]:
    """The participants, and each relay once."""
    known = list(everybody)
    relays = {one.via.fingerprint: (one.via, one.address) for one in known if one.via is not None}
    return known + [
        Identity(f"the relay {via.name}", address, via.fingerprint, via.certificate) for via, address in relays.values()
    ]


def renew_it(name: str) -> str:
    return (
        f"Renew the key (coterie identity renew {name}.key): studies that accept renewed keys go on with it, others "
        "are made anew with the new identity file"
    )
