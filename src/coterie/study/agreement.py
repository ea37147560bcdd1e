"""What all participants agree on, section by section."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Literal

import msgspec

from coterie.columns import Column, Feature, features_of
from coterie.errors import StudyError
from coterie.ideal import Roles
from coterie.matching import IdRule
from coterie.study.files import canonical
from coterie.study.identity import Identity, same_key, split_keys
from coterie.study.links import MOST_LINKS, follow_links, links_in
from coterie.transport import World
from coterie.transport.certificates import Credentials

__all__ = [
    "FORMAT",
    "MOST_RECONNECT",
    "MOST_ROWS",
    "RECONNECT",
    "SECTIONS",
    "Quality",
    "RowWeights",
    "Section",
    "Study",
    "StudyColumn",
    "Survey",
    "section_hashes",
    "sections_of",
    "study_hash",
]

FORMAT = 4
#: The most rows that a party may bring, unless the study says otherwise: others set memory aside on its word.
MOST_ROWS = 1_000_000
#: Seconds to meet again after a break, unless the study says otherwise; the most that it may say.
RECONNECT, MOST_RECONNECT = 60, 86_400
SECTIONS = {
    "study": "What this is.",
    "clustering": "What is computed.",
    "data": "On which columns, in which public bounds: a value outside is refused before anything is sent.",
    "disclosures": "What is disclosed to whom. `statement` follows from the options and is checked against them.",
    "participants": "Who takes part. Certificates are pinned: nobody else is let in.",
}
#: Those of a survey, which has no clusters.
SURVEY_SECTIONS = {
    "study": "What this is.",
    "survey": "What is asked: a survey of columns, before a study. Nothing is clustered.",
    "data": "Of which columns, in which public bounds: values outside are counted as such, and none is refused.",
    **{name: SECTIONS[name] for name in ("disclosures", "participants")},
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
    partition: Literal["horizontal", "vertical", "mixed"]
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


#: In the place of [clustering], where the file has none; this object, not one like it.
NOTHING = Clustering(0, "horizontal")


class Survey(Section, frozen=True):
    """`cells`: into how many of the same width each column's bounds are cut. `quantiles`: in per cent."""

    partition: Literal["horizontal", "vertical"]
    protocol: str = "onetime"
    cells: int = 64
    quantiles: tuple[float, ...] = (1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0)

    @property
    def clustering(self) -> Clustering:
        """What the machinery of studies reads of a survey: the partition and the protocol."""
        return Clustering(1, self.partition, self.protocol)


class StudyColumn(Column, frozen=True):
    """A column as tables have it. `holder`: who holds it, in a vertical study; `holders`: who hold cells of it, in a
    patchwork. What is left out stands in no file and in no hash."""

    holder: str = ""
    holders: tuple[str, ...] = ()
    resolution: float = 0.0
    weight: float = 1.0

    @property
    def features(self) -> list[Feature]:
        """What it becomes."""
        return features_of(self, rounded=self.resolution > 0)


Matching = Literal["equal", "shared", "private"]


class RowWeights(Section, frozen=True, omit_defaults=True):
    """What rows count for: a column of numbers above 0 and at most `most`, rounded to multiples of `step`, which only
    the owner of a row knows; in a vertical study, only its `holder`. None, if no column is named."""

    column: str = ""
    step: float = 1.0
    most: float = 1.0
    holder: str = ""

    @property
    def largest(self) -> int:
        """In steps; 0, if all rows count alike."""
        return round(self.most / self.step) if self.column else 0


