"""What participants say to each other before a run, between channels of a test."""

from __future__ import annotations

from coterie.study.agreement import Study
from coterie.study.greetings import Greeting, Purpose
from coterie.study.handshake import Agreed, agree_on_task, greet_everybody
from coterie.transport import Channel

__all__ = ["agree_on_run"]


def agree_on_run(channel: Channel, study: Study, purpose: Purpose, own: Greeting) -> Agreed:
    """Greetings, and what to compute and how, where no rows are matched between them."""
    return agree_on_task(channel, study, purpose, greet_everybody(channel, study, own))
