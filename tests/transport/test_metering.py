"""Rounds by hand, with Lamport's clocks; messages and bytes; marks, parallel blocks, tallies."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from coterie.protocols.words import elementwise_product
from coterie.ring import Words
from coterie.runtime.threads import run_threads
from coterie.transport import HEADER_BYTES, Metered, Stamp, Tally, Traffic, memory_channels, metered
from tests.support import compute, given, splits, world
from tests.transport.network import close_all, tls_channels, together

ONE = np.zeros(1, np.uint64)


@pytest.fixture
def roles():
    return [Metered(channel) for channel in memory_channels(world(2))]


def pass_on(roles, sender, receiver, **how):
    roles[sender].send(receiver, ONE, **how)
    roles[receiver].receive(sender, np.uint64, (1,))


def exchange(roles, first=1, second=2):
    """Both send, then both receive: one round."""
    roles[first].send(second, ONE)
    roles[second].send(first, ONE)
    roles[first].receive(second, np.uint64, (1,))
    roles[second].receive(first, np.uint64, (1,))


def rounds(role):
    traffic = role.traffic()
    return traffic.rounds, traffic.rounds_with_dealing


def whole(roles):
    return Traffic.together([role.traffic() for role in roles])


def test_nothing_sent_is_no_round(roles):
    assert whole(roles) == Traffic(bytes_sent={"P0": 0, "P1": 0, "P2": 0})


def test_an_exchange_is_one_round(roles):
    exchange(roles)
    assert [rounds(role) for role in roles] == [(0, 0), (1, 1), (1, 1)]


def test_exchanges_that_wait_for_each_other_add_up(roles):
    exchange(roles)
    exchange(roles)
    assert [rounds(role) for role in roles[1:]] == [(2, 2), (2, 2)]


def test_messages_that_wait_for_nothing_are_one_round(roles):
    for _ in range(5):
        roles[1].send(2, ONE)
    for _ in range(5):
        roles[2].receive(1, np.uint64, (1,))
    assert rounds(roles[2]) == (1, 1)
    assert rounds(roles[1]) == (0, 0)


def test_a_question_to_the_helper_and_its_answer_are_two_rounds(roles):
    pass_on(roles, 1, 0)
    pass_on(roles, 2, 0)
    pass_on(roles, 0, 1)
    assert [rounds(role) for role in roles] == [(1, 1), (2, 2), (0, 0)]


def test_a_chain_is_as_long_as_its_longest_link(roles):
    """P1 -> P2 -> P0, and P1 -> P0 beside it."""
    pass_on(roles, 1, 2)
    pass_on(roles, 2, 0)
    pass_on(roles, 1, 0)
    assert rounds(roles[0]) == (2, 2)


def test_what_is_dealt_counts_with_dealing_only(roles):
    pass_on(roles, 0, 1, dealt=True)
    assert rounds(roles[1]) == (0, 1)
    pass_on(roles, 1, 2)
    assert rounds(roles[2]) == (1, 2)


def test_dealing_ahead_is_one_round_however_much(roles):
    for _ in range(4):
        roles[0].send(1, ONE, dealt=True)
    for _ in range(4):
        roles[1].receive(0, np.uint64, (1,))
    assert rounds(roles[1]) == (0, 1)


def test_two_products_in_sequence(roles):
    """The triple's correction goes to P1, then to P2; the longest chain is P0 - P1 - P2 - P1."""
    pass_on(roles, 0, 1, dealt=True)
    exchange(roles)
    assert [rounds(role) for role in roles] == [(0, 0), (1, 1), (1, 2)]
    pass_on(roles, 0, 2, dealt=True)
    exchange(roles)
    assert [rounds(role) for role in roles] == [(0, 0), (2, 3), (2, 2)]


