"""Which studies a relay works for, and who belongs to them.

Studies are registered by the operator, by file or in a folder that is looked at again and again; or, if the operator
has opened the relay, by a participant that brings one which all participants have signed and which names this relay.
"""

from __future__ import annotations

import logging
import ssl
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from coterie.errors import CoterieError, StudyError
from coterie.study.agreement import Study, study_hash
from coterie.study.files import check_name
from coterie.study.signatures import signature_path, verify_signatures
from coterie.study.study_file import NO_STUDIES, load_study
from coterie.transport.certificates import Credentials, fingerprint
from coterie.transport.hello import context
from coterie.transport.relay_messages import NOBODY, Bring, label_of

__all__ = ["Entry", "Registry", "check_brought"]

log = logging.getLogger(__name__)

#: The most studies that participants may have brought at a time; the most certificates that TLS is kept ready for.
MOST_BROUGHT, MOST_CONTEXTS = 1000, 2048


@dataclass(frozen=True)
class Entry:
    """A study as a relay sees it: its participants by fingerprint, those of them that the relay leads to, and whether
    keys may be renewed."""

    study: str
    name: str
    certificates: dict[str, str]
    reached: frozenset[str]
    renewals: bool = False


def enter(study: Study, relay: str) -> Entry:
    """`relay`: its fingerprint. A StudyError, if nobody is reached by way of it."""
    reached = frozenset(
        one.fingerprint for one in study.everybody if one.via is not None and one.via.fingerprint == relay
    )
    if not reached:
        raise StudyError("no participant of the study is reached by way of this relay")
    members = {one.fingerprint: one.certificate for one in study.everybody}
    return Entry(study_hash(study), study.study.name, members, reached, study.participants.renewals)


def check_brought(brought: Bring, relay: str) -> Entry:
    """A study that a participant has brought: one that everybody has signed, and that names this relay."""
    with tempfile.TemporaryDirectory(prefix="coterie-relay-") as folder:
        path = Path(folder) / "study.toml"
        path.write_text(brought.study, encoding="utf-8")
        for name, text in brought.signatures.items():
            signature_path(path, check_name(name)).write_text(text, encoding="utf-8")
        study = load_study(path)
        verify_signatures(path, study)
        return enter(study, relay)


class Registry:
    """The studies. `changed` is called when some were added or taken away."""

    def __init__(
        self, credentials: Credentials, files: Iterable[Path] = (), folder: Path | None = None, open_: bool = False
    ) -> None:
        """The files must hold up; what does not, in a folder, is left out, and the log says so."""
        self.credentials, self.folder, self.open = credentials, folder, open_
        self.fingerprint = fingerprint(credentials.certificate)
        self.fixed: dict[str, Entry] = {}
        for path in files:
            try:
                entry = enter(load_study(path), self.fingerprint)
            except StudyError as error:
                raise StudyError(str(error) if str(path) in str(error) else f"{path}: {error}") from None
            self.fixed[entry.study] = entry
        self.found: dict[str, Entry] = {}
        self.brought: dict[str, Entry] = {}  # the one that was used last stands last
        self._seen: dict[Path, tuple[int, int]] = {}
        self._by_path: dict[Path, Entry] = {}
        self._labels: dict[str, str] = {}
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._base = context(True, credentials, [credentials.certificate])
        self._base.verify_mode = ssl.CERT_OPTIONAL if open_ else ssl.CERT_REQUIRED
        self._base.sni_callback = self._choose
        self.look()
        self._renew()

    def get(self, study: str) -> Entry | None:
        if study in self.brought:
            self.brought[study] = self.brought.pop(study)
        return self.fixed.get(study) or self.found.get(study) or self.brought.get(study)

    def knows(self, study: str, who: str, renewed: bool = False) -> bool:
        entry = self.get(study)
        return entry is not None and who in entry.certificates and (entry.renewals or not renewed)

    def lists(self, who: str) -> bool:
        """Does some study list the certificate with this fingerprint?"""
        return label_of(self.fingerprint, who) in self._labels

    @property
    def entries(self) -> list[Entry]:
        return list({**self.brought, **self.found, **self.fixed}.values())

    # -- how studies come and go -------------------------------------------------------------------------

    def look(self) -> bool:
        """Look at the folder again; has anything changed?"""
        if self.folder is None:
            return False
        seen: dict[Path, tuple[int, int]] = {}
        for path in sorted(self.folder.glob("*.toml")):
            if not path.name.endswith(NO_STUDIES):
                try:
                    about = path.stat()
                except OSError:  # it is gone since
                    continue
                seen[path] = about.st_mtime_ns, about.st_size
        if seen == self._seen:
            return False
        for path in set(self._seen) | set(seen):
            if self._seen.get(path) != seen.get(path):
                self._by_path.pop(path, None)
                if path in seen:
                    self._read(path)
        self._seen = seen
        self.found = {entry.study: entry for entry in self._by_path.values()}
        self._renew()
        return True

    def _read(self, path: Path) -> None:
        try:
            entry = self._by_path[path] = enter(load_study(path), self.fingerprint)
            log.info("study %s is registered from the folder", entry.study)
        except CoterieError as error:
            log.warning("%s is left out: %s", path.name, error)

    def add(self, entry: Entry, used: set[str]) -> bool:
        """Register a study that was brought, in the place of one that nobody uses, if there are too many."""
        if len(self.brought) >= MOST_BROUGHT:
            idle = next((study for study in self.brought if study not in used), None)
            if idle is None:
                return False
            del self.brought[idle]
        self.brought[entry.study] = entry
        self._renew()
        log.info("study %s was brought", entry.study)
        return True

    # -- who is let in -----------------------------------------------------------------------------------

    @property
    def context(self) -> ssl.SSLContext:
        """TLS for somebody who connects: it takes the one certificate that belongs to the name which it is asked for.

        (One store of all certificates would not do: OpenSSL finds them by the names in them, and participants of
        different studies may have the same name.)"""
        return self._base

    def _renew(self) -> None:
        certificates = {who: text for entry in self.entries for who, text in entry.certificates.items()}
        self._labels = {label_of(self.fingerprint, who): text for who, text in certificates.items()}
        self._contexts = {label: made for label, made in self._contexts.items() if label in self._labels}

    def _choose(self, tls: ssl.SSLObject, label: str | None, _: ssl.SSLContext) -> int | None:
        """Called in the middle of a handshake, before anything is computed for a stranger."""
        if label == NOBODY and self.open:
            return None
        if label is None or label not in self._labels:
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        made = self._contexts.pop(label, None) or context(True, self.credentials, [self._labels[label]])
        while len(self._contexts) >= MOST_CONTEXTS:
            del self._contexts[next(iter(self._contexts))]
        self._contexts[label] = made  # the one that was used last stands last
        tls.context = made
        return None
