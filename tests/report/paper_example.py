"""An `Example` as the demo fills it in, without a secure run."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from coterie.report import example as paper
from coterie.report.paper import make_page
from coterie.sharing import Disclosure
from coterie.simulation.demo import make_example, make_points
from coterie.transport import Traffic

START = (376, 16, 365, 82)
LOG = [
    Disclosure("stop bit", ("P0", "P1", "P2"), "everybody must know whether to go on", 1),
    Disclosure("stop bit", ("P0", "P1", "P2"), "everybody must know whether to go on", 2),
    Disclosure("labels", ("P1",), "the result of the study", None, "200 rows"),
]


def secure_run(found, algorithm="SHK-means by rows", protocol="onetime", partition="horizontal", log=LOG):
    traffic = Traffic(rounds=50, rounds_with_dealing=51, bytes_sent={"P0": 6000, "P1": 1000, "P2": 1000})
    return paper.SecureRun(algorithm, protocol, partition, found, 4, 1.5, traffic, log)


def counted(ks=(2, 4)):
    families = ("securenn", "onetime")
    return [
        *(paper.Counted(key, one, k, 100 + k, 90 + k) for key in paper.ITERATED for one in families for k in ks),
        paper.Counted("SHK secret", "onetime, all pairs", 4, 10, 10),
        paper.Counted("MatDist", "securenn", 4, 2, 1),
    ]


@cache
def alone():
    """All that needs no secure run."""
    return make_example(*make_points(), START)


def filled():
    """Two runs that agree with the centralised result."""
    example = replace(alone())
    found = paper.Found(example.pooled.labels, example.pooled.centers + 1e-5)
    example.runs = [secure_run(found), secure_run(found, "SVK-means by columns", "securenn", "vertical")]
    example.counted = counted()
    example.seconds = 12.5
    return example


def broken():
    """One of two runs has a label wrong."""
    example = filled()
    labels = example.pooled.labels.copy()
    labels[7] = (labels[7] + 1) % paper.K
    example.runs[1] = secure_run(
        paper.Found(labels, example.pooled.centers), "SVK-means by columns", "securenn", "vertical"
    )
    return example


@cache
def drawn(holds):
    """The page of an example that holds, or of one that does not, drawn once."""
    return make_page(filled() if holds else broken())
