"""Studies without a helper: three servers, of whom two or three own data, and owners who do not serve.

The family is `replicated`, which lives in the tests alone.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from coterie.clustering import Outcome, Task
from coterie.errors import InputError, Interrupted, PeerLost, PolicyError, StudyError
from coterie.protocols import FAMILIES
from coterie.protocols.plaintext import whole
from coterie.ring import Words
from coterie.runtime.oracle import run_oracle
from coterie.study.audit import Audit
from coterie.study.endings import telling_why
from coterie.study.greetings import greeting
from coterie.study.predict import predict_rows
from coterie.study.run import run_study
from coterie.study.tasks import make_study_task, seeds_of
from coterie.study.voice import Voice
from coterie.transport import World
from tests.contract.replicated import Replicated
from tests.study.walk import Cast, coterie

LEAST, K = 3, 3
NAMES = ("a", "b", "c", "d", "e")
#: Rows from which Lloyd's algorithm takes more iterations than it is allowed.
X = np.random.RandomState(0).uniform(-20, 20, (30, 5))
IDS = np.array([f"{i:03d}" for i in range(len(X))])
ASKED = (
    *("--protocol", "replicated", "--clusters", K, "--columns", ",".join(NAMES), "--tol", 0, "--max-iter", 3),
    *("--bounds", ",".join(f"{name}=-30:30" for name in NAMES), "--seed", 2),
)
#: Who owns data, and who serves: all, with one who owns nothing, and some, in no particular seats.
WORLDS = {
    "three who own and serve": (("alice", "bob", "carol"), ("alice", "bob", "carol")),
    "two and a server without data": (("alice", "bob"), ("alice", "bob", "depot")),
    "five of whom three serve": (("alice", "bob", "carol", "dora", "eve"), ("eve", "bob", "dora")),
    "three of whom two serve": (("alice", "bob", "carol"), ("depot", "alice", "carol")),
}


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """The family; and reports without pictures, which hold the inertia."""
    monkeypatch.setitem(FAMILIES, Replicated.name, Replicated)
    monkeypatch.setattr(
        "coterie.report.write.write_report", lambda path, facts, *more: path.write_text(repr(facts.inertia))
    )


QUICK = ("two and a server without data", "three of whom two serve")


@pytest.fixture(params=[pytest.param(world, marks=() if world in QUICK else pytest.mark.slow) for world in WORLDS])
def company(request, tmp_path) -> Iterator[Cast]:
    with gathered(tmp_path, request.param) as cast:
        yield cast


def gathered(folder, world: str, protocols=("onetime", "replicated")) -> Cast:
    parties, servers = WORLDS[world]
    cast = Cast(folder, parties, servers=servers)
    cast.policies(least_cluster_size=LEAST, protocols=protocols)
    return cast


def columns_of(cast: Cast) -> dict[str, list[int]]:
    """Who holds which columns, if they are split."""
    return {name: list(map(int, held)) for name, held in zip(cast.parties, np.array_split(range(5), len(cast.parties)))}


def by_columns(cast: Cast) -> tuple[object, ...]:
    held = ",".join(f"{name}={','.join(NAMES[l] for l in own)}" for name, own in columns_of(cast).items())
    return ("--partition", "vertical", "--id", "id", "--holds", held)


def write(cast: Cast, file: str, x: np.ndarray = X) -> dict[str, str]:
    """Everybody's data: its rows, or its columns in an order of its own."""
    found = {}
    if cast.study.clustering.partition == "horizontal":
        for name, rows in zip(cast.parties, np.array_split(x, len(cast.parties)), strict=True):
            found[name] = str(cast.write(name, file, **{c: rows[:, l] for l, c in enumerate(NAMES)}))
        return found
    for j, (name, own) in enumerate(columns_of(cast).items()):
        step = -1 if j % 2 else 1
        held = {NAMES[l]: x[::step, l] for l in own}
        found[name] = str(cast.write(name, file, id=IDS[: len(x)][::step], **held))
    return found


