"""Everything that can be wrong with a study that can be read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

from coterie.columns import DROP, bounds_of, find_fault
from coterie.errors import InputError, StudyError
from coterie.ideal import MOST_CHOICES
from coterie.study.agreement import FORMAT, MOST_RECONNECT, RowWeights, Study, StudyColumn
from coterie.study.identity import check_identity
from coterie.study.seating import find_misfit
from coterie.study.statement import state_disclosures
from coterie.study.survey_terms import check_survey

__all__ = ["check_study"]

#: Raises an error with the text unless the first argument is true.
Must = Callable[[bool, str], None]
#: Of two equally frequent values that were standardised like numbers, the distance is 2.83.
CATEGORIES_APART = (0.1, 2.8)
#: The largest weight of a row, in steps.
MOST_STEPS = (1 << 16) - 1
VERTICAL_RESOLUTION = (
    "[data] resolution is for a horizontal study: where columns are split, every party learns every label, and so the "
    "sizes"
)


def check_study(study: Study, where: str) -> None:
    """Refuse a study that cannot be run, or whose statement is not what it amounts to. `where` it comes from."""

    def must(holds: bool, problem: str) -> None:
        if not holds:
            raise StudyError(f"{where}: {problem}")

    must(study.study.format == FORMAT, f"[study] format {study.study.format} is not known; this version reads {FORMAT}")
    _check_options(study, must)
    _check_columns(study, must)
    _check_participants(study, must, where)
    _check_partition(study, must)
    _check_row_weights(study, must)
    if study.survey is not None:
        check_survey(study, study.survey, must)
    asked = "clustering" if study.survey is None else "survey"
    must(
        study.disclosures.statement == state_disclosures(study),
        f"[disclosures] the statement is not what [{asked}], [disclosures] and [participants] amount to",
    )


def _check_options(study: Study, must: Must) -> None:
    from coterie.protocols import FAMILIES  # takes long to load

    todo, data, shown = study.clustering, study.data, study.disclosures
    several = not isinstance(todo.clusters, int)
    must(todo.choices[:1] >= ((2,) if several else (1,)), f"[clustering] clusters must be at least {1 + several}")
    must(list(todo.choices) == sorted(set(todo.choices)), "[clustering] clusters must be in order, each once")
    must(
        len(todo.choices) <= MOST_CHOICES, f"[clustering] clusters may be at most {MOST_CHOICES} numbers to choose from"
    )
    must(not several or len(todo.choices) > 1, "[clustering] clusters must be a number, or at least two of them")
    asked = "clustering" if study.survey is None else "survey"
    must(todo.protocol in FAMILIES, f"[{asked}] protocol must be one of {', '.join(FAMILIES)}")
    must(
        shown.least_cluster_size >= 1,
        "[disclosures] least_cluster_size must be at least 1, which leaves it to policies",
    )
    for option in ("counts", "labels"):
        told = shown.least_cluster_size > 1 and getattr(shown, option) == "revealed"
        must(not told, f"[disclosures] revealed {option} would tell what least_cluster_size keeps back")
    must(len(set(shown.quality)) == len(shown.quality), "[disclosures] quality must name each of its numbers once")
    must(data.most_rows >= 1, "[data] most_rows must be at least 1")
    must(
        0 <= study.participants.reconnect <= MOST_RECONNECT,
        f"[participants] reconnect must be a number of seconds from 0 to {MOST_RECONNECT}",
    )
    must(todo.restarts >= 1, "[clustering] restarts must be at least 1")
    must(todo.max_iter >= 1, "[clustering] max_iter must be at least 1")
    must(0 <= todo.tol < math.inf, "[clustering] tol must be a number of at least 0")
    must(0 <= todo.seed < 1 << 32, "[clustering] seed must lie between 0 and 2^32 - 1")


def _check_columns(study: Study, must: Must) -> None:
    data, names = study.data, tuple(column.name for column in study.data.columns)
    must(bool(names), "[data] there must be columns")
    must(all(names), "[data] a column needs a name")
    about = study.study
    for text in (about.name, about.created, about.made_with, data.id, data.row_weights.column, *names):
        fine = text.isprintable() and len(text) <= 200  # people decide by what they see of it
        must(fine, f"the name {text[:40]!r} must be printable, and of at most 200 characters")
    for name, times in Counter(names).items():
        must(times == 1, f"[data] column {name!r} is listed twice")
        must(name != data.id, f"[data] the id column {name!r} cannot be clustered by")
    for column in data.columns:
        fault = find_fault(column)
        must(not fault, f"[data] column {column.name!r}: {fault}")
        _check_resolution(column, _may_round(study), must)
        _check_at_home(column, study, must)
    for name, times in Counter(study.column_names).items():
        must(times == 1, f"[data] {name!r} would be clustered by twice; rename a column")
    from coterie.clustering import relative_weights  # takes long to load

    try:
        relative_weights({column.name: column.weight for column in data.columns}, names)
    except InputError as error:
        must(False, f"[data] {error}")


def _may_round(study: Study) -> bool:
    """May columns have a resolution? Where columns are split, labels tell the sizes, if there are any."""
    return study.clustering.partition != "vertical" or study.private or study.survey is not None


def _check_resolution(column: StudyColumn, allowed: bool, must: Must) -> None:
    step = column.resolution
    must(0 <= step < math.inf, f"[data] the resolution of column {column.name!r} must be a number of at least 0")
    if step:
        must(allowed, VERTICAL_RESOLUTION)
        must(
            column.transform == "none",
            f"[data] column {column.name!r}: logarithms lie on no grid, so a resolution cannot be given",
        )
        must(
            column.kind != "category" or step == 1,
            f"[data] the resolution of column {column.name!r} must be 1, as for all categories",
        )
        low, high = bounds_of(column)
        ends = (low / step, high / step)
        fine = all(math.isfinite(end) and abs(end - round(end)) < 1e-6 for end in ends) and high - low >= step
        must(fine, f"[data] the bounds of column {column.name!r} must be multiples of its resolution {step:g}")


def _check_at_home(column: StudyColumn, study: Study, must: Must) -> None:
    """What a declaration asks of the rest of the study."""
    by_columns = study.clustering.partition == "vertical"
    must(
        column.missing != DROP or not by_columns or study.data.matching != "equal",
        f'[data] column {column.name!r}: missing = "drop" leaves out rows that others do not, which all parties find '
        "out about by matching rows only: use another --matching than equal, or fill in a value",
    )
    if column.kind == "category" and study.clustering.scale == "standard":
        least, most = CATEGORIES_APART
        must(
            least <= column.distance <= most,
            f"[data] column {column.name!r}: where columns are standardised, categories are {least:g} to {most:g} "
            "apart; to let them count for more, give the column a weight",
        )


def _check_participants(study: Study, must: Must, where: str) -> None:
    people, parties = study.everybody, study.participants.parties
    must(len(parties) >= 2, "[participants] parties: at least two are needed")
    must(len(parties) <= 255, "[participants] at most 255 parties can take part")
    for one in people:
        check_identity(one, f"{where}: [participants]")
        must(study.names.count(one.name) == 1, f"[participants] {one.name} is listed twice")
        must(
            sum(other.fingerprint == one.fingerprint for other in people) == 1,
            f"[participants] {one.name} shows the certificate of another participant",
        )
        relays = {other.via and other.via.fingerprint for other in people if other.address == one.address}
        alone = one.via is not None or sum(other.address == one.address for other in people) == 1
        must(alone and len(relays) == 1, f"[participants] {one.name} has the address of another participant")
        must(
            one.via is None or one.via.fingerprint not in {other.fingerprint for other in people},
            f"[participants] {one.name} is reached by way of a relay that shows the certificate of a participant; a "
            "relay has an identity of its own",
        )
    misfit = find_misfit(study.clustering.protocol, study.participants)
    must(not misfit, f"[participants] {misfit}")


def _check_partition(study: Study, must: Must) -> None:
    data, owners = study.data, study.roles.owners
    vertical, dealt = study.clustering.partition == "vertical", study.roles.dealer is not None
    mixed = study.clustering.partition == "mixed"
    must(data.matching == "equal" or vertical or mixed, "[data] matching of rows is for a vertical or mixed study")
    must(mixed or not data.precedence, "[data] precedence is for a mixed study")
    must(mixed or data.incomplete == "refuse", "[data] incomplete is for a mixed study")
    must(mixed or not any(c.holders for c in data.columns), "[data] only in a mixed study a column has several holders")
    must(data.matching == "equal" or dealt, "[data] matching of rows needs a helper, which compares tags of ids")
    if study.private:
        _check_private(study, must)
    if mixed:
        _check_patchwork(study, must)
    elif vertical:
        must(
            bool(data.id) or study.survey is not None,
            "[data] id must be given: a vertical study needs an id column, by which rows are put in a common order",
        )
        for column in data.columns:
            must(
                column.holder in owners,
                f"[data] column {column.name!r} must be held by one of the parties ({', '.join(owners)})",
            )
        for name in owners:
            must(any(c.holder == name for c in data.columns), f"[data] party {name} holds no column")
    else:
        must(not any(c.holder for c in data.columns), "[data] holder: only in a vertical study columns have one")
        must(study.disclosures.labels == "private", "[disclosures] revealed labels need a vertical study")


def _check_row_weights(study: Study, must: Must) -> None:
    """What rows count for, and what that rules out: the same as in `clustering/weighing.py`, before anybody meets."""
    weights, todo, shown = study.data.row_weights, study.clustering, study.disclosures
    if not weights.column:
        must(weights == RowWeights(), "[data] row_weights names no column")
        return
    name = weights.column
    taken = [study.data.id, *(column.name for column in study.data.columns)]
    must(name not in taken, f"[data] column {name!r} cannot both say what rows count for and be something else")
    fine = 0 < weights.step <= weights.most < math.inf and 1 <= weights.largest <= MOST_STEPS
    must(fine, f"[data] row_weights must be multiples of a step above 0, and the largest at most {MOST_STEPS} steps")
    must(study.survey is None, "[data] a survey counts all rows alike: leave out row_weights")
    must(todo.partition != "mixed", "[data] row_weights are for a horizontal or vertical study")
    must(not study.private, "[data] row_weights do not go with private matching")
    held = weights.holder in study.roles.owners if todo.partition == "vertical" else not weights.holder
    must(held, f"[data] column {name!r} of row_weights must be held by one party in a vertical study, else by all")
    must(isinstance(todo.clusters, int), "[clustering] clusters must be one number where rows have weights")
    for option, value in (("counts", "secret"), ("labels", "private"), ("sizes", "secret")):
        must(getattr(shown, option) == value, f"[disclosures] {option} must be {value} where rows have weights")
    told = set(shown.quality) <= {"inertia"}
    must(told, "[disclosures] quality may name the inertia alone where rows have weights")


def _check_private(study: Study, must: Must) -> None:
    """Where nobody learns which rows match, nothing may be told from which it follows."""
    todo, shown = study.clustering, study.disclosures
    must(isinstance(todo.clusters, int), "[clustering] clusters must be one number where rows are matched in private")
    must(todo.init == "k-means++", "[clustering] init must be k-means++ where rows are matched in private")
    for option, value in (("counts", "secret"), ("labels", "private"), ("centers", "revealed"), ("sizes", "secret")):
        fine = getattr(shown, option) == value
        must(fine, f"[disclosures] {option} must be {value} where rows are matched in private")
    must(
        set(shown.quality) <= {"inertia"},
        "[disclosures] quality may name the inertia alone where rows are matched in private",
    )
    for column in study.data.columns:
        must(
            column.resolution > 0 or todo.scale == "standard",
            f"[data] column {column.name!r} needs a resolution where rows are matched in private, lest an exact mean "
            "tell which rows match (or scale it: standard)",
        )


def _check_patchwork(study: Study, must: Must) -> None:
    data, owners = study.data, study.roles.owners
    must(bool(data.id), "[data] id must be given: a mixed study needs an id column, by which rows are matched")
    must(data.matching == "shared", "[data] matching must be shared in a mixed study")
    for column in data.columns:
        must(not column.holder, f"[data] column {column.name!r} of a mixed study has holders, not one holder")
        fine = bool(column.holders) and set(column.holders) <= set(owners)
        must(fine, f"[data] column {column.name!r} must be held by parties ({', '.join(owners)})")
        once = len(set(column.holders)) == len(column.holders)
        must(once, f"[data] column {column.name!r} names a holder twice")
    for name in owners:
        must(any(name in c.holders for c in data.columns), f"[data] party {name} holds no column")
    known = not data.precedence or sorted(data.precedence) == sorted(owners)
    must(known, f"[data] precedence must name every party once ({', '.join(owners)})")
    must(study.disclosures.labels == "private", "[disclosures] revealed labels need a vertical study")
