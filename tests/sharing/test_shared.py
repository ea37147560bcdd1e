"""Shared values: linear arithmetic at every role, shapes alone at the helper, and no way to peek."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import ProtocolError
from coterie.ring import OddWords, Prime, Ring, Words
from coterie.sharing import Secret, Shared, concatenate, hollow, stack
from tests.support import splits, total

RINGS = [Words(1), Words(4), Words(64), OddWords(64), Prime(67)]
MULTIPLYING = [ring for ring in RINGS if not isinstance(ring, OddWords)]


def everywhere(ring: Ring, values, p: int = 3, seed: int = 0) -> list[Shared]:
    """The ends of a shared value by rank, the helper's first."""
    shares = splits(ring, values, p, seed)
    ends = [Shared(ring, (share,), (j == 0,)) for j, share in enumerate(shares)]
    return [Shared(ring, (hollow(shares[0].shape),), (False,)), *ends]


def check(operate: Callable, *inputs, ring: Ring = Words(64), p: int = 3) -> np.ndarray:
    """Operate at every role; compare with the same on Python's numbers; return the result."""
    shared = [everywhere(ring, values, p, seed) for seed, values in enumerate(inputs)]
    results = [operate(*ends) for ends in zip(*shared, strict=True)]
    assert all(isinstance(result, Shared) for result in results)
    value = total(ring, results)
    expected = operate(*(np.array(values, dtype=object) for values in inputs)) % ring.modulus
    assert np.asarray(value).tolist() == np.asarray(expected).tolist()
    assert results[0].is_hollow
    assert {result.shape for result in results} == {value.shape}
    assert [result.adds[0] for result in results] == [False, True] + [False] * (p - 1)
    return value


MATRIX = np.arange(-3, 9).reshape(3, 4)

LINEAR = {
    "x + y": lambda x, y: x + y,
    "x - y": lambda x, y: x - y,
    "x + x - y - y": lambda x, y: x + x - y - y,
    "-x + y": lambda x, y: -x + y,
    "x + 3": lambda x, y: x + 3,
    "3 + x": lambda x, y: 3 + x,
    "x - 3": lambda x, y: x - 3,
    "3 - x": lambda x, y: 3 - x,
    "x + array": lambda x, y: x + MATRIX,
    "array - x": lambda x, y: MATRIX - x,
    "x + row": lambda x, y: x + MATRIX[0],
    "x + numpy scalar": lambda x, y: np.int64(-5) + x,
    "outer difference": lambda x, y: x[:, None, :] - y[None, :, :],
}
SCALED = {
    "x * 5": lambda x, y: x * 5,
    "-7 * x": lambda x, y: -7 * x,
    "x * array": lambda x, y: x * MATRIX,
    "row * x": lambda x, y: MATRIX[1] * x,
    "x[None] * array": lambda x, y: x[None] * np.stack([MATRIX, MATRIX]),
    "x * 0 + array": lambda x, y: x * 0 + MATRIX,
    "2 x - 3 y": lambda x, y: 2 * x - y * 3,
}
SHAPED = {
    "row": lambda x, y: x[1],
    "entry": lambda x, y: x[1, 2],
    "slice": lambda x, y: x[1:, ::2],
    "list of rows": lambda x, y: x[[2, 0, 2]],
    "columns": lambda x, y: x[:, [3, 1]],
    "mask": lambda x, y: x[np.array([True, False, True])],
    "everything": lambda x, y: x[...],
    "new axis": lambda x, y: x[:, None],
    "no rows": lambda x, y: x[3:],
    "reshape": lambda x, y: x.reshape(2, 6),
    "flat": lambda x, y: x.reshape(12),
    "transpose": lambda x, y: x.transpose(),
    "transpose axes": lambda x, y: x.reshape(2, 2, 3).transpose(2, 0, 1),
    "sum of columns": lambda x, y: x.sum(0),
    "sum of rows": lambda x, y: x.sum(1),
    "sum of the last of three": lambda x, y: x.reshape(2, 2, 3).sum(2),
}


