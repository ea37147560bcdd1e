"""While a protocol runs, roles send what its family declares and nothing else; with bugs planted that do otherwise.

Each plant is caught twice: by the channel, before anything leaves; and, with that switched off, by the recording of
what the roles received.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from coterie.errors import ProtocolError
from coterie.protocols import Family
from coterie.protocols.onetime import OneTime, label_words
from coterie.protocols.securenn import SecureNN
from coterie.randomness import Dealing, Dealt, Material
from coterie.sharing import Party
from coterie.transport import Metered, memory_channels
from tests.security.fits import STUDIES as SECURENN
from tests.security.fits import far
from tests.security.onetime_fits import STUDIES, check_dealer_hears_notes_only, check_no_letters, fitted
from tests.support import world

NOTES, ARRAYS = frozenset({"note"}), frozenset({"array"})
VERBS: dict[str, Callable[[Metered, int], Any]] = {
    "send": lambda channel, other: channel.send(other, np.zeros(1, np.uint8)),
    "receive": lambda channel, other: channel.receive(other, np.uint8, (1,)),
    "tell": lambda channel, other: channel.tell(other, True),
    "hear": lambda channel, other: channel.hear(other),
    "post": lambda channel, other: channel.post(other, b"x"),
    "collect": lambda channel, other: channel.collect(other),
}
#: Who may do what with whom while a protocol runs that declares this: (declared, rank, verb, other).
ALLOWED = {
    *((declared, j, verb, i) for declared in (NOTES, ARRAYS, frozenset()) for i in (1, 2) for j in (1, 2) if i != j
      for verb in ("send", "receive")),
    *((declared, 0, "send", j) for declared in (NOTES, ARRAYS, frozenset()) for j in (1, 2)),
    *((declared, j, "receive", 0) for declared in (NOTES, ARRAYS, frozenset()) for j in (1, 2)),
    *((ARRAYS, j, "send", 0) for j in (1, 2)),
    *((ARRAYS, 0, "receive", j) for j in (1, 2)),
    (NOTES, 1, "tell", 0),
    (NOTES, 0, "hear", 1),
}  # fmt: skip


class Open:
    """A channel that takes everything, and remembers that something got through to it."""

    def __init__(self, rank: int) -> None:
        self.world, self.rank, self.lane, self.used = world(2), rank, 0, False

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        def use(*_: Any) -> Any:
            self.used = self.used or verb != "gather"  # which sends nothing
            return (np.zeros(1, np.uint8), memory_stamp()) if verb == "receive" else None

        return use


def memory_stamp() -> Any:
    return Metered(memory_channels(world(2))[0]).clock


@pytest.mark.parametrize("declared", [NOTES, ARRAYS, frozenset()], ids=["note", "array", "nothing"])
@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("verb", VERBS)
def test_a_channel_keeps_to_what_is_declared(declared, rank, verb):
    for other in {0, 1, 2} - {rank}:
        inner = Open(rank)
        channel = Metered(inner)
        VERBS[verb](channel, other)
        assert inner.used, "before a protocol begins, everything is allowed"
        inner.used = False
        channel.begin_protocol(declared)
        if (declared, rank, verb, other) in ALLOWED:
            VERBS[verb](channel, other)
            assert inner.used
        else:
            with pytest.raises(ProtocolError, match="declares no"):
                VERBS[verb](channel, other)
            assert not inner.used, "something got out"


def test_what_is_declared_cannot_be_widened():
    channel = Metered(memory_channels(world(2))[1])
    channel.begin_protocol(NOTES)
    channel.begin_protocol(NOTES)
    for more in (NOTES | ARRAYS, ARRAYS, frozenset()):
        with pytest.raises(ProtocolError, match="something else"):
            channel.begin_protocol(more)
    with pytest.raises(ProtocolError, match="nothing else"):
        Metered(memory_channels(world(2))[1]).begin_protocol(frozenset({"letter"}))


def test_what_the_families_declare():
    assert OneTime.dealer_hears == {"note"}
    assert SecureNN.dealer_hears == {"array"}
    assert Family.dealer_hears == frozenset()


# -- plants ------------------------------------------------------------------------------------------------


def posted_movement_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every party posts its raw share of the movement to the helper, who adds them up."""
    movement = OneTime.movement

    def indiscreet(self: OneTime, *given: Any) -> Any:
        moved = movement(self, *given)
        if self.me.deals:
            for j in self.me.world.owners:
                self.me.channel.collect(j)
        else:
            self.me.channel.post(0, moved.share.tobytes())
        return moved

    monkeypatch.setattr(OneTime, "movement", indiscreet)


def posted_to_a_party(monkeypatch: pytest.MonkeyPatch) -> None:
    """P2 posts its raw share of the movement to P1."""
    movement = OneTime.movement

    def indiscreet(self: OneTime, *given: Any) -> Any:
        moved = movement(self, *given)
        if self.me.rank == 1:
            self.me.channel.collect(2)
        if self.me.rank == 2:
            self.me.channel.post(1, moved.share.tobytes())
        return moved

    monkeypatch.setattr(OneTime, "movement", indiscreet)


