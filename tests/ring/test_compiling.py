"""Kernels are compiled when they are needed: once, by whoever comes first, and only those that are asked for."""

from __future__ import annotations

import gc
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from coterie.ring import compiling
from coterie.ring.compiling import KERNELS, load_kernels, njit, read_only, types, vectorize

W1 = types.uint64[::1]


def add_one(x, out):
    for i in range(x.shape[0]):
        out[i] = x[i] + np.uint64(1)


@pytest.fixture(autouse=True)
def own(monkeypatch):
    """What is noted here is forgotten afterwards."""
    monkeypatch.setattr(compiling, "KERNELS", {name: list(kernels) for name, kernels in KERNELS.items()})
    compiling.KERNELS[__name__] = []


@pytest.fixture
def built(monkeypatch):
    """What numba was asked for."""
    asked, numba = [], compiling._numba()

    class Asked:
        types = numba.types

        @staticmethod
        def njit(signature, **options):
            asked.append((signature, options))
            return numba.njit(signature, **options)

    monkeypatch.setattr(compiling, "_numba", lambda: Asked)
    return asked


def one() -> np.ndarray:
    words = np.array([0, 5, 2**64 - 1], np.uint64)
    words.flags.writeable = False
    return words


def test_a_kernel_is_compiled_at_its_first_call(built):
    kernel, out = njit(types.void(read_only(types.uint64, 1), W1), nogil=True)(add_one), np.empty(3, np.uint64)
    assert (kernel.__name__, built) == ("add_one", [])
    for _ in range(2):
        kernel(one(), out)
    assert out.tolist() == [1, 6, 0]
    real = compiling._numba().types
    wanted = real.void(real.Array(real.uint64, 1, "C", readonly=True), real.uint64[::1])
    assert built == [(wanted, {"nogil": True})]


def test_only_those_of_the_named_modules_are_loaded(built):
    njit(types.void(W1, W1))(add_one)
    (kernel,) = compiling.KERNELS[__name__]
    compiling.KERNELS["another"] = []
    load_kernels(["another"])
    assert (built, kernel.loaded) == ([], False)
    for _ in range(2):
        load_kernels(["another", __name__])
        assert (len(built), kernel.loaded) == (1, True)


def test_a_module_without_kernels_is_a_mistake():
    with pytest.raises(KeyError, match="no_such"):
        load_kernels(["coterie.ring.no_such"])


def test_many_threads_compile_it_once(built):
    kernel = njit(types.void(read_only(types.uint64, 1), W1), nogil=True)(add_one)

    def call(_):
        out = np.empty(3, np.uint64)
        kernel(one(), out)
        return out.tolist()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(call, range(8))) == [[1, 6, 0]] * 8
    assert len(built) == 1


def test_one_that_cannot_be_compiled_says_so_every_time():
    kernel = njit(types.void(W1, types.no_such_type))(add_one)
    for _ in range(2):
        with pytest.raises(AttributeError, match="no_such_type"):
            kernel(one(), one())


def test_functions_of_numbers_become_functions_of_arrays():
    kernel = vectorize(["u8(u8, u8)"])(lambda a, b: a + b)
    assert kernel(one(), np.uint64(1)).tolist() == [1, 6, 0]


@pytest.mark.parametrize("collects", [True, False])
def test_what_is_optional_is_hidden_only_meanwhile(monkeypatch, collects):
    """And no garbage is collected; whatever happens."""
    seen = {}

    def fail():
        seen.update(hidden=sys.modules.get("optional", "not there"), loaded=sys.modules["sys"], collects=gc.isenabled())
        raise RuntimeError("stop")

    monkeypatch.setattr(compiling, "OPTIONAL", ("optional", "sys"))
    compiling.KERNELS[__name__] = [compiling.Kernel(fail)]
    before = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        for alone, hidden in ((True, None), (False, "not there")):
            with pytest.raises(RuntimeError, match="stop"):
                load_kernels([__name__], alone=alone)
            assert seen == {"hidden": hidden, "loaded": sys, "collects": False}
            assert "optional" not in sys.modules
            assert gc.isenabled() == collects
    finally:
        (gc.enable if before else gc.disable)()


@njit(types.uint64(types.uint64), inline="always")
def _doubled(x):
    return x + x


@njit(types.void(read_only(types.uint64, 1), W1), nogil=True)
def _double_all(x, out):
    for i in range(x.shape[0]):
        out[i] = _doubled(x[i])


def test_a_kernel_may_call_another_of_its_module():
    out = np.empty(3, np.uint64)
    _double_all(one(), out)
    assert out.tolist() == [0, 10, 2**64 - 2]
