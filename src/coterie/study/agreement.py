"""The study file: what all participants agree on, section by section, and sign."""

from __future__ import annotations

import base64
import datetime
import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
import tomli_w

from coterie import __version__
from coterie.errors import InputError, StudyError
from coterie.study.files import canonical, decode_toml, read_text, write_file
from coterie.study.identity import Identity, check_identity, same_key, sign, signed_by
from coterie.study.statement import statement

__all__ = [
    "Clustering",
    "Column",
    "Data",
    "Disclosures",
    "Head",
    "Participants",
    "Signature",
    "Study",
    "create_study",
    "load_study",
    "section_hashes",
    "sign_study",
    "study_hash",
    "verify_signatures",
]

FORMAT = 2
#: The most rows that a party may bring, unless the study says otherwise: others set memory aside on its word.
MOST_ROWS = 1_000_000
#: Options that stand in [disclosures].
SHOWN = ("counts", "labels", "centers", "sizes", "least_cluster_size", "contribution")
VERTICAL_RESOLUTION = (
    "[data] resolution is for a horizontal study: where columns are split, every party learns every label, and so the "
    "sizes"
)
#: Those of coterie.protocols, which takes long to load.
PROTOCOLS = ("onetime", "securenn")
SECTIONS = {
    "study": "What this is.",
    "clustering": "What is computed.",
    "data": "On which columns, in which public bounds: a value outside is refused before anything is sent.",
    "disclosures": "What is disclosed to whom. `statement` follows from the options and is checked against them.",
    "participants": "Who takes part. Certificates are pinned: nobody else is let in.",
}


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Unknown fields are refused: nobody signs what is not understood."""


class Head(_Section, frozen=True):
    name: str
    created: str
    made_with: str
    format: int = FORMAT


class Clustering(_Section, frozen=True):
    clusters: int
    partition: Literal["horizontal", "vertical"]
    protocol: str = "onetime"
    seed: int = 0
    restarts: int = 1
    max_iter: int = 300
    tol: float = 1e-4
    scale: Literal["none", "bounds"] = "none"


class Column(_Section, frozen=True):
    name: str
    low: float
    high: float
    holder: str = ""
    resolution: float = 0.0


class Data(_Section, frozen=True):
    columns: list[Column]
    id: str = ""
    most_rows: int = MOST_ROWS


class Disclosures(_Section, frozen=True):
    counts: Literal["secret", "revealed"] = "secret"
    labels: Literal["private", "revealed"] = "private"
    centers: Literal["revealed", "shared"] = "revealed"
    sizes: Literal["secret", "rounded"] = "secret"
    least_cluster_size: int = 1
    contribution: Literal["least", "none-or-least", "off"] = "least"
    statement: list[str] = []


class Participants(_Section, frozen=True):
    helper: Identity
    parties: list[Identity]


class Study(_Section, frozen=True):
    """All sections. Participants by rank: the helper is 0, parties count from 1."""

    study: Head
    clustering: Clustering
    data: Data
    disclosures: Disclosures
    participants: Participants

    @property
    def everybody(self) -> list[Identity]:
        return [self.participants.helper, *self.participants.parties]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.everybody)

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.data.columns)

    def own_columns(self, rank: int) -> list[int]:
        """Which columns a party holds."""
        if self.clustering.partition == "horizontal":
            return list(range(len(self.data.columns)))
        name = self.names[rank]
        return [l for l, column in enumerate(self.data.columns) if column.holder == name]

    def rank_of(self, key: str) -> int:
        """Whose private key this is."""
        for rank, one in enumerate(self.everybody):
            if same_key(key, one.certificate):
                return rank
        raise StudyError(
            f"the key belongs to none of the participants ({', '.join(self.names)}); was the study made with another "
            "identity file?"
        )


def create_study(
    name: str,
    parties: Sequence[Identity],
    helper: Identity,
    *,
    clusters: int,
    partition: str,
    columns: Sequence[str],
    bounds: Mapping[str, tuple[float, float]],
    holds: Mapping[str, str] | None = None,
    id_column: str = "",
    resolution: Mapping[str, float] | None = None,
    most_rows: int = MOST_ROWS,
    **options: object,
) -> Study:
    """A checked study. `holds`: column name to party name, if vertical. `options`: the other fields of [clustering]
    and [disclosures]."""
    if partition == "mixed":
        raise InputError("a study is horizontal or vertical; a patchwork of cells is for SecureKMeans.fit_parties")
    for column in columns:
        if column not in bounds:
            raise InputError(f"--bounds has no range for column {column!r}; add {column}=LOW:HIGH")
    for column in [*bounds, *(holds or {}), *(resolution or {})]:
        if column not in columns:
            raise InputError(f"column {column!r} has bounds, a holder or a resolution, but is not among --columns")
    listed = [
        Column(c, float(bounds[c][0]), float(bounds[c][1]), (holds or {}).get(c, ""), (resolution or {}).get(c, 0.0))
        for c in columns
    ]
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    shown = {key: options.pop(key) for key in SHOWN if key in options}
    try:
        made = msgspec.convert(
            {
                "study": {"name": name, "created": created, "made_with": f"coterie {__version__}"},
                "clustering": {"clusters": clusters, "partition": partition, **options},
                "data": {"columns": msgspec.to_builtins(listed), "id": id_column, "most_rows": most_rows},
                "disclosures": shown,
                "participants": {"helper": msgspec.to_builtins(helper), "parties": msgspec.to_builtins(list(parties))},
            },
            Study,
        )
    except msgspec.ValidationError as error:
        raise InputError(f"the study cannot be made: {error}") from None
    made = msgspec.structs.replace(
        made, disclosures=msgspec.structs.replace(made.disclosures, statement=statement(made))
    )
    try:
        check_study(made, "the study")
    except StudyError as error:
        raise InputError(str(error)) from None
    return made


def check_study(study: Study, where: str) -> None:
    """Everything that can be wrong with a study that can be read."""

    def must(holds: bool, problem: str) -> None:
        if not holds:
            raise StudyError(f"{where}: {problem}")

    todo, data, shown = study.clustering, study.data, study.disclosures
    must(study.study.format == FORMAT, f"[study] format {study.study.format} is not known; this version reads {FORMAT}")
    must(todo.clusters >= 1, "[clustering] clusters must be at least 1")
    must(todo.protocol in PROTOCOLS, f"[clustering] protocol must be one of {', '.join(PROTOCOLS)}")
    must(
        shown.least_cluster_size >= 1,
        "[disclosures] least_cluster_size must be at least 1, which leaves it to policies",
    )
    for option in ("counts", "labels"):
        told = shown.least_cluster_size > 1 and getattr(shown, option) == "revealed"
        must(not told, f"[disclosures] revealed {option} would tell what least_cluster_size keeps back")
    must(data.most_rows >= 1, "[data] most_rows must be at least 1")
    must(todo.restarts >= 1, "[clustering] restarts must be at least 1")
    must(todo.max_iter >= 1, "[clustering] max_iter must be at least 1")
    must(0 <= todo.tol < math.inf, "[clustering] tol must be a number of at least 0")
    must(0 <= todo.seed < 1 << 32, "[clustering] seed must lie between 0 and 2^32 - 1")
    names = study.column_names
    must(bool(names), "[data] there must be columns")
    must(all(names), "[data] a column needs a name")
    for text in (study.study.name, study.study.created, study.study.made_with, data.id, *names):
        fine = text.isprintable() and len(text) <= 200  # it is shown to people who decide by what they see
        must(fine, f"the name {text[:40]!r} must be printable, and of at most 200 characters")
    for name in names:
        must(names.count(name) == 1, f"[data] column {name!r} is listed twice")
        must(name != data.id, f"[data] the id column {name!r} cannot be clustered by")
    for column in data.columns:
        fine = math.isfinite(column.low) and math.isfinite(column.high) and column.low < column.high
        must(fine, f"[data] the bounds of column {column.name!r} must be finite, low before high")
    for column in data.columns:
        step = column.resolution
        must(0 <= step < math.inf, f"[data] the resolution of column {column.name!r} must be a number of at least 0")
        if step:
            must(todo.partition == "horizontal", VERTICAL_RESOLUTION)
            ends = (column.low / step, column.high / step)
            fine = all(abs(end - round(end)) < 1e-6 for end in ends) and column.high - column.low >= step
            must(fine, f"[data] the bounds of column {column.name!r} must be multiples of its resolution {step:g}")
    people = study.everybody
    must(len(people) >= 3, "[participants] at least two parties and a helper are needed")
    must(len(people) <= 256, "[participants] at most 255 parties can take part")
    for one in people:
        check_identity(one, f"{where}: [participants]")
        must(study.names.count(one.name) == 1, f"[participants] {one.name} is listed twice")
        must(
            sum(other.fingerprint == one.fingerprint for other in people) == 1,
            f"[participants] {one.name} shows the certificate of another participant",
        )
        must(
            sum(other.address == one.address for other in people) == 1,
            f"[participants] {one.name} has the address of another participant",
        )
    if todo.partition == "vertical":
        must(bool(data.id), "[data] a vertical study needs an id column, by which rows are put in a common order")
        for column in data.columns:
            must(
                column.holder in study.names[1:],
                f"[data] column {column.name!r} must be held by one of the parties ({', '.join(study.names[1:])})",
            )
        for name in study.names[1:]:
            must(any(c.holder == name for c in data.columns), f"[data] party {name} holds no column")
    else:
        must(not any(c.holder for c in data.columns), "[data] only in a vertical study columns have holders")
        must(shown.labels == "private", "[disclosures] revealed labels need a vertical study")
    must(
        shown.statement == statement(study),
        "[disclosures] the statement is not what [clustering], [disclosures] and [participants] amount to",
    )


def load_study(path: Path) -> Study:
    study = decode_toml(read_text(path, "the study file"), Study, path, "a study file")
    check_study(study, str(path))
    return study


def write_study(path: Path, study: Study) -> None:
    """Readable, and never to be edited: every participant signs it as it is."""
    whole = msgspec.to_builtins(study)
    parts = [
        "# A Coterie study. Every participant signs this file as it is (`coterie study sign`); what is changed",
        "# afterwards is noticed. `coterie study explain` says in plain words what it means.",
    ]
    for section, meaning in SECTIONS.items():
        parts += ["", f"# {meaning}", tomli_w.dumps({section: whole[section]}, multiline_strings=True).rstrip()]
    write_file(path, ("\n".join(parts) + "\n").encode(), replace=False)


def section_hashes(study: Study) -> dict[str, str]:
    """SHA-256 of each section, in canonical form: comments and layout of the file do not matter."""
    return {name: hashlib.sha256(canonical(getattr(study, name))).hexdigest() for name in SECTIONS}


def study_hash(study: Study) -> str:
    return hashlib.sha256(canonical(section_hashes(study))).hexdigest()


class Signature(_Section, frozen=True):
    """A participant's detached signature, with the hash of each section that it signed."""

    name: str
    fingerprint: str
    signed: str
    sections: dict[str, str]
    signature: str

    def message(self) -> bytes:
        return b"coterie study signature\n" + canonical([self.name, self.fingerprint, self.signed, self.sections])


