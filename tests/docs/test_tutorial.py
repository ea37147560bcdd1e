"""The tutorial and README's walk, typed in as they stand: by every organisation in a folder of its own.

A comment before a block says who gives it: `<!-- run: tutorial; in alice -->`. Neighbouring blocks that are marked
`together` run side by side. `<!-- file: tutorial; alice/policy.toml -->` is a file with the block's content. Only
the addresses are changed, to free ports of this machine.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, Block, all_blocks, table

TUTORIAL, README = DOCS / "tutorial.md", ROOT / "README.md"
SECONDS = 900


def parts(block: Block) -> list[str]:
    return [part.strip() for part in block.note.split(";")]


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Shell:
    """Runs blocks of the page below a folder."""

    def __init__(self, folder: Path, page: Path) -> None:
        self.folder, self.page = folder, page
        names = sorted(set(re.findall(r"(?:[\w.]+\.example\.org|127\.0\.0\.1):\d+", page.read_text(encoding="utf-8"))))
        ports = free_ports(len(names))
        self.addresses = {name: f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)}
        self.environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    def here(self, text: str) -> str:
        for name, address in self.addresses.items():
            text = text.replace(name, address)
        return text

    def start(self, block: Block) -> subprocess.Popen[str]:
        where = next(part.removeprefix("in ") for part in parts(block) if part.startswith("in "))
        return subprocess.Popen(
            ["sh", "-e", "-c", self.here(block.body)],
            cwd=self.folder / where,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, together: list[Block]) -> str:
        """Run blocks side by side; what they said."""
        running = [self.start(block) for block in together]
        try:
            said = [process.communicate(timeout=SECONDS)[0] for process in running]
        finally:
            for process in running:
                process.kill()
        for block, process, text in zip(together, running, said, strict=True):
            assert process.returncode == 0, f"{self.page.name}:{block.line} ended with {process.returncode}\n{text}"
        return "\n".join(said)


def test_every_command_of_the_tutorial_has_somebody_who_gives_it():
    """But for the last section, whose organisations are others."""
    marked = [block for block in all_blocks(TUTORIAL) if block.language == "sh" and "run: tutorial" in block.note]
    assert len(marked) >= 15
    for block in marked:
        assert any(part.startswith("in ") for part in parts(block)), block.line


@pytest.mark.parametrize("page", [README, pytest.param(TUTORIAL, marks=pytest.mark.slow)], ids=lambda page: page.stem)
def test_a_walk_works_as_it_stands(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shell, namespace = Shell(tmp_path, page), {}

    def together(block: Block) -> object:
        return "together" if "together" in parts(block) else block.line

    for _, group in groupby(all_blocks(page), together):
        steps = list(group)
        for block in steps:
            if block.language == "python":
                exec(compile(block.body, str(page), "exec"), namespace)
            elif block.note.startswith("file: "):
                (tmp_path / parts(block)[1]).write_text(shell.here(block.body), encoding="utf-8")
        commands = [block for block in steps if block.note.startswith("run: ")]
        if commands:
            shell.run(commands)
    for file, _ in table(TUTORIAL, "| file in"):
        for name in ("alice", "bob"):
            assert (tmp_path / name / "results" / file).exists(), f"{file} of {name}"
    assert (tmp_path / "alice/results/centers.csv").read_text() == (tmp_path / "bob/results/centers.csv").read_text()
