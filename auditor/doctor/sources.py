"""The sources of a planned audit, parsed from the texts of its options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from auditor.model.options import AuditOptions
from auditor.sources.bookies.rpc.access import BookieAccess, read_access
from auditor.sources.bookies.source_kinds import BookieSources, split_sources
from auditor.sources.metadata.credentials import Credentials, credentials_file, read_credentials
from auditor.sources.metadata.uri import MetadataUri, parse_metadata_uri
from auditor.sources.owners.applications import OwnersUri, declared_stores, named_stores


@dataclass(frozen=True, slots=True)
class PlannedSources:
    """The sources of a planned audit.

    Attributes:
        metadata: the metadata URI. None if none was given.
        bookies: the ``--bookies`` sources by kind. None if none were given.
        owners: the stores of ``--owners``. Empty if its value is ``none``, and None if it was not given.
        complete_owner_stores: the stores of ``--owners-complete``, as `OwnersUri.text`.
        credentials: the content of the credentials file, or defaults if there is none.
        access: the TLS and login settings of connections to bookies.
    """

    metadata: MetadataUri | None = None
    bookies: BookieSources | None = None
    owners: tuple[OwnersUri, ...] | None = None
    complete_owner_stores: tuple[str, ...] = ()
    credentials: Credentials = field(default_factory=Credentials)
    access: BookieAccess = field(default_factory=BookieAccess)


def parse_sources(metadata: str | None, bookies: Sequence[str], options: AuditOptions) -> PlannedSources:
    """Parse the sources of an audit. ``metadata`` and ``bookies`` are as in `auditor.Audit`.

    The credentials file is read even if no source needs it, as an audit does.

    >>> parse_sources("dump:///audit/metadata.jsonl", ["rpc:"], AuditOptions()).bookies.rpc
    True

    Raises:
        UsageError: a URI, a source or the credentials file is invalid.
    """
    return PlannedSources(
        metadata=None if metadata is None else parse_metadata_uri(metadata),
        credentials=read_credentials(options.credentials),
        access=read_access(credentials_file(options.credentials)),
        owners=named_stores(options),
        complete_owner_stores=declared_stores(options),
        bookies=split_sources(bookies) if bookies else None,
    )
