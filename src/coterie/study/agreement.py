"""What all participants agree on, section by section."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from coterie.errors import StudyError
from coterie.ideal import Roles
from coterie.study.files import canonical
from coterie.study.identity import Identity, same_key
from coterie.transport import World

__all__ = [
    "FORMAT",
    "MOST_ROWS",
    "SECTIONS",
    "Quality",
    "Section",
    "Study",
    "StudyColumn",
    "section_hashes",
    "study_hash",
]

FORMAT = 4
#: The most rows that a party may bring, unless the study says otherwise: others set memory aside on its word.
MOST_ROWS = 1_000_000
SECTIONS = {
    "study": "What this is.",
    "clustering": "What is computed.",
    "data": "On which columns, in which public bounds: a value outside is refused before anything is sent.",
    "disclosures": "What is disclosed to whom. `statement` follows from the options and is checked against them.",
    "participants": "Who takes part. Certificates are pinned: nobody else is let in.",
}


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Unknown fields are refused: nobody signs what is not understood."""


class About(Section, frozen=True):
    name: str
    created: str
    made_with: str
    format: int = FORMAT


class Clustering(Section, frozen=True):
    """`clusters`: one number, or several of which the best is chosen."""

    clusters: int | list[int]
    partition: Literal["horizontal", "vertical"]
    protocol: str = "onetime"
    init: Literal["k-means++", "random"] = "k-means++"
    seed: int = 0
    restarts: int = 1
    max_iter: int = 300
    tol: float = 1e-4
    scale: Literal["none", "bounds", "standard"] = "standard"
    choose: Literal["calinski-harabasz", "silhouette"] = "calinski-harabasz"

    @property
    def choices(self) -> tuple[int, ...]:
        """The numbers of clusters that are tried."""
        return (self.clusters,) if isinstance(self.clusters, int) else tuple(self.clusters)

    @property
    def starts(self) -> int:
        """How many starts there are, over all numbers of clusters."""
        return self.restarts * len(self.choices)


class StudyColumn(Section, frozen=True):
    name: str
    low: float
    high: float
    holder: str = ""
    resolution: float = 0.0
    weight: float = 1.0


class Data(Section, frozen=True):
    columns: list[StudyColumn]
    id: str = ""
    most_rows: int = MOST_ROWS


Quality = Literal["inertia", "silhouette", "calinski-harabasz"]


class Disclosures(Section, frozen=True):
    counts: Literal["secret", "revealed"] = "secret"
    labels: Literal["private", "revealed"] = "private"
    centers: Literal["revealed", "shared"] = "revealed"
    scales: Literal["revealed", "secret"] = "revealed"
    measures: Literal["revealed", "secret"] = "revealed"
    quality: tuple[Quality, ...] = ("inertia", "silhouette", "calinski-harabasz")
    sizes: Literal["secret", "rounded"] = "secret"
    least_cluster_size: int = 1
    contribution: Literal["least", "none-or-least", "off"] = "least"
    statement: list[str] = []


class Participants(Section, frozen=True, kw_only=True, omit_defaults=True):
    """`parties` own data. A `helper` deals. `servers`: the names of those who hold shares and compute; all parties, if
    nobody is named. `server`: the one of them who owns no data, if there is one. What is left out stands in no file and
    in no hash."""

    helper: Identity | None = None
    server: Identity | None = None
    parties: list[Identity]
    servers: list[str] = []

    @property
    def without_data(self) -> Identity | None:
        """The one who owns nothing, whose rank is 0."""
        return self.helper or self.server


class Study(Section, frozen=True):
    """All sections. Parties have ranks from 1 on, in their order; rank 0 is for the one who owns no data, and vacant
    where there is none. Who serves does not change the ranks: the table and its results are the same."""

    study: About
    clustering: Clustering
    data: Data
    disclosures: Disclosures
    participants: Participants

    @property
    def everybody(self) -> list[Identity]:
        """All participants, in the order of ranks."""
        other = self.participants.without_data
        return [*([] if other is None else [other]), *self.participants.parties]

    @property
    def names(self) -> tuple[str, ...]:
        """Of everybody."""
        return tuple(one.name for one in self.everybody)

    @property
    def roles(self) -> Roles:
        """Who owns, serves and deals."""
        who = self.participants
        owners = tuple(one.name for one in who.parties)
        return Roles(owners, tuple(who.servers) or owners, None if who.helper is None else who.helper.name)

    def world(self, session: bytes = bytes(16)) -> World:
        """Everybody by rank."""
        other, owners = self.participants.without_data, self.roles.owners
        names = ("" if other is None else other.name, *owners)
        serving = tuple(rank for rank, name in enumerate(names) if name in self.participants.servers)
        return World(names, session, serving)

    def at_rank(self, rank: int) -> Identity:
        return self.everybody[self.world().ranks.index(rank)]

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.data.columns)

    @property
    def scales(self) -> str:
        """Whether what columns are weighted by is "revealed" at the end or kept "secret"; nothing, if there is none."""
        if self.clustering.scale != "standard" or self.clustering.partition == "vertical":
            return ""
        return self.disclosures.scales if self.disclosures.centers == "revealed" else "secret"

    def own_columns(self, rank: int) -> list[int]:
        """Which columns a party holds; who owns no data holds none."""
        if rank not in self.world().owners:
            return []
        if self.clustering.partition == "horizontal":
            return list(range(len(self.data.columns)))
        name = self.at_rank(rank).name
        return [l for l, column in enumerate(self.data.columns) if column.holder == name]

    def rank_of(self, key: str) -> int:
        """Whose private key this is."""
        for rank, one in zip(self.world().ranks, self.everybody, strict=True):
            if same_key(key, one.certificate):
                return rank
        raise StudyError(
            f"the key belongs to none of the participants ({', '.join(self.names)}); was the study made with another "
            "identity file?"
        )


def section_hashes(study: Study) -> dict[str, str]:
    """SHA-256 of each section, in canonical form: comments and layout of the file do not matter."""
    return {name: hashlib.sha256(canonical(getattr(study, name))).hexdigest() for name in SECTIONS}


def study_hash(study: Study) -> str:
    return hashlib.sha256(canonical(section_hashes(study))).hexdigest()
