"""What is given in one option for several columns or parties: age=0:120,income=0:5e5."""

from __future__ import annotations

from coterie.errors import InputError
from coterie.ideal import MOST_CHOICES

__all__ = ["parse_bounds", "parse_clusters", "parse_file_bounds", "parse_numbers", "parse_pairs", "parse_range"]


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


def parse_bounds(text: str) -> dict[str, tuple[float, float]]:
    """The ranges of all columns of a study."""
    bounds = {}
    for name, value in parse_pairs("--bounds", text).items():
        try:
            bounds[name] = parse_range(value)
        except ValueError:
            raise InputError(f"--bounds: {name}={value} is not {name}=LOW:HIGH") from None
    return bounds


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


def parse_clusters(text: str) -> int | range:
    """A number of clusters, such as 4, or several to choose from, such as 2:10."""
    low, colon, high = text.partition(":")
    try:
        found = range(int(low), int(high) + 1) if colon else int(low)
    except ValueError:
        raise InputError(f"--clusters {text!r} is no number; write 4, or 2:10 to choose from several") from None
    if isinstance(found, range) and (found.stop - found.start < 2 or found.start < 2):
        raise InputError(f"--clusters {text}: to choose from several, write the fewest, at least 2, and more: 2:10")
    if isinstance(found, range) and found.stop - found.start > MOST_CHOICES:
        raise InputError(f"--clusters {text}: choose from at most {MOST_CHOICES} numbers")
    return found


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
