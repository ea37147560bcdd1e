"""Other frameworks on the same Lloyd iterations, each in a virtual environment of its own, as a Markdown table.

    python benchmarks/peers/run.py [--n 10000] [--d 2] [--k 4] [--only MPyC]

Environments are made in .venvs/ beside this file when missing. A peer that cannot be installed, fails or takes longer
than the limit gets a row that says why. Standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIMIT = 600  # seconds a peer
HEAD = ["peer", "version", "ms / iteration", "parties", "who must be trusted", "what is disclosed, to whom", "note"]


@dataclass(frozen=True)
class Environment:
    """A peer's script and what it needs. `alone` is installed without what its metadata asks for."""

    name: str
    script: str
    package: str
    needs: tuple[str, ...] = ()
    alone: bool = False


ENVIRONMENTS = (
    Environment("MPyC", "peer_mpyc.py", "mpyc", ("numpy", "gmpy2")),
    # CrypTen's metadata names a retired package: what it imports is installed instead
    Environment("CrypTen", "peer_crypten.py", "crypten", ("torch==2.13.0", "numpy", "pyyaml", "omegaconf"), alone=True),
    Environment("SPU", "peer_spu.py", "spu"),
)


class Failed(Exception):
    """Why a peer has no figure."""


def call(command: list[str], limit: float, what: str) -> str:
    """Run in a process group of its own, which ends with it; the standard output."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=HERE
    )
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        raise Failed(f"{what}: over {limit:.0f} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode:
        lines = [line for line in err.splitlines() if line.strip() and not line.startswith("[notice]")]
        raise Failed(f"{what}: {lines[-1].strip()[:200] if lines else f'exit {process.returncode}'}")
    return out


def python_of(peer: Environment) -> str:
    """The interpreter of the peer's environment, made when missing."""
    folder = HERE / ".venvs" / peer.package
    python, done = folder / "bin" / "python", folder / "installed"
    if not done.exists():
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if peer.needs:
            call([*pip, *peer.needs], LIMIT, "cannot be installed")
        call([*pip, *(["--no-deps"] if peer.alone else []), peer.package], LIMIT, "cannot be installed")
        done.touch()
    return str(python)


def row(peer: Environment, sizes: list[str]) -> list[str]:
    """The peer's figures, or why there are none."""
    version = ""
    try:
        python = python_of(peer)
        ask = f"from importlib.metadata import version; print(version({peer.package!r}))"
        version = call([python, "-c", ask], 60, "version").strip()
        lines = call([python, str(HERE / peer.script), *sizes], LIMIT, "fails").splitlines()
        answer = json.loads(next(line for line in reversed(lines) if line.startswith('{"peer"')))
    except Failed as why:
        return [peer.name, version, "none", "", "", "", str(why).replace("|", "/")]
    except Exception as why:  # the other peers are still worth their rows
        return [peer.name, version, "none", "", "", "", f"{type(why).__name__}: {why}".replace("|", "/")[:200]]
    told = [answer[key] for key in ("parties", "trust", "discloses", "note")]
    fewer = "" if f"--n={answer['n']}" in sizes else f" (n = {answer['n']:,})"
    return [answer["peer"], version, f"{answer['ms']:,.1f}{fewer}", *told]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("n", 10_000), ("d", 2), ("k", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", help="one peer by name")
    a = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started ends as well
    print(f"Peers on {a.n:,} x {a.d}, k = {a.k}, counts revealed:\n")
    print("| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD), flush=True)
    for peer in ENVIRONMENTS:
        if a.only is None or a.only.lower() == peer.name.lower():
            print(f"{peer.name} ...", file=sys.stderr, flush=True)
            print("| " + " | ".join(row(peer, [f"--n={a.n}", f"--d={a.d}", f"--k={a.k}"])) + " |", flush=True)


if __name__ == "__main__":
    main()
