"""A recognisable number and a recognisable id stand in alice's data. They turn up nowhere else: in nobody's files but
her own results, in no log, audit log, checkpoint or error, and in nothing that anybody sends."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import msgspec
import numpy as np
import pytest

from coterie.ring import fractional_bits
from tests.study.hooks import CANARY, CANARY_TEXT, Hook, Stage, frames
from tests.study.walk import coterie

ID = "canary-of-271828"
ROW = 41
VERTICAL = ("--partition", "vertical", "--holds", "alice=x,bob=y")
#: Where alice may have them: her data, and what she is given in the end.
OWN = ("data.csv", "results")


class Scene(Stage):
    """A study with ids, in which alice holds the canaries."""

    def set(self, *options: object, value: object = CANARY) -> None:
        super().set("--id", "id", *options)
        points = self.points() * 3 / 4
        ids = np.array([f"row-{i:04}" for i in range(len(points))], object)
        x = points[:, 0].astype(object)
        ids[ROW], x[ROW] = ID, value
        if "vertical" in options:
            self.give("alice", id=ids, x=x)
            self.give("bob", id=ids[::-1], y=points[::-1, 1])
        else:
            half = len(points) // 2
            self.give("alice", id=ids[:half], x=x[:half], y=points[:half, 1])
            self.give("bob", id=ids[half:], x=x[half:], y=points[half:, 1])

    def play(self, *more: object, **hooks: Hook) -> dict[str, int]:
        """Everybody runs, and what is sent is kept; exit codes."""
        for name in self.names:
            hook = hooks.get(name, Hook(brief=False))
            hook = msgspec.structs.replace(hook, record=str(self.tape(name)))
            self.start(name, "run", "--timeout", 30, *more, hook=hook)
        return self.finish_all()

    def tape(self, name: str) -> Path:
        return self.folder / f"{name}.sent"

    # -- searching ---------------------------------------------------------------------------------------

    def needles(self) -> dict[str, bytes]:
        """The canaries as they could lie in a file or a frame."""
        columns = self.study.data.columns
        assert all(column.low == -column.high for column in columns), "zero is encoded as zero"
        encoded = round(CANARY * 2 ** self.bits())
        found = {
            "the number as text": b"31415.9",
            "the number as text, with an exponent": b"3.1415926",
            "the id": ID.encode(),
            "the number, encoded, as text": str(encoded).encode(),
        }
        encodings = {"": encoded, "minus ": -encoded, "twice ": 2 * encoded, "the square of ": encoded**2}
        for order, called in (("<", "little"), (">", "big")):
            found[f"the number, {called} endian"] = np.array(CANARY, f"{order}f8").tobytes()
            for times, whole in encodings.items():
                found[f"{times}the number, encoded, {called} endian"] = np.array(whole, f"{order}i8").tobytes()
        return found

    def bits(self) -> int:
        """How many binary places are kept; from the bounds and the number of rows alone, so from any run."""
        columns, n = self.study.data.columns, self.ROWS
        low, high = [c.low for c in columns], [c.high for c in columns]
        return fractional_bits(low, high, self.study.column_names, n, self.CLUSTERS, False, None)

    def places(self) -> Iterator[tuple[str, bytes]]:
        """All that must not hold a canary: every file but those of `OWN` at alice, and every frame."""
        for path in sorted(self.folder.rglob("*")):
            name, *rest = path.relative_to(self.folder).parts
            if not path.is_file() or path.suffix == ".sent" or (name == "alice" and rest[0] in OWN):
                continue
            raw = path.read_bytes()
            if name == "bob" and rest[0] in OWN and self.study.clustering.partition == "vertical":
                raw = raw.replace(ID.encode(), b"")  # bob knows the same rows by the same ids
            yield str(path.relative_to(self.folder)), raw
        for name in self.names:
            if self.tape(name).exists():
                for number, frame in enumerate(frames(self.tape(name))):
                    yield f"frame {number} of {name} to {self.names[frame.to]}", frame.body

    def found(self) -> list[str]:
        """Where there is a canary, and as what."""
        needles = self.needles()
        return [f"{where}: {what}" for where, raw in self.places() for what, needle in needles.items() if needle in raw]


@pytest.fixture
def scene(tmp_path):
    with Scene(tmp_path) as scene:
        yield scene


def nothing_found(scene: Scene) -> None:
    searched = [where for where, _ in scene.places()]
    for name in scene.names:
        assert {f"{name}/{file}" for file in ("out.txt", "err.txt", "study.toml")} <= set(searched)
    assert scene.found() == []


WAYS = {
    "by rows": (),
    "by rows, centres shared": ("--centers", "shared"),
    "by rows, SecureNN": ("--protocol", "securenn"),
    "by columns": VERTICAL,
    "by columns, labels revealed": (*VERTICAL, "--labels", "revealed"),
}


def check_study(scene: Scene, way: tuple[object, ...]) -> None:
    """A run that is killed when half is done, and the one that goes on from there."""
    if "revealed" in way:
        scene.policies(least_cluster_size=1)
    scene.set(*way)
    codes = scene.play(bob=Hook(at="block", iteration=2, brief=False))
    assert codes == {"helper": 7, "alice": 7, "bob": -9}, scene.said()
    assert all(scene.checkpoints(name) for name in scene.names)
    nothing_found(scene)
    assert set(scene.play().values()) == {0}, scene.said()
    assert scene.agreed("alice")["resumed_after"] == 2
    searched = [where for where, _ in scene.places()]
    assert {"bob/results/report.html", "bob/results/labels.parquet", "helper/results/report.html"} <= set(searched)
    assert sum(where.startswith("frame") and "of alice" in where for where in searched) > 100
    nothing_found(scene)
    assert ID in scene.labels("alice")["id"], "alice finds her own row"


def test_a_study_tells_nobody(scene):
    check_study(scene, WAYS["by rows"])


@pytest.mark.slow
@pytest.mark.parametrize("way", list(WAYS.values())[1:], ids=list(WAYS)[1:])
def test_no_kind_of_study_tells_anybody(scene, way):
    check_study(scene, way)


# -- when it fails -----------------------------------------------------------------------------------------

WRONG: dict[str, tuple[tuple[object, ...], object]] = {
    "out of bounds": (("--columns", "x,y", "--bounds", "x=-31000:31000,y=-31000:31000"), CANARY),
    "text behind it": ((), f"{CANARY_TEXT} EUR"),
    "text before it": ((), f"about {CANARY_TEXT}"),
    "a comma in it": ((), CANARY_TEXT.replace(".", ",")),
    "no header": ((), CANARY),
    "an id twice": (VERTICAL, CANARY),
}


def set_wrong(scene: Scene, case: str) -> None:
    options, value = WRONG[case]
    scene.set(*options, value=value)
    data = scene.at("alice", "data.csv")
    lines = data.read_text().splitlines()
    if case == "no header":
        del lines[: ROW + 1]
    if case == "an id twice":
        lines.append(lines[ROW + 1])
    data.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("case", WRONG)
def test_data_that_is_wrong_is_refused_without_being_repeated(scene, case):
    set_wrong(scene, case)
    for verb in ("run", "preflight"):
        refused = coterie(*scene.arguments("alice", verb))
        assert refused.code == 3
        assert "data.csv" in refused.err
        scene.at("alice", f"{verb}.txt").write_text(refused.out + refused.err)
    assert scene.found() == []


def test_others_are_not_told_what_is_wrong_with_the_data(scene):
    set_wrong(scene, "out of bounds")
    codes = scene.play("--wait", 2)
    assert codes["alice"] == 3, scene.said()
    assert {codes["helper"], codes["bob"]} <= {6, 7}
    nothing_found(scene)


def test_ids_that_differ_are_not_told(scene):
    scene.set(*VERTICAL)
    data = scene.at("bob", "data.csv")
    data.write_text(data.read_text().replace(ID, "row-of-bob"))
    codes = scene.play()
    assert codes["alice"] == codes["bob"] == 3, scene.said()
    assert "ids" in scene.err("bob")
    nothing_found(scene)


def test_what_a_careless_exception_says_stays_unsaid(scene):
    scene.set()
    codes = scene.play(alice=Hook(plant="careless error"))
    assert codes == {"helper": 7, "alice": 70, "bob": 7}, scene.said()
    assert "ValueError" in scene.err("alice")
    assert "an internal error" in scene.err("bob") + scene.err("helper")
    nothing_found(scene)


# -- does the search find anything? ------------------------------------------------------------------------

PLANTED = {
    "log": "alice/out.txt: the number as text",
    "audit": "alice/audit.jsonl: the number as text",
    "checkpoint": "alice/alice.state/*/checkpoint-*-1-0-1: the number as text",
    "greeting": "of alice to bob: the number as text",
    "key": "of alice to helper: the number, little endian",
}


def test_a_canary_that_got_out_is_found(scene):
    scene.set()
    codes = scene.play(alice=Hook(plant=", ".join(PLANTED)), bob=Hook(at="saved", iteration=1))
    assert codes["bob"] == -9, scene.said()
    found = scene.found()
    for plant, where in PLANTED.items():
        assert any(fnmatch(one, f"*{where}*") for one in found), (plant, found)
