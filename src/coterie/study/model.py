"""What a participant keeps of a run to label further rows, as a file; checked when it comes back."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie.clustering import Outcome
from coterie.errors import InputError, StudyError
from coterie.faults import describe_fault, in_order
from coterie.protocols import FAMILIES
from coterie.protocols.metric import MANTISSA, OCTAVES
from coterie.report.facts import versions
from coterie.runtime.job import Kept
from coterie.study.agreement import Study
from coterie.study.files import read_text
from coterie.study.handshake import Agreed
from coterie.study.home import encode_study, home_encoding, standardised_at_home, study_stays_inside
from coterie.study.policy import MOST_LEAST
from coterie.study.prepare import Known, Ready
from coterie.study.wording import other_file
from coterie.typed import from_json

__all__ = ["Model", "kept_share", "load_model", "make_model"]

#: A share of the centres: rows of words; or, where the scheme has several parts, each by its name.
Share = list[list[int]] | dict[str, list[list[int]]]


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a participant needs to label further rows: its columns of the centres, encoded; or its share of all of them,
    if it serves. Everybody but a helper has one.

    `run` names the run it comes from: models of one run fit together. A suppressed cluster's centre is zero, and a copy
    of an open one where centres are shared. Where columns are standardised: their `weights` in squared distances, or a
    share of them; or, of columns that this party has standardised at home, means and standard deviations.
    """

    study_hash: str
    run: str
    party: str
    partition: str
    clusters: int
    fractional_bits: int
    least: int
    columns: list[str]
    made_with: str
    centers: list[list[int]] | None = None
    centers_in_data_units: list[list[float | None]] | None = None
    share: Share | None = None
    suppressed: list[bool] = []
    weights: list[list[int]] | None = None
    weights_share: Share | None = None
    means: list[float] = []
    deviations: list[float] = []

    def __repr__(self) -> str:
        return f"<Model of run {self.run}>"  # never a share


def load_model(path: Path, known: Known) -> Model:
    """A participant's own model of this study; what it says twice, and what the study says as well, must agree."""
    try:
        text = read_text(path, "the model")
        model = from_json(text, Model)
    except msgspec.ValidationError as error:
        place, fault, _ = describe_fault(error, Model)
        raise StudyError(f"{path} is not a model: {': '.join(filter(None, [in_order(place), fault]))}") from None
    except (msgspec.DecodeError, RecursionError):
        other = other_file(text)
        raise StudyError(f"{path} is {other}, not a model" if other else f"{path} is not a model: no JSON") from None
    if model.study_hash != known.hash:
        raise StudyError(f"{path} is a model of another study")
    if model.party != known.me.name:
        raise StudyError(f"{path} is the model of {model.party}; {known.me.name} has one of its own")
    wrong = _wrong_with(model, known)
    if wrong:
        raise StudyError(f"{path} was changed or damaged: its {wrong}; take the file as the run has written it")
    return model


def kept_share(share: Share | None, protocol: str) -> dict[str, NDArray[np.uint64]]:
    """A model's share, as the protocol family has exported it."""
    return {part: np.array(rows, np.uint64) for part, rows in _parts(share, protocol).items()}


def _parts(share: Share | None, protocol: str) -> dict[str, list[list[int]]]:
    if share is None:
        return {}
    return share if isinstance(share, dict) else {FAMILIES[protocol].share_parts[0]: share}


