"""Lines for operators, on the loggers of `coterie`: what happened (`event`), in words, and who and what it concerns.

Nothing secret belongs into one: no value of the data, no share, no key.
"""

from __future__ import annotations

import logging
from typing import Any

__all__ = ["tell"]


def tell(log: logging.Logger, level: int, event: str, text: str, **fields: Any) -> None:
    """Log an event. Handlers find its name and its fields on the record, as `event` and `fields`."""
    log.log(level, "%s", text, extra={"event": event, "fields": fields})
