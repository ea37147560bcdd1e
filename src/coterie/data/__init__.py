"""What the parties bring: blocks of rows, columns or cells, checked before anything is shared."""

from coterie.data.blocks import Table, gather, split

__all__ = ["Table", "gather", "split"]
