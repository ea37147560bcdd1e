"""An organisation's own policy, which stands above every study."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from coterie.clustering import QUALITY, Contribution
from coterie.errors import PolicyError
from coterie.study.agreement import Quality, Study
from coterie.study.files import decode_toml

__all__ = [
    "LEAST",
    "MOST_LEAST",
    "Policy",
    "check_least",
    "check_policy",
    "check_rows",
    "explain_protocols",
    "load_policy",
]

#: The protocol families that rest on a helper who only deals: those that are accepted where no policy names others.
WITH_HELPER = ("onetime", "securenn")
#: The least cluster size where no policy says another, and the most that one may ask for.
LEAST, MOST_LEAST = 10, 1 << 31
#: The rules on what is asked for that hold for surveys, too.
OF_SURVEYS = ("protocols",)
#: What the numbers in a policy may be.
RANGES = {
    "least_cluster_size": (1, MOST_LEAST, "at least 1, which switches it off, and at most 2^31"),
    "coalition": (1, 255, "at least 1 and at most 255"),
    "runs": (0, 1 << 53, "at least 0"),
    "predicted_rows": (0, 1 << 53, "at least 0"),
    "most_clusters": (1, 1 << 53, "at least 1"),
    "most_rows": (1, 1 << 53, "at least 1"),
    "most_columns": (1, 1 << 53, "at least 1"),
    "most_restarts": (1, 1 << 53, "at least 1"),
}


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`peers`: the certificates' fingerprints that are accepted; everybody's, where it is left out.

    What is not said is allowed, but for the least cluster size, which is 10 (an explicit 1 switches it off), for
    protocol families that rest on something else than a helper who only deals, and for returning to a study with other
    data. `runs` and `predicted_rows` are what a study, or a model, may be used for in
    all; `most_rows` is for each party.
    """

    least_cluster_size: int = LEAST
    counts: tuple[Literal["secret", "revealed"], ...] = ("secret", "revealed")
    labels: tuple[Literal["private", "revealed"], ...] = ("private", "revealed")
    centers: tuple[Literal["revealed", "shared"], ...] = ("revealed", "shared")
    matching: tuple[Literal["equal", "shared", "private"], ...] = ("equal", "shared", "private")
    scales: tuple[Literal["revealed", "secret"], ...] = ("revealed", "secret")
    measures: tuple[Literal["revealed", "secret"], ...] = ("revealed", "secret")
    quality: tuple[Quality, ...] = QUALITY
    protocols: tuple[str, ...] = WITH_HELPER
    peers: list[str] | None = None
    contribution: Contribution = "least"
    coalition: int = 1
    runs: int | None = None
    predicted_rows: int | None = None
    most_clusters: int | None = None
    most_rows: int | None = None
    most_columns: int | None = None
    most_restarts: int | None = None
    other_data: Literal["refuse", "log"] = "refuse"
    surveys: Literal["allow", "refuse"] = "allow"


def load_policy(path: Path | None, beside: Path) -> tuple[Policy, str]:
    """The policy and how to call it: the given file, or policy.toml beside the key, or the default.

    A key may be reached through a link: then policy.toml may stand beside the link or beside the key itself.
    """
    path = path or _beside(beside)
    if path is None:
        return Policy(), "the default policy (there is no policy.toml beside the key)"
    policy = decode_toml(_read_own(path), Policy, path, "a policy", PolicyError)
    for rule, (low, high, words) in RANGES.items():
        value = getattr(policy, rule)
        if value is not None and not low <= value <= high:
            raise PolicyError(f"{path}: {rule} must be {words}")
    return policy, str(path)


def _beside(key: Path) -> Path | None:
    """policy.toml beside a key, or beside what the key is a link to."""
    places = dict.fromkeys(one.with_name("policy.toml") for one in (key, key.resolve()))
    found = [place for place in places if _is_there(place)]
    if len(found) == 2 and not os.path.samefile(*found):
        raise PolicyError(
            f"there are two policies, {found[0]} and {found[1]}, since the key {key} is a link; say which with --policy"
        )
    return found[0] if found else None


