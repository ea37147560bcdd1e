"""A bad option of any command is named as it was typed; never a traceback, never words of a library."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import typer

from coterie.cli.app import app
from tests.plain import FOREIGN
from tests.study.walk import SMALL, Cast, coterie

CREATE = "study create {new} --party {alice_id} --party {bob_id} --helper {helper_id}"
SMALLER = " ".join(SMALL)
#: Of `run`, and of the commands that take part in the same way.
PART = [
    ("--key {nowhere}", "key {nowhere}"),
    ("--key {folder}", "{folder}"),
    ("--data {nowhere}", "{nowhere}"),
    ("--data postgresql://", "--query"),
    ("--data {csv} --query SELECT", "the query failed: there is a syntax error in it"),
    ("--data {csv} --table t", "--table"),
    ("--data {csv} --delimiter ;;", "--delimiter"),
    ("--data {csv} --decimal x", "--decimal"),
    ("--data {csv} --encoding klingon", "--encoding"),
    ("--data {csv} --policy {nowhere}", "{nowhere}"),
    ("--data {csv} --listen here", "--listen"),
    ("--data {csv} --listen 127.0.0.1:99999", "--listen"),
    ("--data {csv} --proxy ftp://x", "--proxy"),
    ("--data {csv} --proxy http://x:port", "--proxy"),
    ("--data {csv} --timeout 0", "--timeout"),
    ("--data {csv} --timeout soon", "--timeout"),
    ("--data {csv} --timeout nan", "--timeout"),
    ("--data {csv} --wait -1", "--wait"),
    ("--data {csv} --wait nan", "--wait"),
    ("--data {csv} --log {folder}", "--log"),
    ("--data {csv} --passphrase-fd many", "--passphrase-fd"),
    ("--data {csv} --frobnicate", "--frobnicate"),
]
LONG = [
    ("--data {csv} --stall 0", "--stall"),
    ("--data {csv} --stall nan", "--stall"),
    ("--data {csv} --out {csv}", "{csv}"),
    ("--data {csv} --audit {folder}", "{folder}"),
]
CASES: list[tuple[str, str]] = [
    ("identity create x/y --address h:1", "x/y"),
    ("identity create x", "--address"),
    ("identity create x --address nowhere", "--address"),
    ("identity create x --address h:0", "--address"),
    ("identity create x --address h:1 --years 0", "--years"),
    ("identity create x --address h:1 --years 1000000", "--years"),
    ("identity create x --address h:1 --years x", "--years"),
    ("identity create x --address h:1 --folder {csv}", "{csv}"),
    ("identity create x --via {nowhere}", "{nowhere}"),
    ("identity create x --via {alice_key}", "identity"),
    ("identity create x --address h:1 --via {alice_id}", "--via"),
    ("identity create x --address h:1 --passphrase-fd 999", "--passphrase-fd"),
    ("identity create x --address h:1 --passphrase", "--passphrase-fd"),
    ("identity show {nowhere}", "{nowhere}"),
    ("identity show {alice_key}", "private key"),
    ("identity passphrase {alice_id}", "public identity"),
    ("identity renew {alice_id}", "public identity"),
    ("identity renew {nowhere}", "{nowhere}"),
    ("identity renew {alice_key} --years 0", "--years"),
    ("identity renew {disguised}", "identity"),
    ("identity passphrase {alice_key} --remove --new-passphrase-fd 0", "--remove"),
    ("identity passphrase {alice_key} --new-passphrase-fd 999", "--new-passphrase-fd"),
    (f"study create {{new}} --party {{alice_id}} {SMALLER}", "--party"),
    (f"study create {{new}} --party {{alice_id}} --party {{bob_id}} {SMALLER}", "--helper"),
    (f"study create {{new}} --party {{alice_key}} --party {{bob_id}} --helper {{helper_id}} {SMALLER}", "identity"),
    (f"study create {{new}} --party {{nowhere}} --party {{bob_id}} --helper {{helper_id}} {SMALLER}", "{nowhere}"),
    (f"{CREATE} --columns x --bounds x=0:1", "--clusters"),
    (f"{CREATE} --clusters 2", "--columns"),
    (f"{CREATE} --clusters 2 --columns x", "--bounds"),
    (f"{CREATE} {SMALLER} --holds carol=x", "--holds"),
    (f"{CREATE} {SMALLER} --categories x=a", "column 'x': there must be 2 to 100 categories"),
    (f"{CREATE} {SMALLER} --column-weights x=heavy", "--column-weights"),
    (f"{CREATE} {SMALLER} --column-weights z=1", "--column-weights"),
    (f"{CREATE} {SMALLER} --row-weights w", "--row-weights"),
    (f"{CREATE} {SMALLER} --clip maybe", "--clip"),
    (f"{CREATE} {SMALLER} --reconnect -1", "--reconnect"),
    (f"{CREATE} {SMALLER} --server {{nowhere}}", "{nowhere}"),
    (f"{CREATE} {SMALLER} --survey --cells 5", "--clusters"),
    (f"{CREATE} --columns x --bounds x=0:1 --survey --cells 0", "--cells"),
    (f"{CREATE} --columns x --bounds x=0:1 --survey --quantiles 200", "--quantiles"),
    (f"{CREATE} --columns x --bounds x=0:1 --survey --quantiles many", "--quantiles"),
    ("study explain {nowhere}", "{nowhere}"),
    ("study explain {study} --rows 0", "--rows"),
    ("study explain {study} --rows x", "--rows"),
    ("study explain {study} --iterations 0", "--iterations"),
    ("study sign {study} --key {nowhere}", "{nowhere}"),
    ("study sign {nowhere} --key {alice_key}", "{nowhere}"),
    ("study sign {study}", "--key"),
    ("study sign {study} --key {alice_key} --policy {nowhere}", "{nowhere}"),
    ("study withdraw {study}", "--key"),
    ("study withdraw {study} --key {nowhere}", "{nowhere}"),
    ("study verify {nowhere}", "{nowhere}"),
    ("study verify {csv}", "{csv}"),
    ("study frobnicate", "frobnicate"),
    *((f"run {{study}} --key {{alice_key}} {more}", said) for more, said in [*PART, *LONG]),
    *((f"predict {{study}} --key {{alice_key}} {more}", said) for more, said in [*PART[:2], *PART[-1:]]),
    *((f"predict {{study}} --key {{alice_key}} --model {{model}} {more}", said) for more, said in PART[10:]),
    *((f"survey {{asking}} --key {{alice_key}} {more}", said) for more, said in [*PART, *LONG]),
    *((f"preflight {{study}} --key {{alice_key}} {more}", said) for more, said in PART),
    ("run {study} --key {alice_key}", "--data"),
    ("run {study} --key {helper_key} --data {csv}", "--data"),
    ("run {study} --key {alice_key} --data {csv} --state {csv}", "{csv}"),
    ("run {nowhere} --key {alice_key} --data {csv}", "{nowhere}"),
    ("run {asking} --key {alice_key} --data {csv}", "survey"),
    ("survey {study} --key {alice_key} --data {csv}", "run"),
    ("predict {study} --key {alice_key} --data {csv}", "--model"),
    ("predict {study} --key {alice_key} --data {csv} --model {nowhere}", "{nowhere}"),
    ("predict {study} --key {alice_key} --data {csv} --model {alice_key}", "is a private key, not a model"),
    ("predict {study} --key {alice_key} --data {csv} --model {study}", "is a study file, not a model"),
    ("predict {study} --key {alice_key} --data {csv} --model {model}", "{model} is not a model: "),
    ("relay --listen nowhere --key {alice_key} --open", "--listen"),
    ("relay --listen 127.0.0.1:99999 --key {alice_key} --open", "--listen"),
    ("relay --listen 192.0.2.1:1 --key {alice_key} --open", "--listen"),
    ("relay --key {alice_key}", "--listen"),
    ("relay --listen 127.0.0.1:0", "--key"),
    ("relay --listen 127.0.0.1:0 --key {nowhere}", "{nowhere}"),
    ("relay --listen 127.0.0.1:0 --key {alice_key} --identity {bob_id}", "--identity"),
    ("relay --listen 127.0.0.1:0 --key {alice_key} --study {nowhere}", "{nowhere}"),
    ("relay --listen 127.0.0.1:0 --key {alice_key} --studies {nowhere}", "--studies"),
    ("relay --listen 127.0.0.1:0 --key {alice_key}", "--study"),
    ("relay --listen 127.0.0.1:0 --key {alice_key} --open --most-connections 0", "--most-connections"),
    ("relay --listen 127.0.0.1:0 --key {alice_key} --open --most-per-study -1", "--most-per-study"),
    ("relay --listen 127.0.0.1:0 --key {alice_key} --open --most-per-participant 0", "--most-per-participant"),
    ("relay --listen 127.0.0.1:0 --key {alice_key} --open --log {folder}", "--log"),
    ("serve --studies {folder}", "--key"),
    ("serve --key {helper_key}", "--studies"),
    ("serve --key {nowhere} --studies {folder} --state {new}", "{nowhere}"),
    ("serve --key {helper_key} --studies {nowhere} --state {new}", "--studies"),
    ("serve --key {helper_key} --studies {folder} --state {csv}", "--state"),
    ("serve --key {helper_key} --studies {folder} --state {new} --listen here", "--listen"),
    ("serve --key {helper_key} --studies {folder} --state {new} --listen 192.0.2.1:1", "--listen"),
    ("serve --key {helper_key} --studies {folder} --state {new} --policy {nowhere}", "{nowhere}"),
    ("serve --key {helper_key} --studies {folder} --state {new} --most-studies 0", "--most-studies"),
    ("serve --key {helper_key} --studies {folder} --state {new} --most-rows 0", "--most-rows"),
    ("serve --key {helper_key} --studies {folder} --state {new} --most-memory little", "--most-memory"),
    ("serve --key {helper_key} --studies {folder} --state {new} --status there", "--status"),
    ("serve --key {helper_key} --studies {folder} --state {new} --status 99999", "--status"),
    ("serve --key {helper_key} --studies {folder} --state {new} --grace -1", "--grace"),
    ("serve --key {helper_key} --studies {folder} --state {new} --timeout 0", "--timeout"),
    ("serve --key {helper_key} --studies {folder} --state {new} --timeout nan", "--timeout"),
    ("serve --key {helper_key} --studies {folder} --state {new} --grace nan", "--grace"),
    ("serve --key {helper_key} --studies {folder} --state {new} --log {folder}", "--log"),
    ("status --state {nowhere}", "--state"),
    ("status --state {nowhere} --health", "--state"),
    ("audit verify {nowhere}", "{nowhere}"),
    ("audit verify {csv}", "{csv}"),
    ("audit verify --frobnicate", "--frobnicate"),
    ("demo --out {csv}", "{csv}"),
    ("demo --out {folder}", "{folder}"),
    ("simulate {csv}", "--clusters"),
    ("simulate {nowhere} -k 2", "{nowhere}"),
    ("simulate {csv} -k many", "--clusters"),
    ("simulate {csv} -k 0", "--clusters"),
    ("simulate {csv} -k 2 --parties 1", "--parties"),
    ("simulate {csv} -k 2 --partition diagonal", "--partition"),
    ("simulate {csv} -k 2 --columns z", "has no column 'z'"),
    ("simulate {csv} -k 2 --bounds x=1", "--bounds"),
    ("simulate {csv} -k 2 --bounds z=0:1", "--bounds"),
    ("simulate {csv} -k 2 --scale x", "--scale"),
    ("simulate {csv} -k 2 --protocol x", "--protocol"),
    ("simulate {csv} -k 2 --counts x", "--counts"),
    ("simulate {csv} -k 2 --labels x", "--labels"),
    ("simulate {csv} -k 2 --labels revealed", "--labels"),
    ("simulate {csv} -k 2 --least-cluster-size 0", "--least-cluster-size"),
    ("simulate {csv} -k 2 --contribution x", "--contribution"),
    ("simulate {csv} -k 2 --resolution x=fine", "--resolution"),
    ("simulate {csv} -k 2 --resolution z=1", "--resolution"),
    ("simulate {csv} -k 2 --sizes x", "--sizes"),
    ("simulate {csv} -k 2 --init x", "--init"),
    ("simulate {csv} -k 2 --seed x", "--seed"),
    ("simulate {csv} -k 2 --seed -1", "--seed"),
    ("simulate {csv} -k 2 --choose x", "--choose"),
    ("simulate {csv} -k 2 --n-init 0", "--n-init"),
    ("simulate {csv} -k 2 --max-iter 0", "--max-iter"),
    ("simulate {csv} -k 2 --tol -1", "--tol"),
    ("simulate {csv} -k 2 --tol nan", "--tol"),
    ("simulate {csv} -k 99", "--clusters"),
    ("simulate {csv} -k 2 --parties 99", "--parties"),
    ("simulate {csv} -k 2 --bounds x=5:9", "bounds, 5 to 9"),
    ("simulate {csv} -k 2 --link pigeon", "--link"),
    ("simulate {csv} -k 2 --out {csv}", "{csv}"),
    ("forecast -n 0 -d 2 -k 2", "--rows"),
    ("forecast -n 10 -d 0 -k 2", "--columns"),
    ("forecast -n 10 -d 2 -k 0", "--clusters"),
    ("forecast -d 2 -k 2", "--rows"),
    ("forecast -n 10 -d 2 -k 2 -p 1", "--parties"),
    ("forecast -n 10 -d 2 -k 2 --partition x", "--partition"),
    ("forecast -n 10 -d 2 -k 2 --counts x", "--counts"),
    ("forecast -n 10 -d 2 -k 2 --labels revealed", "--labels"),
    ("forecast -n 10 -d 2 -k 2 --centers x", "--centers"),
    ("forecast -n 10 -d 2 -k 2 --restarts 0", "--restarts"),
    ("forecast -n 10 -d 2 -k 2 --init x", "--init"),
    ("forecast -n 10 -d 2 -k 2 --iterations 0", "--iterations"),
    ("forecast -n 10 -d 2 -k 2 --protocol x", "--protocol"),
    ("forecast -n 10 -d 2 -k 2 --bounds x", "--bounds"),
    ("forecast -n 10 -d 2 -k 2 --bounds 1:0", "--bounds"),
    ("forecast -n 10 -d 2 -k 2 --plot {folder}", "{folder}"),
    ("forecast -n 10 -d 2 -k 20", "--clusters"),
]
#: Commands with a --key, and what else they need.
KEYED = [
    "study sign {study} --key {wrong}",
    "study withdraw {study} --key {wrong}",
    "run {study} --data {csv} --key {wrong}",
    "predict {study} --data {csv} --model {model} --key {wrong}",
    "survey {asking} --data {csv} --key {wrong}",
    "preflight {study} --data {csv} --key {wrong}",
    "relay --listen 127.0.0.1:0 --open --key {wrong}",
    "serve --studies {folder} --state {new} --key {wrong}",
    "identity passphrase {wrong}",
    "identity renew {wrong}",
]


@pytest.fixture(scope="module")
def names(tmp_path_factory) -> dict[str, Path]:
    """Files that the commands are given, by what they are."""
    folder = tmp_path_factory.mktemp("options")
    with Cast(folder) as cast:
        cast.agree("--survey", "--columns", "x,y", "--bounds", "x=-12:12,y=-12:12")
        shutil.move(cast.at("alice"), folder / "asking")
        shutil.copytree(folder / "asking", cast.at("alice"), ignore=shutil.ignore_patterns("*.sig.toml", "study.toml"))
        cast.agree(*SMALL)
        csv = cast.at("alice", "data.csv")
        csv.write_text("x,y\n" + "1,2\n" * 20)
        (folder / "studies").mkdir()
        (folder / "studies" / "notes.txt").write_text("a folder that is not empty")
        model = cast.at("alice", "model.json")
        model.write_text('{"study_hash": "x", "run": 7}')
        disguised = cast.at("alice", "my.key")
        shutil.copy(cast.identity("alice"), disguised)
        disguised.chmod(0o600)
        made = {f"{name}_{kind}": getattr(cast, long)(name) for name in cast.names
                for kind, long in (("id", "identity"), ("key", "key"))}  # fmt: skip
        return {
            **made,
            "study": cast.study_file("alice"),
            "asking": folder / "asking" / "study.toml",
            "csv": csv,
            "model": model,
            "disguised": disguised,
            "folder": folder / "studies",
            "nowhere": folder / "nowhere",
        }


@pytest.mark.parametrize(("line", "named"), CASES)
def test_a_bad_option_is_named(names, tmp_path, monkeypatch, line, named):
    monkeypatch.chdir(tmp_path)
    places = {**names, "new": tmp_path / "new"}
    said = coterie(*(word.format(**places) for word in line.split()))
    assert 0 < said.code < 70, said
    assert named.format(**places) in said.err
    assert not FOREIGN.search(said.err), said.err


@pytest.mark.parametrize("line", KEYED)
@pytest.mark.parametrize("kind", ["alice_id", "disguised"])
def test_an_identity_in_the_place_of_a_key(names, tmp_path, line, kind):
    places = {**names, "new": tmp_path / "new", "wrong": names[kind]}
    said = coterie(*(word.format(**places) for word in line.split()))
    assert said.code == 4
    assert f"{names[kind]} is " in said.err
    assert "public identity" in said.err
    assert "private key" in said.err


def test_every_command_is_tried():
    """A new command has its bad options tried, too."""
    group = typer.main.get_command(app)
    verbs = {" ".join(path) for path in _paths(group)}
    tried = {verb for verb in verbs for line, _ in CASES if f"{line} ".startswith(f"{verb} ")}
    assert tried == verbs
    keyed = {verb for verb in verbs if any("--key" in option.opts for option in _options(group, verb.split()))}
    assert keyed == {verb for verb in keyed for line in KEYED if line.startswith(f"{verb} ")}


def _paths(command, before=()):
    below = getattr(command, "commands", None)
    if below is None:
        yield before
        return
    for name, one in below.items():
        yield from _paths(one, (*before, name))


def _options(command, path):
    for name in path:
        command = command.commands[name]
    return command.params
