"""Promises are kept by exceptions: `python -O`, which drops every assert, must not switch one off."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import coterie

SOURCE = Path(coterie.__file__).parent
#: Where promises about secrets are kept. An assert here tells mypy a type, and has no message: it cannot fail.
STRICT = ("protocols", "randomness", "ring", "runtime", "sharing", "transport/metering.py")
#: What a `None` here would mean: not a type to be narrowed, but a promise broken.
PROMISES = {"_mask", "mask", "bit", "stop", "words", "value", "share", "_share", "opened", "e", "few"}


def asserts(text: str) -> list[ast.Assert]:
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Assert)]


def narrows_a_type(node: ast.expr) -> bool:
    """isinstance(x, T), not isinstance(x, T), x is not None; and several of these."""
    if isinstance(node, ast.BoolOp):
        return all(map(narrows_a_type, node.values))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return narrows_a_type(node.operand) and isinstance(node.operand, ast.Call)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "isinstance"
    return (
        isinstance(node, ast.Compare)
        and len(node.ops) == 1
        and isinstance(node.ops[0], ast.IsNot)
        and isinstance(node.comparators[0], ast.Constant)
        and node.comparators[0].value is None
    )


def is_about_a_promise(node: ast.Assert) -> bool:
    if node.msg is not None or not narrows_a_type(node.test):
        return True
    if not isinstance(node.test, ast.Compare):
        return False
    left = node.test.left
    return getattr(left, "attr", getattr(left, "id", "")) in PROMISES


def test_no_assert_in_the_source_does_more_than_narrow_a_type():
    for path in SOURCE.rglob("*.py"):
        for node in asserts(path.read_text()):
            assert narrows_a_type(node.test), f"{path.relative_to(SOURCE)}:{node.lineno}"


def test_no_assert_guards_a_promise():
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).as_posix().startswith(STRICT):
            for node in asserts(path.read_text()):
                assert not is_about_a_promise(node), f"{path.relative_to(SOURCE)}:{node.lineno}"


@pytest.mark.parametrize(
    "line",
    ["assert self._mask is not None", "assert x is not None, 'mask first'", "assert bit is not None",
     "assert len(a) == len(b)", "assert not used", "assert a.size"],
)  # fmt: skip
def test_a_promise_kept_by_an_assert_is_found(line):
    assert is_about_a_promise(asserts(line)[0])


@pytest.mark.parametrize("line", ["assert isinstance(rows, Table)", "assert z is not None"])
def test_what_narrows_a_type_is_no_promise(line):
    assert not is_about_a_promise(asserts(line)[0])


# -- without asserts ---------------------------------------------------------------------------------------

PROGRAM = """
import sys
import numpy as np
from coterie.errors import MaterialReused, ProtocolError
from coterie.runtime.threads import run_threads
from coterie.protocols.steps import clear_bits
from coterie.protocols.onetime.centers import mask_of
from coterie.randomness import Masked, Material
from coterie.randomness.material import Elements, Packed
from coterie.ring import Words
from coterie.sharing import open_masked
from coterie.transport import World

if __debug__:
    sys.exit("asserts are on: this says nothing")
kept = []


def refuses(kind, promise, act):
    try:
        act()
    except kind:
        kept.append(promise)
        return
    sys.exit(f"not kept without asserts: {promise}")


def role(me):
    ring = Words(8)
    piece = Packed(4, width=8)
    step = me.deal(Material("a test", {"m": piece, "n": piece}, {"v": piece}))
    mask, other = step.mask("m"), me.deal(Material("a mask", {"m": Elements(ring, 4)}, {"v": Elements(ring, 4)}))
    if me.deals:
        refuses(ProtocolError, "a correction with a part missing is not sent", lambda: step.bind(lambda: {}))
        step.bind(lambda: {"v": mask})
        refuses(MaterialReused, "a correction is sent once", lambda: step.bind(lambda: {}))
        refuses(ProtocolError, "the helper has no share", lambda: step.bound("v"))
        other.bind(lambda: {"v": np.zeros(4, np.uint64)})
        refuses(ProtocolError, "a letter during a protocol is not taken",
                lambda: (me.begin_protocol(frozenset({"note"})), me.channel.collect(1)))
        refuses(ProtocolError, "the helper takes no array", lambda: me.channel.receive(1, np.uint8, (1,)))
        return
    step.bound("v")
    x = me.shared(ring, ring.zeros((4,)))
    refuses(ProtocolError, "what is not uniform is no mask", lambda: open_masked(me, other, v=x))
    refuses(ProtocolError, "a mask fits", lambda: open_masked(me, other, m=x[:2]))
    refuses(ProtocolError, "what is opened is as large as declared", lambda: Masked(mask[:2], piece))
    refuses(ProtocolError, "a party binds nothing", lambda: step.bind(lambda: {"v": mask}))
    refuses(ProtocolError, "a part that adds up is no mask", lambda: step.masked("v", mask))
    refuses(MaterialReused, "a mask that was not read masks nothing", lambda: step.masked("n", mask))
    step.masked("m", mask)
    refuses(MaterialReused, "a mask masks once", lambda: step.masked("m", mask))
    refuses(MaterialReused, "a part is given once", lambda: step.mask("m"))
    other.bound("v")
    refuses(MaterialReused, "dealt material is taken once", lambda: other.bound("v"))
    refuses(ProtocolError, "the helper has no pair stream", lambda: me.streams.pair(0, "a test"))
    me.streams.begin(1)
    refuses(MaterialReused, "a phase is entered once", lambda: me.streams.begin(1))
    refuses(ProtocolError, "centres are masked first", lambda: mask_of(x))
    refuses(ProtocolError, "a stop bit is there", lambda: clear_bits(None, 1))
    refuses(ProtocolError, "a stop bit is one bit", lambda: clear_bits(np.array([2]), 1))
    refuses(TypeError, "a secret has no bool", lambda: bool(x))
    me.begin_protocol(frozenset({"note"}))
    refuses(ProtocolError, "no letter during a protocol", lambda: me.channel.post(0, b"x"))
    refuses(ProtocolError, "no array to the helper", lambda: me.channel.send(0, np.zeros(1, np.uint8)))


run_threads(World(("P0", "P1", "P2")), role)
print(len(set(kept)))
"""


def test_promises_are_kept_without_asserts():
    done = subprocess.run([sys.executable, "-O", "-c", PROGRAM], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 22
