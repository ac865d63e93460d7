"""Sources of an audit's data, and their registration as Spark data sources."""

from __future__ import annotations

from auditor.spark.types import SparkSession


def register(spark: SparkSession) -> None:
    """Register the data sources of metadata, owners and bookies' indexes with a Spark session.

    Python and SQL can then read ``bookkeeper_ledgers`` and ``bookkeeper_marks`` (option ``metadata``: a
    metadata URI), ``bookkeeper_indexes`` (option ``bookies``: the bookies' directories) and
    ``bookkeeper_owners`` (option ``owners``: ``pulsar:URI``). Nothing is read before a query needs it.

    >>> def ledgers(spark, uri):
    ...     register(spark)
    ...     return spark.read.format("bookkeeper_ledgers").option("metadata", uri).load()
    """
    from auditor.sources.bookies.spark_source import IndexSource
    from auditor.sources.metadata.spark_source import LedgerRereadSource, LedgerSource, MarkSource
    from auditor.sources.owners.spark_source import OwnerSource

    for source in (LedgerSource, LedgerRereadSource, MarkSource, IndexSource, OwnerSource):
        spark.dataSource.register(source)
