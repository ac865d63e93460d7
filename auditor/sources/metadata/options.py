"""How a metadata store is asked, by the options that a person gave."""

from __future__ import annotations

from auditor.model.options import AuditOptions
from auditor.sources.metadata.credentials import credentials_file
from auditor.sources.metadata.store import StoreOptions


def polite(options: AuditOptions) -> StoreOptions:
    """The limits and credentials with which an audit, and whatever looks before it, reads the metadata.

    >>> polite(AuditOptions(rate_limit=50)).rate_limit
    50.0

    Raises:
        UsageError: the credentials file cannot be meant.
    """
    return StoreOptions(
        rate_limit=options.rate_limit,
        in_flight=options.in_flight,
        timeout_s=options.timeout,
        batch=options.batch,
        credentials=credentials_file(options.credentials),
    )
