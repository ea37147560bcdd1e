"""A page for every command of `coterie`, made from the commands themselves when the documentation is built.

`write(folder)` writes them; there is nothing to edit. Hidden commands and options are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

__all__ = ["commands", "page", "pages", "write"]

NOTE = "<!-- Made from the command itself by docs/command_pages.py. -->"


def commands(command: Any, words: tuple[str, ...] = ("coterie",)) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, by the words that call it; groups are gone into."""
    for name, one in getattr(command, "commands", {}).items():
        if one.hidden:
            continue
        inner = list(commands(one, (*words, name)))
        yield from inner or [((*words, name), one)]


def pages(root: Any) -> dict[str, str]:
    """The pages by file name, an index first."""
    found = {"-".join(words[1:]) + ".md": (words, one) for words, one in commands(root)}
    listed = "\n".join(
        f"| [`{' '.join(words)}`]({name}) | {_first_sentence(one)} |" for name, (words, one) in found.items()
    )
    names = "\n".join(name.removesuffix(".md") for name in found)
    index = (
        f"{NOTE}\n\n# Commands\n\nEvery command says the same with `--help`. [Exit codes](../errors.md) are the same "
        f"for all of them.\n\n| command | |\n|---|---|\n{listed}\n\n## Options of every command\n\n"
        f"`--quiet` and `--json` may stand anywhere in the line.\n\n{_options(root, ('coterie',))}\n\n"
        f"```{{toctree}}\n:maxdepth: 1\n:hidden:\n\n{names}\n```\n"
    )
    return {"index.md": index, **{name: page(words, one) for name, (words, one) in found.items()}}


def page(words: tuple[str, ...], command: Any) -> str:
    """What a command does, how it is called, its arguments and its options."""
    context = typer.Context(command, info_name=" ".join(words))
    usage = " ".join([*words, *command.collect_usage_pieces(context)])
    parts = [
        NOTE,
        f"# {' '.join(words)}",
        _prose(command.help or ""),
        f"```text\n{usage}\n```",
        _options(command, words),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def write(folder: Path) -> None:
    """Write what has changed, and remove the page of a command that is gone."""
    from coterie.cli.app import app

    made = pages(typer.main.get_command(app))
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.md"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _options(command: Any, words: tuple[str, ...]) -> str:
    """Arguments and options as a table; nothing of hidden ones."""
    context = typer.Context(command, info_name=" ".join(words))
    records = [
        record
        for one in command.params
        if not getattr(one, "hidden", False) and (record := one.get_help_record(context)) is not None
    ]
    rows = [f"| `{_cell(_types(name))}` | {_prose(_cell(meaning))} |" for name, meaning in records if name]
    return "\n".join(["| argument or option | meaning |", "|---|---|", *rows]) if rows else ""


def _types(name: str) -> str:
    """What is given once or several times is of one type."""
    return re.sub(r"<list\[(\w+)\]>", lambda found: f"<{found[1].lower()}>", name)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _prose(text: str) -> str:
    """Help as Markdown: what could be taken for a mark stays as it is, and words of code stay code."""
    text = text.replace("\b", "").strip()
    pieces = re.split(r"(`[^`]*`)", text)
    plain = [piece if at % 2 else re.sub(r"([*_<>\[\]#$])", r"\\\1", piece) for at, piece in enumerate(pieces)]
    return re.sub(r"(?<![\w`-])--[a-z][a-z-]*", r"`\g<0>`", "".join(plain))  # else it becomes a dash


def _first_sentence(command: Any) -> str:
    return _prose(_cell((command.help or "").split("\n\n")[0]))
