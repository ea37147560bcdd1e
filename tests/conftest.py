"""What holds for all tests."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import settings

from tests.plain import FOREIGN, keep_messages

# A shell that starts a job in the background has it ignore SIGINT, and nohup has it ignore SIGHUP; so do all its
# children. Tests of interrupts need the signals, however they were started.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

# Tests talk to this machine alone, whatever proxy it has for others.
for variable in ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"):
    os.environ.pop(variable, None)

# The same cases in every run, however busy the machine is.
settings.register_profile("steady", deadline=None, derandomize=True, database=None)
settings.load_profile("steady")


@pytest.fixture
def plain_errors(monkeypatch):
    """Whatever goes wrong in a test, and wherever it is raised: every message is in plain words."""
    kept = keep_messages(monkeypatch)
    yield
    assert not [message for message in kept if FOREIGN.search(message)]