def agree(cast: Cast, *options: object) -> None:
    cast.agree(*ASKED, *options)
    for name, path in write(cast, "data.csv").items():
        cast.sources[name] = ("--data", path)


def expected(cast: Cast, folder: str = "results", least: int = LEAST) -> tuple[Task, Outcome]:
    """What the oracle makes of the study, from rows that the run's numbers draw."""
    study, by_rows = cast.study, cast.study.clustering.partition == "horizontal"
    parts = np.array_split(X, len(cast.parties)) if by_rows else [X] * len(cast.parties)
    said = {name: greeting(study, "fit", len(rows), least) for name, rows in zip(cast.parties, parts, strict=True)}
    (run,) = {cast.document(name, "manifest.json", folder)["run"] for name in cast.names}
    task = cast.with_homes(
        msgspec.structs.replace(make_study_task(study, "fit", said), seeds=seeds_of(study, run)), folder
    )
    return task, run_oracle(task, task.encoding.encode(X, range(5)))


def labels_of(cast: Cast, folder: str = "results") -> list[int]:
    """In the table's order."""
    if cast.study.clustering.partition == "horizontal":
        return [label for name in cast.parties for label in cast.labels(name, folder)["label"]]
    tables = [cast.labels(name, folder) for name in cast.parties]
    ordered = [[label for _, label in sorted(zip(t["id"], t["label"], strict=True))] for t in tables]
    assert all(one == ordered[0] for one in ordered)
    return ordered[0]


def check_results(cast: Cast, folder: str = "results") -> None:
    """Equal to the oracle's, bit for bit, at everybody who may have them; and at nobody else."""
    task, oracle = expected(cast, folder)
    assert labels_of(cast, folder) == oracle.labels.tolist()
    centers = whole(oracle.kept["centers"])
    for rank, name in zip(cast.study.world().ranks, cast.study.names, strict=True):
        model = cast.document(name, "model.json", folder)
        assert model["suppressed"] == oracle.suppressed.tolist()
        has = {path.name for path in cast.at(name, folder).iterdir()}
        if name not in cast.parties:
            assert not has & {"labels.parquet", "centers.csv"}
            assert (model["centers"], model["columns"]) == (None, [])
            assert cast.at(name, folder, "report.html").read_text() == "None"
            continue
        assert cast.at(name, folder, "report.html").read_text() == repr(oracle.inertia)
        own = task.layout.own_columns(rank)
        if task.centers == "revealed":
            assert model["centers"] == oracle.centers[:, own].tolist()
        else:
            assert model["centers"] is None
            assert "centers.csv" not in has
        assert ("share" in model and model["share"] is not None) == (task.centers == "shared" and name in cast.servers)
    if task.centers == "shared":
        held = [cast.document(name, "model.json", folder)["share"] for name in cast.servers]
        assert Words(64).signed(sum(np.array(one["first"], np.uint64) for one in held)).tolist() == centers.tolist()


def check_logs(cast: Cast) -> None:
    """All logs hold, know each other's heads, and tell of the same openings, before anybody had the result."""
    told = []
    for name in cast.names:
        entries = cast.audit(name)
        told.append([(e["what"], tuple(e["to"]), e["iteration"]) for e in entries if e["event"] == "opening"])
        against = [
            word for other in cast.names if other != name for word in ("--against", cast.at(other, "audit.jsonl"))
        ]
        said = coterie("audit", "verify", cast.at(name, "audit.jsonl"), *against)
        assert said.code == 0, said.err
        assert set(cast.entry(name, "agreed")["peers"]) == set(cast.names) - {name}
    assert all(one == told[0] for one in told)
    results = {what: set(to) for what, to, iteration in told[0] if iteration is None}
    assert results["suppression bits"] == set(cast.names)
    assert results["inertia"] == set(cast.parties)
    assert set(told[0][0 if told[0][0][0] == "stop bit" else 1][1]) == set(cast.names)


