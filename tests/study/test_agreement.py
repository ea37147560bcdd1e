"""The study file and its signatures: what cannot be agreed on, and that no change goes unnoticed."""

from __future__ import annotations

import base64
import copy
import re
import shutil
import tomllib

import msgspec
import pytest
import tomli_w

from coterie.errors import InputError, StudyError
from coterie.study.agreement import SECTIONS, section_hashes, study_hash
from coterie.study.identity import create_identity, load_identity, load_key, sign
from coterie.study.signatures import Signature, sign_study, signature_path, verify_signatures
from coterie.study.statement import state_disclosures
from coterie.study.study_file import create_study, load_study, write_study
from tests.study.walk import SMALL, Cast, coterie

VERTICAL = (
    *("--clusters", 3, "--partition", "vertical", "--columns", "age,height,income", "--id", "patient"),
    *("--bounds", "age=0:120,height=0:250,income=0:500000", "--holds", "alice=age,height,bob=income"),
)


@pytest.fixture(scope="module")
def agreed(tmp_path_factory):
    """A study that everybody has signed; tests change copies."""
    with Cast(tmp_path_factory.mktemp("agreed")) as cast:
        cast.agree(*VERTICAL, "--reconnect", 60)  # what is not said in the file
        yield cast


@pytest.fixture
def signed(agreed, tmp_path):
    """A copy of the study with its signatures, and nothing else."""
    for file in [agreed.study_file("alice"), *agreed.at("alice").glob("*.sig.toml")]:
        shutil.copy(file, tmp_path)
    return tmp_path / "study.toml"


# -- writing one -------------------------------------------------------------------------------------------


def test_the_file_holds_what_was_asked_for_and_needs_no_editing(cast):
    made = cast.create(*VERTICAL, "--seed", 7, "--n-init", 2, "--tol", 0, "--max-iter", 9, "--scale", "bounds")
    assert made.code == 0
    study = load_study(cast.folder / "study.toml")
    assert study_hash(study) in made.out
    assert study.study.name == "study"
    assert study.names == ("helper", "alice", "bob")
    assert study.clustering == msgspec.structs.replace(
        study.clustering, clusters=3, partition="vertical", seed=7, restarts=2, tol=0.0, max_iter=9, scale="bounds"
    )
    assert [(c.name, c.low, c.high, c.holder) for c in study.data.columns] == [
        ("age", 0, 120, "alice"),
        ("height", 0, 250, "alice"),
        ("income", 0, 500_000, "bob"),
    ]
    assert (study.own_columns(1), study.own_columns(2)) == ([0, 1], [2])
    text = (cast.folder / "study.toml").read_text()
    for section, meaning in SECTIONS.items():
        assert f"# {meaning}\n[{section}" in text
    for line in study.disclosures.statement:
        assert line in text


