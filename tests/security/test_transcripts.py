"""Whole fits of three parties: two data sets with the same results give every coalition the same transcripts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coterie.protocols.onetime import OneTime
from coterie.protocols.onetime import table as table_module
from coterie.randomness import Dealt, Streams
from coterie.sharing import Party
from coterie.transport import Metered
from tests.security.fits import Study
from tests.security.onetime_fits import OneTimeStudy
from tests.security.test_conduct import posted_movement_share
from tests.security.test_onetime_planted import again
from tests.security.transcripts import COLUMNS, ROWS, check_transcripts
from tests.security.views import Known

ONE_START, TWO_STARTS = ((0, 1, 2),), ((0, 1, 2), (0, 3, 6))
FAMILIES = {"onetime": OneTimeStudy, "securenn": Study}
OPTIONS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "counts revealed": {"options": {"counts": "revealed"}},
    "centers shared": {"options": {"centers": "shared"}},
    "n_init 2": {"starts": TWO_STARTS},
    "output rules": {"options": {"least": 2, "sizes": "rounded", "grid": (12,) * COLUMNS}},
    "output rules, some closed": {"options": {"least": 6}, "starts": TWO_STARTS},
    "output rules, centers shared": {"options": {"least": 2, "centers": "shared", "contribution": "none-or-least"}},
}
CASES = {f"{partition}, {name}": (partition, options) for partition in ("horizontal", "vertical", "mixed")
         for name, options in OPTIONS.items()}  # fmt: skip
CASES["vertical, by way of collectors"] = ("vertical", {"options": {"collect_from": 1}})
CASES["vertical, labels revealed"] = ("vertical", {"options": {"labels": "revealed"}})
COALITIONS = [{1, 2}, {1, 3}, {2, 3}, {0}]
#: Seeds for each of the two data sets.
SEEDS = 24


def study_of(family: str, case: str) -> Study:
    partition, options = CASES[case]
    return FAMILIES[family](partition, p=3, rows=ROWS, columns=COLUMNS, **{"starts": ONE_START, **options})


def check(family: str, case: str, coalition: set[int], seeds: int = SEEDS, planted: bool = False) -> None:
    check_transcripts(study_of(family, case), coalition, seeds, planted)


#: One of each partition and option, and of each coalition; those that take long among the slow tests.
QUICK = [
    ("onetime", "vertical, labels revealed", {2, 3}),
    ("onetime", "mixed, counts revealed", {1, 3}),
    ("onetime", "vertical, by way of collectors", {1, 2}),
    ("securenn", "vertical, labels revealed", {0}),
    pytest.param("onetime", "horizontal, as it is", {1, 2}, marks=pytest.mark.slow),
    pytest.param("onetime", "horizontal, as it is", {0}, marks=pytest.mark.slow),
    pytest.param("onetime", "horizontal, as it is", {1}, marks=pytest.mark.slow),
    pytest.param("securenn", "mixed, counts revealed", {1, 3}, marks=pytest.mark.slow),
    pytest.param("securenn", "vertical, labels revealed", {1, 2}, marks=pytest.mark.slow),
    pytest.param("onetime", "vertical, centers shared", {1, 2}, marks=pytest.mark.slow),
    pytest.param("onetime", "mixed, output rules, some closed", {1, 3}, marks=pytest.mark.slow),
    pytest.param("onetime", "vertical, n_init 2", {2, 3}, marks=pytest.mark.slow),
    pytest.param("onetime", "horizontal, output rules", {1, 2}, marks=pytest.mark.slow),
    pytest.param("securenn", "horizontal, output rules, some closed", {0}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("family", "case", "coalition"), QUICK, ids=str)
def test_a_coalition_cannot_tell_the_data_apart(family, case, coalition):
    check(family, case, coalition)


#: Every coalition for every case; of the output rules, which add little to what is sent, one coalition each.
ALL = [(case, coalition) for case in CASES for coalition in COALITIONS if "rules" not in case or coalition == {2, 3}]


@pytest.mark.slow
@pytest.mark.parametrize(("case", "coalition"), ALL, ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_no_coalition_can_tell_the_data_apart(family, case, coalition):
    check(family, case, coalition)


# -- planted leaks -----------------------------------------------------------------------------------------

#: As many as a leak needs to show.
FEW = 12


def no_share_of_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """P2 and P3 open their parts of the inertia without the share of zero that the two of them have in common."""
    pair = Streams.pair

    def forgetful(self: Streams, other: int, purpose: str) -> Any:
        left_out = "inertia" in purpose and {self.rank, other} == {2, 3}
        return Known(0) if left_out else pair(self, other, purpose)

    monkeypatch.setattr(Streams, "pair", forgetful)


def no_data_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """P3's data go out as they are."""
    mask = table_module.data_mask

    def bare(me: Party, owner: int, *rest: Any) -> Any:
        return np.zeros_like(mask(me, owner, *rest)) if owner == 3 else mask(me, owner, *rest)

    monkeypatch.setattr(table_module, "data_mask", bare)


