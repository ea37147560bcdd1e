"""What the campaigns change: a small study that was signed and run once, its files, and every frame that was sent."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import numpy as np

from coterie.study.prepare import prepare
from coterie.study.run import purpose_of
from coterie.transport.channel import Stamp
from coterie.transport.tls import Outbox
from tests.study.walk import SMALL, Cast

__all__ = ["Sent", "give_data", "make_material", "no_pictures", "sending", "sent_frames"]

ROWS = 24
Put = Callable[..., None]


class Sent(msgspec.Struct, frozen=True, array_like=True):
    """A frame as it was sent in the recorded run."""

    session: bytes
    lane: int
    sender: int
    to: int
    sequence: int
    kind: int
    body: bytes


def give_data(cast: Cast, rows: int = ROWS) -> None:
    """Four clusters in the plane, by rows."""
    rng = np.random.RandomState(1)
    corners = np.array([[-6, -6], [6, 6], [-6, 6], [6, -6]])
    for name in cast.parties:
        points = np.repeat(corners, rows // 4, axis=0) + rng.uniform(-1, 1, (rows, 2))
        cast.give(name, x=points[:, 0], y=points[:, 1])


@contextmanager
def no_pictures() -> Iterator[None]:
    """Drawing a report takes longer than the run."""
    with mock.patch("coterie.report.write.write_report", lambda path, *facts: path.write_text("a report")):
        yield


@contextmanager
def sending(put: Callable[[Put, Outbox, int, Any, Stamp], None]) -> Iterator[None]:
    """`put(honest, box, kind, body, stamp)` takes the place of `Outbox.put`."""
    honest = Outbox.put
    with mock.patch.object(Outbox, "put", lambda box, *frame: put(honest, box, *frame)):
        yield


def make_material(folder: Path, fresh: bool = False) -> Path:
    """Made once, and kept: cases are about these very bytes."""
    if (folder / "complete").exists() and not fresh:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with Cast(folder / "cast") as cast:
        cast.agree(*SMALL, "--name", "fuzzed")
        give_data(cast)
        for name in cast.names:
            cast.policy(name, least_cluster_size=2, counts=["secret"], runs=3, peers=None or fingerprints(cast))
        sent, lock = [], threading.Lock()

        def put(honest: Put, box: Outbox, kind: int, body: Any, stamp: Stamp) -> None:
            with lock:
                sent.append(Sent(box.session, box.lane, box.rank, box.to, box.sequence, kind, bytes(body)))
            honest(box, kind, body, stamp)

        with no_pictures(), sending(put):
            cast.run()
        purpose = purpose_of(prepare(cast.orders("alice")))
    (folder / "purpose").write_text(purpose)
    (folder / "sent").write_bytes(msgspec.msgpack.encode(sent))
    (folder / "complete").touch()
    return folder


def fingerprints(cast: Cast) -> list[str]:
    return [one.fingerprint for one in cast.study.everybody]


def sent_frames(material: Path) -> list[Sent]:
    return msgspec.msgpack.decode((material / "sent").read_bytes(), type=list[Sent])
