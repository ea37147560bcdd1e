"""Kernels: loops that numba compiles. numba is loaded when the first of them is needed, and not before.

A module of kernels writes signatures and decorators as numba has them, but takes `njit`, `vectorize` and `types` from
here: these note what is wanted. Much of the program runs no kernel, and numba takes longer to load than all the rest.
Whoever is about to run protocols calls `load_kernels` first: nobody is to wait for somebody else's compiler.

numba keeps the compiled code in `__pycache__` beside the kernels, or under `NUMBA_CACHE_DIR` where that is set.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

__all__ = ["KERNELS", "Kernel", "load_kernels", "njit", "read_only", "types", "vectorize"]

Given = ParamSpec("Given")
Result = TypeVar("Result")
#: Packages that numba loads where they are installed, for what no kernel does: linear algebra, calls of C functions.
OPTIONAL = ("scipy", "cffi")
_loading = threading.RLock()


class _Later:
    """An expression of numba's types, which is worked out when numba is there."""

    def __init__(self, work_out: Callable[[], Any]) -> None:
        self.work_out = work_out

    def __getattr__(self, name: str) -> _Later:
        return _Later(lambda: getattr(self.work_out(), name))

    def __getitem__(self, key: Any) -> _Later:
        return _Later(lambda: self.work_out()[key])

    def __call__(self, *given: Any, **named: Any) -> _Later:
        return _Later(lambda: self.work_out()(*map(_now, given), **named))


def _now(value: Any) -> Any:
    return value.work_out() if isinstance(value, _Later) else value


def _numba() -> Any:
    import numba

    return numba


#: `numba.types`, later.
types: Any = _Later(lambda: _numba().types)


def read_only(element: Any, dimensions: int) -> Any:
    """A contiguous array that a kernel only reads; it may have come off the wire and be read-only."""
    return types.Array(element, dimensions, "C", readonly=True)


class Kernel:
    """A kernel that is loaded from numba's store, or compiled, when it is first called or `load` is."""

    def __init__(self, build: Callable[[], None]) -> None:
        self._build, self.loaded = build, False

    def load(self) -> None:
        with _loading:
            if not self.loaded:
                self._build()
                self.loaded = True


#: All kernels of the modules that are imported, by the name of their module.
KERNELS: dict[str, list[Kernel]] = {}


def _note(compiler: str, wanted: Any, options: dict[str, Any], function: Callable[Given, Result]) -> Any:
    """The function, to be compiled later. What stands in for it is a closure, which adds less to a call than an object
    that can be called: some kernels run for a microsecond."""

    def load_and_run(*given: Any) -> Any:
        kernel.load()
        return run(*given)

    run: Callable[..., Any] = load_and_run

    def build() -> None:
        nonlocal run
        run = getattr(_numba(), compiler)(_now(wanted), **options)(_with_kernels(function))

    @functools.wraps(function)
    def call(*given: Any) -> Any:
        return run(*given)

    def compiled() -> Callable[..., Any]:
        kernel.load()
        return run

    kernel = Kernel(build)
    call.compiled = compiled  # type: ignore[attr-defined]
    KERNELS.setdefault(function.__module__, []).append(kernel)
    return call


def _with_kernels(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """A function that calls other kernels of its module, with what numba has made of them."""
    known = function.__globals__
    called = {name: known[name] for name in function.__code__.co_names if hasattr(known.get(name), "compiled")}
    if not called:
        return function
    compiled = {name: one.compiled() for name, one in called.items()}
    copy = FunctionType(function.__code__, {**known, **compiled}, function.__name__)
    return functools.update_wrapper(copy, function)


def njit(signature: Any, **options: Any) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """As numba's, with one signature."""
    return lambda function: _note("njit", signature, options, function)


def vectorize(signatures: list[str], **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """As numba's: a function of numbers becomes one of arrays."""
    return lambda function: _note("vectorize", signatures, options, function)


def load_kernels(modules: Sequence[str], *, alone: bool = False) -> None:
    """Have the kernels of these modules ready to run. `alone`: nothing but kernels uses numba in this process, so that
    numba may do without what is optional."""
    with _without(OPTIONAL if alone else ()), _uncollected():
        for module in modules:
            for kernel in KERNELS[module]:
                kernel.load()


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Inside, no garbage is looked for: of what is loaded, all stays."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextlib.contextmanager
def _without(packages: Sequence[str]) -> Iterator[None]:
    """Inside, packages that are not loaded yet cannot be: as if they were not installed, which numba allows for."""
    hidden: list[str] = [name for name in packages if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: an import of it fails
    try:
        yield
    finally:
        for name in hidden:
            sys.modules.pop(name, None)