class Data(Section, frozen=True):
    """`matching`: whether parties that hold columns must all hold the same ids, or those that all hold are found and
    told ("shared"), or not even told ("private"). In a patchwork: `precedence`, of several parties that hold a cell the
    one that comes first has it (else such a cell is refused); `incomplete`, whether a row of which nobody holds some
    cell is refused or left out."""

    columns: list[StudyColumn]
    id: str = ""
    most_rows: int = MOST_ROWS
    matching: Matching = "equal"
    id_rule: IdRule = IdRule()
    precedence: list[str] = []
    incomplete: Literal["refuse", "drop"] = "refuse"
    row_weights: RowWeights = RowWeights()


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
    nobody is named. `server`: the one of them who owns no data, if there is one. `reconnect`: for how many seconds, if
    a connection breaks in the middle of a run, all try to meet again; 0 for never. `renewals`: whether a newer key is
    accepted for which the pinned one vouches. `software`: whether all run the "same" files of Coterie, by their digest,
    or the same "version" will do. What is left out stands in no file and in no hash."""

    helper: Identity | None = None
    server: Identity | None = None
    parties: list[Identity]
    servers: list[str] = []
    reconnect: int = RECONNECT
    renewals: bool = False
    software: Literal["same", "version"] = "same"

    @property
    def without_data(self) -> Identity | None:
        """The one who owns nothing, whose rank is 0."""
        return self.helper or self.server


class Study(Section, frozen=True, kw_only=True):
    """All sections; a survey has [survey] in the place of [clustering]. Parties have ranks from 1 on, in their order;
    rank 0 is for the one who owns no data, and vacant where there is none. Who serves does not change the ranks: the
    table and its results are the same."""

    study: About
    clustering: Clustering = NOTHING
    survey: Survey | None = None
    data: Data
    disclosures: Disclosures
    participants: Participants

    def __post_init__(self) -> None:
        if self.survey is None:
            if self.clustering is NOTHING:
                raise ValueError("Object missing required field `clustering`")
        elif self.clustering is NOTHING:
            msgspec.structs.force_setattr(self, "clustering", self.survey.clustering)
        elif self.clustering != self.survey.clustering:
            raise ValueError("[clustering] and [survey] do not go together")

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
    def private(self) -> bool:
        """Are rows matched without anybody's learning which match?"""
        return self.data.matching == "private"

    @property
    def features(self) -> list[Feature]:
        """What the columns become at home, and is clustered by."""
        return [feature for column in self.data.columns for feature in column.features]

    @property
    def column_names(self) -> tuple[str, ...]:
        """Of the features."""
        return tuple(feature.name for feature in self.features)

    @property
    def scales(self) -> str:
        """Whether what columns are weighted by is "revealed" at the end or kept "secret"; nothing, if there is none."""
        if self.clustering.scale != "standard" or self.clustering.partition == "vertical":
            return ""
        return self.disclosures.scales if self.disclosures.centers == "revealed" else "secret"

    def own_columns(self, rank: int) -> list[int]:
        """Which features a party holds; who owns no data holds none."""
        held = {column.name for column in self.own_declared(rank)}
        return [l for l, feature in enumerate(self.features) if feature.column in held]

    def own_declared(self, rank: int) -> list[StudyColumn]:
        """The columns of a party's table, as they are declared."""
        if rank not in self.world().owners:
            return []
        name = self.at_rank(rank).name
        horizontal = self.clustering.partition == "horizontal"
        return [column for column in self.data.columns if horizontal or name in (column.holder, *column.holders)]

    def weighs(self, rank: int) -> bool:
        """Does a party say what rows count for?"""
        weights = self.data.row_weights
        return bool(weights.column) and rank in self.world().owners and weights.holder in ("", self.at_rank(rank).name)

    def rank_of(self, key: str) -> int:
        """Whose private key this is."""
        return self.enter_with(key)[0]

    def enter_with(self, key: str) -> tuple[int, Credentials]:
        """Whose private key this is, and what to show for it: a renewed key, if the study accepts it; else the one that
        it pins, if the file holds that."""
        keys, links = tuple(split_keys(key)), links_in(key)
        for rank, one in zip(self.world().ranks, self.everybody, strict=True):
            own = next((each for each in keys if same_key(each, one.certificate)), "")
            led = follow_links(one.certificate, links)
            if own and own != keys[0] and self.participants.renewals:
                if not led or not same_key(keys[0], led[0]):
                    raise StudyError(
                        f"the certificate of {one.name} in this study does not vouch for the newest key in the file: "
                        f"it was renewed more than {MOST_LINKS} times, or the file was changed; make a new study"
                    )
                return rank, Credentials(led[0], keys[0], tuple(led[1:]), one.fingerprint, own, keys)
            if own:
                return rank, Credentials(one.certificate, own, keys=keys)
        raise StudyError(
            f"the key belongs to none of the participants ({', '.join(self.names)}); was the study made with another "
            "identity file?"
        )


def sections_of(study: Study) -> Mapping[str, str]:
    """The sections that a study has, and what each says."""
    return SECTIONS if study.survey is None else SURVEY_SECTIONS


def section_hashes(study: Study) -> dict[str, str]:
    """SHA-256 of each section, in canonical form: comments and layout of the file do not matter."""
    return {name: hashlib.sha256(canonical(getattr(study, name))).hexdigest() for name in sections_of(study)}


def study_hash(study: Study) -> str:
    return hashlib.sha256(canonical(section_hashes(study))).hexdigest()
