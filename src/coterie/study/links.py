"""Links from a newer key to an older certificate, and the key file that holds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from coterie.transport.certificates import is_issued_by, split_certificates

__all__ = ["MOST_LINKS", "Links", "follow_links", "links_in"]

#: The most times that a key may be renewed in one study.
MOST_LINKS = 8
#: As others send them: the newest first.
Links = Annotated[tuple[Annotated[str, msgspec.Meta(max_length=1800)], ...], msgspec.Meta(max_length=MOST_LINKS)]


def follow_links(pinned: str, links: Sequence[str]) -> list[str]:
    """As many of the links, the newest first, as lead to the pinned certificate; none, if they do not."""
    for place, link in enumerate(links[:MOST_LINKS]):
        if is_issued_by(link, pinned):
            return list(links[: place + 1])
        if place + 1 == len(links) or not is_issued_by(link, links[place + 1]):
            break
    return []


def links_in(key: str) -> list[str]:
    """Those that stand behind the key in its file, the newest first."""
    return split_certificates(key)
