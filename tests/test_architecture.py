"""The architecture, held to: imports go one way, names are declared, heavy imports are lazy."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import coterie

SOURCE = Path(coterie.__file__).parent
ORDER = [
    "errors",
    "events",
    "typed",
    "terms",
    "ideal",
    "columns",
    "ring",
    "transport",
    "randomness",
    "sharing",
    "matching",
    "protocols",
    "clustering",
    "surveys",
    "runtime",
    "planning",
    "data",
    "report",
    "study",
    "relay",
    "serving",
    "row_weights",
    "encoded",
    "parameters",
    "notices",
    "prediction",
    "fitted",
    "estimator",
    "surveying",
    "simulation",
    "cli",
    "taking_part",
]
MODULES = sorted(SOURCE.rglob("*.py"))


def layer(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def imported(path: Path) -> set[str]:
    """What running a module imports; what stands there for its type checker alone does not count."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("coterie"):
            names |= {f"{node.module}.{alias.name}" for alias in node.names if alias.name != "__version__"}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names if alias.name.startswith("coterie")}
    return names


def dotted(path: Path) -> str:
    parts = ("coterie", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_imports_go_one_way(path):
    own = layer(dotted(path))
    if own in ("", "__main__"):
        return
    for name in imported(path):
        assert ORDER.index(layer(name)) <= ORDER.index(own), f"{dotted(path)} imports {name}"


SCRIPTS = ("__init__.py", "__main__.py", "worker.py")


@pytest.mark.parametrize("path", [p for p in MODULES if p.name not in SCRIPTS], ids=dotted)
def test_all_lists_what_exists(path):
    module = importlib.import_module(dotted(path))
    assert all(hasattr(module, name) for name in module.__all__)


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_no_module_is_too_long(path):
    """One idea a module; what takes more lines holds several."""
    assert len(path.read_text().splitlines()) <= 400


@pytest.mark.parametrize("folder", ["clustering", "surveys"])
def test_programs_name_no_protocol(folder):
    for path in (SOURCE / folder).glob("*.py"):
        text = path.read_text().lower()
        assert "securenn" not in text
        assert "plaintext" not in text


def test_the_package_says_that_it_is_typed():
    assert (SOURCE / "py.typed").exists()


def test_a_party_at_work_needs_no_scikit_learn():
    code = "import sys, coterie.runtime.worker; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_no_pickle_and_no_weak_randomness_in_the_source():
    for path in MODULES:
        text = path.read_text()
        assert "import pickle" not in text, path
        for line in text.splitlines():
            assert "np.random." not in line or "RandomState" in line, (path, line)
