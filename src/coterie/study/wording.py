"""Where something is wrong in a file or in options, in the words of whoever wrote them."""

from __future__ import annotations

import re

from coterie.faults import in_order

__all__ = ["in_options", "in_toml", "name_option", "other_file"]

#: Options of `coterie study create` that are called otherwise than the key that they set.
OPTIONS = {
    "restarts": "--n-init",
    "low": "--bounds",
    "high": "--bounds",
    "kind": "--kinds",
    "weight": "--column-weights",
    "holder": "--holds",
    "holders": "--holds",
    "values": "--categories",
    "parties": "--party",
}
#: Those that are called like their key.
SAME = frozenset(
    {
        "clusters",
        "partition",
        "protocol",
        "init",
        "seed",
        "max_iter",
        "tol",
        "scale",
        "choose",
        "cells",
        "quantiles",
        "columns",
        "bounds",
        "id",
        "most_rows",
        "matching",
        "id_rule",
        "precedence",
        "incomplete",
        "row_weights",
        "categories",
        "distance",
        "missing",
        "clip",
        "transform",
        "resolution",
        "counts",
        "labels",
        "centers",
        "scales",
        "measures",
        "quality",
        "least_cluster_size",
        "contribution",
        "sizes",
        "name",
        "reconnect",
        "renewals",
        "software",
    }
)


def in_toml(path: list[str], whole: bool = False) -> str:
    """Where it stands in a file: [clustering] partition. `whole`: the path leads to a section itself."""
    sections = path[: len(path) if whole else 1 if len(path) > 1 and not path[1].isdigit() else 0][:1]
    return " ".join(filter(None, [*(f"[{section}]" for section in sections), in_order(path[len(sections) :])]))


def other_file(text: str) -> str:
    """What a file is that was given in the place of another one; nothing, if that cannot be seen."""
    if "PRIVATE KEY-----" in text:
        return "a private key"
    keys = set(re.findall(r"^(\w+) *=", text.partition("\n[")[0], re.MULTILINE))
    if {"name", "address", "certificate"} <= keys:
        return "a public identity"
    if re.search(r"^\[participants", text, re.MULTILINE):
        return "a study file"
    if "signature" in keys:
        return "a signature"
    return ""


def name_option(path: list[str]) -> str:
    """The option of `coterie study create` that sets a key; nothing, if none does."""
    for key in reversed(path):
        if path[:2] == ["data", "row_weights"]:
            return "--row-weights"
        if key in OPTIONS:
            return OPTIONS[key]
        if key in SAME:
            return "--" + key.replace("_", "-")
    return ""


def in_options(text: str) -> str:
    """A sentence on a key of a section, for whoever gives options: `[clustering] restarts must be` is
    `--n-init must be`."""
    section, _, rest = text.partition("] ")
    if not section.startswith("[") or not rest:
        return text
    key, space, more = rest.partition(" ")
    colon = ":" * key.endswith(":")
    option = name_option([section[1:], key.removesuffix(":")]) if key not in ("name", "column") else ""
    return f"{option}{colon}{space}{more}" if option else rest
