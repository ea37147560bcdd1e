"""The general steps on the primitives of `securenn`, as functions of the role that runs them."""

from __future__ import annotations

from coterie.protocols import Problem, SecureNN
from coterie.sharing import Party, Shared

PROBLEM = Problem(64, 4, (1 << 20, 1 << 20))


def securenn(me: Party, x: Shared) -> SecureNN:
    return SecureNN(me, PROBLEM, x.ring)


def mat_dist(me: Party, x: Shared, c: Shared) -> Shared:
    return securenn(me, x).mat_dist(x, c)


def label_samples(me: Party, x: Shared, c: Shared) -> Shared:
    return securenn(me, x).label_samples(x, c)


def arg_min(me: Party, values: Shared) -> Shared:
    return securenn(me, values).arg_min_of(values)


def divide(me: Party, x: Shared, y: Shared, bits: int, digit: int = 1) -> tuple[Shared, Shared]:
    return securenn(me, x).divide(x, y, bits, digit)