#: Where entries go among five, of which nothing goes to one and several to another.
PLACES = np.array([3, 0, 3, 4])


def placed(x):
    if isinstance(x, Shared):
        return x.placed(PLACES, 5)
    out = np.zeros((*x.shape[:-1], 5), dtype=object)
    for i, place in enumerate(PLACES):
        out[..., place] += x[..., i]
    return out


ADDED_UP = {
    "running": lambda x, y: x.running() if isinstance(x, Shared) else np.cumsum(x, axis=-1),
    "running, of a vector": lambda x, y: x[1].running() if isinstance(x, Shared) else np.cumsum(x[1]),
    "placed": lambda x, y: placed(x),
    "placed, of three axes": lambda x, y: placed(x.reshape(3, 1, 4)),
    "placed, of a vector": lambda x, y: placed(x[2]),
}


@pytest.mark.parametrize("ring", [Words(width) for width in (1, 4, 8, 13, 40, 64)], ids=repr)
@pytest.mark.parametrize("name", ADDED_UP)
def test_sums_of_words_along_an_axis(ring, name):
    check(ADDED_UP[name], MATRIX * 1001, MATRIX, ring=ring)


def test_every_share_is_added_up():
    """Of a scheme where a role holds two."""
    first, second = np.arange(4, dtype=np.uint64), np.arange(4, dtype=np.uint64) * 10
    value = Shared(Words(64), (first, second), (True, False))
    assert [share.tolist() for share in value.running().shares] == [[0, 1, 3, 6], [0, 10, 30, 60]]
    assert [share.tolist() for share in value.placed(PLACES, 5).shares] == [[1, 0, 0, 2, 3], [10, 0, 0, 20, 30]]
    assert value.running().adds == value.placed(PLACES, 5).adds == (True, False)


@pytest.mark.parametrize("ring", [OddWords(64), Prime(67)], ids=repr)
def test_only_words_are_added_up_so(ring):
    value = everywhere(ring, [1, 2, 3, 4])[1]
    for operate in (value.running, lambda: value.placed(PLACES, 5)):
        with pytest.raises(ProtocolError, match="only words"):
            operate()


def test_nothing_has_its_place_too():
    assert everywhere(Words(8), np.zeros((2, 0)))[1].placed(np.zeros(0, np.int64), 3).share.tolist() == [[0] * 3] * 2


@pytest.mark.parametrize("ring", RINGS, ids=repr)
@pytest.mark.parametrize("name", LINEAR | SHAPED)
def test_what_every_ring_offers(ring, name):
    check((LINEAR | SHAPED)[name], MATRIX, MATRIX * 3 + 1, ring=ring)


@pytest.mark.parametrize("ring", MULTIPLYING, ids=repr)
@pytest.mark.parametrize("name", SCALED)
def test_public_factors(ring, name):
    check(SCALED[name], MATRIX, MATRIX * 3 + 1, ring=ring)


@pytest.mark.parametrize("p", [2, 3, 5])
def test_shares_by_hand(p):
    value = check(lambda x, y: 10 - 2 * (x + y), [1, 2, 3], [4, -5, 6], p=p)
    assert Words(64).signed(value).tolist() == [0, 16, -8]


def test_only_the_first_data_party_adds_what_is_public():
    one, two = (Shared(Words(64), (np.array([7], np.uint64),), (lead,)) for lead in (True, False))
    assert ((one + 5).share.tolist(), (two + 5).share.tolist()) == ([12], [7])
    assert ((5 - one).share.tolist(), (5 - two).share.tolist()) == ([2**64 - 2], [2**64 - 7])


def test_what_was_worked_out_about_a_value_is_not_passed_on():
    """A mask belongs to one value: at those who hold no share, too, every operation makes a new one."""
    for share in (np.arange(4, dtype=np.uint64), hollow((4,))):
        value = Shared(Words(8), (share,), (False,))
        value.memo = "a mask"
        made = (-value, value + 1, value + value, value * 2, value[:4], value.reshape(4), concatenate([value]))
        assert all(one is not value for one in made)
        assert [one.memo for one in made] == [None] * len(made)


NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=3, max_size=3)


@given(NUMBERS, NUMBERS, st.integers(-(2**63), 2**63 - 1))
@settings(deadline=None, derandomize=True, max_examples=50)
def test_any_linear_combination_at_full_width(x, y, factor):
    check(lambda a, b: a * factor - b + factor, x, y)


def joined(join: Callable, axis: int) -> tuple[list[Shared], np.ndarray]:
    x, y = everywhere(Words(64), MATRIX), everywhere(Words(64), MATRIX * 2, seed=1)
    return [join([a, b, a], axis) for a, b in zip(x, y, strict=True)], Words(64).encode(MATRIX)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("ours", "numpys"), [(concatenate, np.concatenate), (stack, np.stack)])
def test_joining(ours, numpys, axis):
    results, x = joined(ours, axis)
    expected = numpys([x, Words(64).mul(x, np.uint64(2)), x], axis)
    assert (total(Words(64), results) == expected).all()
    assert results[0].is_hollow
    assert results[0].shape == expected.shape


def test_a_hollow_value_has_a_shape_and_no_content():
    value = everywhere(Words(64), MATRIX)[0]
    assert value.shape == (3, 4)
    assert value.size == 12
    assert value.share.nbytes == 0


def test_size_and_shape():
    value = everywhere(Words(64), MATRIX)[1]
    assert (value.shape, value.size, value.is_hollow) == ((3, 4), 12, False)


# -- secrecy -------------------------------------------------------------------------------------------------

SECRETS = {
    "secret": Secret(),
    "share": Shared(Words(64), (np.array([123456789], np.uint64),), (True,)),
    "hollow": Shared(Words(64), (hollow((1,)),), (False,)),
}


@pytest.fixture(params=SECRETS)
def secret(request):
    return SECRETS[request.param]


def test_a_secret_is_not_branched_on(secret):
    with pytest.raises(TypeError, match="branched"):
        bool(secret)
    with pytest.raises(TypeError, match="branched"):
        assert secret


@pytest.mark.parametrize("other", [0, None, "text", np.array([1]), SECRETS["share"]])
def test_a_secret_is_not_compared(secret, other):
    with pytest.raises(TypeError, match="compared"):
        _ = secret == other
    with pytest.raises(TypeError, match="compared"):
        _ = secret != other
    with pytest.raises(TypeError):
        _ = secret < other


def test_a_secret_is_not_hashed(secret):
    with pytest.raises(TypeError, match="unhashable"):
        hash(secret)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_secret_is_not_pickled(secret, protocol):
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps({"kept": [secret]}, protocol)


@pytest.mark.parametrize("copying", [copy.copy, copy.deepcopy])
def test_a_secret_is_not_copied(secret, copying):
    with pytest.raises(TypeError, match="pickled"):
        copying(secret)


@pytest.mark.parametrize("show", [repr, str, lambda secret: f"{secret}", lambda secret: f"{[secret]}"])
def test_a_repr_shows_no_content(show):
    assert "123456789" not in show(SECRETS["share"])
    assert "<Shared (1,)>" in show(SECRETS["share"])


def test_a_secret_holds_no_attributes_but_its_own():
    with pytest.raises(AttributeError):
        SECRETS["share"].note = 1


def test_a_secret_is_not_taken_for_a_number(secret):
    for conversion in (int, float):
        with pytest.raises(TypeError):
            conversion(secret)
    with pytest.raises(TypeError):
        len(secret)


def test_secrets_are_not_multiplied_locally():
    """The product of two shared values takes a protocol; NumPy must not attempt it either."""
    x = SECRETS["share"]
    with pytest.raises(TypeError):
        _ = x * x
    with pytest.raises(TypeError):
        np.multiply(np.array([1]), x)
