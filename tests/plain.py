"""Messages for people: what must not stand in one."""

from __future__ import annotations

import re

from coterie.errors import CoterieError

__all__ = ["FOREIGN", "keep_messages"]

#: msgspec's places and words, types and exceptions of Python, numbers of the operating system, OpenSSL's words.
FOREIGN = re.compile(
    r"\$[.\[]|`(int|str|float|bool|array|object|null)|Expected `|Invalid enum|Object (missing|contains)|\bNone\b"
    r"|Errno|errno|\b[A-Z]\w*(Error|Exception)\b|\bPeer(Lost|Unreachable)\b|\bWrong[A-Z]|_ssl\.c|\[SSL|ALERT|Traceback"
)


def keep_messages(monkeypatch) -> list[str]:
    """The messages of all errors of Coterie that are made from now on."""
    kept: list[str] = []
    made = CoterieError.__init__

    def keep(self: CoterieError, *words: object) -> None:
        kept.extend(str(word) for word in words)
        made(self, *words)

    monkeypatch.setattr(CoterieError, "__init__", keep)
    return kept
