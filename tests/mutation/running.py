"""Tries mutants, each in a copy of the repository, so that a run that is stopped leaves nothing changed behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutation.mutants import Mutant, apply, change
from tests.mutation.score import Fate, Tried
from tests.mutation.targets import ROOT, files_for

__all__ = ["Copy"]

#: What the tests may take: so many times what they take without a change, and some seconds more.
TIMES, MORE = 4.0, 30.0
PYTEST = ("-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0", "--no-cov")


class Copy:
    """A copy of sources and tests in a folder of its own.

    numba keeps compiled kernels for the files that they come from, as long as those are not changed. The copy has a
    store of its own, filled by a run without a change. Each mutant gets a copy of that store: what is compiled for it
    must not take the place of what belongs to the unchanged file.
    """

    def __init__(self, folder: Path) -> None:
        self.root, self.kernels, self.spare = folder / "tree", folder / "kernels", folder / "kernels of a mutant"
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        for name in ("src", "tests", "docs", "pyproject.toml", "README.md"):
            one = ROOT / name
            if one.is_dir():
                shutil.copytree(one, self.root / name, ignore=shutil.ignore_patterns("__pycache__", "_build"))
            else:
                shutil.copy2(one, self.root / name)
        self.usual: dict[tuple[str, ...], float] = {}

    def attempt(self, mutant: Mutant) -> Tried:
        """Change the module, run its tests, change it back."""
        tests = files_for(mutant.module)
        limit = TIMES * self._usual(tests) + MORE
        path = self.root / mutant.module
        text, stamp = path.read_text(encoding="utf-8"), path.stat()
        changed = apply(text, mutant)
        shutil.rmtree(self.spare, ignore_errors=True)
        shutil.copytree(self.kernels, self.spare)
        began = time.monotonic()
        path.write_text(changed, encoding="utf-8")
        try:
            code, _ = self._run(tests, self.spare, limit, PYTHONDONTWRITEBYTECODE="1")
        finally:
            path.write_text(text, encoding="utf-8")
            os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # for numba, it was never changed
        fate: Fate = "timed out" if code is None else "killed" if code else "survived"
        return Tried(mutant, fate, change(text, changed), round(time.monotonic() - began, 1))

    def _usual(self, tests: Sequence[str]) -> float:
        """How long these tests take without a change, kernels that are to be compiled included."""
        key = tuple(tests)
        if key not in self.usual:
            began = time.monotonic()
            code, said = self._run(tests, self.kernels, None)
            if code:
                raise RuntimeError(f"{' '.join(tests)} fail without any change:\n{said}")
            self.usual[key] = time.monotonic() - began
        return self.usual[key]

    def _run(self, tests: Sequence[str], kernels: Path, limit: float | None, **more: str) -> tuple[int | None, str]:
        """The exit code of the tests and the end of what they say; no code if they take longer than the limit."""
        env = {**os.environ, "PYTHONPATH": str(self.root / "src"), "NUMBA_CACHE_DIR": str(kernels), **more}
        command = [sys.executable, "-m", "pytest", *PYTEST, *tests]
        with subprocess.Popen(
            command, cwd=self.root, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        ) as process:
            try:
                said, _ = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                return None, ""
            finally:
                with contextlib.suppress(ProcessLookupError):  # and whatever it has started
                    os.killpg(process.pid, signal.SIGKILL)
        return process.returncode, said.decode(errors="replace")[-2000:]
