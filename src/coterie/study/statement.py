"""What a study discloses to whom, as its file states it: from the same items as `explain`, in fewer words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.ideal import Learnt, Terms, learnt
from coterie.study.survey_terms import state_survey

if TYPE_CHECKING:
    from coterie.study.agreement import Study

__all__ = ["state_disclosures", "state_output_rules", "state_trust", "terms_of_study"]

#: The lines, by name and time of what is learnt; where that matters, by partition. These words are signed: with others,
#: studies that were signed before no longer hold.
LINES: dict[tuple[str, str], str | dict[str, str]] = {
    ("equal ids", "before"): "Before the first iteration {who} learn one bit: whether {all} hold the same ids.",
    (
        "matching ids",
        "before",
    ): {
        "vertical": "Before the first iteration each party learns which of its own ids all others hold too, and the "
        "helper how many ids each set of parties has in common.",
        "mixed": "Before the first iteration each party learns who holds which cells of its own rows, and everybody "
        "for how many rows each party holds which cells.",
    },
    ("tags of ids", "before"): "Before the first iteration the helper learns how many ids each set of parties has in "
    "common, and no id; nobody else learns even how many match.",
    ("start rows", "start"): "At each start {who} learn the numbers of the rows that k-means++ has drawn.",
    ("stop bit", "iteration"): "In every iteration {who} learn one bit: whether to stop.",
    ("counts", "iteration"): "In every iteration {who} learn how many rows each cluster has.",
    ("counts", "end"): "At the end {who} learn how many rows each cluster has.",
    ("labels", "iteration"): "In every iteration {who} learn the cluster of every row.",
    ("labels", "end"): {
        "horizontal": "At the end each party learns the clusters of its own rows, and of no others.",
        "vertical": "At the end each party learns the cluster of every row (it holds a part of every row).",
        "mixed": "At the end each party learns the clusters of the rows of which it holds a cell, and of no others.",
    },
    ("share of the centres", "end"): "The centres are never disclosed: each {keeper} keeps a share, which alone says "
    "nothing.",
    ("centers", "end"): {
        "horizontal": "At the end {who} learn the centres of the clusters.",
        "vertical": "At the end each party learns the centres in its own columns, and in no others.",
        "mixed": "At the end {who} learn the centres of the clusters.",
    },
    ("capped columns", "end"): "At the end {who} learn, of each column, whether it varies too little for its range.",
    ("scales", "end"): "At the end {who} learn the standard deviation of each column over all parties' rows.",
    ("measures of k", "end"): "At the end {who} learn, for each number of clusters that is tried, {measure}.",
    ("chosen k", "end"): "At the end {who} learn which number of clusters is chosen.",
    ("scatter", "end"): "At the end {who} learn the inertia that a single cluster would have.",
    ("silhouette", "end"): "At the end {who} learn the mean silhouette of all rows.",
    ("inertia", "end"): "At the end {who} learn the inertia, the sum of all squared distances to the centres.",
}


#: What is opened of each number of clusters that is tried.
MEASURES = {
    "calinski-harabasz": "its inertia, and the inertia that a single cluster would have",
    "silhouette": "the mean silhouette of all rows",
}


def terms_of_study(study: Study, least: int = 1) -> Terms:
    """What is learnt follows from these. The least cluster size is known when all policies are."""
    todo, shown, columns = study.clustering, study.disclosures, study.data.columns
    return Terms(
        partition=todo.partition,
        counts=shown.counts,
        labels=shown.labels,
        centers=shown.centers,
        least=least,
        contribution=shown.contribution,
        sizes=shown.sizes,
        columns=study.column_names,
        rounded=tuple(
            one.name
            for column in columns
            if (column.resolution or study.private) and least > 1
            for one in column.features
        ),
        quality=tuple(shown.quality),
        clusters=todo.choices[-1],
        chooses=len(todo.choices) > 1,
        choose=todo.choose,
        measures=shown.measures,
        scale=todo.scale,
        scales=shown.scales,
        init=todo.init,
        starts=todo.starts,
        max_iter=todo.max_iter,
        ids=todo.partition != "horizontal",
        matching=study.data.matching,
        weighed=bool(study.data.row_weights.column),
    )


def state_disclosures(study: Study) -> list[str]:
    """What is disclosed to whom, as the file says it."""
    if study.survey is not None:
        return state_survey(study)
    roles = study.roles
    items: dict[tuple[str, str], Learnt] = {
        (one.item.what, one.item.when): one for one in learnt(terms_of_study(study), roles)
    }
    lines = []
    for key, said in LINES.items():
        if key in items and not _is_known(key, items):
            line = said if isinstance(said, str) else said[study.clustering.partition]
            who = ", ".join(name for name in items[key].to if name != roles.dealer)
            filled = line.format(
                who=f"{who} and {roles.dealer}" if roles.dealer in items[key].to else who,
                all="all of them" if roles.all_own else "all parties",
                keeper=roles.keeper,
                measure=MEASURES[study.clustering.choose],
            )
            lines.append(filled)
    included = "" if roles.dealer is None else f", {roles.dealer} included,"
    return [
        *lines,
        *state_output_rules(study),
        *state_trust(study),
        f"Everybody{included} knows this file, how many rows each party has, and the number of iterations.",
    ]


def _is_known(key: tuple[str, str], items: dict[tuple[str, str], Learnt]) -> bool:
    """Do all who learn it at the end know it from the last iteration?"""
    before = items.get((key[0], "iteration"))
    return key == ("counts", "end") and before is not None and set(items[key].to) <= set(before.to)


def state_trust(study: Study) -> list[str]:
    """Whom one trusts, where that is not a helper who only deals."""
    roles = study.roles
    if roles.dealer is not None:
        return []
    servers = f"{', '.join(roles.servers)} hold shares and compute"
    return [f"{servers}. Any two of them together could read everything: no two of them may pool what they hold."]


def state_output_rules(study: Study) -> list[str]:
    """Which clusters are opened, as the file says it."""
    shown, learners = study.disclosures, "Parties" if study.roles.all_own else "Parties and servers"
    vertical = study.clustering.partition == "vertical"
    least = shown.least_cluster_size
    said = [
        f"The least cluster size is the largest that the study ({least if least > 1 else 'which names none'}) or a "
        "party's policy (10 unless it says otherwise) asks for. A cluster with fewer rows, when its centre was made or "
        "in the end, stays closed: no centre; its rows are labelled by the nearest open centre (-1 if all clusters are "
        f"closed; then there is no inertia, either). {learners} learn which clusters are closed, and not why."
    ]
    if study.data.row_weights.column:
        said.append(
            "What rows count for is told to nobody. Where this says how many rows a cluster has, what they weigh is "
            "meant, in units of the largest weight."
        )
    if study.private:
        said.append(
            "Nobody learns the cluster of any row, nor how many rows a cluster has. Opened centres and the inertia are "
            "rounded, to about a standard deviation or the resolution of a column, divided by the least size."
        )
    elif vertical:
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
    if any(column.resolution for column in study.data.columns) and not study.private:
        steps = {c.name: c.resolution * (2 if c.kind == "category" else 1) for c in study.data.columns}
        rounded = ", ".join(f"{name} ({step:g})" for name, step in steps.items() if step)
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
