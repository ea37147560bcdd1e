"""`coterie study`: write what everybody agrees on, explain it, sign it, verify the signatures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.console import Console, printable
from coterie.cli.parsing import parse_bounds, parse_clusters, parse_numbers, parse_pairs
from coterie.cli.people import list_participants, show_participants
from coterie.errors import InputError
from coterie.study.agreement import MOST_ROWS, section_hashes, study_hash
from coterie.study.identity import Identity, load_identity, load_key
from coterie.study.policy import check_policy, load_policy
from coterie.study.signatures import sign_study, verify_signatures
from coterie.study.study_file import create_study, load_study, write_study

__all__ = ["app"]

app = typer.Typer(help="What you agree on: one file that all participants sign.", no_args_is_help=True)
NOBODY: list[str] = []
File = Annotated[Path, typer.Argument(help="The study file.")]


@app.command("create")
def create(
    context: typer.Context,
    study: File,
    party: Annotated[list[Path], typer.Option("--party", help="A party's identity file; once for each party.")],
    clusters: Annotated[str, typer.Option("--clusters", "-k", help="How many clusters; or 2:10, to choose from.")],
    columns: Annotated[str, typer.Option("--columns", help="Columns to cluster by: age,income.")],
    bounds: Annotated[str, typer.Option("--bounds", help="Public range of each: age=0:120,income=0:500000.")],
    helper: Annotated[
        Path | None, typer.Option("--helper", help="The helper's identity file, for families with a helper.")
    ] = None,
    server: Annotated[
        list[str],
        typer.Option(
            "--server",
            metavar="NAME",
            help="For families with servers, once for each: a party's name, or the identity file of a server that "
            "owns no data.",
        ),
    ] = NOBODY,
    partition: Annotated[str, typer.Option("--partition", help="horizontal or vertical.")] = "horizontal",
    holds: Annotated[str, typer.Option("--holds", help="Who holds which, if vertical: alice=age,bob=income.")] = "",
    id_: Annotated[str, typer.Option("--id", help="The column that names a row; needed if vertical.")] = "",
    counts: Annotated[str, typer.Option("--counts", help="Cluster sizes: secret or revealed.")] = "secret",
    labels: Annotated[str, typer.Option("--labels", help="private, or revealed (vertical only).")] = "private",
    centers: Annotated[str, typer.Option("--centers", help="revealed at the end, or shared for ever.")] = "revealed",
    protocol: Annotated[str, typer.Option("--protocol", help="The protocol family: onetime or securenn.")] = "onetime",
    init: Annotated[
        str, typer.Option("--init", help="Where centres start: k-means++ (drawn in secret), or random (public rows).")
    ] = "k-means++",
    seed: Annotated[int, typer.Option("--seed", help="For the public random numbers that draw starting rows.")] = 0,
    restarts: Annotated[int, typer.Option("--n-init", help="How many starts to choose the best of.")] = 1,
    max_iter: Annotated[int, typer.Option("--max-iter", help="The most iterations.")] = 300,
    tol: Annotated[
        float, typer.Option("--tol", help="Stop when the centres move less than this part of the columns' variance.")
    ] = 1e-4,
    scale: Annotated[
        str, typer.Option("--scale", help="standard: columns count alike, by their spread; bounds: by range; none.")
    ] = "standard",
    scales: Annotated[
        str,
        typer.Option("--scales", help="The spread of columns that this takes: revealed at the end, or secret."),
    ] = "revealed",
    choose: Annotated[
        str, typer.Option("--choose", help="Of several numbers of clusters: calinski-harabasz or silhouette.")
    ] = "calinski-harabasz",
    measures: Annotated[
        str, typer.Option("--measures", help="What each number of clusters comes to: revealed, or secret.")
    ] = "revealed",
    quality: Annotated[
        str, typer.Option("--quality", help="What is told at the end of how good the clusters are.")
    ] = "inertia,silhouette,calinski-harabasz",
    column_weights: Annotated[
        str, typer.Option("--column-weights", help="What columns count for after scaling, if not 1: age=2,income=0.5.")
    ] = "",
    least_cluster_size: Annotated[
        int, typer.Option("--least-cluster-size", help="Smaller clusters stay closed; policies may ask for more.")
    ] = 1,
    contribution: Annotated[
        str, typer.Option("--contribution", help="What the others than any party must contribute to an open cluster.")
    ] = "least",
    resolution: Annotated[
        str, typer.Option("--resolution", help="Steps of columns, so that means are rounded: age=1,income=100.")
    ] = "",
    sizes: Annotated[str, typer.Option("--sizes", help="Sizes at the end: secret, or rounded.")] = "secret",
    most_rows: Annotated[int, typer.Option("--most-rows", help="The most rows that a party may bring.")] = MOST_ROWS,
    name: Annotated[str, typer.Option("--name", help="What to call the study; the file's name if left out.")] = "",
) -> None:
    """Write a study file. It needs no editing: everybody signs it as it is."""
    console: Console = context.obj
    holders: dict[str, str] = {}
    for party_name, held in parse_pairs("--holds", holds).items():
        for column in filter(None, held.split(",")):
            if column in holders:
                raise InputError(f"--holds: column {column!r} is held by both {holders[column]} and {party_name}")
            holders[column] = party_name
    parties = [load_identity(path) for path in party]
    made = create_study(
        name or study.stem,
        parties,
        None if helper is None else load_identity(helper),
        servers=[_find_server(text, parties) for text in server],
        clusters=parse_clusters(clusters),
        choose=choose,
        measures=measures,
        quality=[one.strip() for one in quality.split(",") if one.strip()],
        partition=partition,
        columns=[column.strip() for column in columns.split(",") if column.strip()],
        bounds=parse_bounds(bounds),
        holds=holders,
        id_column=id_,
        resolution=parse_numbers("--resolution", resolution, "STEP"),
        column_weights=parse_numbers("--column-weights", column_weights, "WEIGHT"),
        most_rows=most_rows,
        least_cluster_size=least_cluster_size,
        contribution=contribution,
        sizes=sizes,
        counts=counts,
        labels=labels,
        centers=centers,
        protocol=protocol,
        init=init,
        seed=seed,
        restarts=restarts,
        max_iter=max_iter,
        tol=tol,
        scale=scale,
        scales=scales,
    )
    write_study(study, made)
    console.say(
        f"{study} is written, hash {study_hash(made)}.\nNow send it to {', '.join(made.names)}; each reads it (coterie "
        f"study explain {study}), signs it (coterie study sign {study} --key NAME.key) and sends the signature to all.",
        "study",
        path=str(study),
        hash=study_hash(made),
    )


def _find_server(text: str, parties: list[Identity]) -> str | Identity:
    """A party by its name, or whoever an identity file says."""
    if any(one.name == text for one in parties):
        return text
    path = Path(text)
    if not path.exists():
        raise InputError(
            f"--server {text}: no party is called that, and there is no such file; name a party, or the identity file "
            "of a server that owns no data"
        )
    return load_identity(path)


@app.command("explain")
def explain(
    context: typer.Context,
    study: File,
    rows: Annotated[int, typer.Option("--rows", help="For the forecast: how many rows in all.")] = 100_000,
    iterations: Annotated[int, typer.Option("--iterations", help="For the forecast: how many iterations.")] = 20,
) -> None:
    """Say in plain words what a study computes, what everybody learns, what it rests on and what it will cost."""
    from coterie.cli.explain import explain_study

    console: Console = context.obj
    loaded = load_study(study)
    text, fields = explain_study(loaded, rows, iterations)
    console.say(text, "explanation", hash=study_hash(loaded), **fields)


@app.command("sign")
def sign(
    context: typer.Context,
    study: File,
    key: Annotated[Path, typer.Option("--key", help="Your private key.")],
    policy: Annotated[Path | None, typer.Option("--policy", help="Your policy; policy.toml beside the key.")] = None,
) -> None:
    """Sign a study that your policy allows: writes STUDY.NAME.sig.toml for the others."""
    console: Console = context.obj
    loaded = load_study(study)
    text = load_key(key)
    rank = loaded.rank_of(text)
    rules, called = load_policy(policy, key)
    console.say(f"the policy is {called}", "policy", policy=called)
    check_policy(rules, loaded, loaded.at_rank(rank).name, called)
    path = sign_study(study, text)
    console.say(
        "\n".join(["participants:", *show_participants(loaded), f"signed: send {path} to all other participants"]),
        "signed",
        path=str(path),
        name=loaded.at_rank(rank).name,
        participants=list_participants(loaded),
    )


@app.command("verify")
def verify(context: typer.Context, study: File) -> None:
    """Check that every participant has signed the study as it is; else say who has not, or which section changed."""
    console: Console = context.obj
    loaded = load_study(study)
    signatures = verify_signatures(study, loaded)
    lines = [f"{name} signed on {printable(signature.signed)}" for name, signature in signatures.items()]
    valid = f"all {len(lines)} signatures are valid; hash {study_hash(loaded)}"
    console.say(
        "\n".join(["participants:", *show_participants(loaded), *lines, valid]),
        "verified",
        hash=study_hash(loaded),
        sections=section_hashes(loaded),
        participants=list_participants(loaded),
        signed={name: signature.signed for name, signature in signatures.items()},
    )
