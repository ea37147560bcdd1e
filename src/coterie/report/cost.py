"""What the run took: iterations, traffic and time; and how it compares with scikit-learn."""

from __future__ import annotations

import numpy as np

from coterie.report import plots
from coterie.report.blocks import Block, Grid, Image, Paragraph, Tiles
from coterie.report.facts import Facts
from coterie.report.formats import format_bytes, format_count, format_duration, join_names, pluralise
from coterie.report.glossary import PROTOCOL_PURPOSES
from coterie.report.page import picture
from coterie.transport import Traffic

__all__ = ["show_comparison", "show_convergence", "show_cost"]


def show_convergence(facts: Facts) -> list[Block]:
    took = f"The run took {facts.n_iter} {pluralise('iteration', facts.n_iter)}"
    if facts.by_tolerance:
        said = (
            f"{took} and stopped because the centres' total squared movement was at most the agreed part, "
            f"{facts.tol:g}, of the columns' mean variance."
        )
    elif facts.options.get("matching") == "private":
        said = f"{took}, as agreed: where rows are matched in private, nobody asks whether the centres rest."
    else:
        said = f"{took}, the most that was allowed: the centres may still have been moving. More iterations would tell."
    if int(facts.options.get("n_init", "1")) > 1 or "chosen" in facts.options:
        said += " With several starts, this is the most that one of them took."
    known = (
        ""
        if facts.options.get("matching") == "private"
        else (": only whether it was little enough is opened, as one bit per iteration")
    )
    untold = f"How far the centres moved is not known{known}. Nor is the inertia, before the end."
    parts: list[Block] = [Paragraph(said), Paragraph(untold)]
    if facts.seconds_per_iteration:
        parts.append(_draw_iterations(facts.seconds_per_iteration))
    return parts


def _draw_iterations(taken: list[float]) -> Image:
    least, most, half = (format_duration(float(one)) for one in (min(taken), max(taken), np.median(taken)))
    return Image(
        picture(plots.heights(taken, "iteration", "seconds")),
        f"Seconds per iteration, for {len(taken)} {pluralise('iteration', len(taken))}: between {least} and {most}, "
        f"half of them {half} or less.",
        "How long each iteration took here, waiting for others included.",
    )


def show_cost(facts: Facts) -> list[Block]:
    traffic = facts.traffic
    sent, dealt = format_bytes(sum(traffic.bytes_sent.values())), format_count(traffic.rounds_with_dealing)
    figures = [
        ("sent by " + join_names(list(traffic.bytes_sent)), sent, f"{format_count(traffic.messages)} messages"),
        ("rounds", format_count(traffic.rounds), f"{dealt} with those of dealing"),
    ]
    if facts.seconds:
        figures.append(("time", format_duration(sum(facts.seconds.values())), ""))
    if facts.memory is not None:
        figures.append(("memory at most", format_bytes(facts.memory), ""))
    parts: list[Block] = [Tiles(figures)]
    if len(traffic.bytes_sent) > 1:
        by_party = [[name, format_bytes(count)] for name, count in traffic.bytes_sent.items()]
        parts.append(Grid(["party", "sent"], by_party, {1}, "By party"))
    if facts.seconds:
        by_phase = [[name, format_duration(taken)] for name, taken in facts.seconds.items()]
        parts.append(Grid(["phase", "time"], by_phase, {1}, "Time by phase"))
    if facts.forecast:
        parts.append(Grid(["forecast", ""], list(facts.forecast.items()), {1}, "What had been forecast"))
    return parts + _show_protocols(traffic)


def _show_protocols(traffic: Traffic) -> list[Block]:
    """What each protocol sent, largest first."""
    tallies = sorted(traffic.by_protocol.items(), key=lambda item: -item[1].bytes_sent)
    if not tallies:
        return []
    sent = {name: format_bytes(tally.bytes_sent) for name, tally in tallies}
    rows = [
        [name, PROTOCOL_PURPOSES.get(name, ""), *map(format_count, (t.calls, t.rounds, t.messages)), sent[name]]
        for name, t in tallies
    ]
    parts: list[Block] = [
        Grid(
            ["protocol", "what it does", "calls", "rounds", "messages", "sent"],
            rows,
            numeric={2, 3, 4, 5},
            caption="By protocol. Protocols call each other, so these overlap and add up to more than the whole.",
        )
    ]
    if any(traffic.bytes_sent.values()):
        drawn = plots.bars(list(sent), [t.bytes_sent for _, t in tallies], list(sent.values()), "bytes sent")
        largest = ", ".join(f"{name} {size}" for name, size in sent.items())
        parts.append(
            Image(picture(drawn), f"Bytes sent by protocol, largest first: {largest}.", "Where the bytes went.")
        )
    return parts


def show_comparison(words: dict[str, str]) -> list[Block]:
    return [
        Paragraph(
            "A simulation can do what a real run cannot: pool the data and let scikit-learn cluster it from the same "
            "start."
        ),
        Grid(["", ""], list(words.items()), caption="The secure result beside scikit-learn's"),
    ]
