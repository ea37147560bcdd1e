"""Streams: the same bytes for those who hold them, other bytes at every other address."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy.stats import chisquare

from coterie.errors import MaterialReused, ProtocolError
from coterie.randomness import Stream, Streams, SystemEntropy, agree
from coterie.runtime.threads import run_threads
from coterie.transport import Channel, Recording, World
from tests.support import SeededEntropy, world

REFUSED = (KeyError, ProtocolError)


def agreed(p: int = 3, session: bytes = bytes(16), seeds: dict[int, int] | None = None) -> list[Streams]:
    """The streams of every rank after an agreement; `seeds` says whose entropy is not that of seed 0."""
    seeds = seeds or {}
    parties = World(world(p).names, session)
    return run_threads(parties, lambda me: me.streams, entropy=lambda rank: SeededEntropy(seeds.get(rank, 0), rank))


def alone(rank: int = 1, epoch: int = 0, session: bytes = bytes(16)) -> Streams:
    """One party's streams over made-up secrets."""
    secrets = {holders: bytes(32) for holders in ("private", "common", "pair 1-2", "pair 1-3", "dealt 1")}
    return Streams(World(world(3).names, session), rank, secrets, epoch)


def start(stream: Stream, count: int = 16) -> bytes:
    return stream.read(count).tobytes()


# -- one stream ----------------------------------------------------------------------------------------------


def test_a_stream_is_aes_in_counter_mode():
    key = bytes(range(16))
    blocks = b"".join(counter.to_bytes(16, "big") for counter in range(3))
    expected = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(blocks)
    assert start(Stream(key), 48) == expected


def test_a_stream_is_read_front_to_back():
    whole, parts = Stream(bytes(16)), Stream(bytes(16))
    assert start(whole, 40) == b"".join(start(parts, count) for count in (1, 0, 16, 20, 3))


def test_long_reads_go_on_where_a_chunk_ends():
    count = (1 << 20) + 5
    whole, parts = Stream(bytes(16)), Stream(bytes(16))
    assert start(whole, 2 * count) == start(parts, count) + start(parts, count)


def test_what_is_read_belongs_to_the_reader():
    stream = Stream(bytes(16))
    first = stream.read(16)
    kept = first.copy()
    stream.read(16)[:] = 0
    assert (first == kept).all()
    assert first.flags.writeable


# -- who holds what ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [2, 3, 5])
def test_all_data_parties_hold_the_common_stream(p):
    ranks = agreed(p)
    assert len({start(ranks[j].common("x")) for j in range(1, p + 1)}) == 1


@pytest.mark.parametrize("p", [2, 3, 5])
def test_both_ends_hold_a_pair_stream_and_no_two_pairs_the_same(p):
    pairs = list(itertools.combinations(range(1, p + 1), 2))
    ranks = agreed(p)
    found = [start(ranks[i].pair(j, "x")) for i, j in pairs]
    assert [start(ranks[j].pair(i, "x")) for i, j in pairs] == found
    assert len(set(found)) == len(pairs)


@pytest.mark.parametrize("p", [2, 3, 5])
def test_a_pairs_run_is_read_on_by_both_and_is_none_of_its_other_streams(p):
    pairs = list(itertools.combinations(range(1, p + 1), 2))
    ranks = agreed(p)
    first, then = ([start(ranks[i].pair_run(j)) for i, j in pairs] for _ in range(2))
    assert [start(ranks[j].pair_run(i)) for i, j in pairs] == first
    assert [start(ranks[j].pair_run(i)) for i, j in pairs] == then
    others = [start(ranks[i].pair(j, purpose)) for i, j in pairs for purpose in ("run", "x")]
    assert len({*first, *then, *others}) == 4 * len(pairs)
    blocks = ranks[1].for_blocks(2)
    assert len({start(one.pair_run(2)) for one in blocks} | {*first, *then}) == 2 * len(pairs) + 2


@pytest.mark.parametrize("p", [2, 3, 5])
def test_helper_and_party_hold_its_dealt_stream(p):
    ranks = agreed(p)
    dealt = [start(ranks[0].dealt_run(j)) for j in range(1, p + 1)]
    assert [start(ranks[j].dealt_run(j)) for j in range(1, p + 1)] == dealt
    assert len(set(dealt)) == p


