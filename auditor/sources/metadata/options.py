"""How a metadata store is asked, by the options that a person gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from auditor.model.options import AuditOptions
from auditor.sources.metadata.credentials import credentials_file
from auditor.sources.metadata.store import ClusterNodes, StoreOptions
from auditor.spark.types import SparkSession


def store_options(options: AuditOptions) -> StoreOptions:
    """The limits and credentials with which an audit, and whatever looks before it, reads the metadata.

    >>> store_options(AuditOptions(rate_limit=50)).rate_limit
    50.0

    Raises:
        UsageError: the credentials file is invalid.
    """
    return StoreOptions(
        rate_limit=options.rate_limit,
        in_flight=options.in_flight,
        timeout_s=options.timeout,
        batch=options.batch,
        credentials=credentials_file(options.credentials),
    )


def source_options(
    spark: SparkSession, options: AuditOptions, named: Mapping[str, Any], at: ClusterNodes | None = None
) -> dict[str, str]:
    """The options of a Spark source that reads a store: what is ``named``, as politely as the audit says.

    All tasks share the limits. ``at`` is the moment to read at, where the store can do that; what is None is
    left out.
    """
    at_once = spark.sparkContext.defaultParallelism
    settings = {
        **asdict(store_options(options)),
        "parts": at_once * options.parts_per_core,
        "at_once": at_once,
        **named,
    }
    if at is not None and at.revision is not None:
        settings |= {"revision": at.revision, "revision_time": at.scan_time}
    return {key: str(value) for key, value in settings.items() if value is not None}
