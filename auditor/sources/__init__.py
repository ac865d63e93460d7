"""Where bytes come from; and all of it that Spark can read by name, made known to a session at once."""

from __future__ import annotations

from auditor.spark.types import SparkSession


def register(spark: SparkSession) -> None:
    """Let a Spark session read metadata and bookies' indexes by name, from Python and from SQL.

    The names are ``bookkeeper_ledgers``, ``bookkeeper_marks``, ``bookkeeper_indexes`` and
    ``bookkeeper_owners``; the first two take the option ``metadata``, a metadata URI, the third ``bookies``,
    where the bookies' directories are, the last ``owners``, as ``pulsar:URI``. Nothing is read before a query
    asks for it.

    >>> def ledgers(spark, uri):
    ...     register(spark)
    ...     return spark.read.format("bookkeeper_ledgers").option("metadata", uri).load()
    """
    from auditor.sources.bookies.spark_source import IndexSource
    from auditor.sources.metadata.spark_source import LedgerAgainSource, LedgerSource, MarkSource
    from auditor.sources.owners.spark_source import OwnerSource

    for source in (LedgerSource, LedgerAgainSource, MarkSource, IndexSource, OwnerSource):
        spark.dataSource.register(source)
