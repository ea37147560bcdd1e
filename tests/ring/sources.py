"""Bytes for sampling tests: seeded ones that look uniform, and scripted ones."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray


class SeededBytes:
    """A byte source that gives the same bytes for the same seed."""

    def __init__(self, seed: int) -> None:
        self.label = str(seed).encode()
        self.count = 0

    def read(self, count: int) -> NDArray[np.uint8]:
        self.count += 1
        raw = hashlib.shake_128(self.label + b"|" + str(self.count).encode()).digest(count)
        return np.frombuffer(raw, np.uint8).copy()


class ScriptedBytes:
    """A byte source that says what it was told to, then repeats its last byte."""

    def __init__(self, script: bytes) -> None:
        self.script = script

    def read(self, count: int) -> NDArray[np.uint8]:
        now, self.script = self.script[:count], self.script[count:] or self.script[-1:]
        return np.frombuffer(now.ljust(count, now[-1:]), np.uint8).copy()
