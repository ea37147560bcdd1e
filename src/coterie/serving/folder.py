"""The folder of studies: which of them this helper serves, and why not the others.

A study is served if this key is that of its helper, the helper's signature of it is valid and everybody else's is, too,
and the operator's policy allows it. Studies stand in the folder itself or one folder below, under any name; signatures
beside them, as `coterie study sign` writes them. Signatures of others and withdrawals may also have been fetched from
the participants: those are in the study's own folder. All is looked at again and again; files that have not changed are
not read again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from coterie.errors import CoterieError, StudyError
from coterie.study.agreement import study_hash
from coterie.study.policy import check_policy, load_policy
from coterie.study.prepare import Known
from coterie.study.signatures import find_missing, own_signature, signature_path
from coterie.study.study_file import NO_STUDIES, load_study
from coterie.study.withdrawals import Withdrawal, Withdrawn, known_withdrawals
from coterie.transport.proxies import DIRECT, Proxies

__all__ = ["Found", "StudyFolder", "papers_of"]

log = logging.getLogger(__name__)
Seen = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True)
class Found:
    """A study file. `standing`: "served", or in two words why not, and `why` in a sentence; `known`: this helper's
    part in it, if it has one; `withdrawal`: of who has withdrawn."""

    path: Path
    standing: str
    why: str = ""
    known: Known | None = None
    withdrawal: Withdrawal | None = None

    @property
    def served(self) -> bool:
        return self.standing == "served"

    @property
    def answered(self) -> bool:
        """Are its participants told something here, if only why it is not served?"""
        return self.standing in ("served", "waiting", "withdrawn")

    @property
    def called(self) -> str:
        """The study's own name, or the file's."""
        return self.path.name if self.known is None else self.known.study.study.name


class StudyFolder:
    """What stands in the folder, as of the last look."""

    def __init__(
        self,
        folder: Path,
        key: str,
        key_path: Path,
        policy: Path | None,
        fetched: Callable[[str], Path],
        proxies: Proxies = DIRECT,
    ) -> None:
        """`key`: the private key's text, of the file `key_path`, beside which the policy may be; `fetched`: by hash,
        the file beside which papers of a study are that were fetched from participants; `proxies`: how they are
        dialled."""
        self.folder, self.key, self.key_path, self.policy = folder, key, key_path, policy
        self.fetched, self.proxies = fetched, proxies
        self.found: list[Found] = []
        self.problem = ""
        self._seen: dict[Path, Seen] = {}
        self._last: dict[Path, Found] = {}

    def look(self) -> bool:
        """Look again. True if something has changed."""
        try:
            files = sorted(self._studies())
            rules = _stamps([self.policy or self.key_path.with_name("policy.toml")])
            seen = {path: (*_stamps(papers_of(path)), *self._fetched_stamps(path), *rules) for path in files}
            self.problem = ""
        except OSError as error:
            changed = self.problem == ""
            self.problem = f"the folder {self.folder} cannot be read ({error.strerror})"
            return changed
        if seen == self._seen:
            return False
        self._last = {
            path: self._last[path] if seen[path] == self._seen.get(path) else self._read(path) for path in files
        }
        self._seen = seen
        self.found = _without_copies(list(self._last.values()))
        return True

    def _fetched_stamps(self, path: Path) -> Seen:
        known = self._last[path].known if path in self._last else None
        return () if known is None else _stamps(papers_of(self.fetched(known.hash)))

    def _studies(self) -> Iterator[Path]:
        for one in self.folder.iterdir():
            inside = one.iterdir() if one.is_dir() and not one.name.startswith(".") else [one]
            yield from (path for path in inside if _may_be_study(path))

    def _read(self, path: Path) -> Found:
        try:
            study = load_study(path)
        except CoterieError as error:
            return Found(path, "broken", str(error))
        try:
            rank, credentials = study.enter_with(self.key)
        except CoterieError as error:
            return Found(path, "not ours", str(error))
        hash_ = study_hash(study)
        known = Known(study, hash_, rank, credentials, (), proxies=self.proxies, path=self.fetched(hash_))
        try:
            return self._judge(path, known)
        except Withdrawn as error:
            return Found(path, "withdrawn", str(error), known, error.withdrawal)
        except StudyError as error:
            return Found(path, "not signed", str(error), known)
        except CoterieError as error:
            return Found(path, "not allowed", str(error), known)

    def _judge(self, path: Path, known: Known) -> Found:
        study, own = known.study, known.me.name
        if not known.deals:
            why = f"{own} is not the helper of this study; take part with `coterie run`"
            return Found(path, "not ours", why, known)
        if not signature_path(path, own).exists():
            why = f"read it, and sign it if you agree: coterie study sign {path} --key {self.key_path}"
            return Found(path, "not signed", why, known)
        fetched = self.fetched(known.hash)
        missing = [one for one in find_missing(path, study, own) if own_signature(fetched, study, one) is None]
        for withdrawal in (*known_withdrawals(path, study), *known_withdrawals(fetched, study)):
            raise Withdrawn(str(path), withdrawal)
        policy, called = load_policy(self.policy, self.key_path)
        check_policy(policy, study, own, called)
        if missing:
            why = f"for the signatures of {', '.join(missing)}, which are fetched when they come"
            return Found(path, "waiting", why, replace(known, missing=tuple(missing)))
        return Found(path, "served", "", known)


def papers_of(path: Path) -> list[Path]:
    """A study file and whatever stands beside it that belongs to it."""
    return [path, *sorted(path.parent.glob(f"{path.stem}.*.toml"))]


def _may_be_study(path: Path) -> bool:
    return path.suffix == ".toml" and not path.name.startswith(".") and not path.name.endswith(NO_STUDIES)


def _stamps(paths: list[Path]) -> Seen:
    """What changes when a file does."""
    found = []
    for path in paths:
        try:
            at = path.stat()
        except FileNotFoundError:
            continue
        found.append((str(path), at.st_mtime_ns, at.st_size, at.st_ino))
    return tuple(found)


def _without_copies(found: list[Found]) -> list[Found]:
    """Of a study that is there twice, one is served."""
    first: dict[str, Path] = {}
    kept = []
    for one in sorted(found, key=lambda one: (not one.served, one.path)):
        if one.known is not None and one.known.hash in first:
            kept.append(Found(one.path, "a copy", f"the same study as {first[one.known.hash]}", one.known))
            continue
        if one.known is not None:
            first[one.known.hash] = one.path
        kept.append(one)
    return sorted(kept, key=lambda one: one.path)
