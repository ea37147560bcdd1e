"""`coterie relay` as its operator knows it: what `explain` says of it, its log, and how it stops."""

from __future__ import annotations

import json
import signal
import socket

from coterie.study.identity import load_identity
from coterie.transport.certificates import create_credentials
from coterie.transport.relayed import RelayAt, Turned
from tests.relay.places import RelayCast, RelayProcess, make_relay
from tests.study.walk import SMALL, Cast, coterie, wait_until


def explained(cast: Cast) -> str:
    told = coterie("study", "explain", cast.study_file("alice"))
    assert told.code == 0, told.err
    return " ".join(told.out.split())


def test_explain_says_what_a_relay_sees_and_what_it_means_if_the_helper_runs_it(tmp_path):
    relay = make_relay(tmp_path)
    with RelayCast(tmp_path / "a", relay, direct=("helper",)) as cast:
        cast.agree(*SMALL)
        told, one = explained(cast), load_identity(relay)
        assert f"alice and bob are reached by way of the relay relay at {one.address}, fingerprint" in told
        assert one.fingerprint in told.replace(" ", "")
        assert "A relay sees who takes part in this study, from which network addresses, when" in told
        assert "If the helper runs a relay, it sees sizes and times of what the parties send each other, too" in told
    with Cast(tmp_path / "b") as cast:
        cast.agree(*SMALL)
        assert "relay" not in explained(cast).lower()


def test_a_relay_s_log_has_strangers_and_no_secret_and_it_stops_in_order(tmp_path):
    identity, log = make_relay(tmp_path), tmp_path / "relay.jsonl"
    with RelayCast(tmp_path, identity) as cast:
        cast.agree(*SMALL)
        with RelayProcess(identity, [cast.study_file("alice")], "--log", log) as relay:
            one = load_identity(identity)
            with socket.create_connection((one.host, one.port)) as plain:
                plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
                plain.settimeout(60)
                while plain.recv(1024):
                    pass
            try:
                RelayAt(one.host, one.port, one.certificate).connect(create_credentials("alice"), 60, 60).close()
            except Turned as turned:
                assert turned.why == "unknown"
            wait_until(lambda: log.read_text().count('"refused"') >= 2, what="the log")
            relay.process.send_signal(signal.SIGTERM)
            assert relay.process.wait(60) == 0, relay.said.read_text()
        told = [json.loads(line) for line in log.read_text().splitlines()]
        assert [line["event"] for line in told][:: len(told) - 1] == ["start", "end"]
        assert told[-1]["code"] == 0
        refused = [line for line in told if line["event"] == "refused"]
        assert all(line["address"].startswith("127.0.0.1:") and line["level"] == "warning" for line in refused)
        whole = log.read_text() + relay.said.read_text()
        key = identity.with_name("relay.key").read_text().splitlines()
        assert not any(line in whole for line in key)
        assert "stopped by SIGTERM" in relay.said.read_text()
