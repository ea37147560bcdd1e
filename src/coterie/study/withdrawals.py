"""Taking a signature back: a signed withdrawal beside the study, which ends it for everybody who has seen it.

It is final. Dates are what their writers say, so that a later signature could not be told from an earlier one; and
whoever withdraws because a key was stolen must not find that the thief has signed again. To go on, make a new study.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
from pathlib import Path
from typing import Annotated

import msgspec
import tomli_w

from coterie.errors import InputError, StudyError
from coterie.study.agreement import Section, Study, study_hash
from coterie.study.files import canonical, decode_toml, read_text, write_file
from coterie.study.identity import sign, signed_by
from coterie.study.links import Links
from coterie.study.renewals import signer_of
from coterie.transport.certificates import fingerprint

__all__ = [
    "Withdrawal",
    "Withdrawn",
    "check_not_withdrawn",
    "check_withdrawal",
    "keep_withdrawal",
    "known_withdrawals",
    "withdraw_study",
    "withdrawal_path",
]

#: What others may send: short, and shown to people.
Name = Annotated[str, msgspec.Meta(max_length=40)]
Hexadecimal = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
Date = Annotated[str, msgspec.Meta(pattern=r"^[0-9T:+-]{10,25}\Z")]
Base64 = Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Za-z+/=]{0,200}\Z")]


class Withdrawal(Section, frozen=True, omit_defaults=True):
    """A participant takes its signature of the study with this hash back. `links`: what vouches for the key, if it was
    renewed."""

    name: Name
    fingerprint: Hexadecimal
    withdrawn: Date
    study: Hexadecimal
    signature: Base64
    links: Links = ()

    def message(self) -> bytes:
        return b"coterie study withdrawal\n" + canonical([self.name, self.fingerprint, self.withdrawn, self.study])


class Withdrawn(StudyError):
    """Somebody has withdrawn from the study; `withdrawal` proves it."""

    def __init__(self, where: str, withdrawal: Withdrawal) -> None:
        super().__init__(
            f"{withdrawal.name} withdrew from {where} on {withdrawal.withdrawn[:10]}: nobody runs it any more; make a "
            "new study and sign that"
        )
        self.withdrawal = withdrawal


def withdrawal_path(path: Path, name: str) -> Path:
    """From study.toml one withdraws in study.NAME.withdrawn.toml, beside it."""
    return path.with_name(f"{path.stem}.{name}.withdrawn.toml")


def withdraw_study(path: Path, study: Study, key: str) -> Withdrawal:
    """Write this participant's withdrawal; one that is there already stays."""
    rank, mine = study.enter_with(key)
    one = study.at_rank(rank)
    for known in known_withdrawals(path, study):
        if known.name == one.name:
            return known
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    draft = Withdrawal(one.name, fingerprint(mine.certificate), now, study_hash(study), "", mine.links)
    made = msgspec.structs.replace(draft, signature=base64.b64encode(sign(mine.key, draft.message())).decode())
    _write(path, made)
    return made


def check_withdrawal(study: Study, withdrawal: Withdrawal, where: str) -> Withdrawal:
    """Is it this participant's, of this study?"""
    found = [one for one in study.everybody if one.name == withdrawal.name]
    try:
        raw = base64.b64decode(withdrawal.signature, validate=True)
    except ValueError:
        raw = b""
    renewals = study.participants.renewals
    certificate = signer_of(found[0], withdrawal.fingerprint, withdrawal.links, renewals) if found else None
    fine = (
        certificate is not None
        and withdrawal.study == study_hash(study)
        and signed_by(certificate, raw, withdrawal.message())
    )
    if not fine:
        raise StudyError(f"{where} is no withdrawal from this study that a participant has signed")
    return withdrawal


def known_withdrawals(path: Path, study: Study) -> list[Withdrawal]:
    """Those that lie beside the study."""
    found = []
    for name in study.names:
        file = withdrawal_path(path, name)
        if file.exists():
            read = decode_toml(read_text(file, "the withdrawal"), Withdrawal, file, "a withdrawal")
            found.append(check_withdrawal(study, read, str(file)))
    return found


def check_not_withdrawn(path: Path, study: Study) -> None:
    """Refuse a study that somebody has withdrawn from, as far as is known here."""
    for withdrawal in known_withdrawals(path, study):
        raise Withdrawn(str(path), withdrawal)


def keep_withdrawal(path: Path, withdrawal: Withdrawal) -> None:
    """Write down a checked withdrawal that another participant has sent, so that it stays known."""
    if not withdrawal_path(path, withdrawal.name).exists():
        with contextlib.suppress(InputError):  # whoever cannot write it refuses the study all the same
            _write(path, withdrawal)


def _write(path: Path, withdrawal: Withdrawal) -> None:
    head = f"# {withdrawal.name} withdraws from {path.name}: all participants may have this file.\n"
    whole = head + tomli_w.dumps(msgspec.to_builtins(withdrawal))
    write_file(withdrawal_path(path, withdrawal.name), whole.encode())
