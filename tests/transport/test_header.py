"""The frame's header, and control messages: what is written, what is read, what is refused."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import PeerLost, WrongLength, WrongSequence, WrongSession, WrongType
from coterie.transport import HEADER_BYTES, Stamp, World
from coterie.transport.channel import (
    CONTROL,
    CONTROL_LIMIT,
    REASON_LIMIT,
    Abort,
    Goodbye,
    Header,
    Heartbeat,
    Letter,
    Note,
    Refusal,
    as_bytes,
    decode_control,
    dtype_code,
    encode_control,
    trouble,
)
from tests.transport.fuzz import BOMBS
from tests.transport.network import named

RIGHT = Header(kind=2, lane=0, sender=1, receiver=2, session=bytes(range(16)), sequence=5, length=24, stamp=Stamp(3, 4))
BY_HAND = (
    b"cote\x01\x02\x00\x00\x01\x00\x02\x00"
    + bytes(range(16))
    + b"\x05\0\0\0\0\0\0\0"
    + b"\x18\0\0\0\0\0\0\0"
    + b"\x04\0\0\0"  # 3, moved by one to leave room for -1
    + b"\x04\0\0\0"
)


def test_the_bytes_of_a_header_by_hand():
    assert RIGHT.pack() == BY_HAND
    assert len(BY_HAND) == HEADER_BYTES == 52
    assert Header.unpack(BY_HAND, "P1") == RIGHT


@settings(deadline=None, derandomize=True, max_examples=50)
@given(
    st.builds(
        Header,
        kind=st.integers(0, 255),
        lane=st.integers(0, 65535),
        sender=st.integers(0, 65535),
        receiver=st.integers(0, 65535),
        session=st.binary(min_size=16, max_size=16),
        sequence=st.integers(0, 2**64 - 1),
        length=st.integers(0, 2**64 - 1),
        stamp=st.builds(Stamp, st.integers(-1, 2**32 - 2), st.integers(0, 2**32 - 1)),
    )
)
def test_what_is_packed_is_what_is_unpacked(header):
    assert Header.unpack(header.pack(), "P1") == header


@pytest.mark.parametrize(
    "raw", [b"cotf" + BY_HAND[4:], b"cote\x02" + BY_HAND[5:], bytes(HEADER_BYTES), b"GET / HTTP/1.1\r\n".ljust(52)]
)
def test_what_is_not_a_frame_of_this_version(raw):
    with pytest.raises(WrongSession) as caught:
        Header.unpack(raw, "P1")
    assert caught.value.peer == "P1"


def test_the_expected_header_is_right_whatever_its_stamp():
    RIGHT._replace(stamp=Stamp(-1, 9)).check(RIGHT, "P1")


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"session": bytes(16)}, WrongSession),
        ({"sender": 3}, WrongSession),
        ({"receiver": 1}, WrongSession),
        ({"lane": 1}, WrongSession),
        ({"sequence": 4}, WrongSequence),
        ({"sequence": 6}, WrongSequence),
        ({"kind": 1}, WrongType),
        ({"kind": 200}, WrongType),
        ({"length": 23}, WrongLength),
        ({"length": 2**60}, WrongLength),
        ({"kind": CONTROL, "length": CONTROL_LIMIT + 1}, WrongLength),
        ({"kind": CONTROL, "length": 0, "sequence": 6}, WrongSequence),
    ],
    ids=named,
)
def test_a_header_that_differs_from_the_expected_one(wrong, error):
    with pytest.raises(error) as caught:
        RIGHT._replace(**wrong).check(RIGHT, "P1")
    assert caught.value.peer == "P1"


def test_a_control_message_may_come_where_an_array_is_due():
    RIGHT._replace(kind=CONTROL, length=CONTROL_LIMIT).check(RIGHT, "P1")


@pytest.mark.parametrize(
    "message",
    [Heartbeat(), Goodbye(), Abort(2, "ValueError"), Note(True), Letter(b"\0\xff"), Refusal(True, "busy")],
    ids=repr,
)
def test_control_messages_come_back(message):
    raw = encode_control(message)
    assert decode_control(raw, "P1") == message
    assert len(raw) <= CONTROL_LIMIT


def test_a_note_s_size_does_not_tell_the_bit():
    assert len(encode_control(Note(False))) == len(encode_control(Note(True)))


NOT_CONTROL = {
    "nothing": b"",
    "not msgpack": b"\xc1" * 20,
    "another tag": msgspec.msgpack.encode({"type": "run", "command": "ls"}),
    "a field of another type": msgspec.msgpack.encode({"type": "abort", "culprit": "P1", "reason": "x"}),
    "a field too many": msgspec.msgpack.encode({"type": "heartbeat", "waits": True, "beat": 1}),
    "a list in it": msgspec.msgpack.encode({"type": "heartbeat", "x": [[[]]]}),
    "a list before its type": msgspec.msgpack.encode({"x": [[[]]], "type": "heartbeat"}),
    "a field missing": msgspec.msgpack.encode({"type": "abort", "culprit": 1}),
    "not a struct": msgspec.msgpack.encode([1, 2]),
    "something behind it": encode_control(Heartbeat()) + b"\0",
    **BOMBS,
}


@pytest.mark.parametrize("raw", NOT_CONTROL.values(), ids=NOT_CONTROL)
def test_a_control_message_that_cannot_be_read(raw):
    with pytest.raises(WrongType) as caught:
        decode_control(raw, "P1")
    assert caught.value.peer == "P1"


@pytest.mark.parametrize("kind", [Abort, Refusal])
@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("ValueError", "ValueError"),
        ("one\ntwo\r\t\0", "one?two???"),
        ("\x1b[2J\x9b31m\x07", "?[2J?31m?"),
        ("right to left \u202e\u2066", "right to left ??"),
        ("Grüße, 你好", "Grüße, 你好"),
        ("x" * 10_000, "x" * REASON_LIMIT),
        ("\U0001f600" * 10_000, "\U0001f600" * REASON_LIMIT),
    ],
    ids=["plain", "lines", "terminal", "direction", "letters", "long", "wide"],
)
def test_a_reason_is_text_on_a_line_whoever_made_it(kind, reason, shown):
    """It is shown to the people at the other side, whether the sender has kept to that or not."""
    made = kind(1, reason) if kind is Abort else kind(True, reason)
    assert made.reason == shown
    assert len(encode_control(made)) <= CONTROL_LIMIT
    fields = {"type": kind.__name__.lower(), **({"culprit": 1} if kind is Abort else {"busy": True}), "reason": reason}
    assert decode_control(msgspec.msgpack.encode(fields), "P1").reason == shown


def test_clocks_that_a_peer_has_moved_to_the_end_stay_there():
    """A frame can still be sent: what a peer says of its clock stops nobody."""
    top = 2**32 - 1
    packed = RIGHT._replace(stamp=Stamp(top + 5, top + 5)).pack()
    assert Header.unpack(packed, "P1").stamp == Stamp(top - 1, top)


WORLD = World(("P0", "P1", "P2"))


FOUR = World(("P0", "P1", "P2", "P3"))


def heard_by_p0(message, others=None):
    """The error at P0 for what P1 says. `others`: what each peer that P0 looks at has said when it stopped, None if it
    is there and well; whoever is not among them is gone."""

    def look(accused):
        if accused not in (others or {}):
            raise PeerLost("gone")
        return others[accused]

    return trouble(message, 1, 0, FOUR, look)


@pytest.mark.parametrize(
    ("message", "others", "peer", "text"),
    [
        (Abort(1, "x"), {}, "P1", "P1 stopped: x"),
        (Abort(-1, "x"), {}, "P1", "P1 stopped: x"),
        (Abort(4, "x"), {}, "P1", "P1 stopped: x"),
        (Goodbye(), {}, "P1", "P1 has finished"),
        (Abort(0, "x"), {}, "P1", "P1 stopped and blames this party"),
        (Abort(2, "x"), {}, "P2", "P2 was lost: P1 reports x"),
        (Abort(2, "x"), {2: None}, "P1", "P1 stopped and blames P2, who is still connected here"),
        (Abort(2, "x"), {2: Abort(2, "y")}, "P2", "P2 stopped: y"),
        (Abort(2, "x"), {2: Abort(9, "y")}, "P2", "P2 stopped: y"),
        (Abort(2, "x"), {2: Abort(1, "y")}, "P1", "P1 and P2 stopped and blame each other"),
        (Abort(2, "x"), {2: Abort(3, "y")}, "P3", "P3 was lost: P2 reports y"),
        (Abort(2, "x"), {2: Abort(3, "y"), 3: None}, "P2", "P2 stopped and blames P3, who is still connected here"),
        (Abort(2, "x"), {2: Abort(3, "y"), 3: Abort(1, "z")}, "P2", "P2 and P3 stopped and blame each other"),
        (Abort(2, "x"), {2: Abort(0, "y")}, "P2", "P2 stopped and blames this party"),
    ],
)
def test_whom_a_message_from_p1_blames(message, others, peer, text):
    error = heard_by_p0(message, others)
    assert isinstance(error, PeerLost)
    assert error.peer == peer
    assert text in str(error)


def test_a_note_is_no_array():
    error = heard_by_p0(Note(True))
    assert isinstance(error, WrongType)
    assert error.peer == "P1"


def test_element_types_have_numbers_of_their_own():
    assert [dtype_code(kind) for kind in (np.uint8, np.uint64, np.int64)] == [1, 2, 3]


@pytest.mark.parametrize("dtype", [np.float64, np.bool_, object, "V0", ">u8", np.int32], ids=str)
def test_other_element_types_do_not_travel(dtype):
    with pytest.raises(TypeError, match="do not travel"):
        dtype_code(dtype)


def test_the_bytes_of_an_array_are_in_the_order_of_its_rows():
    array = np.arange(6, dtype=np.uint64).reshape(2, 3)
    assert as_bytes(array.T).tobytes() == np.array([0, 3, 1, 4, 2, 5], np.uint64).tobytes()
    assert as_bytes(array).tobytes() == array.tobytes()
    assert len(as_bytes(array[:0])) == 0


def test_bytes_of_an_array_that_lies_in_one_piece_are_not_copied():
    array = np.zeros(4, np.uint64)
    as_bytes(array)[0] = 7
    assert array[0] == 7


def test_the_world_knows_its_ranks():
    assert WORLD.p == 2
    assert list(WORLD.owners) == [1, 2]
    assert WORLD.peers(1) == [0, 2]
