"""A peer whose heart beats is there; if nothing else comes of it, the wait ends all the same."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from coterie.errors import PeerLost
from coterie.transport import tls
from tests.support import world
from tests.transport.network import DUEL, EXPECTED, attempt, beating, close_all, duel, tls_channels, wait_until

pytestmark = pytest.mark.timeout(120)

WAYS = {
    "an array": lambda channel: channel.receive(0, *EXPECTED),
    "a note": lambda channel: channel.hear(0),
    "a letter": lambda channel: channel.collect(0),
}


@pytest.mark.parametrize("wait", WAYS.values(), ids=WAYS)
def test_a_peer_that_does_nothing_but_beat_is_waited_for_only_so_long(wait):
    with duel(patience=10.0, progress=0.5) as (channel, rogue), beating(rogue), ThreadPoolExecutor(1) as pool:
        error = pool.submit(wait, channel).exception(20)
    assert isinstance(error, PeerLost), error
    assert error.peer == "Rogue"
    assert "is connected, but nothing has come of it for 0.5 seconds" in str(error)


def test_a_peer_that_says_that_it_waits_itself_is_waited_for_longer():
    with (
        duel(patience=10.0, progress=0.5) as (channel, rogue),
        beating(rogue, waits=True),
        ThreadPoolExecutor(1) as pool,
    ):
        error = pool.submit(WAYS["a note"], channel).exception(20)
    assert isinstance(error, PeerLost), error
    assert "for 1.5 seconds; it says that it waits for another one itself" in str(error)


def test_the_limit_on_progress_is_thirty_times_the_patience():
    with duel(patience=7.0) as (channel, _):
        assert channel._inboxes[0].progress == 210.0


def test_a_helper_does_not_wait_for_ever_for_a_party_that_reads_nothing(monkeypatch):
    monkeypatch.setattr(tls, "DEALER_AHEAD", 1 << 20)
    helper, party = tls_channels(DUEL, patience=10.0, progress=0.5)

    def deal():
        while True:
            helper.send(1, np.zeros(1 << 20, np.uint64))

    try:
        with ThreadPoolExecutor(1) as pool:
            error = pool.submit(deal).exception(30)
    finally:
        attempt(partial(helper.abort, 0, "PeerLost"), partial(party.abort, 1, "PeerLost"))
    assert isinstance(error, PeerLost), error
    assert error.peer == "Honest"
    assert "is connected, but nothing has come of it" in str(error)


def test_whoever_waits_for_the_one_that_is_stuck_gives_up_first():
    """P1 waits for P2 from the start; P2 begins to wait for P3 later; P3 only beats. P2 names P3, and P1 hears of it
    before its own time is over: it does not take P2 for the one that is stuck."""
    _, one, two, _ = channels = tls_channels(world(3), patience=10.0, progress=1.0)

    def wait_and_tell(channel, sender):
        try:
            channel.hear(sender)
        except PeerLost as error:
            channel.abort(channel.world.names.index(error.peer), "PeerLost")
            return error

    try:
        with ThreadPoolExecutor(2) as pool:
            early = pool.submit(wait_and_tell, one, 2)
            wait_until(lambda: one.lane in one._waits, "P1's waiting")
            late = pool.submit(wait_and_tell, two, 3)
            assert late.result(30).peer == "P3"
            assert "P2 stopped and blames P3, who is still connected here" in str(early.result(30))
    finally:
        close_all(channels)
