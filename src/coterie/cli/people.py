"""Who takes part in a study, as everybody is to see it before deciding."""

from __future__ import annotations

from typing import Any

from coterie.report.facts import describe_role
from coterie.study.agreement import Study

__all__ = ["list_participants", "show_participants"]


def list_participants(study: Study) -> list[dict[str, Any]]:
    """For machines."""
    return [
        {
            "name": one.name,
            "role": describe_role(study.roles, one.name),
            "address": one.address,
            "fingerprint": one.fingerprint,
            **({} if one.via is None else {"relay": one.via.name, "relay_fingerprint": one.via.fingerprint}),
        }
        for one in study.everybody
    ]


def show_participants(study: Study) -> list[str]:
    """Lines for people. A name proves nothing: the fingerprint is what to compare, by telephone or in person."""
    return [
        f"  - {one['name']} ({one['role']}) at {one['address']}{_by_way_of(one)}, fingerprint {one['fingerprint']}"
        for one in list_participants(study)
    ]


def _by_way_of(one: dict[str, Any]) -> str:
    return f", by way of the relay {one['relay']}" if "relay" in one else ""
