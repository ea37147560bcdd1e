"""Three servers with replicated shares, and nobody who deals; semi-honest."""

from coterie.protocols.falcon.family import Falcon

__all__ = ["Falcon"]
