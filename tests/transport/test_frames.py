"""Frames that a peer with a valid certificate should not send: each has its error, before anything is allocated."""

from __future__ import annotations

import os
import tracemalloc

import numpy as np
import pytest

from coterie.errors import PeerLost, WrongLength, WrongSequence, WrongSession, WrongType
from coterie.transport import HEADER_BYTES
from coterie.transport.channel import CONTROL, CONTROL_LIMIT, Abort, Heartbeat, encode_control
from tests.transport.network import DUEL, EXPECTED, duel, named

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("plain_errors")]

BODY = np.array([7, 8, 9], np.uint64).tobytes()


@pytest.fixture
def met():
    with duel() as (channel, rogue):
        yield channel, rogue


def refused(channel, error):
    """The channel refuses what comes next from the rogue, and names it."""
    with pytest.raises(error) as caught:
        channel.receive(0, *EXPECTED)
    assert caught.value.peer == "Rogue"


def test_a_rogue_can_send_a_right_frame(met):
    """Else the tests below would show nothing."""
    channel, rogue = met
    rogue.say(rogue.header().pack(), BODY)
    array, _ = channel.receive(0, *EXPECTED)
    assert array.tolist() == [7, 8, 9]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"session": bytes(16)}, WrongSession),
        ({"sender": 1}, WrongSession),
        ({"receiver": 0}, WrongSession),
        ({"lane": 1}, WrongSession),
        ({"sequence": 1}, WrongSequence),
        ({"sequence": 2**64 - 1}, WrongSequence),
        ({"kind": 3}, WrongType),
        ({"kind": 255}, WrongType),
        ({"length": 0}, WrongLength),
        ({"length": 16}, WrongLength),
        ({"length": 32}, WrongLength),
        ({"length": 2**60}, WrongLength),
        ({"kind": CONTROL, "length": 2**60}, WrongLength),
        ({"kind": CONTROL, "length": CONTROL_LIMIT + 1}, WrongLength),
    ],
    ids=named,
)
def test_a_wrong_header_is_refused_before_its_body_comes(met, wrong, error):
    channel, rogue = met
    rogue.say(rogue.header(**wrong).pack())
    refused(channel, error)


@pytest.mark.parametrize("raw", [b"cotE", b"cote\x63", b"\xff" * HEADER_BYTES], ids=["magic", "version", "garbage"])
def test_bytes_that_are_no_frame_of_this_version(met, raw):
    channel, rogue = met
    rogue.say(raw, rogue.header().pack()[len(raw) :])
    refused(channel, WrongSession)


def test_a_frame_that_is_sent_again(met):
    channel, rogue = met
    frame = rogue.header().pack() + BODY
    rogue.say(frame, frame)
    channel.receive(0, *EXPECTED)
    refused(channel, WrongSequence)


def test_a_frame_that_is_left_out(met):
    channel, rogue = met
    rogue.say(rogue.header().pack(), BODY, rogue.header(sequence=2).pack(), BODY)
    channel.receive(0, *EXPECTED)
    refused(channel, WrongSequence)


@pytest.mark.parametrize("kind", [2, CONTROL])
def test_nothing_is_allocated_on_the_sender_s_word(met, kind):
    channel, rogue = met
    rogue.say(rogue.header(kind=kind, length=1 << 28).pack())
    tracemalloc.start()
    try:
        refused(channel, WrongLength)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_control_message_that_is_no_message(met):
    channel, rogue = met
    rogue.control(b"\xc1" * CONTROL_LIMIT)
    refused(channel, WrongType)


def test_heartbeats_are_passed_over_and_counted(met):
    channel, rogue = met
    rogue.control(encode_control(Heartbeat()))
    rogue.control(encode_control(Heartbeat()), sequence=1)
    rogue.say(rogue.header(sequence=2).pack(), BODY)
    assert channel.receive(0, *EXPECTED)[0].tolist() == [7, 8, 9]


@pytest.mark.parametrize("culprit", [-1, 2, 2**40])
def test_an_abort_that_blames_nobody_who_exists_falls_back_on_its_sender(met, culprit):
    channel, rogue = met
    rogue.control(encode_control(Abort(culprit, "nonsense")))
    refused(channel, PeerLost)


@pytest.mark.parametrize("kept", [1, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 5])
def test_a_frame_that_breaks_off(met, kept):
    channel, rogue = met
    rogue.say((rogue.header().pack() + BODY)[:kept])
    rogue.close()
    refused(channel, PeerLost)


def test_a_control_message_that_breaks_off(met):
    channel, rogue = met
    rogue.say(rogue.header(kind=CONTROL, length=100).pack(), b"short")
    rogue.close()
    refused(channel, PeerLost)


def test_bytes_that_are_not_tls(met):
    channel, rogue = met
    os.write(rogue.mouth.fileno(), b"in clear " * 10)
    refused(channel, PeerLost)


def test_a_rogue_is_told_who_is_to_blame(met):
    channel, rogue = met
    channel.abort(DUEL.names.index("Rogue"), "WrongLength")
    heard = b""
    while part := rogue.ear.recv(4096):
        heard += part
    assert heard.endswith(encode_control(Abort(0, "WrongLength")))
