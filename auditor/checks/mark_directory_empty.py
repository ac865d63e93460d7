"""Directories of the replication queue that have no under-replication mark."""

from auditor.checks.check import Basis, Confidence, DataFrame, F, Need, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, with_samples


@check(
    Severity.NOTE,
    rests_on=Basis.METADATA,
    needs={Need.MARKS, Need.ALL_MARKS, Need.TIMES},
    asks="empty_directories",
    settings=("empty_directories",),
)
def mark_directory_empty(tables: Tables) -> DataFrame:
    """Many directories of the replication queue no longer contain a mark.

    What it finds:
        Reports directories of the queue that have no children.

    Why it matters:
        Workers list and watch empty directories too. Scripts that count znodes below
        underreplication/ledgers count them as marked ledgers (pulsar #21607).

    How sure:
        Confirmed in saved metadata. Suspect on a running store: a worker may just be removing the marks.

    What to do:
        Usually, do nothing.

    Commands:
        - `bookkeeper shell listunderreplicated -c`
          counts the marked ledgers. Risk: none; it reads metadata.

    Limits:
        Only ZooKeeper's client can remove these directories (`delete PATH`).
    """
    is_listed_whole = F.lit(tables.cluster.has_marks)
    rows = tables.empty_directories.where(is_listed_whole).withColumn("whole", F.lit(True))
    directories = with_samples(rows, "whole", "path", F.min("ctime").alias("oldest"))
    return finding_rows(
        directories.where(F.col("total") >= tables.cluster.settings.empty_directories),
        confidence=Confidence.SUSPECT if tables.cluster.live else Confidence.CONFIRMED,
        message="{total:directory|directories} in the replication queue contain no mark, such as {sample:,}",
        evidence="total AS directories, oldest, sample",
    )
