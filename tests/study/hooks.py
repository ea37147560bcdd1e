"""Participants to whom something happens at a named moment: killed, stopped, listened to, made careless.

    with Stage(tmp_path) as stage:
        stage.set()                                                        # a study and data: some eight iterations
        stage.begin(bob=Hook(at="saved", iteration=3, signal="SIGKILL"))   # everybody starts
        stage.struck("bob")                                                # it has happened

Each is a process of its own, which changes in coterie what the hook says and goes on as `coterie run …` does. Moments
are places in the code, so that no test sleeps and hopes. All are forked from one process that has loaded coterie
(`python -m tests.study.hooks`), because loading takes longer than running; `hook=None` starts one from nothing.
"""

from __future__ import annotations

import atexit
import functools
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from coterie.study.agreement import study_hash
from coterie.study.checkpoint import FILE, Mark, mark_of
from tests.study.walk import Cast, wait_until

__all__ = ["BRIEF", "CANARY", "CANARY_TEXT", "POINTS", "Frame", "Hook", "Stage", "frames", "state_of"]

ROOT = Path(__file__).parents[2]
#: A number that nobody has by chance.
CANARY = 31415.92653589793
CANARY_TEXT = repr(CANARY)


class Hook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What happens to one participant.

    `at`: the moment, of `POINTS`, when `iteration` iterations are done and for the `count`-th time; `signal`: what the
    process then sends itself. `linger`: a file without which it does not stop listening. `record`: a file for every
    frame that is sent. `plant`: mistakes, of `PLANTS`. `brief`: numbers take the place of the report's pictures, which
    take longer than all the rest.
    """

    at: str = ""
    iteration: int = 0
    count: int = 1
    signal: str = "SIGKILL"
    linger: str = ""
    record: str = ""
    plant: str = ""
    brief: bool = True


BRIEF = Hook()


# -- moments -----------------------------------------------------------------------------------------------


class Moment:
    """Waits for the moment at which the process sends itself a signal."""

    def __init__(self, hook: Hook) -> None:
        self.hook, self.iteration, self.count = hook, 0, 0
        self.lock = threading.Lock()

    def reached(self, point: str) -> bool:
        """Is this the moment? Only the first time."""
        if point != self.hook.at or self.iteration < self.hook.iteration:
            return False
        with self.lock:
            self.count += 1
            return self.count == self.hook.count

    def at(self, point: str) -> None:
        if self.reached(point):
            os.kill(os.getpid(), signal.Signals[self.hook.signal])


def before(owner: Any, name: str, act: Callable[..., None]) -> None:
    """Act, with the same arguments, before a function is called."""
    function = getattr(owner, name)

    def called(*args: Any, **kwargs: Any) -> Any:
        act(*args, **kwargs)
        return function(*args, **kwargs)

    setattr(owner, name, called)


def after(owner: Any, name: str, act: Callable[..., None]) -> None:
    """Act when a function has returned."""
    function = getattr(owner, name)

    def called(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        act(*args, **kwargs)
        return result

    setattr(owner, name, called)


#: Every moment, in the order in which a run comes by.
POINTS = {
    "connecting": "it listens, and has neither dialled nor let anybody in",
    "met": "it has let everybody in, and has not dialled",
    "handshake": "everybody is connected; nothing is said yet",
    "greeted": "greetings are exchanged, links are about to be measured",
    "agreed": "what to run is agreed on; lanes are to be opened",
    "keys": "lanes are open; secrets are about to be agreed on",
    "dealing": "dealt material is about to be sent, or to be received",
    "block": "rows are about to be labelled",
    "draw": "candidates for a centre to start from are about to be drawn",
    "frame": "a frame is half sent",
    "iterated": "an iteration is done, its checkpoint not begun",
    "saving": "a checkpoint is written and has not got its name",
    "named": "a checkpoint has got its name",
    "saved": "a checkpoint is there, and the oldest gone",
    "finished": "all restarts are done and the last checkpoint is there; nothing is opened",
    "opened": "the centres have been opened to it",
    "writing": "the protocol is done, no result is written",
    "half": "some results are written",
    "ready": "all results are written, nobody has heard of it",
    "said": "everybody has been told; nobody has been listened to",
    "done": "everybody is ready; the results have not got their name",
    "shown": "the results are there, and so are all checkpoints",
    "cleared": "the results are there, and of the checkpoints the last one; no goodbye was said",
}


def watch(moment: Moment) -> None:
    """See to it that the moment is told of every point that the run comes by."""
    import coterie.report.write
    from coterie.clustering import Point
    from coterie.protocols import words
    from coterie.protocols.seeding import Seeding
    from coterie.sharing import Party, party
    from coterie.study import handshake, run, session
    from coterie.study.checkpoint import Checkpoints
    from coterie.transport import Metered
    from coterie.transport.channel import CONTROL
    from coterie.transport.meeting import Meeting
    from coterie.transport.tls import Outbox, TlsChannel

    done = threading.Event()

    def at(point: str) -> Callable[..., None]:
        return lambda *args, **kwargs: moment.at(point)

    def dealt_send(channel: Metered, *args: Any, dealt: bool = False, **kwargs: Any) -> None:
        if dealt:
            moment.at("dealing")

    def dealt_receive(channel: Metered, sender: int, *args: Any) -> None:
        if sender == 0:
            moment.at("dealing")

    def torn(outbox: Outbox) -> None:
        """The first bytes of an array's header leave, and nothing behind them."""
        if outbox.lane and outbox.pending and outbox.pending[0][5] != CONTROL and moment.reached("frame"):
            outbox.sock.send(outbox.pending[0][:16])
            os.kill(os.getpid(), signal.Signals[moment.hook.signal])

    def saved(checkpoints: Checkpoints, run: str, session: str, epoch: int, point: Point, *rest: Any) -> None:
        moment.iteration = point.iteration
        moment.at("saved")

    def replacing(old: Any, new: Any, **kwargs: Any) -> None:
        if Path(new).name.startswith("checkpoint-"):
            moment.at("saving")

    def replaced(old: Any, new: Any, **kwargs: Any) -> None:
        if Path(new).name.startswith("checkpoint-"):
            moment.at("named")

    def said(channel: TlsChannel, sender: int) -> None:
        if done.is_set():
            moment.at("said")

    def opening(me: Party, parts: Any, what: str) -> None:
        if what == "centers" and type(me) is Party:  # and not in a dry run, while the plan is made
            moment.at("opened")

    def connecting(meeting: Meeting, *args: Any, **kwargs: Any) -> None:
        moment.at("connecting")
        if moment.hook.at == "met" and not moment.count:
            wait_until(lambda: len(meeting.register.accepted) == meeting.world.p, what="everybody's coming in")
            moment.at("met")

    before(Meeting, "connect", connecting)
    before(session, "greet_everybody", at("handshake"))
    before(handshake, "_plan", at("greeted"))
    after(session, "agree_on_task", at("agreed"))
    before(party, "agree", at("keys"))
    before(Metered, "send", dealt_send)
    before(Metered, "receive", dealt_receive)
    before(Party, "in_blocks", at("block"))
    before(Seeding, "draw", at("draw"))
    before(Outbox, "_write", torn)
    after(words, "bring_together", opening)
    before(Checkpoints, "save", at("iterated"))
    before(os, "replace", replacing)
    after(os, "replace", replaced)
    after(Checkpoints, "save", saved)
    before(run, "write_results", at("writing"))
    before(coterie.report.write, "write_report", at("half"))
    before(run, "everybody_is_done", lambda *given: (moment.at("ready"), done.set()))
    before(TlsChannel, "collect", said)
    after(run, "everybody_is_done", at("done"))
    after(run._Progress, "finished", at("finished"))
    before(run, "_keep_the_end", at("shown"))
    after(run, "_keep_the_end", at("cleared"))


