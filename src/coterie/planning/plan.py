"""The plan of a run: how the rows are cut up, how many lanes there are, how comparisons are arranged."""

from __future__ import annotations

import msgspec

from coterie.clustering import Task
from coterie.errors import InputError
from coterie.faults import describe_fault, in_order
from coterie.planning.forecasts import forecast
from coterie.planning.timing import collecting_pays_from
from coterie.protocols import FAMILIES
from coterie.transport.links import LINKS, Link
from coterie.typed import convert

__all__ = ["Plan", "check_plan", "planned"]

#: Rows from which on two blocks overlap to advantage.
ROWS_FOR_TWO = 16_384
#: Seconds below which a lane for a single block (so that the stop test need not wait for it) costs more than it saves.
QUICK_ROUND_TRIP = 1e-3


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`block_rows`: rows labelled at a time. `lanes`: blocks in flight at a time, beside the main connection.
    `schedule`: how scores are compared: "tournament", "all_pairs", or the sizes of groups level by level.
    `collect_from`: from how many bytes on an opening to three or more parties goes by way of collectors; 0: none does.

    Results do not depend on any of it; memory, rounds, bytes and time do. What is left out is chosen.
    """

    block_rows: int | None = None
    lanes: int | None = None
    schedule: str | tuple[int, ...] | None = None
    collect_from: int | None = None


def check_plan(wanted: object) -> Plan:
    """The plan that "auto", or a dict such as {"block_rows": 4096}, asks for."""
    try:
        plan = Plan() if wanted == "auto" else wanted if isinstance(wanted, Plan) else convert(wanted, Plan)
    except msgspec.ValidationError as error:
        place, fault, _ = describe_fault(error, Plan)
        why = ": ".join(filter(None, [in_order(place), fault]))
        raise InputError(f'plan must be "auto" or a dict such as {{"block_rows": 4096}}: {why}') from None
    if plan.block_rows is not None and plan.block_rows < 1:
        raise InputError(f"plan: block_rows must be at least 1, not {plan.block_rows}")
    if plan.lanes is not None and not 0 <= plan.lanes <= 64:
        raise InputError(f"plan: lanes must lie between 0 and 64, not {plan.lanes}")
    if plan.collect_from is not None and plan.collect_from < 0:
        raise InputError(f"plan: collect_from must be at least 0, not {plan.collect_from}")
    if isinstance(plan.schedule, str) and plan.schedule not in ("tournament", "all_pairs"):
        raise InputError(f'plan: schedule={plan.schedule!r} is not known; use "tournament", "all_pairs" or group sizes')
    return plan


def planned(task: Task, parties: int, wanted: object, link: Link = LINKS["loopback"]) -> Task:
    """The task with a plan: what is asked for and, for the rest, what is forecast to be fastest on this link."""
    plan, k, family = check_plan(wanted), task.clusters, FAMILIES[task.protocol]
    if task.choices:
        each = [planned(task.choice(i), parties, wanted, link) for i in range(len(task.choices))]
        largest = each[-1]
        return msgspec.structs.replace(
            task,
            block_rows=largest.block_rows,
            lanes=largest.lanes,
            schedules=tuple(one.schedule for one in each),
            collect_from=largest.collect_from,
        )
    n = max(task.layout.n, 1)
    blocks = -(-n * max(family.comparisons(k), 1) // family.block_comparisons)
    if n >= ROWS_FOR_TWO:
        blocks = -(-blocks // 2) * 2  # as many for either lane
    block = plan.block_rows or max(64, -(-n // blocks // 64) * 64)
    lanes = min(2, -(-n // block)) if plan.lanes is None else plan.lanes
    if plan.lanes is None and lanes == 1 and link.round_trip < QUICK_ROUND_TRIP:
        lanes = 0
    collect = collecting_pays_from(task.protocol, parties, link) if plan.collect_from is None else plan.collect_from
    task = msgspec.structs.replace(task, block_rows=block, lanes=lanes, collect_from=collect)
    schedules = family.schedules(k)
    if not schedules:
        return task
    if plan.schedule is not None:
        try:
            return msgspec.structs.replace(task, schedule=family.check_schedule(k, plan.schedule))
        except ValueError as error:
            raise InputError(f"plan: {error}") from error
    iterations = msgspec.structs.replace(task, starts=(), seeds=(), tol=0)  # a start takes the same with every schedule

    def needed(schedule: tuple[int, ...]) -> float:
        tried = msgspec.structs.replace(iterations, schedule=schedule)
        return forecast(tried, parties, 1, link, "stop").seconds_per_iteration

    return msgspec.structs.replace(task, schedule=min(schedules, key=needed))