def test_private_streams_are_private():
    assert len({start(streams.private("x")) for streams in agreed(3)}) == 4


def test_the_helper_cannot_expand_the_common_stream():
    with pytest.raises(REFUSED):
        agreed()[0].common("x")


@pytest.mark.parametrize("other", [1, 2, 3])
def test_the_helper_cannot_expand_a_pair_stream(other):
    with pytest.raises(REFUSED):
        agreed()[0].pair(other, "x")
    with pytest.raises(REFUSED):
        agreed()[0].pair_run(other)


def test_no_party_pairs_with_the_helper():
    """What it took for a secret among data parties, the helper would know."""
    with pytest.raises(REFUSED):
        agreed()[1].pair(0, "x")


def test_a_party_cannot_expand_what_is_dealt_to_another():
    with pytest.raises(REFUSED):
        agreed()[1].dealt_run(2)


def test_nobody_is_a_pair_by_itself():
    with pytest.raises(REFUSED):
        agreed()[1].pair(1, "x")


def test_streams_are_neither_printed_nor_pickled():
    streams = agreed()[1]
    assert repr(streams) == "Streams(rank=1)"
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(streams)


# -- addresses -----------------------------------------------------------------------------------------------


def test_every_address_has_bytes_of_its_own():
    """The secrets behind all holders are equal here: the address alone makes the difference."""
    found = []
    for epoch, session in itertools.product((0, 1), (bytes(16), b"another session!")):
        streams = alone(epoch=epoch, session=session)
        for phase in (0, 1, 10):
            if phase:
                streams.begin(phase)
            for place in (streams, *streams.for_blocks(2), *streams.for_blocks(1)):
                for _, purpose in itertools.product(range(3), ("x", "y", "x|0")):
                    found += [start(place.common(purpose)), start(place.private(purpose))]
                    found += [start(place.pair(2, purpose)), start(place.pair(3, purpose))]
                found.append(start(place.dealt_run(1)))
        found += [start(streams.lasting(1, value, block)) for value in (1, 2) for block in (0, 1)]
    assert len(set(found)) == len(found) == 2 * 2 * (3 * 4 * (9 * 4 + 1) + 4)


def test_the_same_address_has_the_same_bytes():
    places = []
    for streams in (alone(), alone()):
        streams.begin(4)
        streams.common("earlier")
        places.append([streams, *streams.for_blocks(2)])
    for one, other in zip(*places, strict=True):
        assert start(one.common("x")) == start(other.common("x"))


def test_steps_are_counted_for_each_set_of_holders():
    """What P1 and P2 do by themselves must not bring P1 and P3 out of step."""
    ranks = agreed()
    ranks[1].pair(2, "x")
    ranks[1].private("x")
    assert start(ranks[1].pair(3, "y")) == start(ranks[3].pair(1, "y"))
    assert start(ranks[1].common("y")) == start(ranks[3].common("y"))


def test_blocks_may_be_worked_off_in_any_order():
    forwards, backwards = alone().for_blocks(3), alone().for_blocks(3)
    expected = [start(block.common("x")) for block in forwards]
    assert [start(block.common("x")) for block in reversed(backwards)] == expected[::-1]


def test_a_block_has_no_blocks_or_phases_of_its_own():
    """Their addresses would be those of its siblings."""
    (block,) = alone().for_blocks(1)
    for repeat in (lambda: block.for_blocks(1), lambda: block.begin(1), block.new_value):
        with pytest.raises(MaterialReused):
            repeat()


@pytest.mark.parametrize("p", [2, 3])
def test_a_lasting_stream_is_the_same_every_time_for_helper_and_party(p):
    ranks = agreed(p)
    found = {start(ranks[rank].lasting(1, 7, 2)) for rank in (0, 1, 0, 1)}
    ranks[1].begin(3)
    assert found == {start(ranks[1].lasting(1, 7, 2))}
    with pytest.raises(REFUSED):
        ranks[2].lasting(1, 7, 2)


def test_no_two_values_have_the_same_number():
    streams = alone()
    numbers = [streams.new_value() for _ in range(3)]
    streams.begin(1)
    assert len({*numbers, streams.new_value()}) == 4


