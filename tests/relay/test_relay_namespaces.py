"""Five participants on hosts of their own, of which four can reach nothing but the relay, one of them only through an
HTTP proxy: the tutorial's study, with the same bits as without a relay."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.relay.places import RelayCast
from tests.study.test_namespaces import ip, network
from tests.study.walk import BRIEF, Cast, coterie

pytestmark = pytest.mark.slow

PARTIES = ("alice", "bob", "carol", "dora")
PORT = 7100
#: The tutorial's study, but with starts that are the same in every run.
STUDY = (
    "--clusters", "2:4", "--columns", "age,sex,pressure,days", "--categories", "sex=f|m",
    "--bounds", "age=0:120,pressure=50:260,days=0:100", "--missing", "age=drop,pressure=125",
    "--resolution", "age=1,sex=1,pressure=1,days=0.1", "--sizes", "rounded", "--n-init", "2", "--seed", "7",
    "--init", "random",
)  # fmt: skip


def give(cast: Cast) -> None:
    rng = np.random.default_rng(0)
    for name in PARTIES:
        rows = np.concatenate(
            [rng.normal(m, (5, 7, 0.8), (30, 3)) for m in ((34, 114, 3.5), (58, 128, 9), (71, 160, 6))]
        )
        ages = [("" if i % 40 == 5 else str(round(age))) for i, age in enumerate(rows[:, 0])]
        sexes = ["fm"[i] for i in rng.integers(2, size=len(rows))]
        cast.give(name, age=ages, sex=sexes, pressure=np.rint(rows[:, 1]), days=np.round(rows[:, 2], 1))


def results(cast: Cast, name: str) -> tuple[bytes, object, object]:
    """Centres, labels and what the model says of them."""
    model = cast.document(name, "model.json")
    kept = {key: model[key] for key in model if key in ("centers", "deviations", "means", "suppressed", "clusters")}
    return cast.at(name, "results", "centers.csv").read_bytes(), cast.labels(name), kept


def test_four_can_reach_nothing_but_the_relay(tmp_path):
    with network(len(PARTIES) + 3) as hosts:
        *own, (relays_host, relays_address), (proxys_host, proxys_address) = hosts
        by_name = dict(zip(("helper", *PARTIES), own, strict=True))
        made = coterie("identity", "create", "relay", "--address", f"{relays_address}:443", "--folder", tmp_path)
        assert made.code == 0, made.err
        addresses = [f"{address}:{PORT}" for _, address in own]
        others: list[subprocess.Popen[bytes]] = []
        with RelayCast(tmp_path, tmp_path / "relay.identity.toml", PARTIES, addresses=addresses) as cast:
            cast.agree(*STUDY)
            for paper in (paper for name in cast.names for paper in cast.at(name).glob("study.*.sig.toml")):
                if paper.name != f"study.{paper.parent.name}.sig.toml":
                    paper.unlink()  # as in the tutorial, everybody has its own, and fetches those of the others
            give(cast)
            for name, (host, address) in by_name.items():
                cast.prefix[name] = ("ip", "netns", "exec", host)
                if name == "bob":
                    continue
                ip("-n", host, "address", "flush", "dev", "eth0")
                ip("-n", host, "address", "add", f"{address}/32", "dev", "eth0")
                only = proxys_address if name == "dora" else relays_address
                ip("-n", host, "route", "add", f"{only}/32", "dev", "eth0", "src", address)
            cast.program = BRIEF
            proxied = {"HTTPS_PROXY": f"http://{proxys_address}:3128"}
            try:
                others.append(_start(proxys_host, "-m", "tests.relay.proxy_process", proxys_address, "3128"))
                others.append(_relay(relays_host, relays_address, tmp_path, cast))
                for verb in ("preflight", "run"):
                    for name in cast.names:
                        more = proxied if name == "dora" else {}
                        cast.start(name, verb, "--wait", 300, environment=more)
                    assert cast.finish_all() == dict.fromkeys(cast.names, 0), cast.said()
                    assert all(len(list(cast.at(name).glob("study.*.sig.toml"))) == 5 for name in cast.names)
                for name, to in (("alice", by_name["bob"][1]), ("dora", relays_address)):
                    dial = f"import socket; socket.create_connection(({to!r}, 443), 5)"
                    tried = subprocess.run(
                        [*cast.prefix[name], sys.executable, "-c", dial], capture_output=True, text=True
                    )
                    assert "Network is unreachable" in tried.stderr, name
            finally:
                for process in others:
                    process.kill()
                    process.wait()
            here = {name: results(cast, name) for name in PARTIES}
            logs = [word for name in cast.names[1:] for word in ("--against", cast.at(name, "audit.jsonl"))]
            assert coterie("audit", "verify", cast.at(cast.names[0], "audit.jsonl"), *logs).code == 0
    with Cast(tmp_path / "direct", PARTIES) as cast:
        cast.agree(*STUDY)
        give(cast)
        cast.run()
        assert {name: results(cast, name) for name in PARTIES} == here


def _start(host: str, *words: object) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        ["ip", "netns", "exec", host, sys.executable, *map(str, words)], stdout=subprocess.PIPE, cwd=Path.cwd()
    )
    assert process.stdout is not None
    assert process.stdout.readline()  # it says that it is up
    process.stdout.close()
    return process


def _relay(host: str, address: str, folder: Path, cast: Cast) -> subprocess.Popen[bytes]:
    return _start(
        host, "-m", "coterie", "relay", "--listen", f"{address}:443", "--key", folder / "relay.key",
        "--study", cast.study_file("alice"),
    )  # fmt: skip