#: Two of the four in every run of the tests.
WAYS = pytest.mark.parametrize(
    ("way", "centers"),
    [
        ("rows", "shared"),
        ("columns", "revealed"),
        pytest.param("rows", "revealed", marks=pytest.mark.slow),
        pytest.param("columns", "shared", marks=pytest.mark.slow),
    ],
)


@WAYS
def test_a_whole_study(company, way, centers):
    agree(company, "--centers", centers, *(by_columns(company) if way == "columns" else ()))
    company.run()
    check_results(company)
    check_logs(company)
    alone = (way, centers) == ("rows", "revealed")
    predicting = company.parties if alone else company.names
    new = write(company, "new.csv", X[::-1])
    company.predict({name: {"data": new.get(name)} for name in predicting})
    assert labels_of(company, "predictions") == labels_of(company)[::-1]
    for name in predicting:
        manifest = company.document(name, "manifest.json", "predictions")
        assert manifest["purpose"] == "predict"
        assert ("labels.parquet" in manifest["files"]) == (name in company.parties)


class Stopped(Voice):
    def iterated(self, start, iteration, most, sent) -> None:
        if iteration == 2:
            raise Interrupted("told to stop")


@pytest.mark.parametrize("way", ["rows", "columns"])
def test_it_goes_on_where_it_was(company, way):
    """Whoever stopped: a server, an owner who does not serve, or a server who owns nothing."""
    agree(company, "--init", "random", *(by_columns(company) if way == "columns" else ()))
    odd = company.names[0]
    ended = company.take_part(voices={odd: Stopped()})
    assert all(isinstance(one, Exception) for one in ended.values()), ended
    assert "start it again, all of you: it goes on" in str(ended[company.names[1]])
    company.run()
    check_results(company)
    check_logs(company)
    begun, resumed = ([e for e in company.audit(name) if e["event"] == "agreed"] for name in company.names[:2])
    assert [e["run"] for e in begun] == [e["run"] for e in resumed] == [begun[0]["run"]] * 2
    assert begun[1]["resumed_after"] in (1, 2)
    company.run(each={name: {"out": company.at(name, "again")} for name in company.names})
    check_results(company, "again")


def test_labels_of_every_iteration(tmp_path):
    """SVK-means."""
    with gathered(tmp_path, "five of whom three serve") as cast:
        cast.policies(least_cluster_size=1, protocols=["replicated"])
        agree(cast, *by_columns(cast), "--labels", "revealed")
        cast.run()
        assert labels_of(cast) == expected(cast, least=1)[1].labels.tolist()


def test_counts_of_every_iteration_are_the_servers(tmp_path):
    with gathered(tmp_path, "five of whom three serve") as cast:
        cast.policies(least_cluster_size=1, protocols=["replicated"])
        agree(cast, "--init", "random", "--counts", "revealed")
        cast.run()
        told = [(e["iteration"], set(e["to"])) for e in cast.audit("alice") if e.get("what") == "counts"]
        assert told[-1] == (None, set(cast.parties))
        assert [to for _, to in told[:-1]] == [set(cast.servers)] * 3
        text = "\n".join(cast.study.disclosures.statement)
        assert "In every iteration bob, dora, eve learn how many rows each cluster has." in text
        assert "At the end alice, bob, carol, dora, eve learn how many rows each cluster has." in text


def test_unequal_ids_are_found_without_a_helper(tmp_path):
    with gathered(tmp_path, "two and a server without data") as cast:
        agree(cast, *by_columns(cast))
        cast.give("bob", id=[f"x{i}" for i in range(len(X))], **{NAMES[l]: X[:, l] for l in columns_of(cast)["bob"]})
        for error in cast.take_part().values():
            assert "the parties do not all hold the same ids" in str(error)


