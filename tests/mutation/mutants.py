"""All mutants of some modules, and a seeded sample of them. The operators are cosmic-ray's."""

from __future__ import annotations

import ast
import difflib
import hashlib
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

__all__ = ["Mutant", "apply", "change", "find", "sample"]

Position = tuple[int, int]  # line from 1, column from 0
#: Decorators that say how a function is compiled, not what it computes.
COMPILING = ("njit", "vectorize")


class Mutant(msgspec.Struct, frozen=True, order=True):
    """One change: an operator at its `occurrence`-th place in a module. `source`: a hash of the module as it is."""

    module: str
    line: int
    column: int
    operator: str
    occurrence: int
    source: str


def find(root: Path, modules: Iterable[Path]) -> Iterator[Mutant]:
    """Every mutant of every module but those in type annotations, which change nothing, and in how code is compiled."""
    operators = [(name, get_operator(name)) for name in operator_names()]
    plain = [(name, kind()) for name, kind in operators if not kind.arguments()]
    for path in modules:
        text = path.read_text(encoding="utf-8")
        module, digest = str(path.relative_to(root)), hashlib.sha256(text.encode()).hexdigest()[:16]
        nodes, silent = list(ast_nodes(get_ast(text))), _silent(text)
        for name, operator in plain:
            places = [start for node in nodes for start, _ in operator.mutation_positions(node)]
            for occurrence, place in enumerate(places):
                if not any(begin <= place < end for begin, end in silent):
                    yield Mutant(module, *place, name, occurrence, digest)


def _silent(text: str) -> list[tuple[Position, Position]]:
    """From where to where changes are none: annotations, and decorators that compile."""
    found: list[ast.expr] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            found.append(node.annotation)
        elif isinstance(node, ast.FunctionDef):
            found += [node.returns] if node.returns is not None else []
            found += [one for one in node.decorator_list if ast.unparse(one).startswith(COMPILING)]
    # A decorator's own operator stands at its `@`, one column before the expression.
    return [((e.lineno, e.col_offset - 1), (e.end_lineno or e.lineno, e.end_col_offset or 0)) for e in found]


def sample(mutants: Iterable[Mutant], count: int, seed: int) -> list[Mutant]:
    """So many places drawn at random, and for each one of the changes that there are for it.

    By places, since there are eleven ways to replace a `+` and one to replace an `and`. A larger sample begins with the
    smaller one.
    """
    places: defaultdict[tuple[str, int, int], list[Mutant]] = defaultdict(list)
    for mutant in sorted(mutants):
        places[mutant.module, mutant.line, mutant.column].append(mutant)
    draw = random.Random(seed)
    order = draw.sample(sorted(places), len(places))
    return [draw.choice(places[place]) for place in order[:count]]


def apply(text: str, mutant: Mutant) -> str:
    """The module with the change."""
    changed = mutate_code(text, get_operator(mutant.operator)(), mutant.occurrence)
    if changed is None or changed == text:
        raise LookupError(f"no such mutant: {mutant}")
    return changed


def change(text: str, changed: str) -> list[str]:
    """The lines that differ, as `-` and `+`."""
    lines: Sequence[str] = list(difflib.unified_diff(text.splitlines(), changed.splitlines(), lineterm="", n=0))
    return [line for line in lines[2:] if line.strip("+-") and not line.startswith("@@")]
