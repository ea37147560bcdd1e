"""One role as a process: `python -m coterie.runtime.worker`. Its orders come on standard input.

The parent sends the session and this role's key, then everybody's address, then the job. It reads where the worker
listens, which it does once its kernels are loaded; what is to be said of each iteration; and the report. When the
parent goes away, standard input ends, and so does the worker.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from typing import Any

from coterie.errors import CoterieError, TransportError
from coterie.protocols import FAMILIES, load_family
from coterie.randomness import SystemEntropy
from coterie.runtime.job import do, read_job, read_package, write_package, write_report
from coterie.runtime.memory import hold_on, peak_bytes
from coterie.runtime.threads import role_at
from coterie.transport import World
from coterie.transport.certificates import Credentials
from coterie.transport.door import Listener
from coterie.transport.hello import Peer
from coterie.transport.meeting import connect_lanes

__all__ = ["main"]


def main() -> None:
    orders, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # a stray print must not end up among the answers
    package = read_package(orders)
    if package is None:
        return
    fields, _ = package
    world = World(tuple(fields["names"]), bytes.fromhex(fields["session"]), tuple(fields["serving"]))
    rank, certificates = fields["rank"], fields["certificates"]
    credentials = Credentials(certificates[rank], fields["key"])
    load_family(FAMILIES[fields["protocol"]], alone=True)
    listener = Listener()
    write_package(answers, {"host": listener.host, "port": listener.port}, {})
    package, job = read_package(orders), read_job(orders)
    if package is None or job is None:
        return
    says = package[0]["says"]
    peers = [_peer(package[0]["addresses"].get(j), certificates.get(j)) for j in range(len(world.names))]
    _end_with_parent()
    try:
        started, busy = time.perf_counter(), time.process_time()
        with hold_on():
            channel, *lanes = connect_lanes(
                1 + job.task.lanes, world, rank, credentials, peers, listener, patience=fields["patience"]
            )
            with role_at(channel, SystemEntropy(), lanes) as me:
                report = do(me, job, (lambda text: write_package(answers, {"said": text}, {})) if says else None)
        cost = {"seconds": time.perf_counter() - started, "busy": time.process_time() - busy, "peak": peak_bytes()}
        write_package(answers, {"done": True, **cost}, {})
        write_report(answers, report)
        gc.freeze()  # looking through all that is loaded, once more at the end, takes as long as half of loading it
    except BaseException as error:  # reported to the parent, which raises it
        write_package(answers, {"done": False, **_described(error)}, {})
        sys.exit(1)


def _peer(address: tuple[str, int] | None, certificate: str | None) -> Peer:
    """Whom to reach and where; of a vacant rank there is neither."""
    host, port = address or ("", 0)
    return Peer(host, port, certificate or "")


def _described(error: BaseException) -> dict[str, Any]:
    return {
        "kind": type(error).__name__,
        "known": isinstance(error, CoterieError),
        "message": str(error),
        "peer": error.peer if isinstance(error, TransportError) else None,
    }


def _end_with_parent() -> None:
    def watch() -> None:
        os.read(0, 1)
        os._exit(1)

    threading.Thread(target=watch, name="coterie-parent", daemon=True).start()


if __name__ == "__main__":
    main()
