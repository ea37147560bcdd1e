"""What is wrong with a file or with options, in the words of whoever wrote them: no paths, no types of Python."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import inspect

__all__ = ["describe_fault", "in_options", "in_toml", "name_option", "other_file"]

#: What msgspec says, and where.
SAID = re.compile(r"(?P<what>.*?)(?: - at (?:`key` in )?`(?P<path>[^`]*)`)?", re.DOTALL)
STEP = re.compile(r"\.(?P<field>\w+)|\[(?P<index>\d+|\.\.\.)\]")
EXPECTED = re.compile(
    r"Expected `(?P<wanted>[^`]*)`(?P<range> [<>=]+ [^,]*)?(?:, got `(?P<found>[^`]*)`)?.*", re.DOTALL
)
WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a section with keys",
    "date": "a date",
    "datetime": "a date and time",
    "time": "a time of day",
}
COMPARED = {">=": "of at least", "<=": "of at most", ">": "of more than", "<": "of less than"}
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
    }
)


def describe_fault(problem: msgspec.ValidationError, kind: Any) -> tuple[list[str], str, bool]:
    """Where something is wrong, key by key, and what it is; whether the place is a whole section. `kind`: the type that
    it should have had."""
    said = SAID.fullmatch(str(problem))
    assert said is not None  # the pattern takes every text
    path = [step["field"] or step["index"] for step in STEP.finditer(said["path"] or "")]
    whole = said["what"].startswith("Object") or "`object`" in said["what"]
    return path, _put_plainly(said["what"], _choices(inspect.type_info(kind), path)), whole


def in_toml(path: list[str], whole: bool = False) -> str:
    """Where it stands in a file: [clustering] partition. `whole`: the path leads to a section itself."""
    sections = path[: len(path) if whole else 1 if len(path) > 1 and not path[1].isdigit() else 0][:1]
    words = [f"entry {int(step) + 1}" if step.isdigit() else step for step in path[len(sections) :] if step != "..."]
    return " ".join(filter(None, [*(f"[{section}]" for section in sections), ", ".join(words)]))


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
    option = name_option([section[1:], key]) if key not in ("name", "column") else ""
    return f"{option}{space}{more}" if option else rest


def _put_plainly(text: str, choices: list[str]) -> str:
    expected = EXPECTED.fullmatch(text)
    if text.startswith("Invalid enum value"):
        found = text.removeprefix("Invalid enum value").strip()
        return f"{found} is none of {', '.join(choices)}" if choices else f"{found} is not known here"
    if text.startswith("Object missing required field"):
        return f"{_quoted(text)} is missing"
    if text.startswith("Object contains unknown field"):
        return f"{_quoted(text)} is not known here"
    if expected is None:
        return text if "`" not in text else "cannot be understood"  # a section's own check speaks plainly
    wanted = _name_kinds(expected["wanted"])
    if expected["range"]:
        sign, _, bound = expected["range"].strip().partition(" ")
        return f"expected {wanted} {COMPARED.get(sign, sign)} {bound}"
    if expected["found"]:
        return f"expected {wanted}, found {_name_found(expected['found'])}"
    return f"expected other {wanted.removeprefix('a ')}"


def _quoted(text: str) -> str:
    return text.split("`")[1] if text.count("`") > 1 else text


def _name_kinds(kinds: str) -> str:
    """`int | null` in words."""
    named = [WORDS.get(kind.strip(), "something else") for kind in kinds.split("|") if kind.strip() != "null"]
    return " or ".join(dict.fromkeys(named)) or "nothing"


def _name_found(kind: str) -> str:
    return "a number that is not whole" if kind == "float" else _name_kinds(kind)


def _choices(kind: inspect.Type, path: list[str]) -> list[str]:
    """The words that may stand at a place; none, if that is not how the place is held."""
    if isinstance(kind, inspect.Metadata):
        return _choices(kind.type, path)
    if isinstance(kind, inspect.UnionType):
        return [word for one in kind.types for word in _choices(one, path)]
    if isinstance(kind, inspect.LiteralType):
        return [] if path else [str(value) for value in kind.values]
    if not path:
        return []
    if isinstance(kind, inspect.StructType):
        return [
            word for field in kind.fields if field.encode_name == path[0] for word in _choices(field.type, path[1:])
        ]
    if isinstance(kind, inspect.ListType | inspect.VarTupleType):
        return _choices(kind.item_type, path[1:])
    if isinstance(kind, inspect.DictType):
        return _choices(kind.value_type, path[1:])
    return []
