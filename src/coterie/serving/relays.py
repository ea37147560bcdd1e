"""The relays by way of which a helper that stays up is reached: one listener for each that its studies name, which is
told which studies are served as the folder changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from coterie.errors import CoterieError
from coterie.study.prepare import Known
from coterie.study.signatures import bring_signed
from coterie.transport.certificates import Credentials
from coterie.transport.relay_messages import MOST_STUDIES, Bring
from coterie.transport.relayed import RelayAt
from coterie.transport.relayed_listener import RelayedListener

__all__ = ["RelayStatus", "Relays"]

#: A relay, and the certificate that this helper shows it.
Place = tuple[RelayAt, Credentials]


class RelayStatus(msgspec.Struct, frozen=True):
    """A relay by way of which studies are served. `trouble`: why nobody can come, if that is so."""

    relay: str
    registered: bool
    trouble: str


class Relays:
    """The relays of the studies that are served. `papers`: by hash, the file beside which all papers of a study are;
    `changed` hears that there are other listeners."""

    def __init__(self, patience: float, papers: Callable[[str], Path], changed: Callable[[], None]) -> None:
        self.patience, self.papers, self.changed = patience, papers, changed
        self.listeners: dict[Place, RelayedListener] = {}
        self._known: dict[str, Known] = {}
        self._left_out: set[str] = set()

    def follow(self, served: Iterable[Known]) -> None:
        """Be reached by way of the relays that these studies name, and no others."""
        wanted: dict[Place, list[str]] = {}
        self._known = {known.hash: known for known in served}
        for known in self._known.values():
            relay = known.relay_of(known.me)
            if relay is not None:
                wanted.setdefault((relay, known.credentials), []).append(known.hash)
        gone = [listener for place, listener in self.listeners.items() if place not in wanted]
        self._left_out = {hash_ for hashes in wanted.values() for hash_ in sorted(hashes)[MOST_STUDIES:]}
        self.listeners = {place: self._listen(place, sorted(hashes)) for place, hashes in wanted.items()}
        self.changed()
        for listener in gone:
            listener.close()

    def _listen(self, place: Place, studies: list[str]) -> RelayedListener:
        listener = self.listeners.get(place)
        if listener is None:
            return RelayedListener(*place, studies[:MOST_STUDIES], self.patience, self._bring)
        listener.announce(studies[:MOST_STUDIES])
        return listener

    def _bring(self, hash_: str) -> Bring | None:
        """What to bring to a relay that takes studies which everybody has signed."""
        known = self._known.get(hash_)
        try:
            return None if known is None else bring_signed(self.papers(hash_), known.study, hash_)
        except CoterieError:  # it was taken away just now
            return None

    def describe(self) -> list[RelayStatus]:
        return [RelayStatus(str(one.relay), one.registered, _trouble(one)) for one in self.listeners.values()]

    @property
    def problems(self) -> list[str]:
        """Why studies cannot be reached."""
        return [f"not registered at {one.relay} ({_trouble(one)})" for one in self.listeners.values() if one.trouble]

    def trouble_of(self, known: Known) -> str:
        """Why nobody can come for one study, though the relay is there."""
        relay = known.relay_of(known.me)
        if known.hash in self._left_out:
            return f"{relay}: it leads to at most {MOST_STUDIES} studies of one helper; take some away"
        listener = None if relay is None else self.listeners.get((relay, known.credentials))
        if listener is None or not listener.registered or known.hash not in listener.unheard:
            return ""
        return f"{relay}: {listener.unheard[known.hash]}"

    def close(self) -> None:
        for listener in self.listeners.values():
            listener.close()


def _trouble(listener: RelayedListener) -> str:
    """Without saying once more at which relay."""
    return listener.trouble.removeprefix(str(listener.relay)).lstrip(": ")
