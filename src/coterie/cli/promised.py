"""What is disclosed and what it rests on, as lines of an explanation."""

from __future__ import annotations

from coterie.report.promises import Promises
from coterie.study.agreement import Study
from coterie.study.policy import explain_protocols

__all__ = ["bullets", "list_promises"]


def bullets(sentences: list[str]) -> list[str]:
    return [f"  - {sentence}" for sentence in sentences]


def list_promises(told: Promises, study: Study) -> list[str]:
    """Section by section."""
    lines = ["", "WHAT IS DISCLOSED WHILE IT RUNS", *bullets(told.during), "", "WHAT IS DISCLOSED AT THE END"]
    for name, learnt in told.at_end.items():
        lines += [f"to {name}:", *bullets(learnt)]
    for head, sentences in (
        ("WHAT NOBODY LEARNS", told.nobody),
        ("WHAT EVERYBODY KNOWS", told.public),
        ("WHAT THIS RESTS ON", told.assumptions + explain_protocols(study)),
        ("WHAT IS NOT PROTECTED", told.not_protected),
    ):
        lines += ["", head, *bullets(sentences)]
    return lines
