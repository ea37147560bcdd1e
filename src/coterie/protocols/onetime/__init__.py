"""The default family: one-time tables. The helper deals and receives nothing."""

from coterie.protocols.onetime.family import OneTime

__all__ = ["OneTime"]
