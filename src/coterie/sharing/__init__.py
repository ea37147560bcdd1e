"""Shared values; the opening gate; the disclosure log; a role in a session."""

from coterie.sharing.additive import (
    bring_together,
    broadcast_masked,
    open_masked,
    receive_masked,
    send_to_dealer,
    start_opening,
    take_as_dealer,
    zero_shares,
)
from coterie.sharing.gate import open_wide, permit, tell_dealer
from coterie.sharing.ledger import Disclosure, Ledger
from coterie.sharing.party import Party, join
from coterie.sharing.shared import Secret, Shared, concatenate, hollow, hollow_after, shared, stack, total

__all__ = [
    "Disclosure",
    "Ledger",
    "Party",
    "Secret",
    "Shared",
    "bring_together",
    "broadcast_masked",
    "concatenate",
    "hollow",
    "hollow_after",
    "join",
    "open_masked",
    "open_wide",
    "permit",
    "receive_masked",
    "send_to_dealer",
    "shared",
    "stack",
    "start_opening",
    "take_as_dealer",
    "tell_dealer",
    "total",
    "zero_shares",
]
