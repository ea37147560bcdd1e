"""How a run is shown: a line that is drawn over on a terminal, plain lines in a log, objects for machines."""

from __future__ import annotations

import contextlib
import time
from types import TracebackType

from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from coterie.cli.console import Console, printable
from coterie.report.formats import format_bytes, format_duration
from coterie.study.voice import Voice

__all__ = ["Progress"]

#: Characters of a line beside its text: a spinner and a space before it, ^C and the cursor behind.
AROUND = 5


class Progress(Voice):
    """Says for whom it waits and since when, which iteration it is, how much was sent, how long it may take."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.began = self.first = time.monotonic()
        self.done = 0
        self.lines = [""]  # the first that fits the terminal is drawn
        self.spinner = Spinner("dots")  # one for all: it turns by the time since it was first drawn
        self.live: Live | None = None
        if console.live:
            self.live = Live(get_renderable=self._drawn, console=console.rich, refresh_per_second=4, transient=True)

    def __enter__(self) -> Progress:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            with contextlib.suppress(OSError):  # the terminal may be gone
                self.live.stop()

    def phase(self, text: str) -> None:
        self.began = self.first = time.monotonic()
        self.done = 0
        self._show(text, "phase")

    def note(self, text: str) -> None:
        self.console.say(f"{time.strftime('%H:%M:%S')} {text}", "note")

    def waiting(self, names: list[str]) -> None:
        self.began = time.monotonic()
        self._show(f"waiting for {', '.join(names)}", "waiting", names=names, since=time.time())

    def iterated(self, start: int, iteration: int, most: int, sent: int) -> None:
        self.done += 1
        pace = (time.monotonic() - self.first) / self.done
        left = pace * (most - iteration)
        which = f"iteration {iteration} of at most {most}{f' of start {start + 1}' if start else ''}"
        so_far, each = f"{format_bytes(sent)} sent", f"{format_duration(pace)} each"
        rest = f"at most {format_duration(left)} left"
        counted = {"start": start, "iteration": iteration, "most": most, "sent": sent}
        self._show(f"{which}, {so_far}, {each}, {rest}", "iteration", **counted, seconds=pace, at_most_left=left)
        self.lines += [f"{which}, {so_far}, {rest}", f"{which}, {rest}"]

    def _show(self, text: str, event: str, **fields: object) -> None:
        self.lines = [text]
        if self.live is None:
            self.console.say(f"{time.strftime('%H:%M:%S')} {text}", event, **fields)

    def _drawn(self) -> Spinner:
        """One line, however narrow the terminal: of more than one, some would stay when it is drawn over. Where it is
        narrow, less is said. There is room behind it for the ^C that a terminal shows when it is typed."""
        waited = int(time.monotonic() - self.began)
        passed = f" ({format_duration(waited)})" if waited else ""
        room = max(self.console.rich.width - len(passed) - AROUND, 1)
        texts = [Text(printable(line)) for line in self.lines]
        text = next((one for one in texts if one.cell_len <= room), texts[-1])
        text.truncate(room, overflow="ellipsis")
        self.spinner.update(text=text.append(passed))
        return self.spinner
