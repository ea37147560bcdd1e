"""What holds for all tests."""

from __future__ import annotations

import signal

# A shell that starts a job in the background has it ignore SIGINT, and so do all its children. Tests of interrupts need
# the signal, however they were started.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
