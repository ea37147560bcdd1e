"""The architecture, held to: imports go one way, names are declared, heavy imports are lazy."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import coterie
from coterie.protocols import FAMILIES
from coterie.protocols.loading import RUN_BY_ALL

SOURCE = Path(coterie.__file__).parent
ORDER = [
    "errors",
    "software",
    "events",
    "typed",
    "faults",
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
    "reporting",
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


#: What takes long to load, with whatever comes along: for compiling, data, pages, the estimator's base classes.
COMPILER = {"numba", "llvmlite"}
TABLES = {"duckdb", "pandas", "polars", "pyarrow", "adbc_driver_postgresql"}
PAGES = {"matplotlib", "jinja2"}
SCIKIT_LEARN = {"sklearn", "scipy", "joblib"}
CONSOLE = {"typer", "rich", "pydantic"}
EVERYTHING = COMPILER | TABLES | PAGES | SCIKIT_LEARN | CONSOLE
#: By module, what must not be there once it is imported.
LEFT_OUT = {
    "coterie": EVERYTHING | {"numpy", "cryptography", "ssl"},
    "coterie.runtime.worker": EVERYTHING,
    "coterie.serving.child": EVERYTHING,
    "coterie.relay.operate": EVERYTHING,
    "coterie.study.run": EVERYTHING,
    "coterie.study.predict": EVERYTHING,
    "coterie.study.survey": EVERYTHING,
    "coterie.runtime.processes": EVERYTHING,
    "coterie.surveying": EVERYTHING,
    "coterie.taking_part": EVERYTHING - CONSOLE,
    "coterie.cli.app": EVERYTHING - CONSOLE,
    "coterie.estimator": COMPILER | PAGES | CONSOLE | {"duckdb"},  # scikit-learn brings pandas, where it is installed
}


def fresh(code: str) -> str:
    """What a new interpreter prints."""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("module", LEFT_OUT)
def test_what_takes_long_to_load_is_not_loaded_at_the_start(module):
    loaded = fresh(f"import sys, {module}; print(*sys.modules)").split()
    assert LEFT_OUT[module] & set(loaded) == set()


@pytest.mark.parametrize("name", ["onetime", "securenn"])
def test_a_party_at_work_loads_numba_without_what_is_optional(name):
    """All that a worker has before it listens. What numba did without can still be loaded by others."""
    code = "import sys, importlib.util, coterie.runtime.worker; from coterie.protocols import FAMILIES, load_family; "
    code += (
        f"load_family(FAMILIES[{name!r}], alone=True); print(*sys.modules); importlib.util.find_spec('scipy').loader"
    )
    loaded = set(fresh(code).split())
    assert "numba" in loaded
    assert (EVERYTHING - COMPILER | {"cffi"}) & loaded == set()


@pytest.mark.parametrize("name", ["onetime", "securenn"])
def test_a_fit_runs_the_kernels_that_its_family_declares(name):
    """No others: those would be compiled while peers wait. All of them, or they would be loaded in vain."""
    code = "import numpy as np; from coterie import SecureKMeans; from coterie.protocols import FAMILIES\n"
    code += "from coterie.ring.compiling import KERNELS\n"
    code += (
        f"model = SecureKMeans(2, protocol={name!r}, scale='standard', n_init=2, quality=('inertia', 'silhouette'))\n"
    )
    code += "x = np.random.default_rng(0).normal(size=(40, 2)); model.fit(x); model.predict_parties([x[:20], x[20:]])\n"
    code += "print(*(module for module, kernels in KERNELS.items() if any(one.loaded for one in kernels)))"
    assert set(fresh(code).split()) == {*RUN_BY_ALL, *FAMILIES[name].kernels}


def test_names_of_the_package_are_listed_before_they_are_loaded():
    listed = fresh("import coterie; print(*dir(coterie))").split()
    assert set(coterie.__all__) <= set(listed)


def test_no_pickle_and_no_weak_randomness_in_the_source():
    for path in MODULES:
        text = path.read_text()
        assert "import pickle" not in text, path
        for line in text.splitlines():
            assert "np.random." not in line or "RandomState" in line, (path, line)
