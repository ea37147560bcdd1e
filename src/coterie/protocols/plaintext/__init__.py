"""The oracle: the same clustering in whole numbers, in the clear."""

from coterie.protocols.plaintext.family import Plain, Plaintext

__all__ = ["Plain", "Plaintext"]
