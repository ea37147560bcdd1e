"""Fits here draw injected randomness."""

from tests.clustering.comparison import seeded_runs

__all__ = ["seeded_runs"]
