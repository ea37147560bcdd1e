"""Whether all parties hold the same ids: one bit, and what each role sees on the way to it."""

from __future__ import annotations

import hashlib
import hmac

import numpy as np
import pytest

from coterie.data import Rows
from coterie.errors import DataError
from coterie.local.threads import run_threads
from coterie.study import ids
from coterie.study.files import canonical
from coterie.study.ids import compare_ids
from coterie.transport import Channel, Recording
from tests.support import SeededEntropy, world

IDS = ["ann", "bea", "cid"]


class Letters(Recording):
    """Remembers by itself the letters that were received."""

    def __init__(self, inner: Channel) -> None:
        super().__init__(inner)
        self.collected: list[bytes] = []

    def collect(self, sender: int) -> bytes:
        self.collected.append(super().collect(sender))
        return self.collected[-1]


def compared(ids: list[list[str]], seed: int = 0) -> tuple[dict[int, bool], dict[int, Letters]]:
    """By rank, whether the ids were found equal, and what was received."""
    channels: dict[int, Letters] = {}

    def wrap(channel: Channel) -> Channel:
        return channels.setdefault(channel.rank, Letters(channel))

    def role(me) -> bool:
        channels[me.rank].frames.clear()  # the agreement on keys
        try:
            compare_ids(me, None if me.is_helper else Rows(np.zeros((3, 1)), ids[me.rank - 1], "here"))
        except DataError:
            return False
        return True

    found = run_threads(world(len(ids)), role, entropy=lambda rank: SeededEntropy(seed, rank), wrap=wrap)
    return dict(enumerate(found)), channels


def leaks(channels: dict[int, Letters]) -> bool:
    """Does a data party get anything but the bit, or the helper anything that it could make itself?"""
    digests = {hashlib.sha256(canonical(IDS)).digest(), hmac.digest(bytes(32), canonical(IDS), "sha256")}
    to_parties = any(channels[j].collected or channels[j].received for j in channels if j)
    return to_parties or bool(channels[0].received) or not digests.isdisjoint(channels[0].collected)


@pytest.mark.parametrize("odd", [None, 0, 2])
def test_one_bit_to_everybody(odd):
    ids = [list(IDS) for _ in range(3)]
    if odd is not None:
        ids[odd][1] = "bob"
    found, channels = compared(ids)
    assert set(found.values()) == {odd is None}
    assert not leaks(channels)
    assert [len(one) for one in channels[0].collected] == [32, 32, 32]
    assert [note[2] for j in (1, 2, 3) for note in channels[j].notes] == [odd is None] * 3


def test_hashes_are_of_no_use_in_another_run():
    first, second = (compared([IDS, IDS], seed)[1][0].collected for seed in (0, 1))
    assert not set(first) & set(second)


def test_a_hash_without_a_key_is_noticed(monkeypatch):
    """Planted: the key left out."""
    monkeypatch.setattr(ids.hmac, "digest", lambda _, message, kind: hashlib.new(kind, message).digest(), raising=True)
    _, channels = compared([IDS, IDS])
    monkeypatch.undo()
    assert leaks(channels)


def test_a_hash_sent_to_a_party_is_noticed(monkeypatch):
    """Planted: tags go to the other parties, who hold the key and could try guesses."""

    def open_tags(me, rows) -> None:
        if not me.is_helper:
            tag = np.frombuffer(hmac.digest(me.streams.common("ids").read(32).tobytes(), b"", "sha256"), np.uint8)
            other = 3 - me.rank
            me.channel.send(other, tag)
            me.channel.receive(other, np.uint8, tag.shape)

    monkeypatch.setitem(globals(), "compare_ids", open_tags)
    assert leaks(compared([IDS, IDS])[1])
