"""The oracle: the same clustering in whole numbers, in the clear."""

from coterie.protocols.plaintext.family import Plaintext, in_the_clear, whole

__all__ = ["Plaintext", "in_the_clear", "whole"]
