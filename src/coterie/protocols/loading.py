"""Kernels of a family, ready before anybody waits for them."""

from __future__ import annotations

from coterie.protocols.steps import Family
from coterie.ring.compiling import load_kernels

__all__ = ["RUN_BY_ALL", "load_family"]

#: Modules of kernels that every family runs.
RUN_BY_ALL = ("coterie.ring.kernels", "coterie.ring.packing")


def load_family(family: type[Family], *, alone: bool = False) -> None:
    """Load what a family runs, or compile it where numba has not yet; before a party connects. `alone`: as in
    `load_kernels`."""
    load_kernels((*RUN_BY_ALL, *family.kernels), alone=alone)
