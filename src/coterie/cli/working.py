"""What is shown while something is computed here: a spinner, or a bar."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from coterie.cli.console import Console

__all__ = ["show_steps", "show_working"]


@contextlib.contextmanager
def show_working(console: Console, text: str) -> Iterator[None]:
    """A spinner and the time that has passed, on a terminal; elsewhere nothing."""
    if not console.live:
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    shown = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        console=console.rich,
        transient=True,
    )
    with shown:
        shown.add_task(text, total=None)
        yield


@contextlib.contextmanager
def show_steps(console: Console, steps: int) -> Iterator[Callable[[str], None]]:
    """A bar on a terminal; events for machines; otherwise nothing. Gives a function to call before each step."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = BarColumn(bar_width=24), TimeElapsedColumn(), TextColumn("{task.description}")
    with Progress(*columns, console=console.rich, transient=True, disable=not console.live) as bar:
        task, done = bar.add_task("", total=steps), 0

        def step(doing: str) -> None:
            nonlocal done
            bar.update(task, completed=done, description=doing)
            if console.json:
                console.say(doing, "progress", done=done, of=steps)
            done += 1

        yield step
