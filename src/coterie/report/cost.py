"""What the run took: iterations, traffic and time; and how it compares with scikit-learn."""

from __future__ import annotations

import numpy as np

from coterie.report import plots
from coterie.report.blocks import Block, Grid, Image, Paragraph, Tiles
from coterie.report.facts import Facts
from coterie.report.formats import format_bytes, format_count, format_duration, join_names, pluralise
from coterie.report.glossary import PROTOCOL_PURPOSES
from coterie.report.pictures import draw_svg
from coterie.transport import Traffic

__all__ = ["show_comparison", "show_course", "show_sent", "show_times", "show_traffic"]

#: The phases in which a participant waits for the others to come, and does nothing else.
AWAITING = ("waiting for the others",)


def show_course(facts: Facts) -> list[Block]:
    """How many iterations there were and why it stopped, and how long everything took."""
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
    if _several_starts(facts):
        said += " With several starts, this is the most that one of them took."
    known = (
        ""
        if facts.options.get("matching") == "private"
        else (": only whether it was little enough is opened, as one bit per iteration")
    )
    untold = f"How far the centres moved is not known{known}. Nor is the inertia, before the end."
    parts: list[Block] = [Paragraph(said), Paragraph(untold)]
    if (first := _first_here(facts)) > 1:
        after = f"The run was taken up again after iteration {first - 1}"
        parts.append(Paragraph(f"{after}: times, rounds and bytes on this page are those since then."))
    parts += show_times(facts.seconds, facts.waited)
    if facts.laps:
        parts.append(_draw_iterations(facts))
    return parts


def show_times(seconds: dict[str, float], idle: float | None) -> list[Block]:
    """Seconds by phase, waiting told apart from computing: of the last phase, `idle` seconds were spent waiting."""
    if not seconds:
        return []
    rows: list[list[object]] = []
    before = sum(taken for name, taken in seconds.items() if name in AWAITING)
    *_, last = seconds
    for name, taken in seconds.items():
        if name == last and idle is not None:
            waited = min(idle, taken)
            rows.append([f"{name}: working", format_duration(taken - waited)])
            rows.append([f"{name}: waiting for messages of others", format_duration(waited)])
        else:
            rows.append([f"{name} to come" if name in AWAITING else name, format_duration(taken)])
    total = sum(seconds.values())
    rows.append(["in all", format_duration(total)])
    tiles: list[tuple[str, object, str]] = [("the run", format_duration(total - before), "since everybody was there")]
    if before:
        tiles.insert(0, ("waited before it", format_duration(before), "for the others to come"))
    if idle is not None:
        of_it = idle / max(seconds[last], 1e-9)
        tiles.append(("of computing, waiting", f"{min(of_it, 1):.0%}", "for messages of the others"))
    return [Tiles(tiles), Grid(["phase", "time"], rows, {1}, "Time")]


def _draw_iterations(facts: Facts) -> Image:
    taken = [lap.seconds for lap in facts.laps]
    waited = [min(lap.waited, lap.seconds) for lap in facts.laps]
    worked = [whole - idle for whole, idle in zip(taken, waited, strict=True)]
    least, most, half = (format_duration(float(one)) for one in (min(taken), max(taken), np.median(taken)))
    idle = f"{sum(waited) / max(sum(taken), 1e-9):.0%}"
    several, first = _several_starts(facts), _first_here(facts)
    earlier = f" Those before iteration {first} were done before the run was taken up again." if first > 1 else ""
    of_all = f" Those of all starts, one after another: {len(taken)} in all." if several else ""
    return Image(
        draw_svg(plots.iterations(worked, waited, first)),
        f"Seconds per iteration, for {len(taken)} {pluralise('iteration', len(taken))}: between {least} and {most}, "
        f"half of them {half} or less; {idle} of the time was spent waiting for others.",
        f"How long each iteration took here, and how much of that was waiting for others.{of_all}{earlier}",
    )


def _first_here(facts: Facts) -> int:
    """The first iteration that was measured; those before it were done before the run was taken up again."""
    return max(1, facts.n_iter - len(facts.laps) + 1) if facts.laps and not _several_starts(facts) else 1


def _several_starts(facts: Facts) -> bool:
    return int(facts.options.get("n_init", "1")) > 1 or "chosen" in facts.options


def show_traffic(facts: Facts) -> list[Block]:
    """What was sent, in how many rounds, and with how much memory; and what had been forecast."""
    parts = show_sent(facts.traffic, facts.memory)
    if facts.forecast:
        parts.append(Grid(["forecast", ""], list(facts.forecast.items()), {1}, "What had been forecast"))
    return parts + _show_protocols(facts.traffic)


def show_sent(traffic: Traffic, memory: int | None) -> list[Block]:
    """What was sent, in how many rounds, and with how much memory."""
    sent, dealt = format_bytes(sum(traffic.bytes_sent.values())), format_count(traffic.rounds_with_dealing)
    figures = [
        ("sent by " + join_names(list(traffic.bytes_sent)), sent, f"{format_count(traffic.messages)} messages"),
        ("rounds", format_count(traffic.rounds), f"{dealt} with those of dealing"),
    ]
    if memory is not None:
        figures.append(("memory at most", format_bytes(memory), ""))
    parts: list[Block] = [Tiles(figures)]
    if len(traffic.bytes_sent) > 1:
        by_party = [[name, format_bytes(count)] for name, count in traffic.bytes_sent.items()]
        parts.append(Grid(["party", "sent"], by_party, {1}, "By party"))
    return parts


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
            Image(draw_svg(drawn), f"Bytes sent by protocol, largest first: {largest}.", "Where the bytes went.")
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
