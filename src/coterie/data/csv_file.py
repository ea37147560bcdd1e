"""The text of a CSV file: its header, how many rows it has, and where a row is."""

from __future__ import annotations

import codecs
import csv
import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

from coterie.errors import DataError, InputError

__all__ = ["DELIMITERS", "SAVE_OR_SAY", "UTF8", "CsvFile", "CsvFormat"]

#: What separates values, by the ending of the file's name.
DELIMITERS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
SAVE_OR_SAY = "save the file as UTF-8, or say how it is written with --encoding, such as windows-1252"


@dataclass(frozen=True)
class CsvFormat:
    """How a CSV file is written, where not as usual: what separates values (a comma or, in a .tsv file, a tab), what
    separates decimals, and how letters are encoded."""

    delimiter: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        delimiter, decimal = self.delimiter, self.decimal
        if delimiter is not None and (len(delimiter) != 1 or delimiter.isalnum() or delimiter in '"\r\n+-.'):
            raise InputError(f"--delimiter {delimiter!r}: give one mark that separates values, such as ';'")
        if decimal not in (".", ","):
            raise InputError(f"--decimal {decimal!r}: give . or ,")
        if decimal == delimiter:
            raise InputError("--decimal and --delimiter are the same mark; values cannot be told apart then")
        try:
            codecs.lookup(self.encoding)
            "a".encode(self.encoding)
        except (LookupError, UnicodeError, ValueError):
            raise InputError(
                f"--encoding {self.encoding!r} is not known; write utf-8, windows-1252, latin-1, utf-16 or another"
            ) from None

    @property
    def is_utf8(self) -> bool:
        return codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig", "ascii")


#: As files are written if nobody says otherwise.
UTF8 = CsvFormat()


@dataclass(frozen=True)
class CsvFile:
    """The text of a CSV file: its header, and where a row is. RFC 4180, with or without a mark at the start.

    DuckDB reads the rows, if they are UTF-8; the text is gone through here to count them, to say in which line
    something is wrong, and to read another encoding.
    """

    path: str
    delimiter: str
    decimal: str = "."
    encoding: str = "utf-8-sig"

    @classmethod
    def of(cls, path: str, written: CsvFormat) -> CsvFile:
        usual = next(mark for ending, mark in DELIMITERS.items() if path.lower().endswith(ending))
        encoding = "utf-8-sig" if written.is_utf8 else written.encoding
        return cls(path, written.delimiter or usual, written.decimal, encoding)

    @property
    def is_utf8(self) -> bool:
        return self.encoding == "utf-8-sig"

    @property
    def compression(self) -> str:
        return "gzip" if self.path.lower().endswith(".gz") else "none"

    def header(self) -> list[str]:
        """The names in the first line, without blanks around them."""
        try:
            first = next(self._records(), None)
        except (OSError, EOFError, zlib.error):
            raise DataError(f"{self.path}: the file cannot be decompressed; it is damaged, or not gzip") from None
        except UnicodeError:
            raise self._not_encoded() from None
        except csv.Error:
            raise DataError(f"{self.path}: the first line is not a CSV header; is this a CSV file?") from None
        if first is None:
            raise DataError(f"{self.path}: the file is empty")
        names = [name.strip() for name in first[1]]
        if not any(names):
            raise DataError(f"{self.path}: the first line is blank; the names of the columns must stand there")
        if any(map(_is_undecoded, names)):
            raise DataError(f"{self.path}: the header is not UTF-8 text; {SAVE_OR_SAY}")
        return names

    def count(self, width: int) -> int:
        """The number of rows of data, each of which must have `width` values."""
        row, line = -1, 1
        try:
            for row, line, record in self._rows():
                if len(record) != width:
                    raise DataError(
                        f"{self.path}, data row {row + 1} (line {line}): {len(record)} values where the header names "
                        f"{width} columns; add what is missing, or put quotes around a value with commas"
                    )
        except csv.Error:
            raise DataError(
                f"{self.path}, after line {line}: a quote is not closed or has text after it, or a value is longer "
                f"than {csv.field_size_limit()} letters"
            ) from None
        except (OSError, EOFError, zlib.error):
            raise DataError(f"{self.path}: the file cannot be decompressed to its end; it is damaged") from None
        except UnicodeError:
            raise self._not_encoded() from None
        return row + 1

    def _not_encoded(self) -> DataError:
        return DataError(f"{self.path}: this is not text in the encoding {self.encoding}; give another --encoding")

    def where(self, row: int) -> str:
        """A row, counted from 0, as its number among the rows of data and as a line of the file."""
        return self.name_rows([row])[row]

    def name_rows(self, rows: Sequence[int]) -> dict[int, str]:
        """Several rows, which stand in order, in one pass."""
        found, left = {}, iter(rows)
        wanted = next(left, None)
        for row, line, _ in self._rows():
            if row == wanted:
                found[row] = f"data row {row + 1} (line {line})"
                wanted = next(left, None)
            if wanted is None:
                break
        return found

    def columns(self, width: int) -> list[list[str | None]]:
        """All values, column by column; an empty one is None."""
        self.count(width)
        found: list[list[str | None]] = [[] for _ in range(width)]
        for _, _, record in self._rows():
            for column, value in zip(found, record, strict=True):
                column.append(value or None)
        return found

    def find_undecoded(self) -> str | None:
        """Where the first row is that is not UTF-8, if there is one."""
        return next((self.where(row) for row, _, record in self._rows() if any(map(_is_undecoded, record))), None)

    def _rows(self) -> Iterator[tuple[int, int, list[str]]]:
        """The rows of data, counted from 0, the lines at which they begin, and what is in them. As in DuckDB, a blank
        line is no row, unless there is but one column."""
        records = self._records()
        _, header = next(records)
        rows = (record for record in records if record[1] or len(header) == 1)
        for row, (line, record) in enumerate(rows):
            yield row, line, record or [""]

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """All records, and the lines at which they begin. In UTF-8, a byte that is not becomes half a surrogate
        pair."""
        opened: Callable[..., IO[Any]] = gzip.open if self.compression == "gzip" else open
        errors = "surrogateescape" if self.is_utf8 else "strict"
        with opened(self.path, "rt", encoding=self.encoding, errors=errors, newline="") as text:
            reader = csv.reader(text, delimiter=self.delimiter, strict=True)
            line = 1
            for record in reader:
                yield line, record
                line = reader.line_num + 1


def _is_undecoded(text: str) -> bool:
    return any("\udc80" <= letter <= "\udcff" for letter in text)
