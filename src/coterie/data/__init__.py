"""What the parties bring: blocks of rows, columns or cells, checked before anything is shared."""

from coterie.data.blocks import Blocks, gather, split
from coterie.data.csv_file import UTF8, CsvFormat
from coterie.data.schema import Rows, Wanted, sort_by_id
from coterie.data.sinks import write_labels
from coterie.data.sources import read_rows

__all__ = [
    "UTF8",
    "Blocks",
    "CsvFormat",
    "Rows",
    "Wanted",
    "gather",
    "read_rows",
    "sort_by_id",
    "split",
    "write_labels",
]
