"""An organisation's own policy, which stands above every study."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from coterie.clustering import Contribution
from coterie.errors import PolicyError
from coterie.study.agreement import Study
from coterie.study.files import decode_toml, read_text

__all__ = ["MOST_LEAST", "Policy", "check_least", "check_policy", "load_policy"]

#: The least cluster size where no policy says another, and the most that one may ask for.
LEAST, MOST_LEAST = 10, 1 << 31


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`peers`: the certificates' fingerprints that are accepted; everybody's, where it is left out.

    What is not said is allowed, but for the least cluster size, which is 10: an explicit 1 switches it off.
    """

    least_cluster_size: int = LEAST
    counts: tuple[Literal["secret", "revealed"], ...] = ("secret", "revealed")
    labels: tuple[Literal["private", "revealed"], ...] = ("private", "revealed")
    centers: tuple[Literal["revealed", "shared"], ...] = ("revealed", "shared")
    protocols: tuple[str, ...] = ("onetime", "securenn")
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


def load_policy(path: Path | None, beside: Path) -> tuple[Policy, str]:
    """The policy and how to call it: the given file, or policy.toml beside the key, or the default."""
    if path is None:
        path = beside.with_name("policy.toml")
        if not path.exists():
            return Policy(), "the default policy (there is no policy.toml beside the key)"
    policy = decode_toml(read_text(path, "the policy", PolicyError), Policy, path, "a policy", PolicyError)
    if not 1 <= policy.least_cluster_size <= MOST_LEAST:
        raise PolicyError(f"{path}: least_cluster_size must be at least 1, which switches it off, and at most 2^31")
    return policy, str(path)


def check_policy(policy: Policy, study: Study, own: str, called: str) -> None:
    """Does the policy allow the study? An error names the rule."""
    shown = study.disclosures
    for rule, wanted, allowed in (
        ("counts", shown.counts, policy.counts),
        ("labels", shown.labels, policy.labels),
        ("centers", shown.centers, policy.centers),
        ("protocols", study.clustering.protocol, policy.protocols),
    ):
        if wanted not in allowed:
            raise PolicyError(
                f"{called}: the rule `{rule}` allows {', '.join(map(repr, allowed)) or 'nothing'}; the study asks for "
                f"{wanted!r}"
            )
    check_least(policy.least_cluster_size, study, called)
    if policy.peers is not None:
        for one in study.everybody:
            if one.name != own and one.fingerprint not in policy.peers:
                raise PolicyError(
                    f"{called}: the rule `peers` does not list {one.name} (fingerprint {one.fingerprint})"
                )


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
