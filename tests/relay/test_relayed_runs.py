"""Studies whose participants are reached by way of a relay: the same results, in any mixture of ways."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.errors import PeerLost, PeerUnreachable
from coterie.study.identity import load_identity, renew_identity
from coterie.study.renewals import renewed_path
from coterie.study.voice import Voice
from tests.relay.places import RelayCast, RunningRelay, TinyProxy, make_relay
from tests.study.pooled import RANDOM_ROWS, X, pooled
from tests.study.walk import SMALL, Cast, coterie, wait_until


def give(cast: Cast) -> None:
    for name, rows in zip(cast.parties, np.array_split(np.arange(len(X)), len(cast.parties)), strict=True):
        cast.give(name, x=X[rows, 0], y=X[rows, 1])


def check(cast: Cast) -> None:
    fit = pooled()
    for name, rows in zip(cast.parties, np.array_split(np.arange(len(X)), len(cast.parties)), strict=True):
        fit.check_labels(cast.labels(name)["label"], rows)
        fit.check_centers(cast, name, {"x": 0, "y": 1})


@pytest.mark.parametrize(
    "direct",
    [pytest.param((), marks=pytest.mark.slow), pytest.param(("helper",), marks=pytest.mark.slow), ("bob",)],
    ids=["all relayed", "direct helper", "direct party"],
)
def test_results_are_the_same_by_way_of_a_relay(tmp_path, direct):
    relay = make_relay(tmp_path)
    with RelayCast(tmp_path, relay, direct=direct) as cast:
        cast.agree(*SMALL, *RANDOM_ROWS)
        give(cast)
        with RunningRelay(relay, [cast.study_file("alice")]) as running:
            cast.run()
            check(cast)
            wait_until(lambda: running.look(lambda relay: not relay.guests), what="everybody's leaving")
            assert running.look(lambda relay: (relay.pairs, dict(relay.of_study), relay.calls)) == (set(), {}, {})


def test_two_relays_a_proxy_and_a_study_that_is_brought(tmp_path):
    """Alice comes through a proxy; Bob is at another relay than the others; one relay works for whoever brings a study
    that names it, the other one looks into a folder."""
    relay, other = make_relay(tmp_path), make_relay(tmp_path, "other")
    (tmp_path / "studies").mkdir()
    with (
        RunningRelay(relay, open_=True) as first,
        RunningRelay(other, folder=tmp_path / "studies") as second,
        RelayCast(tmp_path, relay, relays={"bob": other}) as cast,
        TinyProxy(wants="Basic bmFtZTpzZWNyZXQ=") as proxy,
    ):
        cast.agree(*SMALL, *RANDOM_ROWS)
        give(cast)
        (tmp_path / "studies" / "rubbish.toml").write_text("this = [is no study")
        (tmp_path / "studies" / "ours.toml").write_bytes(cast.study_file("bob").read_bytes())
        wait_until(lambda: second.look(lambda relay: relay.registry.entries), what="the folder's being looked at")
        assert not first.look(lambda relay: relay.registry.entries)
        url = proxy.url.replace("http://", "http://name:secret@")
        cast.run(each={"alice": {"proxy": url}})
        check(cast)
        assert len(first.look(lambda relay: relay.registry.entries)) == 1
        asked = {line.split()[1] for line in proxy.asked}
        assert asked == {first.identity.address, second.identity.address}


@pytest.mark.slow
def test_preflight_tells_which_ways_work(tmp_path):
    relay = make_relay(tmp_path)
    with RelayCast(tmp_path, relay, direct=("helper",)) as cast, TinyProxy() as proxy:
        cast.agree(*SMALL)
        give(cast)
        down = coterie(*cast.arguments("alice", "preflight"))
        assert (down.code, "NO   relay: the relay" in down.out) == (6, True), down
        with RunningRelay(relay, folder=tmp_path):
            unknown = coterie(*cast.arguments("alice", "preflight"))
            assert (unknown.code, "does not know the study" in unknown.err) == (0, False), unknown
        (tmp_path / "empty").mkdir()
        with RunningRelay(relay, folder=tmp_path / "empty"):
            unknown = coterie(*cast.arguments("alice", "preflight"))
            assert (unknown.code, "does not know the study" in unknown.err) == (6, True), unknown
        with RunningRelay(relay, [cast.study_file("bob")]):
            cast.start("helper", "preflight", "--wait", 60)
            cast.start("bob", "preflight", "--wait", 60, "--proxy", proxy.url)
            found = coterie(*cast.arguments("alice", "preflight", "--wait", 60))
            assert found.code == 0, found
            address = load_identity(relay).address
            assert f"the relay {address} has the pinned certificate and knows the study" in found.out
            assert f"the same study, reached by way of the relay {address}" in found.out
            assert "the same study, reached directly" in found.out
            assert cast.finish_all() == {"helper": 0, "bob": 0}, cast.said()
            assert f"(dialled through the proxy {proxy.url[7:]}) has the pinned" in cast.out("bob")
            assert f"reached through the proxy {proxy.url[7:]}" in cast.out("bob")


def test_a_relay_that_dies_ends_the_run_by_name_and_it_is_taken_up_again(tmp_path):
    relay = make_relay(tmp_path)
    with RelayCast(tmp_path, relay) as cast:
        cast.agree(*SMALL, *RANDOM_ROWS)
        give(cast)
        running = RunningRelay(relay, [cast.study_file("alice")])

        class Killing(Voice):
            def iterated(self, start, iteration, most, sent):
                if iteration == 2:
                    running.close()

        ended = cast.take_part(voices={"alice": Killing()})
        for name, error in ended.items():
            assert isinstance(error, PeerLost | PeerUnreachable), ended
            assert error.peer in cast.names, (name, error)
            assert "relay" in str(error), error
        with RunningRelay(relay, [cast.study_file("alice")]):
            cast.run()
            check(cast)
            assert cast.entry("alice", "agreed")["resumed_after"] is not None


@pytest.mark.parametrize("accepted", [True, False])
def test_renewed_keys_by_way_of_a_relay(tmp_path, accepted):
    """One who is reached by it and dials it; in a study that accepts renewed keys, with the new one."""
    relay = make_relay(tmp_path)
    with RelayCast(tmp_path, relay, direct=("bob",)) as cast:
        cast.agree(*SMALL, *RANDOM_ROWS, *(["--renewals"] if accepted else []))
        give(cast)
        for name in ("alice", "bob", "alice"):
            renew_identity(cast.key(name))
        with RunningRelay(relay, [cast.study_file("alice")]):
            cast.run()
        check(cast)
        assert renewed_path(cast.study_file("bob"), "alice").exists() == accepted
