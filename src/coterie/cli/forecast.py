"""`coterie forecast`: what a study will take, before anything runs."""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
import typer

from coterie.cli.console import Console
from coterie.cli.parsing import parse_range
from coterie.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from coterie.planning import Forecast
    from coterie.transport.links import Link

__all__ = ["Study", "draw_forecast", "forecast", "forecast_links"]

#: More rows than this are a matter of hours, and of more memory than a forecast should take.
MOST_ROWS = 100_000_000
#: How far the plot reaches.
MOST_PLOTTED = 10_000_000
NAMES = {"loopback": "one machine", "lan": "LAN", "wan": "WAN"}


class Study(NamedTuple):
    """The sizes and options that a forecast is for."""

    rows: int
    columns: int
    clusters: int
    parties: int
    partition: Literal["horizontal", "vertical", "mixed"]
    counts: Literal["secret", "revealed"]
    labels: Literal["private", "revealed"]
    bounds: tuple[float, float]
    iterations: int
    protocol: str = "onetime"
    centers: Literal["revealed", "shared"] = "revealed"
    restarts: int = 1
    init: str = "k-means++"


def forecast(
    context: typer.Context,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="Rows in all.")],
    columns: Annotated[int, typer.Option("--columns", "-d", min=1, help="Columns in all.")],
    clusters: Annotated[int, typer.Option("--clusters", "-k", min=1, help="Clusters.")],
    parties: Annotated[int, typer.Option("--parties", "-p", min=2, help="Data parties, the helper aside.")] = 2,
    partition: Annotated[
        Literal["horizontal", "vertical", "mixed"], typer.Option(help="Each party has rows, columns, or cells.")
    ] = "horizontal",
    counts: Annotated[Literal["secret", "revealed"], typer.Option(help="The clusters' sizes.")] = "secret",
    labels: Annotated[
        Literal["private", "revealed"], typer.Option(help="revealed: SVK-means, vertical only.")
    ] = "private",
    centers: Annotated[Literal["revealed", "shared"], typer.Option(help="shared: nobody has them.")] = "revealed",
    restarts: Annotated[int, typer.Option(min=1, help="Starts, of which the best is kept.")] = 1,
    init: Annotated[Literal["k-means++", "random"], typer.Option(help="How starts are drawn.")] = "k-means++",
    iterations: Annotated[int, typer.Option("--iterations", "-i", min=1, help="Of each start: a guess.")] = 20,
    protocol: Annotated[
        Literal["onetime", "securenn", "falcon"], typer.Option(help="The protocol family.")
    ] = "onetime",
    bounds: Annotated[str, typer.Option(help="The public range of every column; wider ones take more bytes.")] = "-1:1",
    plot: Annotated[Path | None, typer.Option(help="A PNG to write: time and bytes over rows and clusters.")] = None,
) -> None:
    """What a study will take before anything runs: rounds, bytes, time and memory, on one machine, LAN and WAN.

    Rounds and bytes are exact for the given number of iterations and the plan that suits the link; time and memory are
    estimates. Rows or columns are taken to be split evenly over the parties.
    """
    console: Console = context.obj
    if rows > MOST_ROWS:
        raise InputError(f"--rows: forecasts go up to {MOST_ROWS:,} rows, not {rows:,}")
    if clusters > rows:
        raise InputError(f"--clusters {clusters}: {rows} rows make at most {rows} clusters")
    if labels == "revealed" and partition != "vertical":
        raise InputError("--labels revealed is SVK-means, which needs --partition vertical")
    if plot is not None and plot.suffix.lower() != ".png":
        raise InputError(f"--plot writes a PNG; {plot} is not called one")
    study = Study(
        rows, columns, clusters, parties, partition, counts, labels, _parse_bounds(bounds), iterations, protocol,
        centers, restarts, init,
    )  # fmt: skip
    _show(console, study, forecast_links(study))
    if plot is not None:
        _write(plot, draw_forecast(study))
        console.say(f"The plot: {plot}", "plot", path=str(plot))


def forecast_links(study: Study) -> dict[str, Forecast]:
    """The forecast for each link, with the plan that suits it."""
    from coterie.planning import even_layout, planned, sketch
    from coterie.planning import forecast as forecast_of
    from coterie.transport.links import LINKS

    layout = even_layout(study.partition, study.rows, study.columns, study.parties)
    options = {name: getattr(study, name) for name in ("counts", "labels", "centers", "restarts", "protocol", "init")}
    task = sketch(layout, study.clusters, study.bounds, **options)
    return {
        name: forecast_of(planned(task, study.parties, "auto", link), study.parties, study.iterations, link, "stop")
        for name, link in LINKS.items()
    }


def _parse_bounds(text: str) -> tuple[float, float]:
    try:
        low, high = parse_range(text)
        if low < high and math.isfinite(high - low):
            return low, high
    except ValueError:
        pass
    raise InputError(f"--bounds {text!r} is no range; write it as low:high, low before high, such as 0:120")


# -- what it says -----------------------------------------------------------------------------------------------------


def _name_other(study: Study) -> str:
    """What the one is who owns no data; empty, where there is nobody like that."""
    from coterie.protocols import FAMILIES

    world = FAMILIES[study.protocol].world([f"P{j}" for j in range(1, study.parties + 1)])
    return "" if 0 not in world.ranks else "helper" if world.dealer == 0 else "third server"