def test_the_statement_says_what_the_options_amount_to(agreed):
    for options, words, absent in (
        ((), ["one bit: whether to stop", "the clusters of its own rows", "learn the centres"], "rows each cluster"),
        (("--counts", "revealed"), ["learn how many rows each cluster has"], "the cluster of every row"),
        (("--centers", "shared"), ["The centres are never disclosed"], "learn the centres of"),
    ):
        assert agreed.create(*SMALL, *options).code == 0
        text = " ".join(load_study(agreed.folder / "study.toml").disclosures.statement)
        assert all(part in text for part in words)
        assert absent not in text
    assert agreed.create(*VERTICAL, "--labels", "revealed").code == 0
    text = " ".join(load_study(agreed.folder / "study.toml").disclosures.statement)
    assert "In every iteration alice, bob learn the cluster of every row." in text
    assert "the centres in its own columns, and in no others" in text


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--clusters", 0), "clusters must be at least 1"),
        (("--clusters", "four"), "--clusters"),
        (("--columns", ""), "among --columns"),
        (("--columns", "x,y,z"), "--bounds has no range for column 'z'"),
        (("--columns", "x"), "--bounds names column 'y', which is not among --columns"),
        (("--columns", "x,y,x"), "column 'x' is listed twice"),
        (("--bounds", "x=0:1"), "--bounds has no range for column 'y'"),
        (("--bounds", "x=0:1,y=1:0"), "column 'y': the bounds must be finite, low before high"),
        (("--bounds", "x=0:1,y=1:1"), "column 'y': the bounds"),
        (("--bounds", "x=0:1,y=0:inf"), "--bounds: y=0:inf is not y=LOW:HIGH"),
        (("--bounds", "x=nan:1,y=0:1"), "--bounds: x=nan:1 is not x=LOW:HIGH"),
        (("--bounds", "x=0:1,y=5"), "--bounds: y=5 is not y=LOW:HIGH"),
        (("--bounds", "x=0:1,y=a:b"), "--bounds: y=a:b is not y=LOW:HIGH"),
        (("--bounds", "x=0:1,y"), "--bounds: 'y' is not NAME=VALUE"),
        (("--bounds", "x=0:1,y=0:1,y=0:1"), "--bounds names 'y' twice"),
        (("--partition", "diagonal"), "--partition: 'diagonal' is none of horizontal, mixed, vertical"),
        (("--partition", "mixed"), "a mixed study needs an id column"),
        (("--holds", "alice=x"), "--holds: only in a vertical study columns have one"),
        (("--holds", "alice=z"), "--holds names column 'z', which is not among --columns"),
        (("--counts", "some"), "--counts: 'some' is none of revealed, secret"),
        (("--labels", "revealed"), "revealed labels need a vertical study"),
        (("--labels", "public"), "--labels: 'public' is none of private, revealed"),
        (("--centers", "hidden"), "--centers: 'hidden' is none of revealed, shared"),
        (("--protocol", "magic"), "protocol must be one of onetime, securenn"),
        (("--seed", -1), "seed must lie between"),
        (("--seed", 1 << 32), "seed must lie between"),
        (("--n-init", 0), "--n-init must be at least 1"),
        (("--max-iter", 0), "--max-iter must be at least 1"),
        (("--tol", -1), "tol must be"),
        (("--tol", "nan"), "tol must be"),
        (("--tol", "inf"), "tol must be"),
        (("--scale", "unit"), "--scale: 'unit' is none of bounds, none, standard"),
        (("--id", "x"), "the id column 'x' cannot be clustered by"),
    ],
)
def test_what_cannot_be_agreed_on(agreed, options, named):
    changed = dict(zip(*[iter(SMALL)] * 2, strict=True)) | dict([options])
    made = agreed.create(*(word for pair in changed.items() for word in pair))
    assert made.code == 2
    assert named in made.err
    assert not (agreed.folder / "study.toml").exists()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--id", ""), "needs an id column"),
        (("--holds", "alice=age,height"), "column 'income' must be held by one of the parties (alice, bob)"),
        (("--holds", "alice=age,height,carol=income"), "column 'income' must be held by one of the parties"),
        (("--holds", "alice=age,height,helper=income"), "column 'income' must be held by one of the parties"),
        (("--holds", "alice=age,height,income"), "party bob holds no column"),
        (("--holds", "alice=age,height,bob=income,age"), "--holds: column 'age' is held by both alice and bob"),
        (("--holds", "alice=age,alice=height,bob=income"), "--holds names 'alice' twice"),
        (("--holds", "age,bob=income"), "--holds: 'age' is not NAME=VALUE"),
    ],
)
def test_what_cannot_be_agreed_on_by_columns(agreed, options, named):
    changed = dict(zip(*[iter(VERTICAL)] * 2, strict=True)) | dict([options])
    made = agreed.create(*(word for pair in changed.items() for word in pair))
    assert made.code == 2
    assert named in made.err