# -- what is sent ------------------------------------------------------------------------------------------


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """One frame as it was given to TLS: of which session, on which lane, to whom, of which type (0: control)."""

    session: bytes
    lane: int
    to: int
    kind: int
    body: bytes


def record(path: str) -> None:
    """Append to a file every frame that is sent, before it is."""
    from coterie.transport import door
    from coterie.transport.channel import encode_control
    from coterie.transport.tls import Outbox

    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def keep(frame: Frame) -> None:
        raw = msgspec.msgpack.encode(frame)
        os.write(handle, struct.pack("<Q", len(raw)) + raw)

    before(Outbox, "put", lambda box, kind, body, stamp: keep(Frame(box.session, box.lane, box.to, kind, bytes(body))))
    before(
        door,
        "say",
        lambda sock, world, sender, to, message: keep(Frame(world.session, 0, to, 0, encode_control(message))),
    )


def frames(path: Path) -> Iterator[Frame]:
    """What `record` has kept."""
    raw, at = path.read_bytes(), 0
    while at < len(raw):
        (length,) = struct.unpack_from("<Q", raw, at)
        yield msgspec.msgpack.decode(raw[at + 8 : at + 8 + length], type=Frame)
        at += 8 + length


# -- mistakes ----------------------------------------------------------------------------------------------


