"""What participants show each other of a study before they run it: their signatures, and who has withdrawn.

Everybody checks everything that it is sent, names who sent what does not hold, and keeps the rest beside the study. A
file that is there is never replaced.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from coterie.errors import AuthenticationError, CoterieError, InputError, StudyError
from coterie.study.agreement import Study
from coterie.study.greetings import Card, Papers, card_of, compare_cards, read_letter
from coterie.study.prepare import Known
from coterie.study.signatures import Signature, check_signature, keep_signature, own_signature
from coterie.study.voice import Voice
from coterie.study.withdrawals import Withdrawal, Withdrawn, check_withdrawal, keep_withdrawal, known_withdrawals
from coterie.transport import Channel
from coterie.transport.visits import probe
from coterie.typed import from_msgpack

__all__ = ["ask_card", "card_with_papers", "exchange_papers", "hear_withdrawal", "pack_withdrawal", "take_papers"]


def card_with_papers(path: Path, study: Study, name: str) -> bytes:
    """What this participant says of itself to any other one that asks, with its signature and known withdrawals."""
    try:
        shown = Papers(own_signature(path, study, name), known_withdrawals(path, study)[:1])
    except StudyError:  # somebody has changed the files since they were checked
        shown = Papers()
    return card_of(study, shown)


def ask_card(known: Known, other: int, timeout: float, patience: float) -> Card:
    """What another participant that is up says of itself, if it has the same study and version; `timeout` and
    `patience`: seconds to reach it, and for each step after that."""
    name = known.world.names[other]
    raw = probe(known.world, known.rank, other, known.credentials, known.peers[other], timeout, patience)
    try:
        card = from_msgpack(raw, Card)
    except (ValueError, RecursionError):  # not msgpack, not a card, not UTF-8
        raise StudyError(f"{name} cannot be understood") from None
    compare_cards(known.study, card, name, known.me.name)
    return card


def take_papers(path: Path, study: Study, card: Card, name: str) -> bool:
    """Check and keep what another participant has shown: was its signature new here? One that has withdrawn is an
    error, and so is what does not hold."""
    for withdrawal in card.papers.withdrawals:
        _take_withdrawal(path, study, withdrawal, name)
    if card.papers.signature is None:
        return False
    return _take_signature(path, study, card.papers.signature, name)


def _take_signature(path: Path, study: Study, signature: Signature, name: str) -> bool:
    one = next(one for one in study.everybody if one.name == name)
    try:
        check_signature(f"what {name} sent", signature, study, one)
    except StudyError:
        raise AuthenticationError(
            f"{name} sent a signature of this study that is not its own, or not valid", name
        ) from None
    return keep_signature(path, signature)


def _take_withdrawal(path: Path, study: Study, withdrawal: Withdrawal, name: str) -> None:
    try:
        check_withdrawal(study, withdrawal, "it")
    except StudyError:
        raise AuthenticationError(f"{name} sent a withdrawal that does not hold", name) from None
    keep_withdrawal(path, withdrawal)
    raise Withdrawn("this study", withdrawal)


def exchange_papers(talk: Channel, path: Path, study: Study, voice: Voice) -> None:
    """Everybody shows everybody its signature, before anything else is said. Afterwards each has all of them."""
    me, others = talk.world.names[talk.rank], talk.world.peers(talk.rank)
    own = card_with_papers(path, study, me)
    for other in others:
        talk.post(other, msgspec.msgpack.encode({"card": msgspec.Raw(own)}))
    fetched = []
    for other in others:
        name = talk.world.names[other]
        card = read_letter(talk.collect(other), Shown, name, "greeting").card
        compare_cards(study, card, name, me)
        try:
            new = take_papers(path, study, card, name)
        except InputError as error:  # it holds, and cannot be written here
            voice.note(str(error))
            new = False
        if card.papers.signature is None:
            raise AuthenticationError(f"{name} has not signed this study", name)
        if new:
            fetched.append(name)
    if fetched:
        voice.note(f"signatures of {', '.join(fetched)} are valid, and kept beside {path.name}")


class Shown(msgspec.Struct, frozen=True):
    """The first letter. As much of it as every version understands is the card."""

    card: Card


def pack_withdrawal(withdrawal: Withdrawal) -> bytes:
    """For `hear_withdrawal` at another participant."""
    return msgspec.msgpack.encode(withdrawal)


def hear_withdrawal(path: Path, study: Study, raw: bytes, name: str) -> CoterieError:
    """What another participant says about why it does not take part: an error to end with. It is a withdrawal, its own
    or another's, or makes no sense."""
    try:
        _take_withdrawal(path, study, read_letter(raw, Withdrawal, name, "withdrawal"), name)
    except CoterieError as error:
        return error
    raise AssertionError("a withdrawal that holds is an error")
