"""HTTP proxies: which one is used, what it is asked, how it says no; and that its password is shown to nobody else."""

from __future__ import annotations

import socket

import pytest

from coterie.errors import InputError, PeerUnreachable
from coterie.study.prepare import Orders
from coterie.transport.proxies import Proxy, find_proxies, tunnel
from tests.relay.places import TinyProxy

SECRET = "http://name:s3cret%40@proxy.example.org:3128"


@pytest.mark.parametrize(
    ("option", "environment", "host", "used"),
    [
        (None, {}, "a.example.org", False),
        (None, {"HTTPS_PROXY": SECRET}, "a.example.org", True),
        (None, {"https_proxy": SECRET, "HTTPS_PROXY": "http://no"}, "a.example.org", True),
        (None, {"HTTPS_PROXY": SECRET}, "127.0.0.3", False),
        (None, {"HTTPS_PROXY": SECRET}, "localhost", False),
        ("", {"HTTPS_PROXY": SECRET}, "a.example.org", False),
        (SECRET, {}, "127.0.0.3", True),
        (SECRET, {"NO_PROXY": "example.org"}, "a.example.org", False),
        (SECRET, {"NO_PROXY": "other.org, .example.org"}, "a.example.org", False),
        (SECRET, {"NO_PROXY": "example.org"}, "an-example.org", True),
        (SECRET, {"no_proxy": "*"}, "a.example.org", False),
        (SECRET, {"NO_PROXY": "10.0.0.0/8"}, "10.9.8.7", False),
        (SECRET, {"NO_PROXY": "10.0.0.0/8"}, "11.9.8.7", True),
        (SECRET, {"NO_PROXY": "a.example.org:7101"}, "a.example.org", False),
        (SECRET, {"NO_PROXY": "a.example.org:7102"}, "a.example.org", True),
        (SECRET, {"NO_PROXY": "2001:db8::/32"}, "2001:db8::1", False),
    ],
)
def test_which_proxy(option, environment, host, used):
    found = find_proxies(option, environment).towards(host, 7101)
    assert (found is not None) == used
    if found:
        assert (found.host, found.port, found.authorization) == (
            "proxy.example.org",
            3128,
            "Basic bmFtZTpzM2NyZXRA",
        )


@pytest.mark.parametrize(
    "url",
    ["https://u:s3cret@h:1", "socks5://u:s3cret@h:1", "http://u:s3cret@h:99999", "http://u:s3cret@", "http://h/s3cret",
     "http://u:s3cret@h\r\nX: y", "http://[s3cret"],
)  # fmt: skip
def test_what_is_no_url_of_a_proxy_is_refused_and_not_repeated(url):
    with pytest.raises(InputError, match=r"--proxy: .*http://") as refused:
        find_proxies(url, {})
    assert "s3cret" not in str(refused.value)


def test_a_password_is_in_no_repr(tmp_path):
    found = find_proxies(SECRET, {})
    for text in (repr(found), str(found.proxy), repr(Orders(tmp_path, tmp_path, proxy=SECRET))):
        assert "s3cret" not in text
        assert "bmFtZTpz" not in text


def echo() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def test_a_tunnel_takes_nothing_of_what_is_behind_the_answer():
    with echo() as target:
        answer = b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nfirst"
        with TinyProxy(answer=answer) as proxy:
            sock = tunnel(Proxy("127.0.0.1", proxy.port), *target.getsockname(), "bob", 20)
            with sock:
                assert sock.recv(5) == b"first"


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (b"HTTP/1.1 407 Who?\r\n\r\n", PeerUnreachable, "bob cannot be reached: the proxy .* wants a name and a pass"),
        (b"HTTP/1.1 403 No\r\n\r\n", PeerUnreachable, "does not let connections to .* through .*403"),
        (b"HTTP/1.0 502 Bad Gateway\r\nA: b\r\n\r\n", OSError, "could not connect to .*502"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", PeerUnreachable, "does not answer as an HTTP proxy"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5000, PeerUnreachable, "does not answer as an HTTP proxy"),
        (b"HTTP/1.1 2000\r\n\r\n", PeerUnreachable, "does not answer as an HTTP proxy"),
        (b"HTTP/1.1 200 OK\r\nnever", OSError, "does not answer"),
    ],
    ids=["407", "403", "502", "ssh", "endless", "no status", "silence"],
)
def test_a_proxy_that_says_no_is_named(answer, error, says):
    with TinyProxy(answer=answer) as proxy, pytest.raises(error, match=says) as refused:
        tunnel(Proxy("127.0.0.1", proxy.port), "bob.example.org", 7102, "bob", 1.0)
    assert f"127.0.0.1:{proxy.port}" in str(refused.value)


def test_a_wrong_password_and_a_proxy_that_is_not_there():
    with TinyProxy(wants="Basic eDp5") as proxy:
        with pytest.raises(PeerUnreachable, match="refuses the name or the password"):
            tunnel(Proxy("127.0.0.1", proxy.port, "Basic enp6"), "127.0.0.1", 9, "bob", 20)
        port = proxy.port
        proxy.close()
    with pytest.raises(OSError, match=f"the proxy 127.0.0.1:{port} cannot be reached"):
        tunnel(Proxy("127.0.0.1", port), "127.0.0.1", 9, "bob", 5)
