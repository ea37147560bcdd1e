"""What options and the parts of protocols mean, in a few words."""

from __future__ import annotations

__all__ = ["PROTOCOL_PURPOSES", "explain_option"]

_MEANINGS = {
    ("partition", "horizontal"): "each party holds some of the rows, with all columns",
    ("partition", "vertical"): "each party holds some of the columns, of all rows",
    ("partition", "mixed"): "each party holds some of the cells",
    ("protocol", "onetime"): "one-time random material from the helper, who receives nothing but the stop bit",
    ("protocol", "securenn"): "the paper's protocols, after SecureNN; the helper computes on masked values",
    (
        "protocol",
        "falcon",
    ): "three servers hold the shares and compute; nobody deals, and no two servers may work together",
    ("counts", "secret"): "the sizes of the clusters are not opened",
    ("counts", "revealed"): "data parties learn the sizes of the clusters, in every iteration",
    ("labels", "private"): "a row's cluster is opened at the end, to those who hold values of the row",
    ("labels", "revealed"): "data parties learn the cluster of every row, in every iteration",
    ("centers", "revealed"): "centres are opened at the end",
    ("centers", "shared"): "centres are opened to nobody; each party keeps a share",
    ("sizes", "secret"): "the sizes of the clusters are not opened",
    ("sizes", "rounded"): "the sizes of open clusters are opened at the end, to the nearest multiple of the least size",
    ("contribution", "least"): "for every party, the others must contribute the least size to a cluster that is opened",
    ("contribution", "none-or-least"): "for every party, the others must contribute the least size, or nothing",
    ("contribution", "off"): "it does not matter who contributes to a cluster that is opened",
    ("init", "k-means++"): "rows drawn in secret, far from each other; the first one's number is public",
    ("init", "random"): "rows whose numbers are public",
    ("init", "given"): "centres that were given",
    ("scale", "bounds"): "columns weigh alike: each is divided by half its agreed range",
    ("scale", "standard"): "columns weigh alike: each is divided by its standard deviation over all rows",
    ("scales", "revealed"): "the columns' standard deviations are opened at the end",
    ("scales", "secret"): "the columns' standard deviations are opened to nobody; each party keeps a share",
    ("choose", "calinski-harabasz"): "the number of clusters by the Calinski-Harabasz index: narrow, and far apart",
    ("choose", "silhouette"): "the number of clusters by the mean silhouette: rows far closer to their own centre",
    ("measures", "revealed"): "what each number of clusters comes to is opened at the end",
    ("measures", "secret"): "of the numbers of clusters, nothing but the chosen one is opened",
    ("scale", "none"): "columns weigh as they are",
    ("matching", "equal"): "all parties must hold the same ids",
    ("matching", "shared"): "rows that all parties hold take part; each learns which of its rows these are",
    ("matching", "private"): "rows that all parties hold take part; no party learns which",
    ("quality", "none"): "nothing is told of how good the clusters are",
}
_ARGUMENTS = {
    "n_init": "starts, of which the best is opened",
    "max_iter": "iterations at most",
    "tol": "the part of the columns' mean variance that centres may move by, squared and added up, when the run stops",
    "least_cluster_size": "rows that a cluster must have to be opened, when its centre was made and in the end",
    "coalition": "parties whose rows are taken away together when contributions are counted",
    "fractional_bits": "precision of a value: bits after the point",
    "chosen": "numbers of clusters that one was chosen from",
    "quality": "numbers on how good the clusters are, opened at the end",
    "seeds": "of the public random numbers that k-means++ draws with, one for each start",
    "start": "the public row numbers that the centres start from",
    "seed": "of all public random choices",
    "row_weights": "the column that says what a row counts for",
    "link": "the network between the parties",
}
#: What the parts of the protocols do, by the names under which traffic is counted.
PROTOCOL_PURPOSES = {
    "KMeans++": "rows to start from, drawn by their distances",
    "Spread": "what a drawn group of rows holds",
    "Scatter": "how far the rows spread in each column",
    "Weights": "what columns weigh, by how far they spread",
    "LookUp": "a number from a public table, at a secret place",
    "LowBits": "the lowest bits of secret numbers",
    "Silhouette": "how much closer rows are to their own centre than to the next",
    "Labels": "which centre is closest to each row",
    "Sign": "comparisons",
    "MaskCenters": "the centres, masked, for products with the rows",
    "BitsToWords": "labels as numbers that can be added up",
    "Sums": "the sum of each cluster's rows",
    "Mean": "sums divided by sizes",
    "Truncate": "rounding to fixed point",
    "MatDist": "distances of rows to centres",
    "LabelSamples": "which centre is closest to each row",
    "ArgMin": "the least of several distances",
    "PrivateCompare": "comparison of a secret with a number, bit by bit",
    "ShareConvert": "change of the ring in which shares live",
    "ComputeMSB": "the sign of a secret number",
    "DReLU": "comparisons",
    "Division": "sums divided by sizes",
    "ElementWiseMatMul": "products of secrets",
    "Square": "squares of secrets",
    "MatMul": "products of secret matrices",
    "SelectShare": "one of two secrets, by a secret bit",
}


def explain_option(option: str, value: str) -> str:
    """What a value of an option says, in a few words; empty where the name says it."""
    return _MEANINGS.get((option, value.lower()), _ARGUMENTS.get(option, ""))