def stop_bit_as_an_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OneTime, "open_to_all", Family.open_to_all)


def array_on_a_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    """A data party that says something before it takes its correction."""

    deal = Dealing.deal

    def chatty(self: Dealing, material: Material) -> Dealt:
        if material.purpose == "sums" and self.rank == 1:
            self.channel.send(0, np.zeros(1, np.uint8))
        if material.purpose == "sums" and self.rank == 0:
            self.channel.receive(1, np.uint8, (1,))
        return deal(self, material)

    monkeypatch.setattr(Dealing, "deal", chatty)


def letter_on_a_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every party posts its raw shares of one-hot labels to the helper."""

    words = label_words.block_words

    def indiscreet(me: Party, hot: Any, *rest: Any) -> Any:
        if me.deals:
            for j in me.world.owners:
                me.channel.collect(j)
        else:
            me.channel.post(0, hot[:1].tobytes())
        return words(me, hot, *rest)

    monkeypatch.setattr("coterie.protocols.onetime.cells.block_words", indiscreet)


def note_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = Dealing.next_receiver

    def talkative(self: Dealing, size: int) -> int:
        now = self.streams.phase == 2 and not self.channel.turns._beside  # what others send would be in its way
        if self.rank == 1 and now:
            self.channel.tell(2, True)
        if self.rank == 2 and now:
            self.channel.hear(1)
        return receiver(self, size)

    monkeypatch.setattr(Dealing, "next_receiver", talkative)


#: A plant, the studies it is tried on, what the channel says, and what the recording says.
PLANTS = [
    (posted_movement_share, "horizontal", "no letter", "letter of 8 bytes to P0"),
    (posted_movement_share, "horizontal, three parties", "no letter", "letter of 8 bytes to P0"),
    (posted_movement_share, "lanes", "no letter", "letter of 8 bytes to P0"),
    (posted_to_a_party, "mixed", "no letter", "letter of 8 bytes to P1"),
    (letter_on_a_lane, "lanes", "no letter", "letter of .* bytes to P0"),
    (stop_bit_as_an_array, "horizontal", "no array", "received an array"),
    (array_on_a_lane, "lanes", "no array", "received an array"),
    (array_on_a_lane, "lanes, three parties", "no array", "received an array"),
    (note_too_many, "horizontal", "no note", "another note"),
]
EACH = pytest.mark.parametrize(
    ("plant", "name", "refused", "seen"), PLANTS, ids=[f"{plant.__name__} {name}" for plant, name, *_ in PLANTS]
)


@EACH
def test_a_planted_leak_is_stopped_by_the_channel(monkeypatch, plant, name, refused, seen):
    plant(monkeypatch)
    with pytest.raises(ProtocolError, match=refused):
        fitted(STUDIES[name])


@EACH
def test_a_planted_leak_is_seen_in_the_recording(monkeypatch, plant, name, refused, seen):
    """With the channel's conduct switched off."""
    monkeypatch.setattr(Metered, "begin_protocol", lambda self, *declared: None)
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=seen):
        check_dealer_hears_notes_only(STUDIES[name], fitted(STUDIES[name]))


def test_a_planted_letter_of_securenn_is_caught(monkeypatch):
    movement = SecureNN.movement

    def indiscreet(self: SecureNN, *given: Any) -> Any:
        moved = movement(self, *given)
        if self.me.deals:
            for j in self.me.world.owners:
                self.me.channel.collect(j)
        else:
            self.me.channel.post(0, moved.share.tobytes())
        return moved

    study = SECURENN["horizontal"]
    data = far(study.rows, study.columns)
    check_no_letters(study.fit(data))
    monkeypatch.setattr(SecureNN, "movement", indiscreet)
    with pytest.raises(ProtocolError, match="no letter"):
        study.fit(data)
    monkeypatch.setattr(Metered, "begin_protocol", lambda self, *declared: None)
    with pytest.raises(AssertionError, match="letter of 8 bytes to P0"):
        check_no_letters(study.fit(data))


@pytest.mark.parametrize("predicting", [False, True], ids=["fit", "predict"])
def test_every_lane_keeps_to_the_protocol(monkeypatch, predicting):
    """Fits and predictions begin before anything is sent, at every role and on every lane."""
    study = STUDIES["lanes"]
    data = far(study.rows, study.columns)
    ran = study.fit(data)
    begun: list[tuple[int, int]] = []
    begin = Metered.begin_protocol

    def noted(self: Metered, *declared: Any) -> None:
        assert self.messages == 0
        begun.append((self.rank, self.lane))
        begin(self, *declared)

    monkeypatch.setattr(Metered, "begin_protocol", noted)
    if predicting:
        study.predict(ran, data)
    else:
        study.fit(data)
    assert sorted(begun) == [(rank, lane) for rank in range(3) for lane in range(3)]
