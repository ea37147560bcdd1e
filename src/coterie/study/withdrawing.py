"""Withdrawing from a study: written down here, and told to those who are up."""

from __future__ import annotations

import contextlib
from pathlib import Path

from coterie.errors import CoterieError
from coterie.study.agreement import study_hash
from coterie.study.papers import pack_withdrawal
from coterie.study.prepare import Known
from coterie.study.study_file import load_study
from coterie.study.withdrawals import Withdrawal, withdraw_study, withdrawal_path
from coterie.transport.visits import decline

__all__ = ["withdraw_and_tell"]


def withdraw_and_tell(path: Path, key: str) -> tuple[Withdrawal, Path]:
    """This participant's withdrawal, and the file that it stands in."""
    study = load_study(path)
    made = withdraw_study(path, study, key)
    me = Known(study, study_hash(study), *study.enter_with(key), (), path=path)
    with contextlib.suppress(CoterieError, OSError):
        decline(me.world, me.rank, me.credentials, me.peers, proof=pack_withdrawal(made))
    return made, withdrawal_path(path, made.name)
