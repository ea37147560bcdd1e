"""Coterie: k-means across organisations, with nobody's data leaving home."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.estimator import SecureKMeans
    from coterie.surveying import survey
    from coterie.taking_part import Study

__all__ = ["SecureKMeans", "Study", "__version__", "survey"]
__version__ = "0.2.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())  # silent until a program asks for its lines


def __getattr__(name: str) -> Any:
    if name == "SecureKMeans":  # imported when asked for: a party at work does without scikit-learn
        from coterie.estimator import SecureKMeans

        return SecureKMeans
    if name == "survey":
        from coterie.surveying import survey

        return survey
    if name == "Study":
        from coterie.taking_part import Study

        return Study
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
