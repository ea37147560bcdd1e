"""The recording keeps copies, in order, and prints none of them."""

import numpy as np

from coterie.transport import Recording, Stamp, memory_channels
from tests.support import world


def recorded():
    return [Recording(channel) for channel in memory_channels(world(2))]


def test_frames_are_kept_in_order_at_both_ends():
    _, one, two = recorded()
    one.send(2, np.array([1, 2], np.uint64))
    two.send(1, np.array([3], np.uint8))
    two.receive(1, np.uint64, (2,))
    one.receive(2, np.uint8, (1,))
    assert [(f.sender, f.receiver) for f in one.frames] == [(1, 2), (2, 1)]
    assert [(f.sender, f.receiver) for f in two.frames] == [(2, 1), (1, 2)]
    assert [f.array.tolist() for f in one.sent] == [f.array.tolist() for f in two.received] == [[1, 2]]
    assert [f.array.tolist() for f in two.sent] == [f.array.tolist() for f in one.received] == [[3]]


def test_what_is_kept_is_a_copy():
    _, one, two = recorded()
    array = np.array([1, 2], np.uint64)
    one.send(2, array)
    got, _ = two.receive(1, np.uint64, (2,))
    array[:] = 0
    assert got.tolist() == [0, 0]  # in memory an array is handed over, not copied
    assert one.sent[0].array.tolist() == two.received[0].array.tolist() == [1, 2]


def test_the_stamp_passes_through():
    _, one, two = recorded()
    one.send(2, np.zeros(1, np.uint8), Stamp(5, 7))
    assert two.receive(1, np.uint8, (1,))[1] == Stamp(5, 7)


def test_a_frame_does_not_print_its_content():
    _, one, _ = recorded()
    one.send(2, np.array([123456789], np.uint64))
    assert "123456789" not in repr(one.frames)


def test_notes_pass_through_and_are_kept_apart():
    _, one, two = recorded()
    one.tell(2, True)
    assert two.hear(1) is True
    assert one.notes == two.notes == [(1, 2, True)]
    assert one.frames == two.frames == []


def test_letters_are_kept_at_both_ends():
    """A share that is posted as a letter must not go unseen."""
    _, one, two = recorded()
    one.post(2, b"a share of mine")
    assert two.collect(1) == b"a share of mine"
    assert one.letters == two.letters == [(1, 2, b"a share of mine")]
    assert one.frames == one.notes == []


def test_everything_is_kept_in_order():
    _, one, two = recorded()
    one.post(2, b"first")
    one.send(2, np.array([7], np.uint8))
    one.tell(2, False)
    two.collect(1)
    two.receive(1, np.uint8, (1,))
    two.hear(1)
    two.post(1, b"last")
    one.collect(2)
    one.abort(2, "ValueError")
    told = [(e.verb, e.sender, e.receiver) for e in one.events]
    assert told == [("post", 1, 2), ("send", 1, 2), ("tell", 1, 2), ("collect", 2, 1), ("abort", 1, None)]
    assert [e.verb for e in two.events] == ["collect", "receive", "hear", "post"]
    assert one.events[0].content == b"first"
    assert one.events[1].content.tolist() == [7]
    assert one.events[2].content is False
    assert one.events[4].content == (2, "ValueError")


def test_an_event_does_not_print_its_content():
    _, one, _ = recorded()
    one.post(2, b"123456789")
    assert "123456789" not in repr(one.events)