@pytest.mark.parametrize("which", [0, -1])
def test_nothing_is_opened_before_everybody_has_logged_it(company, monkeypatch, which):
    """Two servers could open a value by themselves: they wait for the third, and for those who do not serve."""
    agree(company)
    odd, tried, genuine, record = company.names[which], set(), Replicated.bring_together, Audit.record

    def watched(family, value, parts, what):
        tried.add(what)
        return genuine(family, value, parts, what)

    def full(audit, event, **fields):
        if (event, fields.get("what"), audit.path.parent.name) == ("opening", "centers", odd):
            raise InputError("the disk is full")
        return record(audit, event, **fields)

    monkeypatch.setattr(Replicated, "bring_together", watched)
    monkeypatch.setattr(Audit, "record", full)
    ended = company.take_part()
    assert all(isinstance(one, Exception) for one in ended.values()), ended
    assert "suppression bits" in tried
    assert "centers" not in tried


@pytest.mark.parametrize(
    ("error", "culprit"),
    [(RuntimeError("a bug"), 2), (PeerLost("gone", ""), 2), (PeerLost("gone", "carol"), 3)],
    ids=["own", "nobody's", "carol's"],
)
def test_nobody_at_a_vacant_rank_is_blamed(error, culprit):
    blamed = []
    talk = SimpleNamespace(
        world=World(("", "alice", "bob", "carol"), serving=(1, 2, 3)), abort=lambda rank, _: blamed.append(rank)
    )
    with pytest.raises(type(error)), telling_why(talk, SimpleNamespace(rank=2), str):
        raise error
    assert blamed == [culprit]


# -- what it says ------------------------------------------------------------------------------------------


@WAYS
def test_explain(company, way, centers):
    made = company.create(*ASKED, "--centers", centers, *(by_columns(company) if way == "columns" else ()))
    assert made.code == 0, made.err
    said = coterie("study", "explain", company.folder / "study.toml", "--rows", 300, "--iterations", 2)
    assert said.code == 0, said.err
    text, statement = said.out, (company.folder / "study.toml").read_text()
    for words in (text, statement):
        assert "helper" not in words
        assert "None" not in words
    servers = company.servers
    assert f"No two of the servers {', '.join(servers[:2])} and {servers[2]} pool what they hold." in text
    assert "Any two of the three servers together could read everything." in text
    assert "Any two of them together could read everything: no two of them may pool what they hold." in statement
    assert "No policy allows protocol replicated unless it names it." in text
    assert 'protocols = ["onetime", "securenn", "replicated"]' in text
    for name in company.names:
        roles = ["data party"] * (name in company.parties) + ["server"] * (name in servers)
        assert f"- {name} ({' and '.join(roles)}) at " in text
        end = text.split(f"to {name}:\n")[1].split("\nto ")[0].split("\n\n")[0]
        assert ("The inertia" in end) == (name in company.parties)
        assert ("it keeps a share" in end) == (centers == "shared" and name in servers)
        assert ("Nothing else: no centre, no label" in end) == (name not in company.parties)
    assert "a server sends" in text
    if "depot" in servers and way == "columns":
        assert "whether all data parties hold the same ids" in text
        assert "whether all parties hold the same ids" in statement


def test_machines_get_the_same(tmp_path):
    with gathered(tmp_path, "two and a server without data") as cast:
        cast.agree(*ASKED)
        said = coterie("--json", "study", "verify", cast.study_file("depot"))
        people = msgspec.json.decode(said.out.splitlines()[-1])["participants"]
        assert [(one["name"], one["role"]) for one in people] == [
            ("depot", "server"),
            ("alice", "data party and server"),
            ("bob", "data party and server"),
        ]
        found = coterie("preflight", cast.study_file("depot"), "--key", cast.key("depot"))
        assert (found.code, "signatures: of depot, alice, bob" in found.out) == (0, True), found.err
        refused = coterie(*cast.arguments("depot", "run", "--data", "some.csv"))
        assert (refused.code, "depot is a server that holds no data; leave --data out" in refused.err) == (2, True)


