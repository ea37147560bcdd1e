"""Five parties and a helper on hosts of their own: network namespaces, each with an address and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest

from tests.study.pooled import RANDOM_ROWS, X, pooled
from tests.study.walk import BRIEF, SMALL, Cast

PARTIES = ("alice", "bob", "carol", "dora", "emil")
PORT = 7100


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=30)


@contextmanager
def namespace(name: str) -> Iterator[str]:
    ip("netns", "add", name)
    try:
        yield name
    finally:
        ip("netns", "delete", name)  # and with it its end of every cable


@contextmanager
def network(count: int) -> Iterator[list[tuple[str, str]]]:
    """Hosts on one network: the namespace and the address of each. The host's own network is not touched."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    if shutil.which("ip") is None:
        pytest.skip("there is no `ip` (apt-get install iproute2)")
    prefix = f"coterie-{os.getpid()}"
    with ExitStack() as stack:
        try:
            hub = stack.enter_context(namespace(f"{prefix}-hub"))
            ip("-n", hub, "link", "add", "bridge", "type", "bridge")
            ip("-n", hub, "link", "set", "bridge", "up")
            hosts = []
            for i in range(count):
                host, address = stack.enter_context(namespace(f"{prefix}-{i}")), f"10.77.0.{i + 1}"
                ip("link", "add", f"port{i}", "netns", hub, "type", "veth", "peer", "name", "eth0", "netns", host)
                ip("-n", hub, "link", "set", f"port{i}", "master", "bridge", "up")
                ip("-n", host, "address", "add", f"{address}/24", "dev", "eth0")
                ip("-n", host, "link", "set", "eth0", "up")
                hosts.append((host, address))
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces cannot be made here: {error.stderr.strip()}")
        yield hosts


def test_five_parties_and_a_helper_on_their_own_hosts(tmp_path):
    with network(len(PARTIES) + 1) as hosts:
        addresses = [f"{address}:{PORT}" for _, address in hosts]
        with Cast(tmp_path, PARTIES, addresses=addresses) as cast:
            cast.agree(*SMALL, *RANDOM_ROWS)
            cast.program = BRIEF
            cast.prefix = {
                name: ("ip", "netns", "exec", host) for name, (host, _) in zip(cast.names, hosts, strict=True)
            }
            parts = np.array_split(np.arange(len(X)), len(PARTIES))
            for name, rows, kind in zip(PARTIES, parts, ("csv", "parquet") * 3, strict=False):
                cast.give(name, f"data.{kind}", x=X[rows, 0], y=X[rows, 1])
            for name in reversed(cast.names):
                cast.start(name, "run", "--wait", 120)
            assert cast.finish_all() == dict.fromkeys(cast.names, 0), cast.said()
            fit = pooled()
            for name, rows in zip(PARTIES, parts, strict=True):
                fit.check_labels(cast.labels(name)["label"], rows)
                fit.check_centers(cast, name, {"x": 0, "y": 1})
                peers = next(entry["peers"] for entry in cast.audit(name) if entry["event"] == "agreed")
                assert len(peers) == len(PARTIES)
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    assert f"coterie-{os.getpid()}" not in listed
