"""How many rows are labelled at a time."""

from __future__ import annotations

import msgspec

from coterie.errors import InputError

__all__ = ["Plan", "make_plan"]

#: Comparisons that a block should hold: large enough to hide a round trip, small enough for some 100 MiB.
BLOCK_COMPARISONS = 1 << 17


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`block_rows`: rows labelled at a time. Results do not depend on it, memory and speed do."""

    block_rows: int


def make_plan(wanted: object, clusters: int) -> Plan:
    """The plan for "auto", or the one that a dict such as {"block_rows": 4096} describes."""
    if wanted == "auto":
        return Plan(max(1, BLOCK_COMPARISONS // max(clusters * (clusters - 1) // 2, 1)))
    try:
        plan = wanted if isinstance(wanted, Plan) else msgspec.convert(wanted, Plan)
    except msgspec.ValidationError as error:
        raise InputError(f'plan must be "auto" or a dict such as {{"block_rows": 4096}}: {error}') from error
    if plan.block_rows < 1:
        raise InputError(f"plan: block_rows must be at least 1, not {plan.block_rows}")
    return plan