def test_the_study_file_names_the_servers(tmp_path):
    with gathered(tmp_path, "five of whom three serve") as cast:
        study = cast.agree(*ASKED)
        assert study.participants.servers == ["eve", "bob", "dora"]
        world = study.world()
        assert (world.names[0], world.serving, world.dealer) == ("", (2, 4, 5), None)
        assert [study.at_rank(rank).name for rank in world.ranks] == list(cast.parties)
        assert 'servers = [\n    "eve",\n    "bob",\n    "dora",\n]' in cast.study_file("alice").read_text()
        text = cast.study_file("alice").read_text().replace('    "eve",\n', '    "alice",\n')
        cast.study_file("alice").write_text(text)
        said = coterie("study", "verify", cast.study_file("alice"))
        assert said.code == 4
        assert "the statement is not what" in said.err


# -- wrong combinations ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    with Cast(tmp_path_factory.mktemp("people"), ("alice", "bob", "carol", "dora"), "helper") as cast:
        yield cast


def create(cast: Cast, protocol: str, parties: str, helper: bool, *servers: str) -> str:
    """What `study create` complains of. A server with a dot is given by the file of that name."""
    line = [word for name in parties.split() for word in ("--party", cast.identity(name))]
    line += ["--helper", cast.identity("helper")] if helper else []
    for name in servers:
        line += ["--server", cast.identity(name[1:]) if name.startswith(".") else name]
    options = list(ASKED)
    options[1] = protocol
    said = coterie("study", "create", cast.folder / "new.toml", *line, *options)
    (cast.folder / "new.toml").unlink(missing_ok=True)
    assert (said.code == 0) == (said.err == "")
    return said.err


@pytest.mark.parametrize(
    ("protocol", "parties", "helper", "servers", "named"),
    [
        ("onetime", "alice bob", True, [], ""),
        ("onetime", "alice bob", False, [], "protocol onetime needs a helper: name one with --helper"),
        ("securenn", "alice bob", False, [], "protocol securenn needs a helper: name one with --helper"),
        ("onetime", "alice bob", True, ["alice"], "protocol onetime has no servers: leave out --server"),
        ("onetime", "alice bob", False, ["alice", "bob", ".dora"], "onetime has no servers: leave out --server"),
        ("onetime", "alice", True, [], "--party: at least two are needed"),
        ("replicated", "alice bob carol", False, ["alice", "bob", "carol"], ""),
        ("replicated", "alice bob", False, ["alice", "bob", ".dora"], ""),
        ("replicated", "alice bob", False, [".alice", ".bob", ".dora"], ""),
        ("replicated", "alice bob carol", False, [".dora", "carol", "alice"], ""),
        ("replicated", "alice bob carol dora", False, ["dora", "bob", "alice"], ""),
        ("replicated", "alice bob carol", True, ["alice", "bob", "carol"], "has no helper: leave out --helper"),
        ("replicated", "alice bob carol", True, [], "replicated has no helper: leave out --helper"),
        ("replicated", "alice bob carol", False, [], "replicated has three servers: name each with --server"),
        ("replicated", "alice bob", False, ["alice", "bob"], "replicated has three servers, and 2 named: name each"),
        ("replicated", "alice bob carol dora", False, ["alice", "bob", "carol", "dora"], "three servers, and 4 named"),
        ("replicated", "alice bob carol", False, ["alice", "bob", "bob"], "bob is named twice as a server"),
        ("replicated", "alice bob", False, ["alice", "bob", "dora"], "--server dora: no party is called that"),
        ("replicated", "alice bob", False, ["alice", ".carol", ".dora"], "carol and dora are no parties; at most one"),
        ("replicated", "alice", False, ["alice", ".carol", ".dora"], "carol and dora are no parties; at most one"),
        ("replicated", "alice", False, ["alice", ".dora"], "--party: at least two are needed"),
    ],
)  # fmt: skip
def test_what_a_family_needs(people, protocol, parties, helper, servers, named):
    said = create(people, protocol, parties, helper, *servers)
    assert named in said if named else not said, said


