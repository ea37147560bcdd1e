"""Channels: arrays between parties, in memory or over TLS; metering and recording wrap either."""

from coterie.transport.channel import HEADER_BYTES, Channel, Stamp, World
from coterie.transport.idling import Lap
from coterie.transport.memory import MemoryChannel, memory_channels
from coterie.transport.metering import Metered, Tally, Traffic, metered
from coterie.transport.recording import Event, Frame, Recording

__all__ = [
    "HEADER_BYTES",
    "Channel",
    "Event",
    "Frame",
    "Lap",
    "MemoryChannel",
    "Metered",
    "Recording",
    "Stamp",
    "Tally",
    "Traffic",
    "World",
    "memory_channels",
    "metered",
]
