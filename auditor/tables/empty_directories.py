"""empty_directories: what a replication worker leaves of the queue when it removes a mark.

A mark lies in a directory of its own below three that it shares with others. The worker that removes it tries
to remove these too, and stops at the first that has other children. One that dies in between, or two that
work side by side, leave directories without a mark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.spark import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def empty_directories(marks: DataFrame) -> DataFrame:
    """The directories in the table marks that nothing lies in: path, ctime (when it was made, ms).

    That table has those in which no mark was seen when they were read. One whose children were read
    elsewhere, or could not be listed, is not known to be empty.
    """
    above = F.expr("left(path, length(path) - length(substring_index(path, '/', -1)) - 1)")
    full = marks.where("kind != 'lock'").select(above.alias("path"))
    unknown = marks.where("kind = 'gap'").select("path")
    directories = marks.where("kind = 'directory'").select("path", "ctime")
    return directories.join(full.unionByName(unknown), "path", "left_anti")
