"""SecureNN's protocols, extended to p data parties, as a family for clustering."""

from __future__ import annotations

from typing import ClassVar

from coterie.protocols.interface import Division
from coterie.protocols.securenn.sign import negative
from coterie.protocols.securenn.truncation import truncate
from coterie.protocols.words import AdditiveWords, select_share
from coterie.sharing import Shared, stack

__all__ = ["SecureNN"]


class SecureNN(AdditiveWords):
    """The paper's protocols, and its steps as they stand in `steps.py`. Bits are words. The helper takes part in every
    comparison."""

    name = "securenn"
    divisions: ClassVar[dict[str, Division]] = {"secret": "quotient", "revealed": "reciprocal"}
    dealer_hears = frozenset({"array"})
    kernels = ("coterie.protocols.securenn.kernels", "coterie.ring.odd")

    def is_negative(self, x: Shared) -> Shared:
        return negative(self.me, x)

    def is_negative_within(self, x: Shared, bits: int | None) -> Shared:
        return negative(self.me, x, bits)

    def select(self, bit: Shared, x: Shared, y: Shared) -> Shared:
        return select_share(self.me, bit, x, y)

    def to_words(self, bits: Shared) -> Shared:
        return bits

    def to_bits(self, x: Shared, count: int) -> Shared:
        """The sign of x 2^(w-1-i) is bit i of x; `negative` doubles."""
        width = self.ring.width
        return negative(self.me, stack([x * (1 << (width - 2 - i)) for i in range(count)]))

    def truncate(self, x: Shared, g: int) -> Shared:
        return truncate(self.me, x, g)