def test_a_phase_is_entered_once_and_in_order():
    streams = alone()
    with pytest.raises(MaterialReused, match="phase 0"):
        streams.begin(0)
    streams.begin(1)
    streams.begin(3)
    assert streams.phase == 3
    for phase in (3, 2, 1, 0):
        with pytest.raises(MaterialReused, match=f"phase {phase}"):
            streams.begin(phase)


def test_a_refused_phase_leaves_the_streams_where_they_were():
    refused, untouched = alone(), alone()
    for streams in (refused, untouched):
        streams.begin(2)
        streams.common("x")
    with pytest.raises(MaterialReused):
        refused.begin(2)
    assert start(refused.common("x")) == start(untouched.common("x"))


# -- agreement -----------------------------------------------------------------------------------------------


def fingerprint(ranks: list[Streams]) -> dict[str, bytes]:
    """The first bytes of every set of holders, as one of them expands it."""
    p = len(ranks) - 1
    found = {"common": start(ranks[1].common("x"))}
    found |= {f"dealt {j}": start(ranks[0].dealt_run(j)) for j in range(1, p + 1)}
    for i, j in itertools.combinations(range(1, p + 1), 2):
        found[f"pair {i}-{j}"] = start(ranks[i].pair(j, "x"))
    return found


def changed(one: dict[str, bytes], other: dict[str, bytes]) -> set[str]:
    return {holders for holders in one if one[holders] != other[holders]}


def test_the_same_entropy_gives_the_same_streams():
    assert fingerprint(agreed()) == fingerprint(agreed())


def test_another_session_has_other_streams_from_the_same_entropy():
    one, other = fingerprint(agreed()), fingerprint(agreed(session=b"another session!"))
    assert changed(one, other) == set(one)


@pytest.mark.parametrize(
    ("rank", "holds"),
    [
        (0, {"dealt 1", "dealt 2", "dealt 3"}),
        (1, {"common", "dealt 1", "pair 1-2", "pair 1-3"}),
        (2, {"common", "dealt 2", "pair 1-2", "pair 2-3"}),
        (3, {"common", "dealt 3", "pair 1-3", "pair 2-3"}),
    ],
)
def test_a_secret_is_fresh_if_one_of_its_holders_is(rank, holds):
    assert changed(fingerprint(agreed()), fingerprint(agreed(seeds={rank: 1}))) == holds


def test_the_systems_entropy_never_agrees_on_the_same_twice():
    def role(me):
        return me.streams

    one, other = (fingerprint(run_threads(world(2), role)) for _ in range(2))
    assert changed(one, other) == set(one)
    assert SystemEntropy().draw(32) != SystemEntropy().draw(32)


def test_an_epoch_has_streams_of_its_own():
    def role(me):
        return [start(agree(me.channel, SeededEntropy(9, me.rank), epoch).private("x")) for epoch in (0, 0, 1)]

    for first, again, later in run_threads(world(2), role):
        assert first == again != later


def test_the_dealer_hears_nothing_of_the_common_secret():
    """Data parties send each other two secrets, one of the pair and one in common; the helper one."""
    recordings: dict[int, Recording] = {}

    def wrap(channel: Channel) -> Channel:
        return recordings.setdefault(channel.rank, Recording(channel))

    run_threads(world(3), lambda me: None, entropy=lambda rank: SeededEntropy(0, rank), wrap=wrap)
    for rank, recording in recordings.items():
        lengths = {frame.receiver: frame.array.nbytes for frame in recording.sent}
        assert lengths == {j: 64 if rank and j else 32 for j in range(4) if j != rank}
    contributions = {f.array.tobytes()[32:] for rank in (1, 2, 3) for f in recordings[rank].sent if f.receiver}
    assert len(contributions) == 3
    heard = b"".join(frame.array.tobytes() for frame in recordings[0].received)
    assert not any(contribution in heard for contribution in contributions)


def test_streams_of_all_holders_look_uniform():
    streams = agreed()[1]
    for stream in (streams.common("x"), streams.pair(2, "x"), streams.dealt_run(1), streams.private("x")):
        assert chisquare(np.bincount(stream.read(100_000), minlength=256)).pvalue > 1e-3
