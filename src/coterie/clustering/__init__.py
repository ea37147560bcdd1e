"""k-means over any protocol family: SHK-means, SVK-means, prediction. Names no protocol and no rank."""

from coterie.clustering.layout import Layout, Partition
from coterie.clustering.making import (
    at_home,
    category_at_home,
    make_encoding,
    make_scaled,
    make_task,
    put_together,
    relative_weights,
    stays_inside,
)
from coterie.clustering.program import fit, predict
from coterie.clustering.task import QUALITY, SEED_BYTES, Contribution, Outcome, Point, Task, Watch, distinct_rows
from coterie.clustering.weighing import MOST_MASS, SD_REACH, to_whole_weights

__all__ = [
    "MOST_MASS",
    "QUALITY",
    "SD_REACH",
    "SEED_BYTES",
    "Contribution",
    "Layout",
    "Outcome",
    "Partition",
    "Point",
    "Task",
    "Watch",
    "at_home",
    "category_at_home",
    "distinct_rows",
    "fit",
    "make_encoding",
    "make_scaled",
    "make_task",
    "predict",
    "put_together",
    "relative_weights",
    "stays_inside",
    "to_whole_weights",
]
