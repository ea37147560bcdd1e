"""The plan of a run: how the rows are cut up, how many lanes there are, how comparisons are arranged."""

from __future__ import annotations

import msgspec

from coterie.errors import InputError
from coterie.protocols.onetime.labelling import all_pairs, bracket, tournament

__all__ = ["Plan", "make_plan"]

#: Comparisons that a block should hold: large enough to hide a round trip, small enough for the cache.
BLOCK_COMPARISONS = {"onetime": 1 << 17, "securenn": 1 << 17}


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`block_rows`: rows labelled at a time. `lanes`: blocks in flight at a time, beside the main connection.
    `schedule`: sizes of the groups in which scores are compared, level by level.

    Results do not depend on any of it; memory, rounds, bytes and time do.
    """

    block_rows: int = 1 << 14
    lanes: int = 1
    schedule: tuple[int, ...] = ()


def make_plan(wanted: object, protocol: str, clusters: int, rows: int) -> Plan:
    """The plan for "auto", or the one that a dict such as {"block_rows": 4096} describes, completed."""
    auto = _auto(protocol, clusters, rows)
    if wanted == "auto":
        return auto
    if isinstance(wanted, Plan):
        wanted = msgspec.structs.asdict(wanted)
    if not isinstance(wanted, dict):
        raise InputError(f'plan must be "auto" or a dict such as {{"block_rows": 4096}}, not {wanted!r}')
    if wanted.get("schedule") == "tournament":
        wanted = {**wanted, "schedule": tournament(clusters)}
    elif wanted.get("schedule") == "all_pairs":
        wanted = {**wanted, "schedule": all_pairs(clusters)}
    try:
        plan = msgspec.convert({**msgspec.structs.asdict(auto), **wanted}, Plan)
        bracket(clusters, plan.schedule or tournament(clusters))
    except (msgspec.ValidationError, ValueError) as error:
        raise InputError(f"plan: {error}") from error
    if plan.block_rows < 1:
        raise InputError(f"plan: block_rows must be at least 1, not {plan.block_rows}")
    if not 0 <= plan.lanes <= 64:
        raise InputError(f"plan: lanes must lie between 0 and 64, not {plan.lanes}")
    return plan


def _auto(protocol: str, clusters: int, rows: int) -> Plan:
    per_row = max(clusters * (clusters - 1) // 2, 1) if protocol == "securenn" else max(clusters - 1, 1)
    block = max(64, BLOCK_COMPARISONS[protocol] // per_row // 64 * 64)
    lanes = min(2, -(-rows // block))
    if protocol == "onetime" and lanes == 1 and rows >= 8192:
        block, lanes = -(-rows // 2 // 64) * 64, 2
    return Plan(block, lanes, tournament(clusters))
