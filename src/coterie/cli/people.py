"""Who takes part in a study, as everybody is to see it before deciding."""

from __future__ import annotations

from typing import Any

from coterie.report.facts import describe_role
from coterie.report.formats import join_names
from coterie.software import describe_software
from coterie.study.agreement import Study

__all__ = ["explain_relays", "explain_renewals", "explain_software", "list_participants", "show_participants"]


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
        line
        for one in list_participants(study)
        for line in (
            f"  - {one['name']} ({one['role']}) at {one['address']}{_by_way_of(one)}",
            f"    fingerprint {one['fingerprint']}",
        )
    ]


def _by_way_of(one: dict[str, Any]) -> str:
    return f", by way of the relay {one['relay']}" if "relay" in one else ""


def explain_renewals(study: Study) -> str:
    if study.participants.renewals:
        return (
            "Keys may be renewed: a participant may use a newer key than that of its certificate here, if the "
            "older one vouches for it (`coterie identity renew`). The others keep the newest that they have seen, and "
            "accept no older one from the next run on."
        )
    return "Only these certificates count: a key that is renewed takes a new study."


def explain_relays(study: Study) -> list[str]:
    """A section on relays, if some participant is reached by way of one: what a relay sees."""
    led: dict[tuple[str, str, str], list[str]] = {}
    for one in study.everybody:
        if one.via is not None:
            led.setdefault((one.via.name, one.address, one.via.fingerprint), []).append(one.name)
    if not led:
        return []
    lines = ["", "WHO CARRIES CONNECTIONS"]
    for (name, address, fingerprint), names in led.items():
        verb = "is" if len(names) == 1 else "are"
        lines.append(
            f"  - {join_names(names)} {verb} reached by way of the relay {name} at {address}, fingerprint "
            f"{fingerprint}."
        )
    return [
        *lines,
        "  - A relay sees who takes part in this study, from which network addresses, when, and how many bytes they "
        "send each other. What passes is TLS between the participants, to which it holds no key: it can delay or "
        "cut, and nothing else.",
        "  - If the helper runs a relay, it sees sizes and times of what the parties send each other, too, and none of "
        "the contents: no more of the data than the relay of somebody else.",
    ]


def explain_software(study: Study) -> str:
    """Which software everybody must run, and which is here."""
    if study.participants.software == "version":
        return (
            f"Everybody runs the same version of Coterie; its files may differ. This is {describe_software()}, version "
            "and digest as coterie --version shows them."
        )
    return (
        f"Everybody runs the same files of the same version of Coterie, or the run does not begin. This is "
        f"{describe_software()}, version and digest as coterie --version shows them."
    )