def test_files_that_name_servers_wrongly(people):
    """As nobody's `study create` writes them."""
    create(people, "replicated", "alice bob", False, "alice", "bob", ".dora")
    line = [word for name in ("alice", "bob") for word in ("--party", people.identity(name))]
    path = people.folder / "wrong.toml"
    made = coterie("study", "create", path, *line, "--server", "alice", "--server", "bob", "--server",
                   people.identity("dora"), *ASKED)  # fmt: skip
    assert made.code == 0, made.err
    text = path.read_text()
    for old, new, named in (
        ('    "dora",\n', "", "dora owns no data and is not named as a server"),
        ('    "dora",\n', '    "eve",\n', "there is no party eve that could serve"),
        ("[participants.server]", "[participants.helper]", "protocol replicated has no helper"),
        ('protocol = "replicated"', 'protocol = "onetime"', "protocol onetime has no servers"),
    ):
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))
        said = coterie("study", "explain", path)
        assert (said.code, named in said.err) == (4, True), said.err


def test_help_says_when_servers_are_named():
    said = " ".join(coterie("study", "create", "--help").out.replace("│", " ").split())
    assert "For families with servers" in said
    assert "for families with a helper" in said


def test_studies_with_a_helper_keep_their_form(cast):
    """Who has signed one has signed the same bytes."""
    cast.agree("--clusters", 2, "--columns", "x", "--bounds", "x=0:1")
    whole_study = msgspec.to_builtins(cast.study)
    assert list(whole_study["participants"]) == ["helper", "parties", "reconnect"]  # which is left out at its default
    assert "server" not in cast.study_file("alice").read_text()
    assert cast.study.world() == type(cast.study.world())(("helper", "alice", "bob"))


# -- policies ----------------------------------------------------------------------------------------------


def test_a_policy_must_name_the_family(tmp_path):
    with gathered(tmp_path, "two and a server without data", protocols=["replicated"]) as cast:
        agree(cast)
        cast.at("bob", "policy.toml").unlink()
        said = coterie("study", "sign", cast.study_file("bob"), "--key", cast.key("bob"))
        assert said.code == 5
        assert "the default policy (there is no policy.toml beside the key): the rule `protocols` allows" in said.err
        assert 'protocols = ["onetime", "securenn", "replicated"]' in said.err
        path = cast.policy("bob", protocols=["onetime"])
        with pytest.raises(PolicyError, match="the rule `protocols` allows 'onetime'; the study asks for 'replicated'"):
            run_study(cast.orders("bob"))
        said = coterie("study", "sign", cast.study_file("bob"), "--key", cast.key("bob"))
        assert str(path) in said.err
        assert 'protocols = ["onetime", "replicated"]' in said.err


# -- models ------------------------------------------------------------------------------------------------


def test_models_of_servers(tmp_path):
    with gathered(tmp_path, "three of whom two serve") as cast:
        agree(cast, "--centers", "shared")
        cast.run()
        for name in cast.names:
            model = cast.at(name, "results", "model.json")
            serves = name in cast.servers
            assert stat.S_IMODE(model.stat().st_mode) == (0o600 if serves else 0o644)
            fields = msgspec.json.decode(model.read_bytes())
            assert (fields["share"] is not None) == serves
            wrong = tmp_path / "wrong.json"
            share = {"first": [[0] * 5] * K} if serves else {"first": [[0] * 5] * K, "second": [[0] * 5] * K}
            wrong.write_bytes(msgspec.json.encode({**fields, "share": share}))
            changes = {"data": cast.sources[name][1]} if name in cast.parties else {}
            with pytest.raises(StudyError, match="centres are not shared, as the study has them"):
                predict_rows(cast.orders(name, model=wrong, out=cast.at(name, "p"), **changes))
