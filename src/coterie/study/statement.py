"""What a study discloses to whom, and which clusters are opened, as the study file says it."""

from __future__ import annotations

from coterie.study.agreement import Study

__all__ = ["state_disclosures", "state_output_rules"]


def state_disclosures(study: Study) -> list[str]:
    """What is disclosed to whom, as the file says it."""
    shown, parties = study.disclosures, ", ".join(study.names[1:])
    helper, vertical = study.names[0], study.clustering.partition == "vertical"
    lines = []
    if vertical:
        lines.append(f"Before the first iteration {parties} learn one bit: whether all of them hold the same ids.")
    lines.append(f"In every iteration {parties} and {helper} learn one bit: whether to stop.")
    if shown.counts == "revealed":
        lines.append(f"In every iteration {parties} learn how many rows each cluster has.")
    if shown.labels == "revealed":
        lines.append(f"In every iteration {parties} learn the cluster of every row.")
    lines.append(
        "At the end each party learns the cluster of every row (it holds a part of every row)."
        if vertical
        else "At the end each party learns the clusters of its own rows, and of no others."
    )
    if shown.centers == "shared":
        lines.append("The centres are never disclosed: each party keeps a share, which alone says nothing.")
    elif vertical:
        lines.append("At the end each party learns the centres in its own columns, and in no others.")
    else:
        lines.append(f"At the end {parties} learn the centres of the clusters.")
    lines.append(f"At the end {parties} learn the inertia, the sum of all squared distances to the centres.")
    lines += state_output_rules(study)
    lines.append(
        f"Everybody, {helper} included, knows this file, how many rows each party has, and the number of iterations."
    )
    return lines


def state_output_rules(study: Study) -> list[str]:
    """Which clusters are opened, as the file says it."""
    shown = study.disclosures
    vertical = study.clustering.partition == "vertical"
    least = shown.least_cluster_size
    said = [
        f"The least cluster size is the largest that the study ({least if least > 1 else 'which names none'}) or a "
        "party's policy (10 unless it says otherwise) asks for. A cluster with fewer rows, when its centre was made or "
        "in the end, stays closed: no centre; its rows are labelled by the nearest open centre (-1 if all clusters are "
        "closed; then there is no inertia, either). Parties learn which clusters are closed, and not why."
    ]
    if vertical:
        said.append(
            "Every party learns the cluster of every row, and so the sizes of the open clusters; who contributes to a "
            "cluster cannot be told apart."
        )
    if not vertical and shown.contribution == "least":
        said.append(
            "A cluster also stays closed unless, for every party, the others together contribute at least that many "
            "rows to it. A policy may ask this for coalitions of several parties."
        )
    elif not vertical and shown.contribution == "none-or-least":
        said.append(
            "A cluster also stays closed unless, for every party, the others together contribute no row at all or at "
            "least that many; where a policy does not name this weaker rule, they must contribute at least that many."
        )
    if any(column.resolution for column in study.data.columns):
        rounded = ", ".join(f"{c.name} ({c.resolution:g})" for c in study.data.columns if c.resolution)
        said.append(
            f"With a least cluster size above 1, opened centres are rounded so that of themselves they tell no size: "
            f"to about {rounded}, divided by the least size; and the inertia accordingly."
        )
    if shown.sizes == "rounded":
        said.append(
            "With a least cluster size above 1, at the end the parties learn the sizes of the open clusters, to the "
            "nearest multiple of it."
        )
    return said
