"""Who serves and who deals, as a study names them: whom its protocol family needs, and nobody else."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.errors import InputError
from coterie.report.formats import join_names, spell_number
from coterie.study.agreement import RECONNECT, Participants
from coterie.study.identity import Identity

__all__ = ["find_misfit", "seat_everybody"]


def seat_everybody(
    parties: Sequence[Identity],
    helper: Identity | None,
    servers: Sequence[str | Identity],
    reconnect: int = RECONNECT,
    renewals: bool = False,
    software: str = "same",
) -> Participants:
    """The participants of a study. A server is a party's name, or the identity of a party or of one who owns no
    data."""
    named = [one for one in servers if isinstance(one, Identity) and one not in parties]
    others = list(dict.fromkeys(one.name for one in named))
    if len(others) > 1:
        raise InputError(
            f"--server: {join_names(others)} are no parties; at most one server may own no data. Name parties by "
            "--server NAME"
        )
    names = [one if isinstance(one, str) else one.name for one in servers]
    server = named[0] if named else None
    return Participants(
        helper=helper,
        server=server,
        parties=list(parties),
        servers=names,
        reconnect=reconnect,
        renewals=renewals,
        software=software,  # type: ignore[arg-type]  # checked with all else that a study says
    )


def find_misfit(protocol: str, who: Participants) -> str:
    """What is wrong with who serves and who deals, for people to read; empty, if nothing is."""
    from coterie.protocols import FAMILIES  # takes long to load

    seats = FAMILIES[protocol].seats(len(who.parties))
    if seats.serving:
        if who.helper is not None:
            return f"protocol {protocol} has no helper: leave out --helper"
        return _find_wrong_server(who) or _find_wrong_number(protocol, len(seats.serving), who)
    if who.servers or who.server is not None:
        return f"protocol {protocol} has no servers: leave out --server"
    if seats.at_zero and who.helper is None:
        return f"protocol {protocol} needs a helper: name one with --helper"
    if not seats.at_zero and who.helper is not None:
        return f"protocol {protocol} has no helper: leave out --helper"
    return ""


def _find_wrong_server(who: Participants) -> str:
    known = {one.name for one in (*who.parties, who.server) if one is not None}
    for name in who.servers:
        if who.servers.count(name) > 1:
            return f"{name} is named twice as a server"
        if name not in known:
            return (
                f"there is no party {name} that could serve; a server that owns no data is given by its identity file"
            )
    if who.server is not None and who.server.name not in who.servers:
        return f"{who.server.name} owns no data and is not named as a server"
    return ""


def _find_wrong_number(protocol: str, needed: int, who: Participants) -> str:
    if len(who.servers) == needed:
        return ""
    named = f", and {len(who.servers)} named" if who.servers else ""
    return (
        f"protocol {protocol} has {spell_number(needed)} servers{named}: name each with --server, a party by its name "
        "and one that owns no data by its identity file"
    )
