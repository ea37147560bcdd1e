"""How the documentation is built: sphinx-build -W --keep-going -b html docs docs/_build."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import command_pages  # noqa: E402  (beside this file)
import notebook  # noqa: E402

from coterie import __version__  # noqa: E402

project = "Coterie"
author = "the Coterie authors"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False

html_theme = "furo"
html_title = f"Coterie {version}"
html_show_sourcelink = False
html_show_copyright = False
html_copy_source = False


def gallery(app: Any, docname: str, source: list[str]) -> None:
    """A page of the gallery is made from the script of the same name, which is run for what it prints."""
    script = HERE / f"{docname}.py"
    if docname.startswith("gallery/") and script.exists():
        app.env.note_dependency(str(script))
        source[0] = notebook.page(script)


def write_commands(app: Any, config: Any) -> None:  # noqa: ARG001
    """Pages of the commands, before the pages are listed."""
    command_pages.write(HERE / "commands")


def setup(app: Any) -> None:
    app.connect("config-inited", write_commands)
    app.connect("source-read", gallery)
