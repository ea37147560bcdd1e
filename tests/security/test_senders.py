"""Who may put something on the wire, by name and with the reason; everybody else keeps off it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from pathlib import Path
from typing import NamedTuple

import pytest

import coterie

SOURCE = Path(coterie.__file__).parent
#: What makes something leave, and what leads past the channel that keeps to the protocol.
VERBS = {"send", "tell", "post", "abort", "sendall", "sendmsg", "inner"}
BY_NAME = {"getattr", "attrgetter", "methodcaller"}
#: How what others sent is read.
READING = {"receive", "hear", "collect"}

#: Place (a file, or a file and what is in it) and verbs, with the reason.
SENDERS: dict[tuple[str, str], str] = {
    # Protocols: function by function.
    ("sharing/additive.py:_send", "send"): "what is `Masked`: blinded with a dealt mask, which is consumed",
    ("sharing/collecting.py:begin_collecting", "send"): "what is `Masked`, in parts, and the sums of these parts",
    ("sharing/additive.py:send_to_dealer", "send"): "what is `Masked`, to a dealer that takes part",
    ("sharing/additive.py:bring_together", "send"): "an opening, permitted and logged, with a fresh share of zero",
    ("sharing/gate.py:tell_dealer", "tell"): "a bit that everybody must know, opened and logged, to the dealer",
    ("sharing/gate.py:open_wide", "send"): "an opening, logged, with a fresh share of zero",
    (
        "protocols/falcon/servers.py:_pass_round",
        "send",
    ): "blinded by stretches of a pair's key, or an opening, permitted",
    ("protocols/falcon/servers.py:run_step", "send"): "no channel's: what a round has received goes on to its step",
    ("protocols/falcon/servers.py:side_by_side", "send"): "no channel's: as above",
    ("randomness/dealing.py:Dealt.bind", "send"): "the helper deals a correction",
    ("randomness/streams.py:agree", "send"): "the agreement on keys, before any protocol",
    # Around the protocols: where roles agree what to run, and end.
    ("runtime/threads.py", "abort"): "a role that stops says so, with the name of the error's type",
    ("study/endings.py", "abort"): "a role that stops says so, with the name of the error's type",
    ("study/session.py", "post"): "everybody says that it is done",
    ("study/openings.py:Openings._confirm", "post"): "the helper has logged an opening: a fixed word",
    ("study/openings.py:everybody_has_saved", "post"): "the last checkpoint is kept: a fixed word",
    ("study/matching.py:_agree_on_key", "post"): "a part of the key, from owner to owner",
    ("study/matching.py:match_rows", "send"): "tags of ids, sorted, to the helper",
    ("study/matching.py:_place_rows", "send"): "random slots, to each owner its own",
    ("study/matching.py:_find_rows", "post"): "how many rows match, or that these are too few",
    ("study/matching.py:_find_rows", "send"): "which of an owner's tags all others have, too",
    ("study/matching.py:_lay_out_cells", "post"): "how many rows there are, or how many cells are in the way",
    ("study/matching.py:_lay_out_cells", "send"): "who holds which cells; to each owner where its rows stand",
    ("study/papers.py:exchange_papers", "post"): "hashes of the study, and one's own signature of it: public",
    ("study/handshake.py", "post"): "greetings and the plan: public",
    ("study/handshake.py", "send"): "zeros, to measure a link",
    # The wire itself.
    ("transport/metering.py", "send tell post abort inner"): "counts, and keeps to the protocol",
    ("transport/recording.py", "send tell post abort inner"): "remembers, for tests",
    ("transport/tls.py", "send"): "a socket",
    ("transport/door.py", "sendall"): "sockets, before a channel exists",
    ("transport/hello.py", "sendall"): "sockets, before a channel exists",
    ("transport/proxies.py", "sendall"): "asks an HTTP proxy for a connection, before a channel exists",
    ("transport/relayed.py", "sendall"): "talks to a relay, before a channel exists",
    ("transport/relayed_listener.py", "sendall"): "tells a relay that it is there",
    ("serving/reception.py", "sendall"): "sockets, before a channel exists: a hello's answer, or a TLS alert",
    ("transport/links.py", "send"): "sockets of a link that is slowed down, for measurements",
}


class Use(NamedTuple):
    """A verb in a file, in the function of this name."""

    file: str
    function: str
    verb: str
    line: int


def uses(text: str, file: str, verbs: Set[str] = frozenset(VERBS)) -> Iterator[Use]:
    """Every mention of a verb as an attribute or, for `getattr`, as a text."""
    tree = ast.parse(text)

    def walk(node: ast.AST, within: str) -> Iterator[Use]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            within = f"{within}.{node.name}".lstrip(".")
        if isinstance(node, ast.Attribute) and node.attr in verbs:
            yield Use(file, within, node.attr, node.lineno)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in verbs - VERBS:
            yield Use(file, within, node.func.id, node.lineno)
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("getattr", "methodcaller")
        ):
            for argument in node.args:
                if isinstance(argument, ast.Constant) and argument.value in verbs:
                    yield Use(file, within, str(argument.value), node.lineno)
        for child in ast.iter_child_nodes(node):
            yield from walk(child, within)

    yield from walk(tree, "")


def all_uses() -> list[Use]:
    return [
        use
        for path in sorted(SOURCE.rglob("*.py"))
        for use in uses(path.read_text(), path.relative_to(SOURCE).as_posix())
    ]


def allowance(use: Use) -> tuple[str, str] | None:
    for place, verbs in SENDERS:
        file, _, function = place.partition(":")
        inside = not function or use.function == function or use.function.startswith(f"{function}.")
        if use.file == file and inside and use.verb in verbs.split():
            return place, verbs
    return None


def test_only_known_places_send():
    unknown = [use for use in all_uses() if allowance(use) is None]
    assert not unknown, f"these may send nothing: {unknown}"


def test_no_allowance_is_left_over():
    used = {allowance(use) for use in all_uses()}
    assert not set(SENDERS) - used


def test_every_folder_is_looked_at():
    looked_at = {path.relative_to(SOURCE).parts[0] for path in SOURCE.rglob("*.py")}
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders <= looked_at
    assert any(path.parent.name == "onetime" for path in SOURCE.rglob("*.py"))


@pytest.mark.parametrize(
    "leak",
    [
        "self.me.channel.post(0, moved.share.tobytes())",
        "self.me.channel.tell(0, bool(moved.share[0] & 1))",
        "self.me.channel.send(0, moved.share)",
        "self.me.channel.inner.post(0, moved.share.tobytes())",
        "out = self.me.channel.post\n        out(0, moved.share.tobytes())",
        "getattr(self.me.channel, 'post')(0, moved.share.tobytes())",
        "self.me.channel.abort(0, moved.share.tobytes().hex())",
    ],
)
def test_a_planted_leak_is_found(leak):
    """Every party posts its raw share of the movement to the helper, in one way or another."""
    file = "protocols/onetime/family.py"
    text = (SOURCE / file).read_text()
    line = "        return movement(self.me, old, new, weights is not None)\n"
    assert line in text
    planted = text.replace(line, f"        moved = movement(self.me, old, new, weights is not None)\n        {leak}\n")
    assert all(allowance(use) is not None for use in uses(text, file))
    assert any(allowance(use) is None for use in uses(planted, file))


#: Who may say of an array that a fresh mask hides it, with the mask.
MASKED = {
    "randomness/dealing.py:Dealt.masked": "a mask that was dealt, which masks once",
    "protocols/onetime/table.py:enter_masked": "the lasting mask of an owner's cells",
    "protocols/securenn/compare.py:private_compare": "scalars, a permutation and a share of zero, all fresh",
    "protocols/securenn/sign.py:share_convert": "its own uniform r_j",
}


def test_only_known_places_call_something_masked():
    found = set()
    for path in SOURCE.rglob("*.py"):
        file = path.relative_to(SOURCE).as_posix()
        for use in uses(path.read_text(), file, {"Masked"}):
            found.add(f"{file}:{use.function}")
    assert found == set(MASKED)


def test_protocols_bring_shares_together_behind_the_gate():
    """Where the gate has permitted it: by `open_parts`, and for bits that everybody must know."""
    callers = {
        f"{path.relative_to(SOURCE).as_posix()}:{use.function}"
        for path in SOURCE.rglob("*.py")
        for use in uses(path.read_text(), path.relative_to(SOURCE).as_posix(), {"bring_together"})
    }
    assert callers == {
        "protocols/interface.py:Primitives.open_parts",
        "protocols/onetime/primitives.py:OneTimeWords.bring_together",
        "protocols/onetime/family.py:OneTime.open_to_all",
        "protocols/words.py:AdditiveWords.bring_together",
    }


@pytest.mark.parametrize("folder", ["clustering", "surveys"])
def test_programs_neither_read_the_wire_nor_a_share(folder):
    for path in (SOURCE / folder).glob("*.py"):
        found = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
        assert not (VERBS | READING | {"share", "take"}) & found, path.name
