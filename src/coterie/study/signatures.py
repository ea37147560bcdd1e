"""Signatures of a study: each participant signs the hashes of its sections, in a file of its own."""

from __future__ import annotations

import base64
import datetime
from pathlib import Path

import msgspec
import tomli_w

from coterie.errors import StudyError
from coterie.study.agreement import Section, Study, section_hashes, study_hash
from coterie.study.files import canonical, decode_toml, read_text, write_file
from coterie.study.identity import Identity, sign, signed_by
from coterie.study.links import Links
from coterie.study.renewals import signer_of
from coterie.study.study_file import load_study
from coterie.study.withdrawals import check_not_withdrawn
from coterie.transport.certificates import fingerprint
from coterie.transport.relay_messages import Bring

__all__ = [
    "Signature",
    "bring_signed",
    "check_signature",
    "find_missing",
    "keep_signature",
    "own_signature",
    "sign_study",
    "signature_path",
    "verify_signatures",
]


class Signature(Section, frozen=True, omit_defaults=True):
    """A participant's detached signature, with the hash of each section that it signed. `links`: what vouches for the
    key, if it was renewed."""

    name: str
    fingerprint: str
    signed: str
    sections: dict[str, str]
    signature: str
    links: Links = ()

    def message(self) -> bytes:
        return b"coterie study signature\n" + canonical([self.name, self.fingerprint, self.signed, self.sections])


def signature_path(path: Path, name: str) -> Path:
    """study.toml is signed in study.NAME.sig.toml, beside it."""
    return path.with_name(f"{path.stem}.{name}.sig.toml")


def sign_study(path: Path, key: str) -> Path:
    study = load_study(path)
    check_not_withdrawn(path, study)
    rank, mine = study.enter_with(key)
    one = study.at_rank(rank)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    draft = Signature(one.name, fingerprint(mine.certificate), now, section_hashes(study), "", mine.links)
    signed = msgspec.structs.replace(draft, signature=base64.b64encode(sign(mine.key, draft.message())).decode())
    target = signature_path(path, one.name)
    head = f"# {one.name}'s signature of {path.name}: fetched by the others when they meet.\n"
    write_file(target, (head + tomli_w.dumps(msgspec.to_builtins(signed))).encode())
    return target


def keep_signature(path: Path, signature: Signature) -> bool:
    """Write down a checked signature that another participant has sent, unless there is one. Was it new?"""
    target = signature_path(path, signature.name)
    if target.exists():
        return False
    head = f"# {signature.name}'s signature of {path.name}, fetched from {signature.name}.\n"
    write_file(target, (head + tomli_w.dumps(msgspec.to_builtins(signature))).encode())
    return True


def own_signature(path: Path, study: Study, name: str) -> Signature | None:
    """A participant's signature, as it lies beside the study."""
    file = signature_path(path, name)
    one = next(one for one in study.everybody if one.name == name)
    return _verify(path, file, study, one) if file.exists() else None


def find_missing(path: Path, study: Study, own: str) -> list[str]:
    """Whose signatures are not here yet. Those that are here must hold, and one's own must be."""
    missing = [one.name for one in study.everybody if own_signature(path, study, one.name) is None]
    if own in missing:
        raise StudyError(f"{path} is not signed by {own}, whose key this is; sign it with `coterie study sign`")
    return missing


def verify_signatures(path: Path, study: Study) -> dict[str, Signature]:
    """Every participant's signature; an error that names who has not signed, or what was changed after signing."""
    check_not_withdrawn(path, study)
    files = {one.name: signature_path(path, one.name) for one in study.everybody}
    missing = [name for name, file in files.items() if not file.exists()]
    found = {one.name: _verify(path, files[one.name], study, one) for one in study.everybody if one.name not in missing}
    if missing:
        raise StudyError(
            f"{path} is not signed by {', '.join(missing)}; put their .sig.toml files beside it (`coterie study sign`) "
            "or fetch them with `coterie preflight`"
        )
    return found


def bring_signed(path: Path, study: Study, hash_: str) -> Bring | None:
    """The study file and all signatures, as they are, for a relay that does not know the study; `hash_`: of which
    one. None if it is another study, or signatures are still missing here."""
    files = {one.name: signature_path(path, one.name) for one in study.everybody}
    if hash_ != study_hash(study) or not all(file.exists() for file in files.values()):
        return None
    return Bring(
        read_text(path, "the study file"), {name: read_text(file, "the signature") for name, file in files.items()}
    )


def _verify(path: Path, file: Path, study: Study, one: Identity) -> Signature:
    """A participant's signature, if it is one of the study as it is."""
    signature = decode_toml(read_text(file, "the signature"), Signature, file, "a signature")
    check_signature(str(file), signature, study, one, str(path))
    return signature


def check_signature(file: str, signature: Signature, study: Study, one: Identity, path: str = "the study") -> None:
    """Refuse what is not this participant's signature of the study as it is. `file`: where it comes from."""
    now, signed = section_hashes(study), signature.sections
    certificate = signer_of(one, signature.fingerprint, signature.links, study.participants.renewals)
    if signature.name != one.name or certificate is None:
        raise StudyError(f"{file} is not signed with the certificate of {one.name} that the study pins")
    try:
        raw = base64.b64decode(signature.signature, validate=True)
    except ValueError:
        raw = b""
    if not signed_by(certificate, raw, signature.message()):
        raise StudyError(f"{file}: the signature is not valid; {one.name} must sign again")
    changed = [name for name in {**now, **signed} if signed.get(name) != now.get(name)]
    if changed:
        sections = ", ".join(f"[{name}]" for name in changed)
        raise StudyError(
            f"{path} was changed after {one.name} signed it: section {sections}. Take the file that was signed, or "
            "have everybody sign again"
        )