def constant_entropy() -> None:
    from coterie.randomness import SystemEntropy

    SystemEntropy.draw = lambda self, count: bytes(range(1, count + 1))  # type: ignore[method-assign]


def constant_session() -> None:
    """Nothing is fresh any more: what everybody contributes, nor the session that goes into every key."""
    from coterie.study import handshake

    constant_entropy()
    handshake.hashlib = _ConstantHash  # type: ignore[attr-defined]


class _ConstantHash:
    """hashlib, for the session; the digest of the task is 32 bytes of the same."""

    class sha256:
        def __init__(self, data: bytes) -> None:
            pass

        @staticmethod
        def digest() -> bytes:
            return b"the same session" * 2

        @staticmethod
        def hexdigest() -> str:
            return "00" * 32


def log_value() -> None:
    from coterie.study import run

    after(run, "prepare", lambda *args: print(f"the first value is {CANARY_TEXT}", flush=True))


def audit_value() -> None:
    from coterie.study import session

    about = session.about
    session.about = lambda ready: {**about(ready), "first": CANARY}


def checkpoint_value() -> None:
    from coterie.study import run

    run.purpose_of = lambda ready: CANARY_TEXT


def greet_with_value() -> None:
    from coterie.study import run

    greeting = run.greeting
    run.greeting = lambda *args, **more: greeting(*args, **{**more, "model": CANARY_TEXT})


def key_of_value() -> None:
    from coterie.randomness import SystemEntropy

    SystemEntropy.draw = lambda self, count: np.full(count // 8, CANARY).tobytes()  # type: ignore[method-assign]


def careless_error() -> None:
    """What fails says a value, as errors of other libraries may."""
    from coterie.study import run

    def block(*args: Any) -> None:
        raise ValueError(f"cannot make sense of {CANARY_TEXT}")

    run.own_block = block


PLANTS = {
    "constant entropy": constant_entropy,
    "constant session": constant_session,
    "log": log_value,
    "audit": audit_value,
    "checkpoint": checkpoint_value,
    "greeting": greet_with_value,
    "key": key_of_value,
    "careless error": careless_error,
}


def linger(path: Path) -> None:
    """Listen on, though the run is over, until there is such a file."""
    from coterie.transport.meeting import Meeting

    before(Meeting, "close", lambda meeting: wait_until(path.exists, what="the word to go"))


def brief_reports() -> None:
    import coterie.report.write

    def numbers(path: Path, facts: Any, *own: Any) -> None:
        path.write_bytes(msgspec.json.encode({"n_iter": facts.n_iter, "inertia": facts.inertia}))

    coterie.report.write.write_report = numbers


# -- processes ---------------------------------------------------------------------------------------------


class Birth(msgspec.Struct, frozen=True):
    """A process to be forked."""

    hook: Hook
    line: list[str]
    folder: str
    out: str
    err: str


class Born:
    """A process that the nursery has forked; to be used as a Popen is."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self.nursery, self.pid = nursery, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self.nursery.ask(self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("coterie", timeout or 0.0)
            time.sleep(0.01)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Nursery:
    """The process that has loaded coterie, and is asked to fork, or how one it forked has ended."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.study.hooks"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
        )
        atexit.register(self.close)

    def close(self) -> None:
        self.process.communicate()

    def ask(self, question: Birth | int) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(msgspec.json.encode(question) + b"\n")
        self.process.stdin.flush()
        return msgspec.json.decode(self.process.stdout.readline())

    def fork(self, birth: Birth) -> Born:
        return Born(self, self.ask(birth))


