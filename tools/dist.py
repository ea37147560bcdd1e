"""`make dist`: wheel, source distribution, bill of materials and checksums, into dist/.

They are the same bytes wherever and whenever they are built, by the same Python, zlib and hatchling:

1. What is released is the last commit. Where there is no git, as in an unpacked source distribution, it is the folder.
2. Every time stamp is the release's date in CHANGELOG.md, or SOURCE_DATE_EPOCH where that is set.
3. The wheel is built from the source distribution.
4. The bill of materials lists what was installed when it was built, and the digest that `coterie --version` shows.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from io import BytesIO
from pathlib import Path

from tools.sbom import make_bill

ROOT = Path(__file__).parents[1]
#: What stands in an unpacked source distribution and is made anew.
MADE = (".venv", ".venvs", "dist", "__pycache__", "PKG-INFO")
RELEASED = re.compile(r"^## (\d\S*) \((\d{4}-\d\d-\d\d)\)$", re.MULTILINE)


def main() -> None:
    out = ROOT / "dist"
    with tempfile.TemporaryDirectory() as scratch:
        try:
            made = make_release(ROOT, Path(scratch))
        except (ValueError, LookupError) as error:
            sys.exit(f"make dist: {error}")
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(made, out)
    print((out / "SHA256SUMS").read_text(), end="")


def make_release(root: Path, scratch: Path) -> Path:
    """The folder of what is released, in a folder for what is needed on the way."""
    source, out = scratch / "source", scratch / "dist"
    copy_source(root, source)
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or find_date(source))
    build(source, out, epoch)
    (wheel,) = out.glob("*.whl")
    version, digest = ask_software(wheel, scratch / "unpacked")
    if f"## {version} (" not in (source / "CHANGELOG.md").read_text(encoding="utf-8"):
        raise ValueError(f"CHANGELOG.md has no heading with a date for {version}, the version in src/coterie")
    project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    when = datetime.datetime.fromtimestamp(epoch, datetime.UTC)
    bill = make_bill(project, version, digest, hash_files(out), when)
    (out / f"coterie-{version}.cdx.json").write_text(bill, encoding="utf-8")
    sums = "".join(f"{value}  {name}\n" for name, value in hash_files(out).items())
    (out / "SHA256SUMS").write_text(sums, encoding="utf-8")
    return out


def copy_source(root: Path, to: Path) -> None:
    """Step 1. What is not committed is in nobody else's clone."""
    if not (root / ".git").exists():
        shutil.copytree(root, to, ignore=shutil.ignore_patterns(*MADE))
        return
    if _git(root, "status", "--porcelain"):
        raise ValueError("there are changes that are not committed; a release is built from the last commit")
    with tarfile.open(fileobj=BytesIO(_git(root, "archive", "HEAD"))) as archive:
        archive.extractall(to, filter="data")


def _git(root: Path, *words: str) -> bytes:
    return subprocess.run(["git", "-C", str(root), *words], check=True, stdout=subprocess.PIPE).stdout


def find_date(source: Path) -> int:
    """Step 2: midnight of the newest release's day, in seconds since 1970."""
    found = RELEASED.search((source / "CHANGELOG.md").read_text(encoding="utf-8"))
    if found is None:
        raise ValueError("CHANGELOG.md has no heading of a release, such as: ## 1.2.3 (2026-01-31)")
    return int(datetime.datetime.fromisoformat(f"{found[2]}T00:00:00+00:00").timestamp())


def build(source: Path, out: Path, epoch: int) -> None:
    """Step 3, with the hatchling that is installed here, which the extra `release` pins."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)]
    subprocess.run(command, cwd=source, env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}, check=True)


def ask_software(wheel: Path, unpacked: Path) -> tuple[str, str]:
    """Version and digest, as the software in the wheel says them."""
    zipfile.ZipFile(wheel).extractall(unpacked)
    command = [sys.executable, "-m", "coterie", "--version"]
    environment = {**os.environ, "PYTHONPATH": str(unpacked), "PYTHONDONTWRITEBYTECODE": "1"}
    said = subprocess.run(command, cwd=unpacked, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    _, version, _, _, digest = said.split()
    return version, digest


def hash_files(folder: Path) -> dict[str, str]:
    """SHA-256 by name."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


if __name__ == "__main__":
    main()
