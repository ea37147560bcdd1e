"""Whether all parties hold the same ids: one bit, to the data parties, and what each role sees on the way to it."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.data import Rows
from coterie.errors import DataError, ProtocolError
from coterie.protocols import FAMILIES, Problem
from coterie.protocols.onetime.family import OneTime
from coterie.runtime.threads import run_threads
from coterie.study import ids as module
from coterie.transport import Channel, Recording
from tests.support import SeededEntropy

IDS = ["ann", "bea", "cid"]


def compared(
    ids: list[list[str]], seed: int = 0, protocol: str = "onetime"
) -> tuple[list[bool], dict[int, Recording], list[list[str]]]:
    """By rank: whether the ids were found equal, what was sent and received, what was logged as opened."""
    channels: dict[int, Recording] = {}

    def wrap(channel: Channel) -> Channel:
        return channels.setdefault(channel.rank, Recording(channel))

    def role(me) -> tuple[bool, list[str]]:
        channels[me.rank].frames.clear()  # the agreement on keys
        family = FAMILIES[protocol](me, Problem(3, 2, (1 << 10,)))
        same = True
        try:
            module.compare_ids(family, None if not me.owns else Rows(np.zeros((3, 1)), ids[me.rank - 1], "here"))
        except DataError:
            same = False
        return same, [entry.what for entry in me.ledger.entries]

    world = FAMILIES[protocol].world([f"P{j + 1}" for j in range(len(ids))])
    found = run_threads(world, role, entropy=lambda rank: SeededEntropy(seed, rank), wrap=wrap)
    return [same for same, _ in found], channels, [logged for _, logged in found]


@pytest.mark.parametrize("protocol", FAMILIES)
@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("odd", [None, 0, 1])
def test_one_bit_to_the_data_parties(odd, p, protocol):
    ids = [list(IDS) for _ in range(p)]
    if odd is not None:
        ids[odd][1] = "bob"
    found, channels, logged = compared(ids, protocol=protocol)
    dealing = protocol != "falcon"  # a helper goes on, and hears that the others stop; a server knows
    assert found == [*[True] * dealing, *[odd is None] * (len(found) - dealing)]
    assert logged == [["equal ids"]] * len(found)
    if protocol == "onetime":
        assert not channels[0].received
        assert not channels[0].notes


def test_nothing_else_is_opened_while_ids_are_compared(monkeypatch):
    """Planted: the differences themselves, and the bit to the helper, too."""
    honest = OneTime.any_of
    for to, what in [([1, 2], "differences"), ([0, 1, 2], "equal ids")]:

        def planted(family, bits, into, to=to, what=what):
            family.open(bits, to, what, "planted")
            return honest(family, bits, into)

        monkeypatch.setattr(OneTime, "any_of", planted)
        with pytest.raises(ProtocolError, match=f"'{what}' was to be opened"):
            compared([IDS, IDS])


def test_the_order_and_every_id_count():
    assert compared([IDS, IDS[::-1]])[0] == [True, False, False]
    assert compared([IDS, IDS[:2]])[0] == [True, False, False]


def received(seed: int, others: list[str]) -> list[np.ndarray]:
    return [frame.array for frame in compared([IDS, others, others], seed)[1][1].received]


def test_what_a_party_receives_does_not_depend_on_the_others_ids():
    """Frames of the same number and length, and uniform: the bit is all that the last ones add up to."""
    runs = {same: [received(seed, IDS if same else ["x", "y", "z"]) for seed in range(40)] for same in (True, False)}
    shapes = {tuple((f.dtype, f.shape) for f in frames) for both in runs.values() for frames in both}
    assert len(shapes) == 1
    for frames in runs.values():
        words = np.concatenate([f for run in frames for f in run if f.dtype == np.uint64])
        assert abs(np.unpackbits(words.view(np.uint8)).mean() - 0.5) < 0.01


def test_a_tag_that_is_not_masked_is_noticed(monkeypatch):
    """Planted: what is contributed goes out as it is."""
    tags: set[bytes] = set()
    honest = module.hmac.digest

    def digest(key, message, kind):
        found = honest(key, message, kind)
        whole = (np.frombuffer(found, np.uint64) >> np.uint64(8)).astype(np.int64)
        tags.update({whole[:1].tobytes(), (-whole[:1]).tobytes()})
        return found

    def on_the_wire() -> bool:
        frames = [f.array.tobytes() for one in compared([IDS, IDS])[1].values() for f in one.frames]
        return any(tag in frame for tag in tags for frame in frames)

    def careless(self, own, shape):
        others = [j for j in self.me.world.owners if j != self.me.rank]
        if not self.me.deals:
            for other in others:
                self.me.channel.send(other, own.view(np.uint64))
            for other in others:
                self.me.channel.receive(other, np.uint64, own.shape)
        return enter(self, own, shape)

    enter = OneTime.enter
    monkeypatch.setattr(module.hmac, "digest", digest)
    assert not on_the_wire()
    monkeypatch.setattr(OneTime, "enter", careless)
    assert on_the_wire()


def test_the_key_of_the_tags_is_fresh(monkeypatch):
    """The same ids have another tag in every run."""
    keys: list[bytes] = []
    honest = module.hmac.digest
    monkeypatch.setattr(module.hmac, "digest", lambda key, *rest: (keys.append(key), honest(key, *rest))[1])
    for seed in (0, 1):
        compared([IDS, IDS], seed)
    assert len(keys) == 4
    assert len(set(keys)) == 2
