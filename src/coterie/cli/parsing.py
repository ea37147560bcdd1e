"""What is given in one option for several columns or parties: age=0:120,income=0:5e5."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator

from coterie.columns import DROP, ERROR, parse_date
from coterie.errors import InputError
from coterie.ideal import MOST_CHOICES

__all__ = [
    "in_terms_of_options",
    "parse_bounds",
    "parse_categories",
    "parse_clusters",
    "parse_file_bounds",
    "parse_holders",
    "parse_list",
    "parse_missing",
    "parse_numbers",
    "parse_pairs",
    "parse_quantiles",
    "parse_range",
    "parse_row_weights",
]

#: Arguments of `SecureKMeans` that the command line calls otherwise.
CALLED = {"n_clusters": "clusters", "n_parties": "parties", "random_state": "seed"}
#: Those that errors begin with.
ARGUMENT = re.compile(r"(n_clusters|n_parties|random_state|n_init|max_iter|tol|resolution|least_cluster_size|bounds)\b")


@contextlib.contextmanager
def in_terms_of_options() -> Iterator[None]:
    """Errors that begin with the name of an argument in Python begin with the option that sets it."""
    try:
        yield
    except InputError as error:
        found = ARGUMENT.match(str(error))
        if found is None:
            raise
        name = CALLED.get(found[1], found[1]).replace("_", "-")
        raise type(error)(f"--{name}{str(error)[found.end() :]}") from None


def parse_pairs(option: str, text: str) -> dict[str, str]:
    """NAME=VALUE,NAME=VALUE; a value may go on with further names: alice=age,height,bob=income."""
    found: dict[str, str] = {}
    last = None
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if equals:
            last = name
            if name in found:
                raise InputError(f"{option} names {name!r} twice")
            found[name] = value
        elif option == "--holds" and last is not None:
            found[last] += f",{part}"
        else:
            raise InputError(f"{option}: {part!r} is not NAME=VALUE")
    return found


def parse_range(text: str) -> tuple[float, float]:
    """LOW:HIGH. Raises ValueError for everything else."""
    from coterie.data.decimals import parse_number

    low, high = (parse_number(end) for end in text.split(":"))
    return low, high


def parse_bounds(text: str) -> dict[str, tuple[float | str, float | str]]:
    """The ranges of all numbers and dates of a study."""
    bounds: dict[str, tuple[float | str, float | str]] = {}
    for name, value in parse_pairs("--bounds", text).items():
        try:
            bounds[name] = _parse_dates(value) or parse_range(value)
        except ValueError:
            raise InputError(f"--bounds: {name}={value} is not {name}=LOW:HIGH") from None
    return bounds


def _parse_dates(text: str) -> tuple[str, str] | None:
    """2020-01-01:2024-12-31; None for everything else."""
    low, _, high = text.partition(":")
    for end in (low, high):
        try:
            if end.count("-") != 2 or parse_date(end) != int(parse_date(end)):
                return None
        except (ValueError, OverflowError):
            return None
    return low, high


def parse_list(text: str) -> list[str]:
    """age,income"""
    return [one.strip() for one in text.split(",") if one.strip()]


def parse_holders(text: str, several: bool) -> dict[str, str | list[str]]:
    """By column the party that holds it, from alice=age,height,bob=income; or `several`, in a patchwork."""
    holders: dict[str, list[str]] = {}
    for party, held in parse_pairs("--holds", text).items():
        for column in filter(None, held.split(",")):
            if column in holders and not several:
                raise InputError(f"--holds: column {column!r} is held by both {holders[column][0]} and {party}")
            holders.setdefault(column, []).append(party)
    return {column: held if several else held[0] for column, held in holders.items()}


def parse_categories(text: str) -> dict[str, list[str]]:
    """By column all values that it has, from sex=f|m,ward=a|b|c."""
    return {name: values.split("|") for name, values in parse_pairs("--categories", text).items()}


def parse_missing(text: str, as_text: Collection[str]) -> dict[str, float | str]:
    """By column what to do about missing values: drop, or a number to fill in; for those of `as_text`, a word or a
    date."""
    from coterie.data.decimals import parse_number

    found: dict[str, float | str] = {}
    for name, value in parse_pairs("--missing", text).items():
        found[name] = value
        if name not in as_text and value not in (DROP, ERROR):
            try:
                found[name] = parse_number(value)
            except ValueError:
                raise InputError(f"--missing: {name}={value} is not {name}=drop or {name}=NUMBER") from None
    return found


def parse_file_bounds(text: str) -> dict[str, tuple[float, float]]:
    """The ranges of some columns of a file. The name of a column may hold an equals sign."""
    bounds = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.rpartition("=")
        try:
            if not name:
                raise ValueError
            bounds[name] = parse_range(value)
        except ValueError:
            raise InputError(f"--bounds: {part!r} is not of the form name=low:high") from None
    return bounds


def parse_row_weights(text: str) -> dict[str, tuple[float, float]]:
    """By column of weights their step and the largest: weight=0.1:20."""
    found = {}
    for name, value in parse_pairs("--row-weights", text).items():
        try:
            found[name] = parse_range(value)
        except ValueError:
            raise InputError(f"--row-weights: {name}={value} is not {name}=STEP:LARGEST") from None
    return found


def parse_clusters(text: str) -> int | range:
    """A number of clusters, such as 4, or several to choose from, such as 2:10."""
    low, colon, high = text.partition(":")
    try:
        found = range(int(low), int(high) + 1) if colon else int(low)
    except ValueError:
        raise InputError(f"--clusters {text!r} is no number; write 4, or 2:10 to choose from several") from None
    if isinstance(found, int) and found < 1:
        raise InputError(f"--clusters must be at least 1, not {text}")
    if isinstance(found, range) and (found.stop - found.start < 2 or found.start < 2):
        raise InputError(f"--clusters {text}: to choose from several, write the fewest, at least 2, and more: 2:10")
    if isinstance(found, range) and found.stop - found.start > MOST_CHOICES:
        raise InputError(f"--clusters {text}: choose from at most {MOST_CHOICES} numbers")
    return found


def parse_quantiles(text: str) -> list[float]:
    """Per cents: 1,25,50."""
    from coterie.data.decimals import parse_number

    try:
        return [parse_number(part.strip()) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InputError(f"--quantiles {text!r}: name per cents, such as 1,25,50,75,99") from None


def parse_numbers(option: str, text: str, what: str) -> dict[str, float]:
    """A number for each of some columns, such as age=1,income=100; `what` it is called."""
    from coterie.data.decimals import parse_number

    found = {}
    for name, value in parse_pairs(option, text).items():
        try:
            found[name] = parse_number(value)
        except ValueError:
            raise InputError(f"{option}: {name}={value} is not {name}={what}") from None
    return found
