"""The simulated link: everything arrives, in order, no sooner than the link allows."""

from __future__ import annotations

import socket
import threading
import time

import numpy as np
import pytest

from coterie.transport.links import LINKS, Link, Relay


@pytest.fixture
def echo():
    """A server that sends back what it gets, until the client stops sending."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        sock, _ = listener.accept()
        with sock:
            while data := sock.recv(1 << 16):
                sock.sendall(data)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()
    listener.close()
    thread.join(10)


def through(address, link, payload):
    """Send through a relay and read the echo to its end; returns what came back, and after how many seconds."""
    relay = Relay(*address, link)
    try:
        with socket.create_connection((relay.host, relay.port), timeout=30) as sock:
            began = time.monotonic()
            sender = threading.Thread(target=lambda: (sock.sendall(payload), sock.shutdown(socket.SHUT_WR)))
            sender.start()
            back = b""
            while data := sock.recv(1 << 16):
                back += data
            sender.join()
            return back, time.monotonic() - began
    finally:
        relay.close()


def test_what_goes_through_comes_back_whole(echo):
    payload = np.random.default_rng(0).integers(0, 256, 3_000_000, dtype=np.uint8).tobytes()
    back, _ = through(echo, Link(1e-3, 1e9), payload)
    assert back == payload


def test_a_round_trip_takes_no_less_than_the_link_s(echo):
    _, seconds = through(echo, Link(round_trip=0.2, bandwidth=1e9), b"x")
    assert seconds >= 0.2


def test_the_bandwidth_is_not_exceeded(echo):
    _, seconds = through(echo, Link(round_trip=0.0, bandwidth=1e6), bytes(300_000))
    assert seconds >= 0.3


def test_the_links_of_the_benchmarks():
    assert LINKS["lan"] == Link(0.0005, 125e6)
    assert LINKS["wan"] == Link(0.04, 12.5e6)
