"""Shared values; the opening gate; the disclosure log; a role in a session."""

from coterie.sharing.gate import (
    Masked,
    broadcast_masked,
    open_bits,
    open_masked,
    open_parts,
    open_to,
    open_wide,
    open_words,
    receive_masked,
    zero_shares,
)
from coterie.sharing.ledger import Disclosure, Ledger
from coterie.sharing.party import Party, join
from coterie.sharing.shared import Secret, Shared, concatenate, hollow, stack

__all__ = [
    "Disclosure",
    "Ledger",
    "Masked",
    "Party",
    "Secret",
    "Shared",
    "broadcast_masked",
    "concatenate",
    "hollow",
    "join",
    "open_bits",
    "open_masked",
    "open_parts",
    "open_to",
    "open_wide",
    "open_words",
    "receive_masked",
    "stack",
    "zero_shares",
]
