"""The folder of studies: which of them this helper serves, and why not the others.

A study is served if this key is that of its helper, the helper's signature of it is valid and everybody else's is, too,
and the operator's policy allows it. Studies stand in the folder itself or one folder below, under any name; signatures
beside them, as `coterie study sign` writes them. The folder is looked at again and again; files that have not changed
are not read again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from coterie.errors import CoterieError, StudyError
from coterie.study.agreement import Study, study_hash
from coterie.study.policy import check_policy, load_policy
from coterie.study.prepare import Known
from coterie.study.signatures import signature_path, verify_signatures
from coterie.study.study_file import load_study
from coterie.transport.certificates import Credentials

__all__ = ["Found", "StudyFolder", "papers_of"]

log = logging.getLogger(__name__)
#: How names of files end that stand beside a study and are none.
NO_STUDIES = (".sig.toml", ".identity.toml", "policy.toml")
Seen = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True)
class Found:
    """A study file. `standing`: "served", or in two words why not, and `why` in a sentence; `known`: this helper's
    part in it, if it has one."""

    path: Path
    standing: str
    why: str = ""
    known: Known | None = None

    @property
    def served(self) -> bool:
        return self.standing == "served"

    @property
    def called(self) -> str:
        """The study's own name, or the file's."""
        return self.path.name if self.known is None else self.known.study.study.name


class StudyFolder:
    """What stands in the folder, as of the last look."""

    def __init__(self, folder: Path, key: str, key_path: Path, policy: Path | None) -> None:
        """`key`: the private key's text, of the file `key_path`, beside which the policy may be."""
        self.folder, self.key, self.key_path, self.policy = folder, key, key_path, policy
        self.found: list[Found] = []
        self.problem = ""
        self._seen: dict[Path, Seen] = {}
        self._last: dict[Path, Found] = {}

    def look(self) -> bool:
        """Look again. True if something has changed."""
        try:
            files = sorted(self._studies())
            rules = _stamps([self.policy or self.key_path.with_name("policy.toml")])
            seen = {path: (*_stamps(papers_of(path)), *rules) for path in files}
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
            rank = study.rank_of(self.key)
        except CoterieError as error:
            return Found(path, "not ours", str(error))
        known = Known(study, study_hash(study), rank, Credentials(study.at_rank(rank).certificate, self.key))
        standing, why = self._judge(path, study, known)
        return Found(path, standing, why, known)

    def _judge(self, path: Path, study: Study, known: Known) -> tuple[str, str]:
        if not known.deals:
            return "not ours", f"{known.me.name} is not the helper of this study; take part with `coterie run`"
        if not signature_path(path, known.me.name).exists():
            return "not signed", f"read it, and sign it if you agree: coterie study sign {path} --key {self.key_path}"
        try:
            verify_signatures(path, study)
            policy, called = load_policy(self.policy, self.key_path)
            check_policy(policy, study, known.me.name, called)
        except StudyError as error:
            return "not signed", str(error)
        except CoterieError as error:
            return "not allowed", str(error)
        return "served", ""


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
