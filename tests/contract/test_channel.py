"""What every Channel does, in memory and over TLS, bare or wrapped."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from coterie.errors import FrameError, PeerLost, TransportError, WrongLength, WrongType
from coterie.transport import Metered, Recording, memory, memory_channels, tls
from coterie.transport.channel import CONTROL_LIMIT
from tests.support import world
from tests.transport.network import attempt, close_all, nothing_left, tls_lanes, together

pytestmark = pytest.mark.timeout(120)

TRANSPORTS = {
    "memory": lambda world, lanes: [memory_channels(world, lane=lane) for lane in range(lanes)],
    "tls": tls_lanes,
}
WRAPPERS = {"bare": lambda channel: channel, "metered": Metered, "recording": Recording}
WORDS = np.arange(4, dtype=np.uint64)


@pytest.fixture(params=[(t, w) for t in TRANSPORTS for w in WRAPPERS], ids="-".join)
def connect_lanes(request):
    """Connects p data parties and a helper, by lane; all is closed at the end, and nothing of it left."""
    transport, wrapper = request.param
    made = []

    def connected(p, lanes):
        by_lane = TRANSPORTS[transport](world(p), lanes)
        wrapped = [[WRAPPERS[wrapper](channel) for channel in channels] for channels in by_lane]
        made.extend(channel for channels in wrapped for channel in channels)
        return wrapped

    with nothing_left():
        yield connected
        close_all(made)


@pytest.fixture
def connect(connect_lanes):
    """The same, on one lane: a channel for each rank."""
    return lambda p: connect_lanes(p, 1)[0]


def expect_words(channel, sender):
    return channel.receive(sender, np.uint64, (4,))[0]


def examples(sender, receiver):
    """Arrays of every type and of odd shapes and layouts; others for every two parties."""
    rng = np.random.default_rng([sender, receiver])
    for dtype in (np.uint8, np.uint64, np.int64):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        for shape in ((0,), (3, 0, 2), (1,), (7,), (5, 3), (2, 3, 4)):
            yield rng.integers(low, high, shape, dtype, endpoint=True)
        whole = rng.integers(low, high, (6, 8), dtype, endpoint=True)
        yield from (whole.T, whole[::2, ::-3], whole[:, 5], np.asfortranarray(whole), whole[:0])
        yield np.broadcast_to(whole[0], (3, 8))


@pytest.mark.parametrize("p", [2, 3])
def test_arrays_arrive_intact_and_in_order(connect, p):
    def role(channel):
        for peer in channel.world.peers(channel.rank):
            for array in examples(channel.rank, peer):
                channel.send(peer, array)
        for peer in channel.world.peers(channel.rank):
            for sent in examples(peer, channel.rank):
                array, _ = channel.receive(peer, sent.dtype, sent.shape)
                assert array.dtype == sent.dtype
                assert array.shape == sent.shape
                assert np.array_equal(array, sent)
        return True

    assert all(together(*(partial(role, channel) for channel in connect(p))))


def test_two_that_send_much_before_they_receive_do_not_wait_for_each_other(connect):
    count, size = 8, 1 << 20

    def role(channel, peer):
        for number in range(count):
            channel.send(peer, np.full(size, 100 * channel.rank + number, np.uint64))
        for number in range(count):
            array, _ = channel.receive(peer, np.uint64, (size,))
            assert (array == 100 * peer + number).all()
        return True

    _, one, two = connect(2)
    assert together(partial(role, one, 2), partial(role, two, 1)) == [True, True]


def test_what_was_sent_before_a_close_arrives(connect):
    _, one, two = connect(2)
    one.send(2, WORDS)
    one.close()
    assert (expect_words(two, 1) == WORDS).all()


def test_another_element_type_than_expected(connect):
    _, one, two = connect(2)
    one.send(2, WORDS.astype(np.int64))
    with pytest.raises(WrongType) as caught:
        expect_words(two, 1)
    assert caught.value.peer == "P1"


@pytest.mark.parametrize("length", [0, 3, 5])
def test_another_length_than_expected(connect, length):
    _, one, two = connect(2)
    one.send(2, np.zeros(length, np.uint64))
    with pytest.raises(WrongLength) as caught:
        expect_words(two, 1)
    assert caught.value.peer == "P1"


def test_reals_do_not_travel(connect):
    _, one, _ = connect(2)
    with pytest.raises(TypeError, match="float64"):
        one.send(2, np.zeros(3))


def test_notes_and_arrays_arrive_in_one_order(connect):
    _, one, two = connect(2)
    one.tell(2, True)
    one.send(2, WORDS)
    one.tell(2, False)
    one.tell(2, True)
    assert two.hear(1) is True
    assert (expect_words(two, 1) == WORDS).all()
    assert (two.hear(1), two.hear(1)) == (False, True)


@pytest.mark.parametrize("p", [2, 3])
def test_gathered_arrays_arrive_intact_and_in_order(connect, p):
    """Small and large ones, mixed, to everybody, by parties who answer each other."""
    sizes = (1, 3, 5000, 0, 2, 40_000, 7)

    def role(channel):
        channel.gather()
        for turn in range(3):
            for peer in channel.world.peers(channel.rank):
                for size in sizes:
                    channel.send(peer, np.full(size, 1000 * turn + 10 * channel.rank + peer, np.uint64))
            for peer in channel.world.peers(channel.rank):
                for size in sizes:
                    array, _ = channel.receive(peer, np.uint64, (size,))
                    assert (array == 1000 * turn + 10 * peer + channel.rank).all()
        return True

    assert all(together(*(partial(role, channel) for channel in connect(p))))


@pytest.mark.parametrize(
    "let_go",
    [
        lambda channel: channel.flush(),
        lambda channel: channel.tell(2, True),
        lambda channel: channel.send(2, np.zeros(10_000, np.uint64)),
        lambda channel: channel.hear(0),
        lambda channel: channel.receive(0, np.uint64, (4,)),
        lambda channel: channel.close(),
    ],
    ids=["flush", "a note", "much more", "hearing", "receiving", "the end"],
)
def test_what_is_gathered_goes_when_its_sender_lets_go_or_waits(connect, let_go):
    """The other one never waits for long: what it is sent is not held back while the sender waits for somebody."""
    zero, one, two = connect(2)
    one.gather()
    one.send(2, WORDS)
    one.send(2, WORDS + np.uint64(1))

    def wait():
        with contextlib.suppress(PeerLost):
            let_go(one)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait)
        assert (expect_words(two, 1) == WORDS).all()
        assert (expect_words(two, 1) == WORDS + np.uint64(1)).all()
        zero.abort(0, "the test is over")
        waiting.result()


def test_a_note_where_an_array_is_due(connect):
    _, one, two = connect(2)
    one.tell(2, True)
    with pytest.raises(WrongType) as caught:
        expect_words(two, 1)
    assert caught.value.peer == "P1"


def test_an_array_where_a_note_is_due(connect):
    _, one, two = connect(2)
    one.send(2, WORDS)
    with pytest.raises(WrongType) as caught:
        two.hear(1)
    assert caught.value.peer == "P1"


def test_letters_notes_and_arrays_arrive_in_one_order(connect):
    _, one, two = connect(2)
    one.post(2, b"first")
    one.send(2, WORDS)
    one.post(2, b"")
    one.tell(2, True)
    one.post(2, bytes(range(256)))
    assert two.collect(1) == b"first"
    assert (expect_words(two, 1) == WORDS).all()
    assert two.collect(1) == b""
    assert two.hear(1) is True
    assert two.collect(1) == bytes(range(256))


def test_letters_cross_and_reach_whom_they_are_for(connect):
    channels = connect(3)

    def role(channel):
        peers = channel.world.peers(channel.rank)
        for peer in peers:
            channel.post(peer, bytes([channel.rank, peer]))
        return [channel.collect(peer) for peer in peers]

    for rank, heard in enumerate(together(*(partial(role, channel) for channel in channels))):
        assert heard == [bytes([peer, rank]) for peer in channels[rank].world.peers(rank)]


def test_the_longest_letter(connect):
    _, one, two = connect(2)
    one.post(2, b"x" * (CONTROL_LIMIT - 64))
    assert two.collect(1) == b"x" * (CONTROL_LIMIT - 64)


def test_a_letter_that_is_too_long_is_not_sent(connect):
    """And what comes after it arrives."""
    _, one, two = connect(2)
    for size in (CONTROL_LIMIT - 63, CONTROL_LIMIT, 1 << 20):
        with pytest.raises(ValueError, match=f"{size} bytes is too long"):
            one.post(2, bytes(size))
    one.post(2, b"short")
    assert two.collect(1) == b"short"


#: How to send each kind of message, and how to wait for it.
KINDS = {
    "letter": (lambda channel: channel.post(2, b"a letter"), lambda channel: channel.collect(1)),
    "note": (lambda channel: channel.tell(2, True), lambda channel: channel.hear(1)),
    "array": (lambda channel: channel.send(2, WORDS), lambda channel: expect_words(channel, 1)),
}


@pytest.mark.parametrize(("sent", "due"), [(a, b) for a in KINDS for b in KINDS if a != b and "letter" in (a, b)])
def test_a_letter_is_no_array_and_no_note(connect, sent, due):
    _, one, two = connect(2)
    KINDS[sent][0](one)
    with pytest.raises(WrongType) as caught:
        KINDS[due][1](two)
    assert caught.value.peer == "P1"


def test_letters_are_not_metered():
    _, one, two = (Metered(channel) for channel in memory_channels(world(2)))
    one.post(2, b"a letter")
    assert two.collect(1) == b"a letter"
    assert one.traffic() == Metered(memory_channels(world(2))[1]).traffic()


def test_lanes_do_not_mix(connect_lanes):
    """What is sent on one is received there, whatever happens on the others."""
    by_lane = connect_lanes(2, 3)
    for lane, (_, one, _) in enumerate(by_lane):
        assert one.lane == lane
        one.send(2, WORDS + np.uint64(lane))
    by_lane[0][1].close()
    for lane, (_, _, two) in reversed(list(enumerate(by_lane))):
        assert (expect_words(two, 1) == WORDS + np.uint64(lane)).all()
    with pytest.raises(PeerLost):
        expect_words(by_lane[0][2], 1)
    by_lane[1][1].tell(2, True)
    assert by_lane[1][2].hear(1) is True


def culprits(channels, sender):
    """Whom each of the channels blames, when all wait for one sender."""
    failed = attempt(*(partial(expect_words, channel, sender) for channel in channels))
    errors = [waiting.exception() for waiting in failed]
    assert all(isinstance(error, PeerLost) for error in errors), errors
    return [error.peer for error in errors]


def test_an_abort_reaches_everyone_who_waits(connect):
    zero, one, two, three = connect(3)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(culprits, (zero, one, three), 2)
        two.abort(2, "ValueError")
        assert waiting.result() == ["P2", "P2", "P2"]


def test_an_abort_comes_after_what_was_sent_before(connect):
    _, one, two = connect(2)
    one.send(2, WORDS)
    one.abort(1, "ValueError")
    assert (expect_words(two, 1) == WORDS).all()
    with pytest.raises(PeerLost, match="P1 stopped: an internal error"):
        expect_words(two, 1)


@pytest.mark.parametrize("end", ["abort", "close"])
def test_an_abort_names_the_culprit_although_a_third_party_tells(connect, end):
    """If the culprit is gone: everybody sees that for itself."""
    zero, one, two, three = connect(3)
    three.abort(3, "ValueError") if end == "abort" else three.close()
    two.abort(3, "PeerLost")
    assert culprits((zero, one), 2) == ["P3", "P3"]


def test_an_abort_is_believed_although_the_culprit_has_sent_much_that_is_not_read(connect):
    zero, _, two, three = connect(3)
    for number in range(20):
        three.send(0, np.full(1 << 12, number, np.uint64))
    three.abort(3, "ValueError")
    two.abort(3, "PeerLost")
    assert culprits((zero,), 2) == ["P3"]


def test_who_blames_somebody_that_is_there_is_named_itself(connect):
    """P2 lies. P3 is there and well, at P0 and at P1, and P3 itself is not told that it was lost."""
    zero, one, two, three = connect(3)
    two.abort(3, "PeerLost")
    assert culprits((zero, one, three), 2) == ["P2", "P2", "P2"]


def test_what_is_said_of_a_liar(connect):
    zero, _, two, three = connect(3)
    two.abort(3, "PeerLost")
    with pytest.raises(PeerLost, match="P2 stopped and blames P3, who is still connected here"):
        expect_words(zero, 2)
    with pytest.raises(PeerLost, match="P2 stopped and blames this party"):
        expect_words(three, 2)


def test_a_liar_is_named_although_its_victim_stops_too(connect):
    """P3 hears that it is blamed, and stops on account of P2: P0 finds the two against each other."""
    zero, _, two, three = connect(3)
    two.abort(3, "PeerLost")
    three.abort(2, "PeerLost")
    with pytest.raises(PeerLost, match="P2 and P3 stopped and blame each other") as caught:
        expect_words(zero, 2)
    assert caught.value.peer == "P2"


def test_the_culprit_is_passed_on_from_one_to_the_next(connect):
    """P0 waits for P1, who waits for P2, who waits for P3, who stops."""
    channels = connect(3)

    def role(channel):
        try:
            expect_words(channel, channel.rank + 1)
        except PeerLost as error:
            channel.abort(channel.world.names.index(error.peer), "PeerLost")
            return error.peer

    channels[3].abort(3, "ValueError")
    assert together(*(partial(role, channel) for channel in channels[:3])) == ["P3", "P3", "P3"]


@pytest.mark.parametrize("due", ["note", "letter"])
@pytest.mark.parametrize("stop", ["abort", "close"])
def test_who_waits_for_a_note_or_a_letter_hears_of_the_end(connect, stop, due):
    _, one, two, three = connect(3)
    if stop == "close":
        one.close()
    else:
        three.abort(3, "ValueError")
        one.abort(3, "PeerLost")
    with pytest.raises(PeerLost) as caught:
        KINDS[due][1](two)
    assert caught.value.peer == ("P1" if stop == "close" else "P3")


def test_a_culprit_that_does_not_exist_falls_back_on_the_peer(connect):
    zero, one, _ = connect(2)
    one.abort(77, "nonsense")
    assert culprits((zero,), 1) == ["P1"]


def test_a_peer_that_closes_while_others_wait_is_named(connect):
    zero, one, two = connect(2)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(culprits, (zero, two), 1)
        one.close()
        assert waiting.result() == ["P1", "P1"]


def until_it_fails(send, *what):
    """A network takes some frames for somebody who is gone before it says so."""
    while True:
        send(*what)


@pytest.mark.parametrize("what", KINDS)
def test_sending_to_a_peer_that_closed(connect, what):
    _, one, two = connect(2)
    two.close()
    with pytest.raises(PeerLost) as caught:
        until_it_fails(KINDS[what][0], one)
    assert caught.value.peer == "P2"


def test_sending_to_a_peer_that_stopped_names_the_culprit_it_named(connect):
    _, one, two, three = connect(3)
    two.send(1, WORDS)
    three.abort(3, "ValueError")
    two.abort(3, "PeerLost")
    with pytest.raises(PeerLost) as caught:
        until_it_fails(one.send, 2, WORDS)
    assert caught.value.peer == "P3"


def test_a_reason_of_any_length_is_told_in_short(connect):
    """And without what a terminal would take for a command."""
    _, one, two = connect(2)
    one.abort(1, "\x1b[2Jall is well\n" + "x" * 100_000)
    with pytest.raises(PeerLost) as caught:
        expect_words(two, 1)
    assert str(caught.value).isprintable()
    assert "?[2Jall is well?xxx" in str(caught.value)
    assert len(str(caught.value)) < 500


def test_closing_twice_is_closing_once(connect):
    _, one, two = connect(2)
    one.close()
    one.close()
    one.abort(2, "too late")
    assert culprits((two,), 1) == ["P1"]


# -- nothing is left unread ----------------------------------------------------------------------------------


@pytest.mark.parametrize("what", KINDS)
def test_what_nobody_asked_for_is_found_when_all_is_done(connect, what):
    """The leak of a role that sends something on the side: whoever gets it says who it was, and has closed in order."""
    _, one, two = connect(2)
    KINDS[what][0](one)
    one.close()  # so that it has arrived
    with pytest.raises(FrameError, match="sent something that nobody asked for") as caught:
        two.close()
    assert caught.value.peer == "P1"
    two.close()


def test_what_was_asked_for_and_a_word_too_many(connect):
    _, one, two = connect(2)
    one.send(2, WORDS)
    one.post(2, b"by the way")
    one.close()
    assert (expect_words(two, 1) == WORDS).all()
    with pytest.raises(FrameError, match="P1 sent something that nobody asked for"):
        two.close()


def test_nothing_is_wrong_where_everything_was_read(connect):
    channels = connect(2)
    for kind in KINDS.values():
        kind[0](channels[1])
        kind[1](channels[2])
    for channel in channels:
        channel.close()


def test_the_end_of_a_peer_is_nothing_that_was_sent(connect):
    """Whoever closes before, or stops when all is done here, has not sent anything."""
    zero, one, two = connect(2)
    one.close()
    zero.abort(0, "ValueError")
    two.close()


def test_a_party_that_stops_does_not_look_at_what_is_unread(connect):
    _, one, two = connect(2)
    one.send(2, WORDS)
    one.close()
    two.abort(2, "ValueError")


def test_a_channel_that_is_closed_neither_sends_nor_receives(connect):
    _, one, _ = connect(2)
    one.close()
    with pytest.raises(TransportError):
        one.send(2, WORDS)
    with pytest.raises(TransportError):
        expect_words(one, 2)


@pytest.fixture
def short_lead(monkeypatch):
    """The helper may be ahead by less than one message."""
    for module in (memory, tls):
        monkeypatch.setattr(module, "DEALER_AHEAD", 1 << 20)


def helper_runs_ahead(channel, count):
    for number in range(count):
        channel.send(1, np.full(1 << 20, number, np.uint64))


def test_a_helper_that_is_held_back_loses_nothing(connect, short_lead):
    zero, one, _ = connect(2)
    with ThreadPoolExecutor(1) as pool:
        ahead = pool.submit(helper_runs_ahead, zero, 6)
        for number in range(6):
            assert (one.receive(0, np.uint64, (1 << 20,))[0] == number).all()
        ahead.result()


def test_a_helper_that_is_held_back_waits_and_hears_of_the_end(connect, short_lead):
    zero, one, _ = connect(2)
    with ThreadPoolExecutor(1) as pool:
        ahead = pool.submit(helper_runs_ahead, zero, 12)
        with pytest.raises(TimeoutError):
            ahead.exception(0.3)
        one.abort(1, "ValueError")
        error = ahead.exception(15)
    assert isinstance(error, PeerLost)
    assert error.peer == "P1"
