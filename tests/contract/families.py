"""Any family at work, in any of its worlds: values in, values out, through the interface alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from coterie.protocols import Falcon, OneTime, Plaintext, Problem, SecureNN
from coterie.protocols.interface import WORDS
from coterie.protocols.steps import Family
from coterie.ring import Words
from coterie.runtime.threads import run_threads
from coterie.sharing import Party
from coterie.transport import World
from tests.contract.replicated import Replicated
from tests.support import SeededEntropy

FAMILIES: dict[str, type[Family]] = {one.name: one for one in (Plaintext, SecureNN, OneTime, Falcon, Replicated)}
#: How many own data, for each family.
CASES = [("plaintext", 1), ("securenn", 2), ("securenn", 3), ("onetime", 2), ("onetime", 3)]
CASES += [("falcon", owners) for owners in (2, 3, 5)]
CASES += [("replicated", owners) for owners in (2, 3, 5)]


def world_of(protocol: str, owners: int) -> World:
    return FAMILIES[protocol].world([f"P{j}" for j in range(1, owners + 1)])


def in_parts(values: np.ndarray, owners: int, ring: Words, seed: int = 0) -> list[np.ndarray]:
    """Whole numbers that add up to the values modulo the ring, one array for each owner."""
    random, modulus = np.random.RandomState(seed), ring.modulus
    parts = [random.randint(-(1 << 30), 1 << 30, values.shape) % min(modulus, 1 << 62) for _ in range(owners - 1)]
    return [*parts, values - sum(parts)]


def compute(
    protocol: str,
    owners: int,
    operate: Callable[..., Any],
    *inputs: Any,
    ring: Words = WORDS,
    problem: Problem | None = None,
) -> Any:
    """operate(family, *secrets) with every secret that it returns opened to all owners; what the first owner has."""
    values = [np.asarray(one, np.int64) for one in inputs]
    parts = [in_parts(one, owners, ring, i) for i, one in enumerate(values)]

    def role(me: Party) -> Any:
        family = FAMILIES[protocol](me, problem or Problem(16, 2, (9,)), ring)
        secrets = [
            family.enter(mine[me.rank - 1] if me.owns else None, one.shape)
            for mine, one in zip(parts, values, strict=True)
        ]
        found = operate(family, *secrets)
        several = found if isinstance(found, tuple) else (found,)
        opened = [family.open(one, me.world.owners, "a value", "a test") for one in several]
        return opened if isinstance(found, tuple) else opened[0]

    world = world_of(protocol, owners)
    results = run_threads(world, role, entropy=lambda rank: SeededEntropy(1, rank))
    return results[list(world.ranks).index(1)]
