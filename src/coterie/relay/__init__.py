"""A relay: joins the connections of participants who can only dial out, and reads nothing of what they say."""

from coterie.relay.registry import Registry
from coterie.relay.server import Limits, Relay

__all__ = ["Limits", "Registry", "Relay"]
