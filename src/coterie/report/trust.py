"""What was disclosed, what that rests on, and with which versions it was computed."""

from __future__ import annotations

from coterie.ideal import Terms
from coterie.report.blocks import Block, Bullets, Code, Grid, Heading, Pairs, Paragraph
from coterie.report.facts import Facts
from coterie.report.formats import format_count
from coterie.report.log import describe_log
from coterie.report.promises import Promises, promises

__all__ = ["promises_of", "show_disclosures", "show_trust", "show_versions"]


def show_disclosures(facts: Facts) -> list[Block]:
    """The disclosure log in words, and beside it what nobody learnt."""
    entries = describe_log(facts.disclosures, facts.roles)
    made = promises_of(facts)
    return [
        Paragraph(
            "Every value that left secrecy is in this table; all participants keep the same log of it. Everything "
            "else that was sent is masked, and looks random to whoever receives it."
        ),
        Grid(
            ["what was learnt, and by whom", "when", "times", "why"],
            [[entry.sentence, entry.when, format_count(entry.times), entry.why] for entry in entries],
            numeric={2},
            caption=f"Disclosures: {format_count(len(facts.disclosures))} openings",
        ),
        Heading("What nobody learnt"),
        Bullets(made.nobody),
        Heading("What everybody knows" + (", the helper included" if facts.roles.dealer else "")),
        Bullets(made.public),
    ]


def show_trust(facts: Facts) -> list[Block]:
    made = promises_of(facts)
    return [
        Paragraph("The promises above hold under these assumptions:"),
        Bullets(made.assumptions),
        Heading("What is not protected"),
        Bullets(made.not_protected),
    ]


def promises_of(facts: Facts) -> Promises:
    """What the terms of this run had announced."""
    agreed = facts.options
    terms = Terms(
        partition=agreed["partition"],
        counts=agreed["counts"],
        labels=agreed["labels"],
        centers=agreed["centers"],
        least=facts.least,
        contribution=agreed.get("contribution", "least"),
        coalition=facts.coalition,
        sizes=agreed.get("sizes", "secret"),
        columns=tuple(column.name for column in facts.columns),
        rounded=tuple(column.name for column in facts.columns if column.step),
        quality=tuple(facts.quality),
        clusters=facts.k,
        chooses="chosen" in agreed,
        choose=agreed.get("choose", "calinski-harabasz"),
        measures=agreed.get("measures", "revealed"),
        scale=agreed["scale"],
        scales=agreed.get("scales", "revealed"),
        init=agreed["init"],
        starts=int(agreed.get("n_init", "1")) * (1 + agreed.get("chosen", "").count(",")),
        ids=agreed["partition"] != "horizontal" and facts.study is not None,
        matching=agreed.get("matching", "equal"),
        weighed="row_weights" in agreed,
        bounds=any(entry.what == "bounds" for entry in facts.disclosures),
    )
    return promises(terms, facts.roles, agreed["protocol"])


def show_versions(facts: Facts) -> list[Block]:
    parts: list[Block] = [Pairs({"Written": facts.when, **facts.versions} if facts.when else facts.versions)]
    if facts.hashes:
        hashes = [[name, Code(value)] for name, value in facts.hashes.items()]
        parts.append(Grid(["hash of", "SHA-256"], hashes, caption="Hashes"))
    return parts
