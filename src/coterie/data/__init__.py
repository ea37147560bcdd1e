"""What the parties bring: blocks of rows, columns or cells, checked before anything is shared."""

from coterie.data.blocks import Table, gather, split
from coterie.data.schema import Column, Rows, sorted_by_id
from coterie.data.sinks import write_labels
from coterie.data.sources import read_rows

__all__ = ["Column", "Rows", "Table", "gather", "read_rows", "sorted_by_id", "split", "write_labels"]
