"""What can be checked before a run: everything at home and, of the others, whoever is up. No data leaves."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from coterie.clustering.rules import strictest
from coterie.data.decimals import find_coarse_step
from coterie.errors import CoterieError, InputError, PeerUnreachable
from coterie.software import software_digest
from coterie.study.endings import tell_withdrawal
from coterie.study.greetings import Card
from coterie.study.papers import ask_card, take_papers
from coterie.study.prepare import Orders, Ready, prepare, recognise
from coterie.study.run import check_budget
from coterie.study.session import meeting_of, same_participants
from coterie.study.signatures import bring_signed, find_missing
from coterie.study.voice import Voice
from coterie.study.withdrawals import Withdrawn, check_not_withdrawn
from coterie.transport.hello import HANDSHAKE, NotYet
from coterie.transport.relayed import UNKNOWN, ask_relay, bring_study

__all__ = ["Finding", "preflight"]

#: Seconds by which clocks may differ without a word; and to stay for others who check at the same time.
SKEW, STAY = 60.0, 3.0


@dataclass(frozen=True)
class Finding:
    """One check: what of, how it went, and the error where it went wrong. `fine` is None for what could not be seen. A
    remark is something to think about that stops nothing."""

    what: str
    fine: bool | None
    text: str
    error: CoterieError | None = None
    remark: bool = False


def preflight(orders: Orders, told: Callable[[Finding], None]) -> list[Finding]:
    """Check at home, which raises what is wrong, then ask every peer who is there, for `wait` seconds at most."""
    found: list[Finding] = []

    def tell(finding: Finding) -> None:
        found.append(finding)
        told(finding)

    known = recognise(orders)
    try:
        ready = prepare(orders, known)
    except Withdrawn as error:
        tell_withdrawal(orders, known, error, Voice())
        raise
    study = ready.study
    tell(Finding("key", True, f"is that of {ready.me.name}"))
    for ending in ready.endings:
        tell(Finding("certificates", True, ending, remark=True))
    tell(Finding("study", True, f"{study.study.name}, hash {ready.hash}"))
    here = [name for name in study.names if name not in ready.missing]
    later = f"; those of {', '.join(ready.missing)} are fetched from them" if ready.missing else ""
    tell(Finding("signatures", True, f"of {', '.join(here)}{later}"))
    tell(Finding("policy", True, f"{ready.policy_called} allows it; {_own_rules(ready)}"))
    if ready.rows is not None:
        n, d = len(ready.rows.values), len(study.own_declared(ready.rank))
        checked = "all in bounds" if study.survey is None else "as they are"
        tell(Finding("data", True, f"{n:,} rows of {d} columns in {ready.rows.source}, {checked}"))
        for text in ready.rows.handled.describe():
            tell(Finding("data", True, text, remark=True))
    tell(Finding("budget", True, check_budget(orders, ready)))
    for remark in _without_resolution(ready):
        tell(remark)
    with meeting_of(orders, ready, lanes=0) as meeting:  # so that others who check at the same time find somebody here
        tell(_own_address(orders, ready))
        deadline = time.monotonic() + orders.wait
        missing = ready.world.peers(ready.rank)
        while missing:
            still = []
            for other in missing:
                finding = _ask(orders, ready, other)
                if finding.fine is None and time.monotonic() < deadline:
                    still.append(other)
                else:
                    tell(finding)
            missing = still
            if missing:
                time.sleep(min(0.5, max(deadline - time.monotonic(), 0)))
        if orders.wait:
            meeting.stay(STAY)
    unsigned = find_missing(orders.study, study, ready.me.name)
    if unsigned:
        tell(Finding("signatures", None, f"of {', '.join(unsigned)} are not here yet"))
    check_not_withdrawn(orders.study, study)  # somebody may have come and told
    for finding in found:
        if finding.error is not None and finding.fine is False:
            raise finding.error
    return found


def _least(ready: Ready) -> int:
    """The least cluster size that study and own policy come to; other parties' policies may ask for more."""
    return max(ready.study.disclosures.least_cluster_size, ready.policy.least_cluster_size)


