"""All campaigns by name, in the order in which they are run."""

from __future__ import annotations

from tests.fuzz.campaign import Campaign
from tests.fuzz.files import Files
from tests.fuzz.frames import Frames
from tests.fuzz.truncations import CutOff, Truncations
from tests.fuzz.waiting import Waiting
from tests.fuzz.working import Working

__all__ = ["CAMPAIGNS"]

CAMPAIGNS: dict[str, type[Campaign]] = {one.name: one for one in (Frames, Truncations, CutOff, Files, Waiting, Working)}