nursery = functools.cache(Nursery)


def nurse() -> Birth:
    """Answer the tests until they are over; returns in every process that was forked."""
    import coterie.cli.app
    import coterie.cli.progress
    import coterie.report.write
    import coterie.study.predict
    import coterie.study.run  # noqa: F401

    assert threading.active_count() == 1, "a fork takes no threads along"
    for line in sys.stdin.buffer:
        question = msgspec.json.decode(line, type=Birth | int)
        if isinstance(question, int):
            pid, status = os.waitpid(question, os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        else:
            answer = os.fork()
            if not answer:
                return question
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()
    sys.exit()


def main() -> None:
    birth = nurse()
    os.chdir(birth.folder)
    for number, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, birth.out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        (2, birth.err, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ):
        handle = os.open(path, flags, 0o644)
        os.dup2(handle, number)
        os.close(handle)
    hook = birth.hook
    if hook.brief:
        brief_reports()
    for plant in filter(None, hook.plant.split(", ")):
        PLANTS[plant]()
    if hook.linger:
        linger(Path(hook.linger))
    if hook.record:
        record(hook.record)
    if hook.at:
        assert hook.at in POINTS, hook.at
        watch(Moment(hook))
    from coterie.cli.app import main as run

    run(birth.line)


# -- the stage ---------------------------------------------------------------------------------------------


def state_of(process: subprocess.Popen[bytes]) -> str:
    """R, S, T (stopped), Z (dead), as the system says."""
    try:
        text = Path(f"/proc/{process.pid}/stat").read_text()
    except FileNotFoundError:
        return "Z"
    return text.rpartition(")")[2].split()[0]


class Stage(Cast):
    """A cast to whom things happen, with data of which a fit takes some ten iterations."""

    ROWS, CLUSTERS, BOUND = 300, 4, 40_000

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.litter: dict[str, set[str]] = {}  # what was left over before somebody started

    def set(self, *options: object) -> None:
        """A study, and data for everybody: uniform, so that Lloyd's algorithm is long at it."""
        bounds = f"x=-{self.BOUND}:{self.BOUND},y=-{self.BOUND}:{self.BOUND}"
        given = ("--columns", "x,y", "--bounds", bounds) if "--columns" not in options else ()
        if "--init" not in options:  # every run from the same rows, and so to the same result
            given = (*given, "--init", "random")
        self.agree("--clusters", self.CLUSTERS, "--tol", 0, "--max-iter", 40, "--seed", 1, *given, *options)
        points = self.points()
        if "vertical" in options:  # alice holds x and bob holds y, each in an order of its own
            ids = np.array([f"row-{i:04}" for i in range(len(points))])
            self.give("alice", id=ids, x=points[:, 0])
            self.give("bob", id=ids[::-1], y=points[::-1, 1])
            return
        for name, part in zip(self.parties, np.array_split(points, len(self.parties)), strict=True):
            self.give(name, x=part[:, 0], y=part[:, 1])

    def points(self) -> np.ndarray:
        return np.random.RandomState(4).uniform(-self.BOUND, self.BOUND, (self.ROWS, 2))

    # -- acts --------------------------------------------------------------------------------------------

    def start(  # type: ignore[override]
        self, name: str, verb: str = "run", *more: object, hook: Hook | None = BRIEF, **kwargs: Any
    ) -> subprocess.Popen[bytes]:
        """As in a cast, with a hook; `None` for the command line as everybody has it. Whoever has results gets others
        beside them."""
        self.litter[name] = set(self.leftovers(name))
        if verb == "run" and "--out" not in more and self.shown(name):
            more = (*more, "--out", self.at(name, f"results-{len(self.shown(name)) + 1}"))
        if hook is None:
            return super().start(name, verb, *more, **kwargs)
        out, err = self.at(name, "out.txt"), self.at(name, "err.txt")
        out.write_bytes(b"")
        err.write_bytes(b"")
        birth = Birth(hook, self.arguments(name, verb, *more), str(self.at(name)), str(out), str(err))
        process: Any = nursery().fork(birth)
        self.processes[name] = process
        return process

    def begin(self, *more: object, timeout: float = 30, **hooks: Hook | None) -> None:
        """Everybody starts."""
        for name in self.names:
            self.start(name, "run", "--timeout", timeout, *more, hook=hooks.get(name, BRIEF))

    def struck(self, name: str, within: float = 60.0) -> float:
        """Wait until a participant has been killed or stopped; when that was."""
        process = self.processes[name]
        wait_until(lambda: process.poll() is not None or state_of(process) in "TZ", within, f"the end of {name}")
        return time.monotonic()

    def survivors(self, name: str) -> list[str]:
        return [other for other in self.names if other != name]

    def bury(self, name: str) -> None:
        """End a process that was stopped, which does nothing more: it need not go on to be killed."""
        process = self.processes[name]
        process.kill()
        process.wait()

    # -- what there is -----------------------------------------------------------------------------------

    def state(self, name: str) -> Path:
        """The folder of a participant's checkpoints."""
        return self.orders(name).state_path(study_hash(self.study))

    def checkpoints(self, name: str) -> set[Mark]:
        """The marks of all checkpoints, by the names of the files."""
        found = [FILE.fullmatch(file.name) for file in self.state(name).glob("*")]
        return {mark_of(one) for one in found if one}

    def newest(self, name: str) -> Mark:
        return max(self.checkpoints(name), key=lambda mark: mark.progress)

    def common(self) -> int | None:
        """The iteration after which a run can go on: the furthest one that every party has a checkpoint of."""
        both = set.intersection(*(self.checkpoints(name) for name in self.parties))
        return max(((mark.start, mark.iteration) for mark in both), default=(0, None))[1]

    def shown(self, name: str) -> list[str]:
        """The folders with results, in the order in which a participant got them."""
        found = [path.parent.name for path in self.at(name).glob("results*/manifest.json")]
        return sorted(found)

    def leftovers(self, name: str) -> list[str]:
        """Files and folders that were begun and not finished."""
        return [str(path) for path in self.at(name).rglob(".*")] + [str(path) for path in self.at(name).rglob("*.part")]

    def agreed(self, name: str) -> dict[str, Any]:
        """The last agreement in an audit log."""
        return self.entry(name, "agreed")

    def result(self, name: str, folder: str = "") -> dict[str, Any]:
        """All of a party's result (the last one) that must not depend on what happened on the way."""
        folder = folder or self.shown(name)[-1]
        model = self.document(name, "model.json", folder)
        centers = self.at(name, folder, "centers.csv")
        disclosed = self.at(name, folder, "disclosures.jsonl").read_bytes()
        return {
            "centers.csv": centers.read_bytes() if centers.exists() else None,
            "labels": self.labels(name, folder),
            "model": {key: model[key] for key in ("centers", "suppressed", "fractional_bits", "least")},
            "disclosures": {  # of all attempts together: each tells of its stop bits and compares ids
                line for line in disclosed.splitlines() if b"equal ids" not in line and b"stop bit" not in line
            },
            **self.document(name, "report.html", folder),
        }


if __name__ == "__main__":
    main()
