"""What a participant brings to a run, and says of itself."""

from __future__ import annotations

import secrets
import time
from typing import Annotated, Literal, TypeVar

import msgspec

from coterie import __version__
from coterie.clustering import Contribution
from coterie.errors import DataError, FrameError, StudyError
from coterie.software import shorten, software_digest
from coterie.study.agreement import Study, section_hashes
from coterie.study.audit import Head
from coterie.study.checkpoint import Mark
from coterie.study.policy import MOST_LEAST
from coterie.study.signatures import Signature
from coterie.study.withdrawals import Withdrawal
from coterie.typed import from_msgpack

__all__ = [
    "MOST_EPOCH",
    "MOST_ROWS",
    "Card",
    "Front",
    "Greeting",
    "Papers",
    "Purpose",
    "card_of",
    "compare_cards",
    "greeting",
    "read_letter",
]

#: The most rows that a party may bring: everybody sets memory aside for them on its word.
MOST_ROWS = 1 << 27
Purpose = Literal["fit", "predict", "survey"]
#: What is said by others is held to be no more than this before anything is made of it.
Version = Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Za-z.+-]{1,40}\Z")]
Rows = Annotated[int, msgspec.Meta(ge=0, le=MOST_ROWS)]
Least = Annotated[int, msgspec.Meta(ge=1, le=MOST_LEAST)]
Coalition = Annotated[int, msgspec.Meta(ge=1, le=255)]
MOST_EPOCH = (1 << 62) - 1
Epoch = Annotated[int, msgspec.Meta(ge=0, le=MOST_EPOCH)]
Nonce = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
Run = Annotated[str, msgspec.Meta(max_length=64)]
Digest = Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{64})?\Z")]
T = TypeVar("T")


class Papers(msgspec.Struct, frozen=True):
    """What a participant shows of a study: its own signature, and a withdrawal, if it knows of one."""

    signature: Signature | None = None
    withdrawals: Annotated[list[Withdrawal], msgspec.Meta(max_length=1)] = []


class Card(msgspec.Struct, frozen=True):
    """What a participant says of itself to any other one that asks."""

    version: Version
    sections: dict[str, str]
    clock: float
    papers: Papers = Papers()
    digest: Digest = ""


class Front(msgspec.Struct, frozen=True):
    """As much of a greeting as every version understands."""

    card: Card


class Greeting(msgspec.Struct, frozen=True):
    """What a participant brings to a run. `model`, `fractional_bits` and `clusters` are for predictions; `commitment`
    is to its data, in a fit; `head` is the last entry of its audit log."""

    card: Card
    nonce: Nonce
    purpose: Purpose
    rows: Rows
    least: Least
    contribution: Contribution = "least"
    coalition: Coalition = 1
    restart: bool = False
    epoch: Epoch = 0
    marks: list[Mark] = []
    model: Run = ""
    fractional_bits: int = 0
    clusters: int = 0
    commitment: Digest = ""
    head: Head | None = None


def card_of(study: Study, papers: Papers = Papers()) -> bytes:  # noqa: B008
    return msgspec.msgpack.encode(_own_card(study, papers))


def _own_card(study: Study, papers: Papers = Papers()) -> Card:  # noqa: B008
    return Card(__version__, section_hashes(study), time.time(), papers, software_digest())


def compare_cards(study: Study, theirs: Card, name: str, me: str) -> None:
    """Does another participant have the same study, and the same software as far as the study asks for it?"""
    if theirs.version != __version__:
        raise StudyError(
            f"{name} runs Coterie {theirs.version}, here runs {__version__}; all must run the same version"
        )
    if study.participants.software == "same" and theirs.digest != software_digest():
        raise StudyError(
            f"{name} and {me} run different files of Coterie {__version__}: digest "
            f"{shorten(theirs.digest) or 'unknown'} at {name}, {shorten(software_digest())} at {me}; install the same "
            "release at both (coterie --version shows the digest)"
        )
    mine = section_hashes(study)
    different = [f"[{section}]" for section in mine if theirs.sections.get(section) != mine[section]]
    if different or set(theirs.sections) != set(mine):
        raise StudyError(f"{name} has another study: section {', '.join(different)} differs; compare the study files")


def read_letter(raw: bytes, kind: type[T], name: str, what: str) -> T:
    """What another participant says, if it can be read and makes sense."""
    try:
        return from_msgpack(raw, kind)
    except (ValueError, RecursionError):  # ValueError: msgspec's, or text that is not UTF-8
        raise FrameError(f"{name} sent a {what} that makes no sense", name) from None


def greeting(study: Study, purpose: Purpose, rows: int, least: int, **more: object) -> Greeting:
    most = min(MOST_ROWS, study.data.most_rows)
    if rows > most:
        raise DataError(f"there are {rows} rows; at most {most} are allowed")
    return Greeting(_own_card(study), secrets.token_bytes(16), purpose, rows, least, **more)  # type: ignore[arg-type]