def _show(console: Console, study: Study, found: dict[str, Forecast]) -> None:
    from rich.table import Table

    from coterie.report.formats import format_bytes, format_duration
    from coterie.transport.links import LINKS

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    for name in NAMES.values():
        table.add_column(name, justify="right", no_wrap=True)

    def row(name: str, cells: Sequence[str]) -> None:
        table.add_row(name, *cells)

    every = [found[name] for name in NAMES]
    row("bandwidth", [_speed(LINKS[name]) for name in NAMES])
    row("round trip", [format_duration(LINKS[name].round_trip) for name in NAMES])
    row("time, an iteration", [format_duration(one.seconds_per_iteration) for one in every])
    row(f"time, {study.iterations} iterations", [format_duration(one.seconds) for one in every])
    row("rounds, an iteration", [str(one.rounds_per_iteration) for one in every])
    row("rounds, in all", [f"{one.rounds:,}" for one in every])
    row("a party sends, an iteration", [format_bytes(_most(one.bytes_per_iteration)) for one in every])
    row("a party sends, in all", [format_bytes(_most(one.bytes_sent)) for one in every])
    other = _name_other(study)
    if other:
        row(f"the {other} sends, an iteration", [format_bytes(one.bytes_per_iteration["P0"]) for one in every])
        row(f"the {other} sends, in all", [format_bytes(one.bytes_sent["P0"]) for one in every])
    row("memory of a party", [format_bytes(_most(one.memory)) for one in every])
    if other:
        row(f"memory of the {other}", [format_bytes(one.memory["P0"]) for one in every])
    joined = f", and a {other}" if other else ""
    console.say(f"{_describe(study)}{joined}; protocol {study.protocol}\n", "study", **study._asdict())
    console.show(table, "forecast", links={name: msgspec.to_builtins(one) for name, one in found.items()})
    console.say(
        "\nRounds and bytes are exact, if it takes so many iterations and the plan is the one for the link; TLS adds\n"
        "a little. Time and memory are estimates, for all roles together on two cores of a 2.8 GHz Xeon.",
        "note",
    )


def _describe(study: Study) -> str:
    sizes = f"{study.rows:,} rows, {study.columns} columns, {study.clusters} clusters, {study.parties} parties"
    starts = f", {study.restarts} starts" if study.restarts > 1 else ""
    return f"{sizes}, {study.partition}, sizes {study.counts}, labels {study.labels}, centres {study.centers}{starts}"


def _most(by_rank: dict[str, int]) -> int:
    """The data party's that sends, or takes, most."""
    return max(value for rank, value in by_rank.items() if rank != "P0")


def _speed(link: Link) -> str:
    bits = 8 * link.bandwidth
    return f"{bits / 1e9:g} Gbit/s" if bits >= 1e9 else f"{bits / 1e6:g} Mbit/s"


# -- the plot ---------------------------------------------------------------------------------------------------------


def draw_forecast(study: Study) -> Figure:
    """Time and bytes of a whole run, over the number of rows and over the number of clusters."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    from coterie.report.formats import format_bytes, format_duration

    rows, clusters = _around_rows(study), _around_clusters(study)
    by_rows = [forecast_links(study._replace(rows=n)) for n in rows]
    by_clusters = [forecast_links(study._replace(clusters=k)) for k in clusters]
    drawn = Figure(figsize=(9, 6.6), layout="constrained")
    axes: Any = drawn.subplots(2, 2, sharey="row")
    inks = {"loopback": "#5d646d", "lan": "#0072b2", "wan": "#e69f00"}
    marks = {"loopback": "s", "lan": "o", "wan": "^"}
    for column, (places, found) in enumerate(((rows, by_rows), (clusters, by_clusters))):
        for name, label in NAMES.items():
            style = {"color": inks[name], "marker": marks[name], "markersize": 4, "linewidth": 1.4, "label": label}
            axes[0, column].plot(places, [one[name].seconds for one in found], **style)
            axes[1, column].plot(places, [sum(one[name].bytes_sent.values()) for one in found], **style)
    for column, place, name in ((0, study.rows, "rows"), (1, study.clusters, "clusters")):
        for line in (0, 1):
            axes[line, column].axvline(place, color="#b9bcc0", linewidth=0.8, linestyle=":")
            axes[line, column].set_yscale("log")
            axes[line, column].grid(axis="y", color="#e5e3dd", linewidth=0.7)
            axes[line, column].tick_params(labelsize=8)
            for side in ("top", "right"):
                axes[line, column].spines[side].set_visible(False)
        axes[1, column].set_xlabel(name, fontsize=9)
    for line in (0, 1):
        axes[line, 0].set_xscale("log")
        axes[line, 0].xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes[0, 0].set_ylabel(f"time of {study.iterations} iterations", fontsize=9)
    axes[1, 0].set_ylabel("sent, by all together", fontsize=9)
    axes[0, 0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_duration(value)))
    axes[1, 0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_bytes(value)))
    axes[0, 0].legend(fontsize=8, frameon=False)
    drawn.suptitle(f"dotted: {_describe(study)}", fontsize=9)
    return drawn


def _around_rows(study: Study) -> list[int]:
    """From a hundredth of the rows to ten times as many, three steps a decade."""
    least = max(study.clusters, study.parties, 10)
    most = max(MOST_PLOTTED, study.rows)
    steps = {round(study.rows * 10 ** (step / 3)) for step in range(-6, 4)}
    return sorted(n for n in steps if least <= n <= most) or [study.rows]


def _around_clusters(study: Study) -> list[int]:
    """From 2 to twice the clusters, or to 16, and no more than there are rows."""
    most = min(max(16, 2 * study.clusters), study.rows)
    return sorted({k for k in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, study.clusters, most) if k <= most})


def _write(path: Path, drawn: Figure) -> None:
    from coterie.report.pictures import draw_png

    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        new.write_bytes(draw_png(drawn))
        os.replace(new, path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        new.unlink(missing_ok=True)
