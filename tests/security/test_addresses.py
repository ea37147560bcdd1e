"""Every stream of a whole fit has an address of its own, and all who hold it expand it, once each."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from typing import Any

import pytest

from coterie.errors import ProtocolError
from coterie.protocols.securenn import SecureNN
from coterie.randomness import Streams, streams
from coterie.runtime.job import do
from coterie.runtime.threads import run_threads
from tests.security.fits import STUDIES, Study, far
from tests.support import SeededEntropy, world


@pytest.fixture
def derived(monkeypatch) -> Counter[tuple[bytes, bytes]]:
    """How often each stream key (by secret and address) is derived, at all roles together."""
    counts: Counter[tuple[bytes, bytes]] = Counter()
    lock, real = threading.Lock(), streams.HKDFExpand

    class Counted:
        def __init__(self, algorithm: Any, length: int, info: bytes) -> None:
            self.inner, self.info = real(algorithm, length, info), info

        def derive(self, secret: bytes) -> bytes:
            with lock:
                counts[secret, self.info] += 1
            return self.inner.derive(secret)

    monkeypatch.setattr(streams, "HKDFExpand", Counted)
    return counts


def check_addresses(study: Study, derived: Counter[tuple[bytes, bytes]], lanes: int = 0) -> None:
    jobs = study.jobs(far(study.rows, study.columns))
    entropy = lambda rank: SeededEntropy(0, rank)  # noqa: E731
    run_threads(world(study.p), lambda me: do(me, jobs[me.rank]), entropy=entropy, lanes=lanes)
    kinds = set()
    for (_, info), times in derived.items():
        holders = info.split(b"|")[3].decode()  # label | session | epoch | holders | ...
        kinds.add(holders.split(" ")[0])
        assert times == (study.p if holders == "common" else 2), f"{info!r} was derived {times} times"
    assert kinds == {"common", "pair", "dealt"}


@pytest.mark.parametrize("name", ["horizontal, three parties", "restarts", "blocks", "vertical, labels revealed"])
def test_every_address_is_used_once_by_each_holder(name, derived):
    check_addresses(STUDIES[name], derived)


def test_lanes_do_not_repeat_addresses(derived):
    check_addresses(STUDIES["blocks"], derived, lanes=2)


def check_no_block_within_a_block(streams: Streams) -> None:
    """A block's streams either make no blocks and enter no phases of their own, or make ones whose
    addresses nobody else has."""
    first, second = streams.for_blocks(2)
    inner = []
    with contextlib.suppress(ProtocolError):
        inner += first.for_blocks(1)
    with contextlib.suppress(ProtocolError):
        second.begin(1)
        inner.append(second)
    outer = streams.for_blocks(1)
    streams.begin(1)
    outer += [*streams.for_blocks(2), streams, first]
    heads = [one.common("a mask").read(16).tobytes() for one in [*outer, *inner]]
    assert len(set(heads)) == len(heads), "two blocks expand one stream"


def test_blocks_within_blocks_do_not_repeat_addresses():
    check_no_block_within_a_block(Streams(world(2), 1, {"common": bytes(32)}))


def test_a_phase_that_does_not_count_on_is_caught(monkeypatch, derived):
    """Steps start from zero in every iteration, so the iteration must be part of the address."""
    monkeypatch.setattr(Streams, "begin", lambda self, phase: self._steps.clear())
    with pytest.raises(AssertionError, match="times"):
        check_addresses(STUDIES["horizontal"], derived)


def test_steps_that_do_not_count_on_are_caught(monkeypatch, derived):
    """Streams for one purpose in one phase have one address."""
    following = Streams._next

    def stuck(self: Streams, holders: str, purpose: str) -> Any:
        self._steps[holders] = 0
        return following(self, holders, purpose)

    monkeypatch.setattr(Streams, "_next", stuck)
    with pytest.raises(AssertionError, match="times"):
        check_addresses(STUDIES["horizontal"], derived)


def test_dealt_streams_that_begin_anew_are_caught(monkeypatch, derived):
    """All steps of a phase and block read on in one stream."""
    read_on = Streams.dealt_run

    def anew(self: Streams, party: int) -> Any:
        self._runs.clear()
        return read_on(self, party)

    monkeypatch.setattr(Streams, "dealt_run", anew)
    with pytest.raises(AssertionError, match="times"):
        check_addresses(STUDIES["horizontal"], derived)


def test_a_role_that_draws_once_more_is_caught(monkeypatch, derived):
    """Where no comparison follows, so that the fit ends as if nothing had happened."""
    index = SecureNN.index

    def hasty(self, *given):
        if self.me.rank == 1:
            self.me.streams.common("a whim")
        return index(self, *given)

    monkeypatch.setattr(SecureNN, "index", hasty)
    with pytest.raises(AssertionError, match="times"):
        check_addresses(STUDIES["horizontal"], derived)