def test_participants_who_cannot_be_told_apart(tmp_path):
    alice, bob, helper = (create_identity(name, f"{name}:1", tmp_path) for name in ("alice", "bob", "helper"))
    twin = msgspec.structs.replace(alice, name="twin", address="twin:1")
    neighbour = create_identity("neighbour", "alice:1", tmp_path)
    other_alice = create_identity("alice", "alice:2", tmp_path / "elsewhere")

    def create(*parties):
        return create_study(
            "s", parties, helper, clusters=2, partition="horizontal", columns=["x"], bounds={"x": (0, 1)}
        )

    assert create(alice, bob)
    for parties, named in (
        ((alice,), "--party: at least two are needed"),
        ((alice, alice), "alice is listed twice"),
        ((alice, other_alice), "alice is listed twice"),
        ((alice, twin), "shows the certificate of another participant"),
        ((alice, neighbour), "has the address of another participant"),
        ((alice, helper), "helper is listed twice"),
    ):
        with pytest.raises(InputError, match=named):
            create(*parties)


def test_a_study_is_not_overwritten(cast):
    (cast.folder / "taken.toml").write_text("precious")
    parties = ("--party", cast.identity("alice"), "--party", cast.identity("bob"), "--helper", cast.identity("helper"))
    made = coterie("study", "create", cast.folder / "taken.toml", *parties, *SMALL)
    assert made.code == 2
    assert "is there already" in made.err
    assert (cast.folder / "taken.toml").read_text() == "precious"


# -- changing one ------------------------------------------------------------------------------------------


