"""Data sources of an audit, and their registration with Spark."""

from __future__ import annotations

from auditor.spark.types import SparkSession


def register(spark: SparkSession) -> None:
    """Register the data sources for metadata, owners and bookies' indexes with a Spark session.

    Python and SQL can then read these formats. Nothing is read before a query needs it.

        format                     required option
        bookkeeper_ledgers         metadata: a metadata URI
        bookkeeper_ledgers_again   metadata: a metadata URI
        bookkeeper_marks           metadata: a metadata URI
        bookkeeper_indexes         bookies: the bookies' directories
        bookkeeper_owners          owners: pulsar:URI

    >>> def ledgers(spark, uri):
    ...     register(spark)
    ...     return spark.read.format("bookkeeper_ledgers").option("metadata", uri).load()
    """
    from auditor.sources.bookies.spark_source import IndexSource
    from auditor.sources.metadata.spark_source import LedgerRereadSource, LedgerSource, MarkSource
    from auditor.sources.owners.spark_source import OwnerSource

    for source in (LedgerSource, LedgerRereadSource, MarkSource, IndexSource, OwnerSource):
        spark.dataSource.register(source)
