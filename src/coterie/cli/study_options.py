"""The options of `coterie study create`: what a study says, and what of it to write how."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

__all__ = [
    "Bounds",
    "Categories",
    "Centers",
    "Choose",
    "Clip",
    "Clusters",
    "ColumnWeights",
    "Columns",
    "Contribution",
    "Counts",
    "Distance",
    "Helper",
    "Holds",
    "Id",
    "IdRule",
    "Init",
    "Kinds",
    "Labels",
    "LeastClusterSize",
    "Matching",
    "MaxIter",
    "Measures",
    "Missing",
    "MostRows",
    "Name",
    "Partition",
    "Party",
    "Protocol",
    "Quality",
    "Resolution",
    "Restarts",
    "RowWeights",
    "Scale",
    "Scales",
    "Seed",
    "Server",
    "Sizes",
    "Tol",
    "Transform",
]

# Who takes part.
Party = Annotated[list[Path], Option("--party", help="A party's identity file; once for each party.")]
Helper = Annotated[Path | None, Option("--helper", help="The helper's identity file, for families with a helper.")]
Server = Annotated[
    list[str],
    Option(
        "--server",
        metavar="NAME",
        help="For families with servers, once for each: a party's name, or the identity file of a server that owns no "
        "data.",
    ),
]
Name = Annotated[str, Option("--name", help="What to call the study; the file's name if left out.")]

# The columns, as tables have them.
Columns = Annotated[str, Option("--columns", help="Columns to cluster by: age,income.")]
Bounds = Annotated[
    str,
    Option("--bounds", help="Public range of each number and date: age=0:120,admitted=2020-01-01:2024-12-31."),
]
Kinds = Annotated[str, Option("--kinds", help="Columns that are no numbers: admitted=date,smoker=boolean.")]
Categories = Annotated[str, Option("--categories", help="Columns of words, with all values: sex=f|m,ward=a|b|c.")]
Distance = Annotated[str, Option("--distance", help="How far two values of a category are apart, if not 1: sex=1.5.")]
Missing = Annotated[
    str,
    Option("--missing", help="What to do about missing values, if not refuse them: age=drop,bmi=25.0,sex=f."),
]
Clip = Annotated[
    str, Option("--clip", help="Columns of which values outside the bounds are set to the bound: age,bmi.")
]
Transform = Annotated[str, Option("--transform", help="Columns to take logarithms of: income=log,visits=log1p.")]
ColumnWeights = Annotated[
    str, Option("--column-weights", help="What columns count for after scaling, if not 1: age=2,income=0.5.")
]
RowWeights = Annotated[
    str, Option("--row-weights", help="The column of what rows count for, its step and the largest: weight=0.1:20.")
]
Resolution = Annotated[
    str, Option("--resolution", help="Steps of columns, so that means are rounded: age=1,income=100.")
]

# Who holds what.
Partition = Annotated[str, Option("--partition", help="horizontal, vertical or mixed.")]
Holds = Annotated[str, Option("--holds", help="Who holds which, if vertical: alice=age,bob=income.")]
Id = Annotated[str, Option("--id", help="The column that names a row; needed if vertical.")]
Matching = Annotated[
    str,
    Option(
        "--matching",
        help="If vertical. equal: all hold the same ids; shared: find those all hold; private: tell nobody which.",
    ),
]
Precedence = Annotated[
    str, Option("--precedence", help="If mixed: of several who hold a cell, whose counts: alice,bob.")
]
Incomplete = Annotated[
    str, Option("--incomplete", help="If mixed: refuse rows of which nobody holds some cell, or drop them.")
]
IdRule = Annotated[str, Option("--id-rule", help="When ids are the same: case=ignore,spaces=ignore,unicode=NFKC.")]
Reconnect = Annotated[
    int, Option("--reconnect", help="Seconds to meet again by itself if a connection breaks in a run; 0 for never.")
]
Renewals = Annotated[
    bool, Option("--renewals", help="Accept a renewed key, for which the one that the study pins vouches.")
]
Software = Annotated[
    str,
    Option("--software", help="same: all run the same files of Coterie, by their digest; version: the same version."),
]
MostRows = Annotated[int, Option("--most-rows", help="The most rows that a party may bring.")]

# What is computed.
Clusters = Annotated[str | None, Option("--clusters", "-k", help="How many clusters; or 2:10, to choose from.")]
Survey = Annotated[
    bool, Option("--survey", help="No clusters: a survey of the columns, in generous bounds, before a study.")
]
Cells = Annotated[int, Option("--cells", help="Of a survey: into how many cells bounds are cut.")]
Quantiles = Annotated[str, Option("--quantiles", help="Of a survey: which to open, in per cent.")]
Protocol = Annotated[str, Option("--protocol", help="The protocol family: onetime, securenn or falcon.")]
Init = Annotated[
    str, Option("--init", help="Where centres start: k-means++ (drawn in secret), or random (public rows).")
]
Seed = Annotated[int, Option("--seed", help="For the public random numbers that draw starting rows.")]
Restarts = Annotated[int, Option("--n-init", help="How many starts to choose the best of.")]
MaxIter = Annotated[
    int | None, Option("--max-iter", help="The most iterations: 300; with private matching exactly so many: 20.")
]
Tol = Annotated[float, Option("--tol", help="Stop when the centres move less than this part of the columns' variance.")]
Scale = Annotated[
    str, Option("--scale", help="standard: columns count alike, by their spread; bounds: by range; none.")
]
Choose = Annotated[str, Option("--choose", help="Of several numbers of clusters: calinski-harabasz or silhouette.")]

# What is told.
Counts = Annotated[str, Option("--counts", help="Cluster sizes: secret or revealed.")]
Labels = Annotated[str, Option("--labels", help="private, or revealed (vertical only).")]
Centers = Annotated[str, Option("--centers", help="revealed at the end, or shared for ever.")]
Scales = Annotated[
    str, Option("--scales", help="The spread of columns that this takes: revealed at the end, or secret.")
]
Measures = Annotated[str, Option("--measures", help="What each number of clusters comes to: revealed, or secret.")]
Quality = Annotated[str, Option("--quality", help="What is told at the end of how good the clusters are.")]
LeastClusterSize = Annotated[
    int, Option("--least-cluster-size", help="Smaller clusters stay closed; policies may ask for more.")
]
Contribution = Annotated[
    str, Option("--contribution", help="What the others than any party must contribute to an open cluster.")
]
Sizes = Annotated[str, Option("--sizes", help="Sizes at the end: secret, or rounded.")]