def _is_there(path: Path) -> bool:
    """Also if it is a link that leads nowhere: then it cannot be read, and nobody goes on without it."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise PolicyError(f"the policy {path} cannot be read ({error.strerror})") from None
    return True


def _read_own(path: Path) -> str:
    """The text of a policy that nobody but its owner, this user or root, can have written."""
    try:
        with path.open("rb") as file:
            _check_owned(path, os.fstat(file.fileno()), sticky=False)
            content = file.read()
        for folder in dict.fromkeys((path.absolute().parent, path.resolve().parent)):
            _check_owned(folder, folder.stat(), sticky=True)
    except OSError as error:
        raise PolicyError(f"the policy {path} cannot be read ({error.strerror})") from None
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise PolicyError(f"{path} is not a text file; is it the policy?") from None


def _check_owned(path: Path, found: os.stat_result, sticky: bool) -> None:
    """A file, or the folder that it is in, where it could be replaced; the sticky bit forbids that."""
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid not in (os.geteuid(), 0):
        raise PolicyError(
            f"{path} belongs to another user, who could change the policy; run: chown {os.geteuid()} {path}"
        )
    if mode & 0o022 and not (sticky and mode & stat.S_ISVTX):
        raise PolicyError(
            f"{path} can be written by others (mode {mode:04o}), who could change the policy; run: chmod go-w {path}"
        )


def check_policy(policy: Policy, study: Study, own: str, called: str) -> None:
    """Does the policy allow the study? An error names the rule."""
    if study.survey is not None and policy.surveys == "refuse":
        raise PolicyError(f"{called}: the rule `surveys` = 'refuse' does not allow a survey")
    shown = study.disclosures
    for rule, wanted, allowed in (
        ("counts", shown.counts, policy.counts),
        ("labels", shown.labels, policy.labels),
        ("centers", shown.centers, policy.centers),
        ("matching", study.data.matching, policy.matching),
        *(("scales", told, policy.scales) for told in filter(None, [study.scales])),
        *(("measures", told, policy.measures) for told in [shown.measures] * (len(study.clustering.choices) > 1)),
        *(("quality", told, policy.quality) for told in shown.quality),
        ("protocols", study.clustering.protocol, policy.protocols),
    ):
        if wanted not in allowed and (study.survey is None or rule in OF_SURVEYS):
            advice = f". If you accept it, {_name_protocol(wanted, allowed)}" if rule == "protocols" else ""
            raise PolicyError(
                f"{called}: the rule `{rule}` allows {', '.join(map(repr, allowed)) or 'nothing'}; the study asks for "
                f"{wanted!r}{advice}"
            )
    for rule, asked, what in (
        ("most_clusters", study.clustering.choices[-1], "clusters"),
        ("most_columns", len(study.features), "columns"),
        ("most_restarts", study.clustering.starts, "restarts"),
        ("most_rows", study.data.most_rows, "rows of each party"),
    ):
        most = getattr(policy, rule)
        if most is not None and asked > most:
            text = f"{called}: the rule `{rule}` = {most} does not allow the {asked} {what} of the study"
            if rule == "most_rows":  # what a study says if nobody says anything
                text += f"; agree on one that is created with --most-rows {most}"
            raise PolicyError(text)
    check_least(policy.least_cluster_size, study, called)
    if policy.peers is not None:
        for one in study.everybody:
            if one.name != own and one.fingerprint not in policy.peers:
                raise PolicyError(
                    f"{called}: the rule `peers` does not list {one.name} (fingerprint {one.fingerprint})"
                )


def _name_protocol(protocol: str, allowed: Sequence[str] = WITH_HELPER) -> str:
    listed = ", ".join(f'"{name}"' for name in (*allowed, protocol))
    return f"write into the policy (policy.toml beside the key, or --policy FILE): protocols = [{listed}]"


def explain_protocols(study: Study) -> list[str]:
    """What a policy must say before it lets the study's protocol family be used; nothing, if none need say it."""
    protocol = study.clustering.protocol
    if protocol in WITH_HELPER:
        return []
    return [f"No policy allows protocol {protocol} unless it names it. If you accept it, {_name_protocol(protocol)}"]


def check_rows(policy: Policy, rows: int, called: str) -> None:
    """May this party bring so many rows?"""
    if policy.most_rows is not None and rows > policy.most_rows:
        raise PolicyError(f"{called}: the rule `most_rows` = {policy.most_rows} does not allow {rows} rows")


def check_least(least: int, study: Study, called: str) -> None:
    """Counts and labels of every iteration would tell what the least size keeps back."""
    if least <= 1:
        return
    for option in ("counts", "labels"):
        if getattr(study.disclosures, option) == "revealed":
            raise PolicyError(
                f"{called}: the rule `least_cluster_size` = {least} does not go with revealed {option}, which would "
                "defeat it; set it to 1, or agree on a study that does not reveal them"
            )
