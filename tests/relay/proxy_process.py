"""`python -m tests.relay.proxy_process HOST PORT`: an HTTP proxy, for tests that need it on a host of its own."""

from __future__ import annotations

import sys
import threading

from tests.relay.places import TinyProxy

if __name__ == "__main__":
    TinyProxy(host=sys.argv[1], port=int(sys.argv[2]))
    print("up", flush=True)
    threading.Event().wait()
