"""The text of a CSV file: its header, how many rows it has, and where a row is."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any

from coterie.errors import DataError

__all__ = ["DELIMITERS", "CsvFile"]

#: What separates values, by the ending of the file's name.
DELIMITERS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}


@dataclass(frozen=True)
class CsvFile:
    """The text of a CSV file: its header, and where a row is. RFC 4180, in UTF-8, with or without a mark at the start.

    DuckDB reads the rows; the text is gone through here to count them, and to say in which line something is wrong.
    """

    path: str
    delimiter: str

    @property
    def compression(self) -> str:
        return "gzip" if self.path.lower().endswith(".gz") else "none"

    def header(self) -> list[str]:
        """The names in the first line, without blanks around them."""
        try:
            first = next(self._records(), None)
        except (OSError, EOFError, zlib.error):
            raise DataError(f"{self.path}: the file cannot be decompressed; it is damaged, or not gzip") from None
        except csv.Error:
            raise DataError(f"{self.path}: the first line is not a CSV header; is this a CSV file?") from None
        if first is None:
            raise DataError(f"{self.path}: the file is empty")
        names = [name.strip() for name in first[1]]
        if not any(names):
            raise DataError(f"{self.path}: the first line is blank; the names of the columns must stand there")
        if any(map(_is_undecoded, names)):
            raise DataError(f"{self.path}: the header is not UTF-8 text; save the file as UTF-8")
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
        return row + 1

    def where(self, row: int) -> str:
        """A row, counted from 0, as its number among the rows of data and as a line of the file."""
        line = next(line for i, line, _ in self._rows() if i == row)
        return f"data row {row + 1} (line {line})"

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
        """All records, and the lines at which they begin. A byte that is not UTF-8 becomes half a surrogate pair."""
        opened: Callable[..., IO[Any]] = gzip.open if self.compression == "gzip" else open
        with opened(self.path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
            reader = csv.reader(text, delimiter=self.delimiter, strict=True)
            line = 1
            for record in reader:
                yield line, record
                line = reader.line_num + 1


def _is_undecoded(text: str) -> bool:
    return any("\udc80" <= letter <= "\udcff" for letter in text)