def test_two_products_in_sequence_as_the_protocol_runs_them():
    """Each: one word of correction from P0, two words (e and f) each way between P1 and P2."""
    value, ran = compute(2, lambda me, x, y: elementwise_product(me, elementwise_product(me, x, y), y), [3], [5])
    assert value.tolist() == [75]
    frame = HEADER_BYTES + 8
    assert ran.traffic == Traffic(
        rounds=2,
        rounds_with_dealing=3,
        messages=10,
        bytes_sent={"P0": 2 * frame, "P1": 4 * frame, "P2": 4 * frame},
        by_protocol={"ElementWiseMatMul": Tally(2, 2, 3, 10, 10 * frame)},
    )


def blocks_of_products(me):
    """Two batches, one after the other, each of three blocks that do not depend on each other."""
    ring = Words(64)
    x = given(me, ring, splits(ring, [3], 2))
    for _ in range(2):
        me.in_blocks(3, lambda here, _: elementwise_product(here, x, x))()
    return me.channel.traffic()


@pytest.mark.parametrize("lanes", [0, 1, 2])
def test_blocks_count_once_on_any_number_of_lanes(lanes):
    """Two products in sequence, each beside two others; corrections are dealt ahead of both."""
    traffic = Traffic.together(run_threads(world(2), blocks_of_products, lanes=lanes))
    assert (traffic.rounds, traffic.rounds_with_dealing) == (2, 3)
    assert traffic.messages == 6 * 5
    assert sum(traffic.bytes_sent.values()) == 6 * 5 * (HEADER_BYTES + 8)


@pytest.mark.parametrize("lanes", [1, 2])
def test_nothing_that_is_counted_depends_on_the_number_of_lanes(lanes):
    on_lanes = Traffic.together(run_threads(world(2), blocks_of_products, lanes=lanes))
    assert on_lanes == Traffic.together(run_threads(world(2), blocks_of_products))


def test_what_a_lane_counted_is_counted_once(roles):
    main, lane = roles[1], Metered(memory_channels(world(2), lane=1)[1])
    with lane.protocol("Send"):
        lane.send(2, ONE)
    for _ in range(2):
        main.join(lane, [Stamp(2, 3), Stamp(1, 5)])
    assert main.traffic() == Traffic(
        rounds=2,
        rounds_with_dealing=5,
        messages=1,
        bytes_sent={"P1": HEADER_BYTES + 8},
        by_protocol={"Send": Tally(1, 0, 0, 1, HEADER_BYTES + 8)},
    )


def mark(roles):
    for role in roles:
        role.mark_iteration()


def test_rounds_per_iteration_are_those_of_the_longest_one(roles):
    """Set-up before the first mark does not count, nor does a last iteration that is cut short."""
    for length in (9, 3, 3, 1):
        for _ in range(length):
            exchange(roles)
        pass_on(roles, 2, 0)
        mark(roles)
    traffic = whole(roles)
    assert traffic.rounds == 17
    assert traffic.rounds_per_iteration == 3
    assert traffic.rounds_with_dealing_per_iteration == 3


def test_marks_are_those_of_all_roles_together(roles):
    """P1 is a round ahead of P2 at the first mark, and behind at the second."""
    mark(roles)
    pass_on(roles, 2, 1)
    mark(roles)
    pass_on(roles, 1, 2)
    mark(roles)
    traffic = whole(roles)
    assert traffic.marks == [Stamp(0, 0), Stamp(1, 1), Stamp(2, 2)]
    assert traffic.rounds_per_iteration == 1


def test_one_mark_is_no_iteration(roles):
    exchange(roles)
    mark(roles)
    assert whole(roles).rounds_per_iteration == 0


def test_a_restart_is_not_measured_against_the_one_before(roles):
    mark(roles)
    for _ in range(5):
        exchange(roles)
    for role in roles:
        role.start_over()
    mark(roles)
    exchange(roles)
    mark(roles)
    assert whole(roles).rounds_per_iteration == 1


