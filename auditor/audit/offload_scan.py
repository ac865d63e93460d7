"""The inventory of a bucket (``--offload-listing``), joined with the offload contexts of topics' lists."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from auditor.audit.landing import Landing
from auditor.audit.owner_scan import Owners
from auditor.errors import UsageError
from auditor.model.amounts import plural
from auditor.model.options import AuditOptions
from auditor.model.remark import Remark, RemarkKind, remark
from auditor.sources.owners.object_listing import check_listing, listing_rows
from auditor.spark.types import DataFrame
from auditor.tables import OF_OFFLOADS, Tables
from auditor.tables.offload_objects import offload_objects


def check_offloads(options: AuditOptions) -> None:
    """Say that ``--offload-listing`` is invalid before anything is read.

    Raises:
        UsageError: there is no such file.
    """
    if options.offload_listing is not None:
        check_listing(options.offload_listing)


def with_offloads(landing: Landing, owners: Owners, tables: Tables, options: AuditOptions) -> Tables:
    """``tables`` with what the listing and the contexts say; as they are where no listing was given.

    Raises:
        UsageError: nobody's owners were read, or the listing has no names.
    """
    listing, rows = options.offload_listing, owners.rows
    if listing is None:
        return tables
    if rows is None:
        raise UsageError(f"--offload-listing {listing}: no owner was found, and none named with --owners")
    objects = landing.land("offload_objects", partial(_join_listing, landing, listing, rows, options))
    empty = tables.without_rows(OF_OFFLOADS, landing.empty)
    return replace(tables, offload_objects=objects, known_empty=empty)


def offload_remarks(tables: Tables) -> list[Remark]:
    """Whether copies in an object store were looked for, where a topic has any."""
    if tables.offload_objects is not None or "ownership" in tables.known_empty:
        return []
    offloaded = tables.ownership.where("offload in ('complete', 'deleted') and not borrowed").count()
    if not offloaded:
        return []
    text = f"{plural(offloaded, 'offloaded ledger')}: give --offload-listing to look for the objects"
    return [remark(RemarkKind.OFFLOADED, text)]


def _join_listing(landing: Landing, listing: str, owners: DataFrame, options: AuditOptions) -> DataFrame:
    rows = listing_rows(landing.spark, listing)
    return offload_objects(rows, owners, round(options.owner_grace * 1000))