def _own_rules(ready: Ready) -> str:
    """The output rules that study and own policy come to."""
    study, policy = ready.study, ready.policy
    least = _least(ready)
    if least <= 1:
        return "least cluster size 1, so that every cluster is opened, unless another party's policy asks for more"
    rules = f"with the study it asks for: least cluster size {least}"
    if study.clustering.partition != "vertical":
        rules += f", contribution {strictest([study.disclosures.contribution, policy.contribution])}"
        rules += f" for coalitions of {policy.coalition}" if policy.coalition > 1 else ""
    return f"{rules} (others may ask for more)"


def _without_resolution(ready: Ready) -> list[Finding]:
    """Columns whose own values lie on a coarse grid that the study does not name."""
    study = ready.study
    if ready.rows is None or study.clustering.partition != "horizontal" or _least(ready) <= 1:
        return []
    found = []
    names = study.column_names
    for column in study.data.columns:
        if column.resolution or column.transform != "none":
            continue
        first = names.index(column.features[0].name)
        step = 1.0 if column.kind == "category" else find_coarse_step(ready.rows.values[:, first])
        if step is not None:
            text = (
                f"has no resolution, and your values are multiples of {step:g}: opened means may tell sizes; make the "
                f"study with --resolution {column.name}={step:g}"
            )
            found.append(Finding(f"column {column.name!r}", True, text, remark=True))
    return found


def _keep_papers(orders: Orders, ready: Ready, card: Card, name: str) -> str:
    """What there is to say of a peer's signature."""
    try:
        new = take_papers(orders.study, ready.study, card, name)
    except InputError as error:
        return f"; its signature is valid, and cannot be kept: {error}"
    if card.papers.signature is None:
        return "; it has not signed"
    return "; its signature was fetched, and is valid" if new else ""


def _own_address(orders: Orders, ready: Ready) -> Finding:
    """Where the others reach this participant; of a relay, whether it is there and knows the study."""
    relay = ready.relay_of(ready.me)
    if relay is None:
        return Finding("address", True, f"listening at {orders.listen or ready.me.address}")
    through = f" (dialled through the proxy {relay.proxy})" if relay.proxy else ""
    patience = min(orders.patience, HANDSHAKE)
    try:
        known = ask_relay(relay, ready.credentials, ready.hash, patience)
        if not known:
            brought = bring_signed(orders.study, ready.study, ready.hash)
            if brought is not None:
                bring_study(relay, brought, patience)
                known = ask_relay(relay, ready.credentials, ready.hash, patience)
        if not known:
            raise PeerUnreachable(f"{relay}: {UNKNOWN}")
    except NotYet as problem:
        error = PeerUnreachable(str(problem))
        return Finding("relay", False, f"{error}{through}", error)
    except CoterieError as error:
        return Finding("relay", False, str(error), error)
    return Finding("relay", True, f"{relay}{through} has the pinned certificate and knows the study")


def _ask(orders: Orders, ready: Ready, other: int) -> Finding:
    name, peer = ready.world.names[other], ready.peers[other]
    began = time.time()
    try:
        with same_participants():
            card = ask_card(ready, other, 5.0, orders.patience)
        signed = _keep_papers(orders, ready, card, name)
    except PeerUnreachable as error:
        unseen = "connection, certificate, software and study could not be checked"
        way = "" if peer.way is None else f": {error}"
        return Finding(name, None, f"is not up yet ({unseen}){way}", error)
    except CoterieError as error:
        return Finding(name, False, str(error), error)
    took = time.time() - began
    skew = card.clock - began
    clock = "" if abs(skew) < SKEW + took else f"; its clock is {skew:+.0f} s off, which makes logs hard to compare"
    way = f", reached {peer.way or 'directly'}"
    same = "software" if card.digest == software_digest() else "version (its files differ, which the study allows)"
    return Finding(
        name, True, f"is up, with the pinned certificate, the same {same} and the same study{way}{signed}{clock}"
    )
