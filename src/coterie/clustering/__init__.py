"""k-means over any protocol family: SHK-means, SVK-means, prediction. Names no protocol and no rank."""

from coterie.clustering.layout import Layout, Partition
from coterie.clustering.making import make_encoding, make_task, put_together
from coterie.clustering.program import fit, predict
from coterie.clustering.task import SEED_BYTES, Contribution, Outcome, Point, Task, Watch, distinct_rows

__all__ = [
    "SEED_BYTES",
    "Contribution",
    "Layout",
    "Outcome",
    "Partition",
    "Point",
    "Task",
    "Watch",
    "distinct_rows",
    "fit",
    "make_encoding",
    "make_task",
    "predict",
    "put_together",
]
