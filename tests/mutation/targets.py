"""Which modules are mutated, and which test files belong to each: few enough that a mutant takes seconds."""

from __future__ import annotations

from pathlib import Path

__all__ = ["FOLDERS", "ROOT", "files_for", "modules"]

ROOT = Path(__file__).parents[2]
FOLDERS = ("ring", "randomness", "sharing", "protocols")
COSTS, FITS = "tests/protocols/test_costs.py", "tests/clustering/test_oracle.py"
#: Fits that are drawn, standardised and told about.
START, STANDARD = "tests/clustering/test_start.py", "tests/clustering/test_standard.py"
QUALITY = "tests/clustering/test_told_quality.py"
#: What parties see. Last, since they take longest: a missing mask changes no result.
VIEWS, ONETIME_VIEWS = "tests/security/test_views.py", "tests/security/test_onetime_views.py"
#: By the beginning of a module's path below src/coterie, the longest one that fits: test files, the quickest first.
TESTS = {
    "ring/": ["tests/ring"],
    "ring/packing": ["tests/ring", "tests/protocols/test_sign.py", "tests/protocols/test_onetime.py", FITS],
    "ring/moduli": ["tests/ring", "tests/sharing/test_shared.py", "tests/protocols/test_compare.py"],
    "randomness/": ["tests/randomness", "tests/security/test_addresses.py", "tests/protocols/test_onetime.py", FITS],
    "sharing/": [
        "tests/sharing",
        "tests/security/test_gate.py",
        "tests/protocols/test_products.py",
        VIEWS,
        ONETIME_VIEWS,
    ],
    "protocols/": ["tests/contract/test_family.py", "tests/protocols", FITS, VIEWS],
    "protocols/interface": ["tests/protocols", FITS, "tests/clustering/test_output_rules.py", VIEWS],
    "protocols/words": [
        "tests/protocols/test_products.py",
        "tests/contract/test_family.py",
        "tests/protocols/test_securenn_family.py",
        VIEWS,
    ],
    "protocols/onetime/": [
        "tests/protocols/test_onetime_kernels.py",
        "tests/protocols/test_onetime_fused.py",
        "tests/protocols/test_onetime.py",
        "tests/protocols/test_sign.py",
        "tests/protocols/test_labelling.py",
        "tests/protocols/test_output_primitives.py",
        COSTS,
        FITS,
        ONETIME_VIEWS,
    ],
    "protocols/onetime/seeding": [
        "tests/protocols/test_seeding.py",
        "tests/contract/test_family.py",
        START,
        STANDARD,
        ONETIME_VIEWS,
    ],
    "protocols/onetime/centers": [
        "tests/protocols/test_onetime.py",
        "tests/protocols/test_labelling.py",
        "tests/contract/test_scaling.py",
        STANDARD,
        ONETIME_VIEWS,
    ],
    "protocols/blocks": ["tests/contract/test_blocks.py"],
    "protocols/measures": ["tests/contract/test_measures.py", QUALITY, STANDARD],
    "protocols/metric": ["tests/protocols/test_metric.py", "tests/contract/test_scaling.py", STANDARD],
    "protocols/scaling": ["tests/protocols/test_metric.py", "tests/contract/test_scaling.py", STANDARD],
    "protocols/sampling": ["tests/protocols/test_sampling.py", START, STANDARD],
    "protocols/seeding": ["tests/contract/test_family.py", "tests/protocols/test_seeding.py"],
    "protocols/securenn/": [
        "tests/protocols/test_compare.py",
        "tests/protocols/test_securenn_family.py",
        "tests/protocols/test_truncation.py",
        "tests/protocols/test_division.py",
        "tests/contract/test_family.py",
        "tests/contract/test_scaling.py",
        COSTS,
        FITS,
        VIEWS,
    ],
    "protocols/falcon/": [
        "tests/protocols/test_falcon.py",
        "tests/security/test_falcon_views.py",
        "tests/contract/test_family.py",
        "tests/protocols/test_falcon_fits.py",
    ],
    "protocols/plaintext/": ["tests/protocols/test_numerics.py", FITS],
    "protocols/numerics": ["tests/protocols/test_numerics.py", FITS],
}


def modules(folders: tuple[str, ...] = FOLDERS, root: Path = ROOT) -> list[Path]:
    return sorted(path for folder in folders for path in (root / "src" / "coterie" / folder).rglob("*.py"))


def files_for(module: str) -> list[str]:
    """The test files of a module, given as `src/coterie/...`."""
    below = module.removeprefix("src/coterie/")
    return TESTS[max((start for start in TESTS if below.startswith(start)), key=len)]
