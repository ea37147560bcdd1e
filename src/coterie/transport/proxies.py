"""Dialling through an HTTP proxy, by CONNECT: for networks that let nothing else out.

Which proxy is used, an option says or the environment (`HTTPS_PROXY`, `NO_PROXY`), as with other programs. A proxy sees
the address that is dialled, sizes and times; what passes is TLS with pinned certificates. Its password stands in no
message and in no repr.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from coterie.errors import InputError, PeerUnreachable
from coterie.transport.wording import Said, say_why

__all__ = ["DIRECT", "Proxies", "Proxy", "find_proxies", "tunnel"]

#: The most bytes of an answer to CONNECT that are read.
ANSWER = 1 << 14
STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])(?: [^\r\n]*)?\r?\n")
#: Answers that may be others a moment later: the proxy is busy, or nobody is there yet at the address.
FOR_NOW = (408, 429, 500, 502, 503, 504)


@dataclass(frozen=True)
class Proxy:
    """Where a proxy is; `authorization`: what it is shown, if it asks who connects."""

    host: str
    port: int
    authorization: str = field(default="", repr=False)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True)
class Proxies:
    """Which proxy, if any, leads to a host. `spared`: hosts, domains and networks that are dialled directly; `local`:
    whether this machine's own addresses are dialled through the proxy, too."""

    proxy: Proxy | None = None
    spared: tuple[str, ...] = ()
    local: bool = False

    def towards(self, host: str, port: int) -> Proxy | None:
        if self.proxy is None or any(_spares(entry, host, port) for entry in self.spared):
            return None
        return self.proxy if self.local or not _is_local(host) else None


DIRECT = Proxies()


def find_proxies(option: str | None, environment: Mapping[str, str] = os.environ) -> Proxies:
    """What `--proxy` says, or else the environment; an empty option switches the environment's proxy off."""
    spared = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    entries = tuple(entry for entry in re.split(r"[,\s]+", spared.strip()) if entry)
    if option is not None:
        return Proxies(_parse(option, "--proxy") if option else None, entries, local=True)
    for name in ("https_proxy", "HTTPS_PROXY"):
        if environment.get(name):
            return Proxies(_parse(environment[name], f"the environment variable {name}"), entries)
    return DIRECT


def _parse(url: str, where: str) -> Proxy:
    """The URL itself is never shown: there may be a password in it."""
    wrong = InputError(f"{where}: a proxy is given as http://HOST:PORT or http://NAME:PASSWORD@HOST:PORT")
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise wrong from None
    if parts.scheme == "https":
        raise InputError(
            f"{where}: proxies that are themselves reached by TLS (https://) are not supported; use http://"
        )
    if parts.scheme != "http" or not host or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise wrong
    if not re.fullmatch(r"[A-Za-z0-9._:%-]{1,253}", host):
        raise wrong
    shown = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        shown = "Basic " + base64.b64encode(pair.encode()).decode()
    return Proxy(host, port or 80, shown)


def _spares(entry: str, host: str, port: int) -> bool:
    """Does an entry of NO_PROXY mean this host? A name means its subdomains as well."""
    if entry == "*":
        return True
    try:
        return ipaddress.ip_address(host.split("%")[0]) in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except (ValueError, TypeError):
        pass
    name, colon, only = entry.rpartition(":")
    if colon and only.isdigit():
        if int(only) != port:
            return False
        entry = name.strip("[]")
    entry, host = entry.lstrip("*").lstrip(".").lower(), host.lower()
    return bool(entry) and (host == entry or host.endswith("." + entry))


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.split("%")[0]).is_loopback
    except ValueError:
        return host.lower() == "localhost" or host.lower().endswith(".localhost")


def tunnel(proxy: Proxy, host: str, port: int, name: str, timeout: float) -> socket.socket:
    """A connection to (host, port) through the proxy, within `timeout` seconds. OSError: not now; PeerUnreachable, with
    the name of the peer that is dialled: waiting will not help."""
    end = time.monotonic() + timeout
    try:
        plain = socket.create_connection((proxy.host, proxy.port), timeout=timeout)
    except OSError as error:
        raise Said(f"the proxy {proxy} cannot be reached: {say_why(error)}") from error
    try:
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if proxy.authorization:
            lines.append(f"Proxy-Authorization: {proxy.authorization}")
        plain.settimeout(max(end - time.monotonic(), 0.01))
        plain.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("ascii"))
        _check(_answer(plain, proxy, name, end), proxy, target, name)
    except BaseException:
        plain.close()
        raise
    return plain


def _answer(plain: socket.socket, proxy: Proxy, name: str, end: float) -> int:
    """The status of the answer, all of whose head is taken away, and nothing of what follows it."""
    head = b""
    while b"\n\r\n" not in head and b"\n\n" not in head:
        left = end - time.monotonic()
        if left <= 0:
            raise Said(f"the proxy {proxy} does not answer")
        plain.settimeout(left)
        try:
            seen = plain.recv(ANSWER, socket.MSG_PEEK)
        except TimeoutError:
            raise Said(f"the proxy {proxy} does not answer") from None
        if not seen:
            raise Said(f"the proxy {proxy} hung up")
        ends = [at + len(mark) for mark in (b"\n\r\n", b"\n\n") if (at := (head + seen).find(mark)) >= 0]
        head += plain.recv((min(ends) - len(head)) if ends else len(seen))
        if not head.startswith(b"HTTP/1."[: len(head)]) or len(head) > ANSWER:
            break
    found = STATUS.match(head)
    if found is None or len(head) > ANSWER:
        raise PeerUnreachable(f"{proxy} does not answer as an HTTP proxy; is it one?", name)
    return int(found[1])


def _check(status: int, proxy: Proxy, target: str, name: str) -> None:
    if 200 <= status < 300:
        return
    if status in FOR_NOW:
        raise Said(f"the proxy {proxy} could not connect to {target} (it answered {status})")
    why = f"does not let connections to {target} through (it answered {status})"
    if status == 407 and proxy.authorization:
        why = "refuses the name or the password that it was given (it answered 407)"
    elif status == 407:
        why = "wants a name and a password (it answered 407): http://NAME:PASSWORD@HOST:PORT, best in HTTPS_PROXY"
    raise PeerUnreachable(f"{name} cannot be reached: the proxy {proxy} {why}", name)