def leaves(value, path=()):
    """Every value of a document that is not a table or a list, with the way to it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path, value
    else:
        for key, below in items:
            yield from leaves(below, (*path, key))


def changed_at(document, path, value):
    document = copy.deepcopy(document)
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return document


def other(value):
    return value + "x" if isinstance(value, str) else value + 1


def test_every_value_of_a_signed_study_is_protected_and_its_section_named(signed):
    document = tomllib.loads(signed.read_text())
    seen = set()
    for path, value in leaves(document):
        signed.write_text(tomli_w.dumps(changed_at(document, path, other(value))))
        with pytest.raises(StudyError) as caught:
            verify_signatures(signed, load_study(signed))
        named = {a or b for a, b in re.findall(r"\[(\w+)\]|\$\.(\w+)", str(caught.value))}
        if path[0] == "participants" and path[-1] == "name":  # holders of columns are called by their names
            assert named >= {"data"} or named >= {"participants"}
        else:
            assert path[0] in named, (path, str(caught.value))
        seen.add(path[0])
    assert seen == set(SECTIONS)


def test_values_that_make_another_valid_study(signed):
    study, document = load_study(signed), tomllib.loads(signed.read_text())
    for path, value in (
        (("study", "name"), "another"),
        (("study", "created"), "2020-01-01T00:00:00+00:00"),
        (("clustering", "clusters"), 4),
        (("clustering", "protocol"), "securenn"),
        (("clustering", "seed"), 1),
        (("clustering", "tol"), 0),
        (("clustering", "scale"), "bounds"),
        (("data", "columns", 0, "high"), 121),
        (("data", "columns", 1, "holder"), "bob"),
        (("data", "id"), "person"),
        (("participants", "parties", 0, "address"), "127.0.0.1:1"),
    ):
        signed.write_text(tomli_w.dumps(changed_at(document, path, value)))
        with pytest.raises(StudyError, match=rf"was changed after helper signed it: section \[{path[0]}\]\. "):
            verify_signatures(signed, load_study(signed))
    shown = msgspec.structs.replace(study.disclosures, counts="revealed")
    looser = msgspec.structs.replace(study, disclosures=shown)
    looser = msgspec.structs.replace(
        looser, disclosures=msgspec.structs.replace(shown, statement=state_disclosures(looser)),
        clustering=msgspec.structs.replace(study.clustering, seed=5),
    )  # fmt: skip
    signed.unlink()
    write_study(signed, looser)
    with pytest.raises(StudyError, match=r"changed after helper signed it: section \[clustering\], \[disclosures\]\. "):
        verify_signatures(signed, load_study(signed))


def test_order_and_removal_are_changes(signed):
    document = tomllib.loads(signed.read_text())
    for path in (("data", "columns"), ("participants", "parties"), ("disclosures", "statement")):
        at = document
        for key in path:
            at = at[key]
        for value in (at[::-1], at[:-1], [*at, at[-1]]):
            signed.write_text(tomli_w.dumps(changed_at(document, path, value)))
            with pytest.raises(StudyError, match=rf"\[{path[0]}\]|\[data\] column 'income' must be held"):
                verify_signatures(signed, load_study(signed))


def test_every_section_and_field_must_be_there_or_be_as_it_was(signed):
    """A field that is left out takes its default, which is no change if that is what was signed."""
    document, hashes = tomllib.loads(signed.read_text()), section_hashes(load_study(signed))
    for section in SECTIONS:
        signed.write_text(tomli_w.dumps({name: value for name, value in document.items() if name != section}))
        with pytest.raises(StudyError, match=f"{section} is missing"):
            load_study(signed)
        for name in document[section]:
            less = {key: value for key, value in document[section].items() if key != name}
            signed.write_text(tomli_w.dumps({**document, section: less}))
            try:
                found = load_study(signed)
            except StudyError as error:
                assert section in str(error)
            else:
                assert section_hashes(found) == hashes


def test_comments_and_layout_are_no_change(signed):
    before = study_hash(load_study(signed))
    text = signed.read_text()
    for edited in (
        text + "\n# signed by everybody on Tuesday\n",
        "\n".join(line for line in text.split("\n") if not line.startswith("#")),
        text.replace(" = ", "    =  "),
        text.replace("\n", "\r\n"),
        tomli_w.dumps(dict(reversed(tomllib.loads(text).items()))),
    ):
        signed.write_text(edited, newline="")
        study = load_study(signed)
        assert study_hash(study) == before
        assert set(verify_signatures(signed, study)) == {"helper", "alice", "bob"}


def test_unknown_fields_are_refused_everywhere(signed):
    document = tomllib.loads(signed.read_text())
    tables = [(), ("study",), ("clustering",), ("data",), ("data", "columns", 0), ("disclosures",), ("participants",),
              ("participants", "helper"), ("participants", "parties", 1)]  # fmt: skip
    for path in tables:
        signed.write_text(tomli_w.dumps(changed_at(document, (*path, "extra"), "yes")))
        with pytest.raises(StudyError, match="extra is not known here"):
            load_study(signed)


def test_what_is_no_study(tmp_path):
    path = tmp_path / "study.toml"
    for content, fault in (
        (b"", "is not a study file: [a-z]+ is missing"),
        (b"= =", "is not a study file"),
        (b"\xff\xfe", "is not a text file"),
        (b"study = 1", r"\[study\]: expected a section with keys, found a whole number"),
    ):
        path.write_bytes(content)
        with pytest.raises(StudyError, match=fault):
            load_study(path)
    with pytest.raises(StudyError, match="cannot be read"):
        load_study(tmp_path / "none.toml")
    with pytest.raises(StudyError, match="cannot be read"):
        load_study(tmp_path)


def test_a_statement_that_promises_something_else(signed):
    document = tomllib.loads(signed.read_text())
    document["disclosures"]["statement"][0] = "In every iteration nobody learns anything."
    signed.write_text(tomli_w.dumps(document))
    with pytest.raises(StudyError, match=r"\[disclosures\] the statement is not what \[clustering\], .* amount to"):
        load_study(signed)


# -- signatures --------------------------------------------------------------------------------------------


def test_who_has_not_signed(signed):
    study = load_study(signed)
    signature_path(signed, "bob").unlink()
    signature_path(signed, "helper").unlink()
    with pytest.raises(StudyError, match=r"is not signed by helper, bob; put their \.sig.toml files beside it"):
        verify_signatures(signed, study)


def altered(path, **changes):
    signature = msgspec.convert(tomllib.loads(path.read_text()), Signature)
    path.write_text(tomli_w.dumps(msgspec.to_builtins(msgspec.structs.replace(signature, **changes))))
    return signature


def test_every_value_of_a_signature_is_protected(signed):
    study, path = load_study(signed), signature_path(signed, "alice")
    text = path.read_text()
    document = tomllib.loads(text)
    for way, value in leaves(document):
        path.write_text(tomli_w.dumps(changed_at(document, way, other(value))))
        with pytest.raises(StudyError, match="alice"):
            verify_signatures(signed, study)
    for bad in ("", "AAAA", "not base64!", "ä"):
        altered(path, signature=bad)
        with pytest.raises(StudyError, match="the signature is not valid; alice must sign again"):
            verify_signatures(signed, study)
    path.write_text('extra = "yes"\n' + text)
    with pytest.raises(StudyError, match="extra is not known here"):
        verify_signatures(signed, study)
    path.write_text("nothing")
    with pytest.raises(StudyError, match="is not a signature"):
        verify_signatures(signed, study)
    path.write_text(text)
    assert verify_signatures(signed, study)


def test_swapped_signatures(signed):
    study = load_study(signed)
    alice, bob = signature_path(signed, "alice"), signature_path(signed, "bob")
    texts = alice.read_text(), bob.read_text()
    alice.write_text(texts[1])
    bob.write_text(texts[0])
    with pytest.raises(StudyError, match="is not signed with the certificate of alice that the study pins"):
        verify_signatures(signed, study)
    bob.write_text(texts[1])
    # Bob's signature under Alice's name, and with her fingerprint
    altered(alice, name="alice", fingerprint=study.everybody[1].fingerprint)
    with pytest.raises(StudyError, match="the signature is not valid; alice must sign again"):
        verify_signatures(signed, study)


def test_a_stranger_signs_in_another_name(agreed, signed, tmp_path):
    study, path = load_study(signed), signature_path(signed, "alice")
    create_identity("alice", "alice:1", tmp_path / "stranger")
    stranger = load_identity(tmp_path / "stranger" / "alice.identity.toml")
    key = load_key(tmp_path / "stranger" / "alice.key")
    with pytest.raises(StudyError, match="the key belongs to none of the participants"):
        sign_study(signed, key)
    genuine = msgspec.convert(tomllib.loads(path.read_text()), Signature)
    for fingerprint in (stranger.fingerprint, genuine.fingerprint):
        draft = msgspec.structs.replace(genuine, fingerprint=fingerprint)
        altered(path, fingerprint=fingerprint, signature=base64.b64encode(sign(key, draft.message())).decode())
        with pytest.raises(StudyError, match=r"not signed with the certificate of alice|signature is not valid"):
            verify_signatures(signed, study)


def test_a_signature_of_another_study(cast, agreed, signed):
    """The same people, another study: its signatures do not count here, and the sections that differ are named."""
    for name in agreed.names:
        shutil.copytree(agreed.at(name), cast.folder / "again" / name)
    again = cast.folder / "again"
    study = load_study(signed)
    changed = msgspec.structs.replace(study, clustering=msgspec.structs.replace(study.clustering, clusters=5))
    write_study(again / "study.toml", changed)
    signature = sign_study(again / "study.toml", load_key(again / "bob" / "bob.key"))
    shutil.copy(signature, signature_path(signed, "bob"))
    with pytest.raises(StudyError, match=r"was changed after bob signed it: section \[clustering\]"):
        verify_signatures(signed, study)


def test_signing_needs_a_key_of_the_study_and_leaves_it_as_it_is(agreed, cast):
    before = agreed.study_file("alice").read_bytes()
    said = coterie("study", "sign", agreed.study_file("alice"), "--key", cast.key("alice"))
    assert said.code == 4
    assert "belongs to none of the participants (helper, alice, bob)" in said.err
    assert coterie("study", "sign", agreed.study_file("alice"), "--key", agreed.key("alice")).code == 0
    assert agreed.study_file("alice").read_bytes() == before
    assert coterie("study", "verify", agreed.study_file("alice")).code == 0
