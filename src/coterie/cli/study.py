"""`coterie study`: write what everybody agrees on, explain it, sign it, verify the signatures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli import study_options as option
from coterie.cli.console import Console, printable
from coterie.cli.options import PassphraseFd
from coterie.cli.parsing import (
    parse_bounds,
    parse_categories,
    parse_clusters,
    parse_holders,
    parse_list,
    parse_missing,
    parse_numbers,
    parse_pairs,
    parse_quantiles,
    parse_row_weights,
)
from coterie.cli.passphrases import passphrase_for
from coterie.cli.people import list_participants, show_participants
from coterie.errors import InputError
from coterie.study.agreement import MOST_ROWS, RECONNECT, Study, section_hashes, study_hash
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
    party: option.Party,
    columns: option.Columns,
    clusters: option.Clusters = None,
    bounds: option.Bounds = "",
    survey: option.Survey = False,
    cells: option.Cells = 64,
    quantiles: option.Quantiles = "1,5,25,50,75,95,99",
    helper: option.Helper = None,
    server: option.Server = NOBODY,
    partition: option.Partition = "horizontal",
    holds: option.Holds = "",
    id_: option.Id = "",
    matching: option.Matching = "equal",
    id_rule: option.IdRule = "",
    precedence: option.Precedence = "",
    incomplete: option.Incomplete = "refuse",
    kinds: option.Kinds = "",
    categories: option.Categories = "",
    distance: option.Distance = "",
    missing: option.Missing = "",
    row_weights: option.RowWeights = "",
    clip: option.Clip = "",
    transform: option.Transform = "",
    counts: option.Counts = "secret",
    labels: option.Labels = "private",
    centers: option.Centers = "revealed",
    protocol: option.Protocol = "onetime",
    init: option.Init = "k-means++",
    seed: option.Seed = 0,
    restarts: option.Restarts = 1,
    max_iter: option.MaxIter = None,
    tol: option.Tol = 1e-4,
    scale: option.Scale = "standard",
    scales: option.Scales = "revealed",
    choose: option.Choose = "calinski-harabasz",
    measures: option.Measures = "revealed",
    quality: option.Quality = "inertia,silhouette,calinski-harabasz",
    column_weights: option.ColumnWeights = "",
    least_cluster_size: option.LeastClusterSize = 1,
    contribution: option.Contribution = "least",
    resolution: option.Resolution = "",
    sizes: option.Sizes = "secret",
    most_rows: option.MostRows = MOST_ROWS,
    reconnect: option.Reconnect = RECONNECT,
    renewals: option.Renewals = False,
    software: option.Software = "same",
    name: option.Name = "",
) -> None:
    """Write a study file. It needs no editing: everybody signs it as it is."""
    console: Console = context.obj
    parties = [load_identity(path) for path in party]
    if survey:
        _refuse_options_of_clusters(context)
        agreed = create_study(
            name or study.stem,
            parties,
            None if helper is None else load_identity(helper),
            servers=[_find_server(text, parties) for text in server],
            survey={"cells": cells, "quantiles": parse_quantiles(quantiles)},
            partition=partition,
            columns=parse_list(columns),
            bounds=parse_bounds(bounds),
            holds=parse_holders(holds, False),
            resolution=parse_numbers("--resolution", resolution, "STEP"),
            most_rows=most_rows,
            least_cluster_size=least_cluster_size,
            contribution=contribution,
            protocol=protocol,
            renewals=renewals,
            software=software,
        )
        _write(console, study, agreed)
        return
    values = parse_categories(categories)
    of_kind = parse_pairs("--kinds", kinds)
    as_text = [*values, *(column for column, kind in of_kind.items() if kind != "number")]
    agreed = create_study(
        name or study.stem,
        parties,
        None if helper is None else load_identity(helper),
        servers=[_find_server(text, parties) for text in server],
        clusters=None if clusters is None else parse_clusters(clusters),
        choose=choose,
        measures=measures,
        quality=parse_list(quality),
        partition=partition,
        columns=parse_list(columns),
        bounds=parse_bounds(bounds),
        holds=parse_holders(holds, partition == "mixed"),
        id_column=id_,
        matching=matching,
        id_rule=parse_pairs("--id-rule", id_rule),
        precedence=parse_list(precedence),
        incomplete=incomplete,
        kinds=of_kind,
        categories=values,
        distance=parse_numbers("--distance", distance, "DISTANCE"),
        missing=parse_missing(missing, as_text),
        row_weights=parse_row_weights(row_weights),
        clip=parse_list(clip),
        transform=parse_pairs("--transform", transform),
        resolution=parse_numbers("--resolution", resolution, "STEP"),
        column_weights=parse_numbers("--column-weights", column_weights, "WEIGHT"),
        most_rows=most_rows,
        reconnect=reconnect,
        renewals=renewals,
        software=software,
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
    _write(console, study, agreed)


#: What says something of a survey, beside what says who takes part.
OF_SURVEYS = {"columns", "bounds", "survey", "cells", "quantiles", "partition", "holds", "resolution", "most_rows"}
OF_SURVEYS |= {
    "least_cluster_size",
    "contribution",
    "protocol",
    "study",
    "party",
    "helper",
    "server",
    "name",
    "renewals",
    "software",
}


def _refuse_options_of_clusters(context: typer.Context) -> None:
    """Nobody signs a survey in the belief that it clusters."""
    for given in context.command.params:
        source = context.get_parameter_source(given.name or "")
        if source is not None and source.name == "COMMANDLINE" and given.name not in OF_SURVEYS:
            raise InputError(
                f"--survey: {given.opts[0]} is about clusters, ids or long runs, of which a survey has none"
            )


def _write(console: Console, path: Path, study: Study) -> None:
    write_study(path, study)
    console.say(
        f"{path} is written, hash {study_hash(study)}.\nNow send it to {', '.join(study.names)}; each reads it "
        f"(coterie study explain {path}), signs it (coterie study sign {path} --key NAME.key). "
        "Signatures are fetched when you meet (coterie preflight, coterie run).",
        "study",
        path=str(path),
        hash=study_hash(study),
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
    rows: Annotated[int, typer.Option("--rows", min=1, help="For the forecast: how many rows in all.")] = 100_000,
    iterations: Annotated[int, typer.Option("--iterations", min=1, help="For the forecast: how many iterations.")] = 20,
) -> None:
    """Say in plain words what a study computes, what everybody learns, what it rests on and what it will cost."""
    console: Console = context.obj
    loaded = load_study(study)
    if loaded.survey is not None:
        from coterie.cli.explain_survey import explain_survey

        text, fields = explain_survey(loaded, rows)
    else:
        from coterie.cli.explain import explain_study

        text, fields = explain_study(loaded, rows, iterations)
    console.say(text, "explanation", hash=study_hash(loaded), **fields)


@app.command("sign")
def sign(
    context: typer.Context,
    study: File,
    key: Annotated[Path, typer.Option("--key", help="Your private key.")],
    policy: Annotated[Path | None, typer.Option("--policy", help="Your policy; policy.toml beside the key.")] = None,
    passphrase_fd: PassphraseFd = None,
) -> None:
    """Sign a study that your policy allows: writes STUDY.NAME.sig.toml for the others."""
    from coterie.study.prepare import Known  # takes long to load

    console: Console = context.obj
    loaded = load_study(study)
    text = load_key(key, passphrase_for(key, passphrase_fd))
    me = Known(loaded, study_hash(loaded), *loaded.enter_with(text), (), path=study)
    name = me.me.name
    rules, called = load_policy(policy, key)
    console.say(f"policy: {called}", "policy", policy=called)
    check_policy(rules, loaded, name, called)
    me.check_lifetimes()
    for ending in me.endings:
        console.say(ending, "ending")
    path = sign_study(study, text)
    console.say(
        "\n".join(
            ["participants:", *show_participants(loaded), f"signed: {path}; the others fetch it in preflight and run"]
        ),
        "signed",
        path=str(path),
        name=name,
        participants=list_participants(loaded),
    )


@app.command("withdraw")
def withdraw(
    context: typer.Context,
    study: File,
    key: Annotated[Path, typer.Option("--key", help="Your private key.")],
    passphrase_fd: PassphraseFd = None,
) -> None:
    """Take your signature back, for good: writes STUDY.NAME.withdrawn.toml, and tells the others who are up. Whoever
    has seen it does not run the study any more."""
    from coterie.study.withdrawing import withdraw_and_tell

    console: Console = context.obj
    made, path = withdraw_and_tell(study, load_key(key, passphrase_for(key, passphrase_fd)))
    console.say(
        f"{made.name} withdrew on {printable(made.withdrawn)}: {path}. Others who are up now have been told; the rest "
        "hear of it from you or from them at the next preflight or run, or if you send them this file. It is final",
        "withdrawn",
        name=made.name,
        withdrawn=made.withdrawn,
        path=str(path),
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
