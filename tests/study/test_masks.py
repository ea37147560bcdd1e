"""Nothing random is sent twice, however often a run is killed and taken up again: asserted on what was sent."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.study.hooks import Frame, Hook, Stage, frames

#: Shorter arrays may be the same by chance; of these no two are, ever.
LEAST = 32
WAYS: dict[str, tuple[object, ...]] = {
    "one-time": (),
    "one-time, counts revealed": ("--counts", "revealed"),
    "one-time, centres shared": ("--centers", "shared"),
    "SecureNN": ("--protocol", "securenn"),
    "by columns": ("--partition", "vertical", "--holds", "alice=x,bob=y", "--id", "id"),
    "by columns, labels revealed": (
        *("--partition", "vertical", "--holds", "alice=x,bob=y", "--id", "id"),
        *("--labels", "revealed"),
    ),
}


@pytest.fixture
def stage(tmp_path):
    with Stage(tmp_path) as stage:
        yield stage


def killed_and_resumed(stage: Stage, way: tuple[object, ...], kills: int = 1, plant: str = "") -> None:
    """Everybody's frames of runs in which bob is killed, and of the one that comes to an end."""
    if "revealed" in way:
        stage.policies(least_cluster_size=1)  # which does not go with a least size
    stage.set(*way)
    for run in range(kills + 1):
        for name in stage.names:
            here = Hook(record=str(tape(stage, name)), plant=plant)
            if name == "bob" and run < kills:
                here = Hook(at="block", iteration=2 + run, record=here.record, plant=plant)
            stage.start(name, "run", "--timeout", 30, hook=here)
        codes = stage.finish_all()
        assert codes == dict.fromkeys(stage.names, 0) if run == kills else codes["bob"] == -9, stage.said()
        assert (stage.agreed("bob")["resumed_after"] is not None) == (run > 0)


def tape(stage: Stage, name: str) -> Path:
    return stage.at(name, "sent")


def by_session(stage: Stage, name: str) -> dict[bytes, list[Frame]]:
    """Arrays that a role has sent while computing, by session. Before that, it sends none but a probe of zeros."""
    found: defaultdict[bytes, list[Frame]] = defaultdict(list)
    for frame in frames(tape(stage, name)):
        if frame.kind and not frame.lane:
            assert not any(frame.body), "what is sent before the session begins measures the link"
        elif frame.kind and len(frame.body) >= LEAST:
            found[frame.session].append(frame)
    return dict(found)


def pieces(frame: Frame) -> list[bytes]:
    """An array in stretches that are long enough to be like no other: a mask may be sent again in part."""
    return [frame.body[at : at + LEAST] for at in range(0, len(frame.body) - LEAST + 1, LEAST)]


def repeated(stage: Stage) -> list[Frame]:
    """Frames of which a stretch was sent before: to the same peer or, in an earlier session, to anybody. (What is
    opened goes to several peers alike.)"""
    found = []
    for name in stage.names:
        earlier: set[bytes] = set()
        for sent in by_session(stage, name).values():
            here: set[tuple[int, bytes]] = set()
            for frame in sent:
                stretches = [(frame.to, piece) for piece in pieces(frame)]
                if any(one in here or one[1] in earlier for one in stretches) or len(set(stretches)) < len(stretches):
                    found.append(frame)
                here.update(stretches)
            earlier.update(piece for _, piece in here)
    return found


def check(stage: Stage, sessions: int) -> None:
    for name in stage.names:
        runs = list(by_session(stage, name).values())
        assert len(runs) == sessions
        sizes = [{(frame.to, len(frame.body)) for frame in run} for run in runs]
        assert len(sizes[0] & sizes[-1]) >= 3, "the same was sent again, if masked anew"
    again = repeated(stage)
    assert not again, f"{len(again)} frames were sent before, the first on lane {again[0].lane} to {again[0].to}"


def test_no_mask_is_sent_twice(stage):
    killed_and_resumed(stage, WAYS["one-time"])
    check(stage, 2)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_no_mask_is_sent_twice_in_any_kind_of_study(stage, way):
    killed_and_resumed(stage, way, kills=2)
    check(stage, 3)


def test_masks_that_are_sent_twice_are_noticed(stage):
    """With the same entropy and the same session, everything comes again: the data as it was masked before."""
    killed_and_resumed(stage, WAYS["one-time"], plant="constant session")
    stage_frames = sum(len(run) for run in by_session(stage, "alice").values())
    assert stage_frames > 20
    with pytest.raises(AssertionError):
        check(stage, 2)
    assert len(repeated(stage)) > 10


@pytest.mark.slow
def test_keys_that_are_not_fresh_are_noticed(stage):
    """With the same entropy alone, what is contributed to the keys comes again. The masks do not: the session goes into
    every key, and is another one."""
    killed_and_resumed(stage, WAYS["one-time"], plant="constant entropy")
    with pytest.raises(AssertionError, match="sent before"):
        check(stage, 2)
    assert {len(frame.body) for frame in repeated(stage)} <= {32, 64}
