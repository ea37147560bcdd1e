"""Tasks of one thread that take turns, so that their messages share rounds.

A task runs until it has to wait for what others open (`end_round`), and then it is the next one's turn. So whatever all
tasks have to send is sent before anybody waits: in one round, and to each peer in one piece (`Channel.gather`). Blocks
of rows run in this way beside the main program where there are no lanes for them, without a second thread.

Everybody takes turns at the same points of the same program, the dealer too, where others would wait. So tasks share
one channel: frames come in the order in which they are expected.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from greenlet import getcurrent, greenlet

from coterie.errors import ProtocolError

__all__ = ["Task", "Turns"]

T = TypeVar("T")


class Task(Generic[T]):
    """Work that takes turns with other tasks. `passed`: how many rounds it has ended."""

    __slots__ = ("_run", "_work", "passed", "result")

    def __init__(self, work: Callable[[], T]) -> None:
        self.passed = 0
        self._work = work
        self._run = greenlet(self._do)
        self._run.gr_context = contextvars.copy_context()

    def _do(self) -> None:
        self.result = self._work()

    def take_turn(self) -> bool:
        """Go on until the end of a round, or to the end; whether there is more to do. Raises what went wrong."""
        self._run.switch()
        return not self._run.dead

    def give_up(self) -> None:
        self._run.throw()


class Turns:
    """The tasks of one thread: the main program, which begins them, and those that run beside it."""

    def __init__(self) -> None:
        self._main: greenlet | None = None
        self._passed = 0
        self._beside: list[Task[Any]] = []
        self._now: Task[Any] | None = None  # whose turn it is; None: the main program
        self._silent = False

    def begin(self, work: Callable[[], T]) -> Callable[[], T]:
        """Begin a task, whose first turn is at the end of this round; call what is returned to let it come to its end,
        for what it gives."""
        if self._now is not None:
            raise ProtocolError("a task beside the main program begins no others")
        self._main = getcurrent()
        task = Task(work)
        self._beside.append(task)

        def finish() -> T:
            while task in self._beside:
                self._let_others()
            return task.result

        return finish

    def begin_round(self) -> Callable[[], None]:
        """Call before a message is sent, and what is returned where the others' have to be there: all other tasks take
        a turn, unless they have had one since."""
        now = self._now
        begun = self._passed if now is None else now.passed
        if now is None and self._silent and self._beside:
            raise ProtocolError("the dealer waits for the tasks that are under way, and then for this")
        return lambda: self._end_round(now, begun)

    def _end_round(self, now: Task[Any] | None, begun: int) -> None:
        if now is not None:
            if now.passed == begun and self._main is not None:
                now.passed += 1
                self._main.switch()
        elif self._passed == begun:
            self._passed += 1
            if self._beside:
                self._let_others()

    def finish_all(self) -> None:
        """Let all other tasks come to their end: the main program has nothing to do before it hears from somebody."""
        while self._beside and self._now is None:
            self._let_others()

    def be_silent(self) -> None:
        """Where the dealer does `finish_all`, its next message comes after those of all tasks: so must everybody's."""
        self._silent = self._now is None and bool(self._beside)

    def _let_others(self) -> None:
        for task in self._beside.copy():
            self._now, more = task, False
            try:
                more = task.take_turn()
            finally:
                self._now = None
                if not more:
                    self._beside.remove(task)
        self._silent = self._silent and bool(self._beside)

    def give_up(self) -> None:
        """Whatever is under way is not needed any more."""
        for task in self._beside:
            task.give_up()
        self._beside.clear()