def signature_path(path: Path, name: str) -> Path:
    """study.toml is signed in study.NAME.sig.toml, beside it."""
    return path.with_name(f"{path.stem}.{name}.sig.toml")


def sign_study(path: Path, key: str) -> Path:
    study = load_study(path)
    one = study.everybody[study.rank_of(key)]
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    draft = Signature(one.name, one.fingerprint, now, section_hashes(study), "")
    signed = msgspec.structs.replace(draft, signature=base64.b64encode(sign(key, draft.message())).decode())
    target = signature_path(path, one.name)
    head = f"# {one.name}'s signature of {path.name}: send it to all other participants.\n"
    write_file(target, (head + tomli_w.dumps(msgspec.to_builtins(signed))).encode())
    return target


def verify_signatures(path: Path, study: Study) -> dict[str, Signature]:
    """Every participant's signature; an error that names who has not signed, or what was changed after signing."""
    found: dict[str, Signature] = {}
    missing = []
    now = section_hashes(study)
    for one in study.everybody:
        file = signature_path(path, one.name)
        if not file.exists():
            missing.append(one.name)
            continue
        signature = decode_toml(read_text(file, "the signature"), Signature, file, "a signature")
        signed = signature.sections
        changed = [name for name in {**now, **signed} if signed.get(name) != now.get(name)]
        if signature.name != one.name or signature.fingerprint != one.fingerprint:
            raise StudyError(f"{file} is not signed with the certificate of {one.name} that the study pins")
        try:
            raw = base64.b64decode(signature.signature, validate=True)
        except ValueError:
            raw = b""
        if not signed_by(one.certificate, raw, signature.message()):
            raise StudyError(f"{file}: the signature is not valid; {one.name} must sign again")
        if changed:
            sections = ", ".join(f"[{name}]" for name in changed)
            raise StudyError(
                f"{path} was changed after {one.name} signed it: section {sections}. Take the file that was signed, or "
                "have everybody sign again"
            )
        found[one.name] = signature
    if missing:
        raise StudyError(
            f"{path} is not signed by {', '.join(missing)}; put their .sig.toml files beside it (`coterie study sign`)"
        )
    return found
