"""One role of a bare exchange: `floor.py` starts one such process a role. Standard library and `cryptography` alone.

Mutual TLS 1.3 on loopback, a connection for each direction between two roles (as an OpenSSL object is not for two
threads at once). In each round, all that goes to one peer is one write, and all that comes from one is read, blocking,
into a buffer that is there. A large write has a thread of its own, so that two roles can write to each other.

Orders are lines of JSON on standard input; each is answered by one on standard output.
"""

from __future__ import annotations

import json
import queue
import socket
import ssl
import struct
import sys
import threading
import time
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

#: Bytes that the kernel's buffers surely take, so that a write of them never waits for the reader.
AT_ONCE = 32 << 10
#: Bytes that are expanded at a time: few enough for the cache.
PIECE = 1 << 18
#: Seconds after which a read that brings nothing ends the exchange, as the kernel is told (a timeout of Python's own
#: would cost every read another call).
STALLED = struct.pack("ll", 60, 0)


class Writer:
    """The sending end of a connection."""

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self.sock = sock
        self.waiting: queue.SimpleQueue[memoryview] = queue.SimpleQueue()
        self.behind, self.lock = 0, threading.Lock()
        threading.Thread(target=self._run, daemon=True).start()

    def write(self, data: memoryview) -> None:
        if len(data) <= AT_ONCE and not self.behind:
            self.sock.sendall(data)
            return
        with self.lock:
            self.behind += 1
        self.waiting.put(data)

    def _run(self) -> None:
        while True:
            self.sock.sendall(self.waiting.get())
            with self.lock:
                self.behind -= 1


class Role:
    """Connected to all others, with the rounds of an iteration: for each, (peer, bytes) to send and to receive."""

    def __init__(self, orders: dict[str, Any], listener: socket.socket, addresses: dict[str, tuple[str, int]]) -> None:
        self.rounds: list[tuple[list[tuple[int, int]], list[tuple[int, int]]]] = orders["rounds"]
        sizes = [size for sending, receiving in self.rounds for _, size in (*sending, *receiving)]
        self.outgoing, self.incoming = (memoryview(bytearray(max([1, *sizes]))) for _ in range(2))
        self.share = orders["expanded"] // max(len(self.rounds), 1)  # of an iteration's expansion, in each round
        self.zeros, self.expanded = memoryview(bytes(PIECE)), memoryview(bytearray(PIECE + 16))
        self.encryptor = Cipher(algorithms.AES(bytes(16)), modes.CTR(bytes(16))).encryptor()
        self.writers: dict[int, Writer] = {}
        self.readers: dict[int, ssl.SSLSocket] = {}
        self._connect(orders, listener, {int(rank): at for rank, at in addresses.items()})

    def _connect(self, orders: dict[str, Any], listener: socket.socket, addresses: dict[int, tuple[str, int]]) -> None:
        dialling, answering = (context(one, orders) for one in (ssl.PROTOCOL_TLS_CLIENT, ssl.PROTOCOL_TLS_SERVER))

        def dial() -> None:
            for rank, address in addresses.items():
                sock = dialling.wrap_socket(socket.create_connection(address))
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.sendall(bytes([orders["rank"]]))
                self.writers[rank] = Writer(sock)

        thread = threading.Thread(target=dial)
        thread.start()
        for _ in addresses:
            sock = answering.wrap_socket(listener.accept()[0], server_side=True)
            self.readers[sock.recv(1)[0]] = sock
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, STALLED)
        thread.join()

    def meet(self) -> None:
        """Nobody goes on before everybody is here."""
        for writer in self.writers.values():
            writer.write(self.outgoing[:1])
        for rank in self.readers:
            self.read(rank, 1)

    def read(self, rank: int, size: int) -> None:
        sock, at = self.readers[rank], 0
        while at < size:
            count = sock.recv_into(self.incoming[at:size])
            if not count:
                raise ConnectionError(f"{rank} has closed its connection")
            at += count

    def expand(self, size: int) -> None:
        for at in range(0, size, PIECE):
            self.encryptor.update_into(self.zeros[: min(PIECE, size - at)], self.expanded)

    def iterate(self, exchanging: bool, expanding: bool) -> None:
        for sending, receiving in self.rounds:
            if expanding:
                self.expand(self.share)
            if exchanging:
                for rank, size in sending:
                    self.writers[rank].write(self.outgoing[:size])
                for rank, size in receiving:
                    self.read(rank, size)

    def run(self, count: int, exchanging: bool, expanding: bool) -> dict[str, float]:
        """Seconds, and seconds of processor time, of an iteration."""
        self.meet()
        began, busy = time.perf_counter(), time.process_time()
        for _ in range(count):
            self.iterate(exchanging, expanding)
        return {"seconds": (time.perf_counter() - began) / count, "busy": (time.process_time() - busy) / count}


def context(protocol: int, orders: dict[str, Any]) -> ssl.SSLContext:
    """TLS 1.3; both sides show a certificate that the other one knows."""
    made = ssl.SSLContext(protocol)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = False
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_verify_locations(cadata=orders["trusted"])
    made.load_cert_chain(orders["chain"])
    return made


def main() -> None:
    orders = json.loads(sys.stdin.readline())
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        print(json.dumps(listener.getsockname()), flush=True)
        role = Role(orders, listener, json.loads(sys.stdin.readline()))
    print("null", flush=True)
    for line in sys.stdin:
        print(json.dumps(role.run(*json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
