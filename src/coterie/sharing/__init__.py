"""Shared values; the opening gate; the disclosure log; a role in a session."""

from coterie.sharing.additive import (
    Masked,
    bring_together,
    broadcast_masked,
    open_bits,
    open_masked,
    open_words,
    receive_masked,
    send_to_dealer,
    take_as_dealer,
    zero_shares,
)
from coterie.sharing.gate import open_wide, permit, tell_dealer
from coterie.sharing.ledger import Disclosure, Ledger
from coterie.sharing.party import Party, join
from coterie.sharing.shared import Secret, Shared, concatenate, hollow, shared, stack

__all__ = [
    "Disclosure",
    "Ledger",
    "Masked",
    "Party",
    "Secret",
    "Shared",
    "bring_together",
    "broadcast_masked",
    "concatenate",
    "hollow",
    "join",
    "open_bits",
    "open_masked",
    "open_wide",
    "open_words",
    "permit",
    "receive_masked",
    "send_to_dealer",
    "shared",
    "stack",
    "take_as_dealer",
    "tell_dealer",
    "zero_shares",
]
