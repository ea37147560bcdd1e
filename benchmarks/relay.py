"""How fast a relay passes bytes on, beside a direct connection, in one run: `python benchmarks/relay.py [--mb 512]`.

Both are TLS 1.3 between two threads of this process over loopback; the relay is a process of its own.
"""

from __future__ import annotations

import argparse
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from coterie.study.agreement import study_hash
from coterie.study.identity import create_identity, load_identity, load_key
from coterie.study.study_file import create_study, write_study
from coterie.transport.certificates import Credentials
from coterie.transport.hello import Peer, begin_tls, context
from coterie.transport.relayed import ByRelay, RelayAt
from coterie.transport.relayed_listener import RelayedListener

PIECE = bytes(1 << 18)


def rate(near: socket.socket, far: socket.socket, one: Credentials, other: Credentials, size: int) -> float:
    """Megabytes a second from one to the other, in TLS."""
    ends: list[ssl.SSLSocket] = []
    answering = threading.Thread(
        target=lambda: ends.append(begin_tls(context(True, other, [one.certificate]), far, server=True))
    )
    answering.start()
    with begin_tls(context(False, one, [other.certificate]), near) as sender:
        answering.join()
        began = time.perf_counter()

        def send() -> None:
            for _ in range(size // len(PIECE)):
                sender.sendall(PIECE)

        sending = threading.Thread(target=send)
        sending.start()
        left, buffer = size // len(PIECE) * len(PIECE), bytearray(len(PIECE))
        with ends[0] as receiver:
            receiver.settimeout(60)
            while left:
                left -= receiver.recv_into(buffer, min(left, len(buffer)))
            took = time.perf_counter() - began
            sending.join()
    return size / took / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=512)
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    size = given.mb << 20
    with tempfile.TemporaryDirectory() as name, socket.create_server(("127.0.0.1", 0)) as free:
        folder = Path(name)
        address = f"127.0.0.1:{free.getsockname()[1]}"
        free.close()
        relay = create_identity("relay", address, folder)
        people = {who: create_identity(who, "", folder, relay=relay) for who in ("alice", "bob", "helper")}
        study = create_study(
            "bench", [people["alice"], people["bob"]], people["helper"], clusters=2, partition="horizontal",
            columns=["x"], bounds={"x": (0, 1)},
        )  # fmt: skip
        write_study(folder / "study.toml", study)
        keys = {who: Credentials(people[who].certificate, load_key(folder / f"{who}.key")) for who in people}
        one, other = keys["alice"], keys["bob"]
        command = [sys.executable, "-m", "coterie", "relay", "--listen", address, "--key", str(folder / "relay.key")]
        process = subprocess.Popen([*command, "--study", str(folder / "study.toml")], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        at = RelayAt("127.0.0.1", int(address.split(":")[1]), load_identity(folder / "relay.identity.toml").certificate)
        listener = RelayedListener(at, other, [study_hash(study)])
        try:
            for _ in range(given.times):
                with socket.create_server(("127.0.0.1", 0)) as door:
                    near = socket.create_connection(door.getsockname(), timeout=60)
                    direct = rate(near, door.accept()[0], one, other, size)
                peer = Peer(at.host, at.port, other.certificate)
                near = ByRelay(at, one, study_hash(study)).connect(peer, "bob", 30, 30)
                while True:
                    try:
                        far = listener.accept()
                        break
                    except BlockingIOError:
                        time.sleep(0.01)
                relayed = rate(near, far, one, other, size)
                print(f"direct {direct:.0f} MB/s, by way of the relay {relayed:.0f} MB/s: {relayed / direct:.2f}")
        finally:
            listener.close()
            process.terminate()
            process.wait()
            process.stdout.close()


if __name__ == "__main__":
    main()