def test_bytes_are_those_of_headers_and_bodies(roles):
    arrays = [np.zeros(3, np.uint8), np.zeros((2, 5), np.uint64), np.zeros((0, 4), np.int64), np.zeros((4, 4))[:, ::2]]
    arrays[-1] = arrays[-1].astype(np.uint64)[::2]
    for array in arrays:
        roles[1].send(2, array)
    traffic = roles[1].traffic()
    assert traffic.messages == 4
    assert traffic.bytes_sent == {"P1": 4 * 52 + 3 + 80 + 0 + 32}


def test_a_protocol_s_tally_includes_what_it_calls(roles):
    one = roles[1]
    with one.protocol("outer"):
        exchange(roles)
        for _ in range(2):
            with one.protocol("inner"):
                exchange(roles)
    frame = HEADER_BYTES + 8
    assert one.traffic().by_protocol == {
        "inner": Tally(calls=2, rounds=2, rounds_with_dealing=2, messages=2, bytes_sent=2 * frame),
        "outer": Tally(calls=1, rounds=3, rounds_with_dealing=3, messages=3, bytes_sent=3 * frame),
    }


def test_a_protocol_that_fails_is_counted(roles):
    with pytest.raises(ZeroDivisionError), roles[1].protocol("failing"):
        roles[1].send(2, ONE)
        1 / 0
    assert roles[1].traffic().by_protocol["failing"].messages == 1


def test_notes_are_not_counted(roles):
    roles[1].tell(0, True)
    assert roles[0].hear(1) is True
    assert whole(roles) == Traffic(bytes_sent={"P0": 0, "P1": 0, "P2": 0})


def test_a_decorated_protocol_is_counted_and_keeps_its_name(roles):
    @metered("Exchange")
    def protocol(me, count, *, reply):
        """Docstring."""
        for _ in range(count):
            exchange(roles)
        return reply

    assert protocol(SimpleNamespace(channel=roles[1]), 2, reply="yes") == "yes"
    assert roles[1].tallies["Exchange"] == Tally(1, 2, 2, 2, 2 * (HEADER_BYTES + 8))
    assert (protocol.__name__, protocol.__doc__) == ("protocol", "Docstring.")


def test_traffic_together():
    """Messages and bytes add up; rounds and calls are the most that any role saw."""
    first = Traffic(3, 5, 0, 0, 10, {"P0": 100}, {"a": Tally(2, 1, 4, 6, 60), "b": Tally(1, 1, 1, 1, 1)})
    second = Traffic(4, 4, 0, 0, 20, {"P1": 200}, {"a": Tally(2, 3, 2, 7, 70)})
    assert Traffic.together([first, second]) == Traffic(
        4, 5, 0, 0, 30, {"P0": 100, "P1": 200}, {"a": Tally(2, 3, 4, 13, 130), "b": Tally(1, 1, 1, 1, 1)}
    )
    assert first.by_protocol["a"] == Tally(2, 1, 4, 6, 60)


def test_clocks_travel_with_the_frames_over_tls_as_in_memory():
    def role(channel):
        me = Metered(channel)
        if me.rank == 0:
            me.send(1, ONE, dealt=True)
            me.receive(2, np.uint64, (1,))
            me.send(1, ONE)
        elif me.rank == 1:
            me.receive(0, np.uint64, (1,))
            me.send(2, ONE)
            me.receive(0, np.uint64, (1,))
        else:
            me.receive(1, np.uint64, (1,))
            me.send(0, ONE)
        return me.traffic()

    def traffic(channels):
        try:
            return together(*(partial(role, channel) for channel in channels))
        finally:
            close_all(channels)

    over_tls = traffic(tls_channels(world(2)))
    assert over_tls == traffic(memory_channels(world(2)))
    assert (over_tls[1].rounds, over_tls[1].rounds_with_dealing) == (3, 4)


def test_the_meter_s_stamp_is_its_own(roles):
    """What a caller passes as a stamp is not believed."""
    roles[1].send(2, ONE, Stamp(40, 40))
    assert roles[2].receive(1, np.uint64, (1,))[1] == Stamp(1, 1)