def no_label_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels become words without their mask."""
    mask = Dealt.mask

    def bare(self: Dealt, name: str) -> Any:
        whole = mask(self, name)
        return np.zeros_like(whole) if (self.material.purpose, name) == ("bits to words", "rho") else whole

    monkeypatch.setattr(Dealt, "mask", bare)


def one_mask_for_two_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of the masks of a block's comparisons serves all of them."""
    again(monkeypatch, "sign", "R")


def stream_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """All steps of a block read on in one stream; here each of them starts it anew."""
    read_on = Streams.dealt_run

    def anew(self: Streams, party: int) -> Any:
        self._runs.clear()
        return read_on(self, party)

    monkeypatch.setattr(Streams, "dealt_run", anew)


def letters_to_the_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every party posts its raw share of the movement to the helper; the channel lets it."""
    monkeypatch.setattr(Metered, "begin_protocol", lambda self, *declared: None)
    posted_movement_share(monkeypatch)


def bit_to_the_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    """P1 tells the helper a bit of its own row; the channel lets it."""
    monkeypatch.setattr(Metered, "begin_protocol", lambda self, *declared: None)
    table = OneTime.table

    def indiscreet(self: OneTime, own: Any, *more: Any) -> Any:
        if self.me.deals:
            self.me.channel.hear(1)
        if self.me.lead:
            self.me.channel.tell(0, bool(own[3, 0] > own[4, 0]))
        return table(self, own, *more)

    monkeypatch.setattr(OneTime, "table", indiscreet)


#: What serves twice is named by whichever of the comparisons meets it first.
TWICE = "(serves twice|data decide|another distribution): "
PLANTS = [
    (
        no_share_of_zero,
        "onetime",
        "horizontal, as it is",
        {1},
        r"data decide: part \d+ .frame P[23] to P1",
    ),
    (no_data_mask, "onetime", "horizontal, as it is", {1, 2}, r"byte that the data decide: part \d+ .frame P3"),
    (no_data_mask, "onetime", "vertical, labels revealed", {1, 2}, r"byte that the data decide: part \d+ .frame P3"),
    (no_label_mask, "onetime", "horizontal, as it is", {1, 2}, r"byte that the data decide: part \d+ .opening"),
    (stream_read_twice, "onetime", "horizontal, as it is", {1, 2}, f"{TWICE}.*(frame P3|opening)"),
    # where blocks of comparisons are filled up with zeros, the mask of all of them stands there as it is
    (one_mask_for_two_signs, "onetime", "mixed, counts revealed", {1, 2}, f"{TWICE}.*opening"),
    (stream_read_twice, "securenn", "vertical, labels revealed", {1, 2}, TWICE),
    (letters_to_the_helper, "onetime", "horizontal, as it is", {0}, "posted a letter of 8 bytes to P0"),
    (bit_to_the_helper, "onetime", "horizontal, as it is", {0}, r"byte that the data decide: part \d+ .note P1 to P0"),
]


#: Plants in transcripts of this case are looked for where there is time, but for one.
LONG = "horizontal, as it is"


@pytest.mark.parametrize(
    ("plant", "family", "case", "coalition", "found"),
    [
        pytest.param(*row, id=f"{row[0].__name__} {row[2]}", marks=pytest.mark.slow if row[2] == LONG and i else ())
        for i, row in enumerate(PLANTS)
    ],
)
def test_a_planted_leak_is_found(monkeypatch, plant, family, case, coalition, found):
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=found):
        check(family, case, coalition, FEW, planted=True)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "case", "coalition"), sorted({(f, c, tuple(who)) for _, f, c, who, _ in PLANTS}))
def test_without_a_plant_as_few_runs_find_nothing(family, case, coalition):
    check(family, case, set(coalition), FEW)