def _wrong_with(model: Model, known: Known) -> str:
    """What in a model cannot be, in this study; nothing, if all of it can."""
    study = known.study
    own = [study.column_names[l] for l in study.own_columns(known.rank)]
    k, columns = model.clusters, study.features
    if (model.partition, model.columns) != (study.clustering.partition, own) or k not in study.clustering.choices:
        return "partition, clusters or columns are not those of the study"
    shared = study.disclosures.centers == "shared"
    protocol = study.clustering.protocol
    parts = _parts(model.share, protocol)
    held = [*parts.values(), *([] if model.centers is None else [model.centers])]
    width = len(columns) if shared else len(own)
    least, beyond = (0, 1 << 64) if shared else (-(1 << 63), 1 << 63)
    wanted = FAMILIES[protocol].share_parts if shared and known.serves else ()
    if sorted(parts) != sorted(wanted) or (model.centers is not None) != (known.owns and not shared):
        return f"centres are not {study.disclosures.centers}, as the study has them"
    for rows in held:
        if [len(row) for row in rows] != [width] * k or not all(least <= v < beyond for row in rows for v in row):
            return f"centres are not {k} rows of {width} numbers"
    if len(model.suppressed) not in (0, k) or not 1 <= model.least <= MOST_LEAST:
        return "suppressed clusters or least cluster size make no sense"
    return _wrong_with_scales(model, known, len(own)) or _wrong_with_precision(model, study)


def _wrong_with_scales(model: Model, known: Known, own: int) -> str:
    """What cannot be in how columns are weighted."""
    study, d = known.study, len(known.study.features)
    todo = study.clustering
    at_home = todo.scale == "standard" and todo.partition == "vertical" and known.owns
    opened = study.scales == "revealed"
    numbers = [*model.means, *model.deviations]
    fine = len(model.means) == len(model.deviations) == own * at_home
    if not fine or not all(math.isfinite(v) for v in numbers) or min(model.deviations, default=0.0) < 0:
        return "means and standard deviations are not those of its columns"
    parts = _parts(model.weights_share, todo.protocol)
    wanted = FAMILIES[todo.protocol].share_parts if study.scales == "secret" and known.serves else ()
    held = [*parts.values(), *([] if model.weights is None else [model.weights])]
    told = opened and known.owns and not (model.suppressed and all(model.suppressed))
    if sorted(parts) != sorted(wanted) or (model.weights is not None) != told:
        return "weights of columns are not as the study has them"
    most = 1 << 64 if parts else 1 << (MANTISSA + OCTAVES + 1)
    if any([len(row) for row in rows] != [d] or not all(0 <= v < most for v in rows[0]) for rows in held):
        return f"weights of columns are not {d} numbers"
    return ""


def _wrong_with_precision(model: Model, study: Study) -> str:
    try:
        encode_study(study, 1, inside=study_stays_inside(study, model.least), wanted=model.fractional_bits)
    except InputError:
        return "fractional bits do not fit the bounds of the study"
    return ""


def make_model(ready: Ready, agreed: Agreed, outcome: Outcome, kept: Kept) -> Model:
    task, own = agreed.task, ready.study.own_columns(ready.rank)
    model = Model(
        ready.hash,
        agreed.run,
        ready.me.name,
        task.layout.partition,
        task.clusters,
        task.encoding.f,
        task.least,
        [ready.study.column_names[l] for l in own],
        f"coterie {versions()['coterie']}",
        suppressed=[] if outcome.suppressed is None else [bool(flag) for flag in outcome.suppressed],
    )
    if outcome.scales is not None:
        model = msgspec.structs.replace(model, weights=[outcome.scales.tolist()])
    elif task.metric is not None and ready.serves and ready.study.scales == "secret":
        model = msgspec.structs.replace(model, weights_share=_share(kept["weights"]))
    if task.centers == "shared" and ready.serves:
        model = msgspec.structs.replace(model, share=_share(kept["centers"]))
    at_home = standardised_at_home(ready)
    if at_home is not None:
        model = msgspec.structs.replace(model, means=list(at_home.means), deviations=list(at_home.deviations))
    if outcome.centers is None:
        return model
    encoding = home_encoding(ready, task)
    shown: list[list[float | None]] = encoding.decode(outcome.centers, outcome.center_columns).tolist()
    if outcome.suppressed is not None:
        shown = [[None] * len(row) if flag else row for row, flag in zip(shown, outcome.suppressed, strict=True)]
    return msgspec.structs.replace(model, centers=outcome.centers.tolist(), centers_in_data_units=shown)


def _share(kept: dict[str, NDArray[np.uint64]]) -> Share:
    parts = {part: share.tolist() for part, share in kept.items()}
    return parts if len(parts) > 1 else next(iter(parts.values()))
