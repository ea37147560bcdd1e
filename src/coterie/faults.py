"""What is wrong with a typed value, in the words of whoever wrote it: no paths, no types of Python."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import inspect

__all__ = ["describe_fault", "in_order"]

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


def describe_fault(problem: msgspec.ValidationError, kind: Any) -> tuple[list[str], str, bool]:
    """Where something is wrong, key by key, and what it is; whether the place is a whole section. `kind`: the type that
    it should have had."""
    said = SAID.fullmatch(str(problem))
    assert said is not None  # the pattern takes every text
    path = [step["field"] or step["index"] for step in STEP.finditer(said["path"] or "")]
    whole = said["what"].startswith("Object") or "`object`" in said["what"]
    return path, _put_plainly(said["what"], _choices(inspect.type_info(kind), path)), whole


def in_order(path: list[str]) -> str:
    """Where it stands in a value, key by key: centers, entry 2."""
    return ", ".join(f"entry {int(step) + 1}" if step.isdigit() else step for step in path if step != "...")


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
