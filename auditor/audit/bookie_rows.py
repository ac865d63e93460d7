"""The rows of the tables ``bookies`` and ``starts``, and the part of each bookie's data that was read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from auditor.audit.index_scan import Indexes
from auditor.audit.placement_scan import read_properties
from auditor.model.bookie_conf import parse_bookie_conf
from auditor.model.bookie_id import is_accepted
from auditor.model.states import BookieRead, TailRead
from auditor.sources.bookies.parts import INDEX_FILES, ROCKSDB
from auditor.spark import functions as F
from auditor.spark.types import DataFrame
from auditor.tables.index_counts import IndexCount
from auditor.tables.judge_replicas import BookieState
from auditor.tables.starts import starts

if TYPE_CHECKING:
    from auditor.audit.metadata import ClusterMetadata


def bookie_states(indexes: Indexes, answer_gaps: Mapping[str, str | None]) -> dict[str, BookieState]:
    """Return, for each bookie that holds or should hold an entry, how much of its data was read.

    The keys of ``answer_gaps`` are the bookies that the audit asked for lists of all their entries. A value
    is the reason why the bookie's list is incomplete, or None if the list is complete.
    """
    bookies = indexes.bookies
    bookie_ids = sorted({*filter(is_accepted, bookies.members), *bookies.attribution.bookies})
    rows = (_bookie_row(indexes, name, None, answer_gaps) for name in bookie_ids)
    return {
        row["bookie_id"]: BookieState(
            row["read"],
            row["suspect"],
            row["index_time"],
            row["foreign_instance"],
            journal_read=row["tail"] == TailRead.READ,
        )
        for row in rows
    }


def bookie_rows(
    indexes: Indexes, metadata: ClusterMetadata, mark_rows: DataFrame, answer_gaps: Mapping[str, str | None]
) -> list[dict[str, Any]]:
    """Return the rows of the table ``bookies``: one row for each known bookie id.

    Known ids come from ensembles, cookies, registrations, directories that belong to a bookie, and
    ``mark_rows`` (marks of under-replicated ledgers). `bookie_states` explains ``answer_gaps``.
    """
    # At most as many rows as bookies were ever lost.
    marked_id_rows = (
        mark_rows.where("kind = 'mark'").select(F.explode("replicas").alias("bookie_id")).distinct()
    )
    marked_bookies = {row["bookie_id"] for row in marked_id_rows.collect()}
    cookies = {cookie.bookie_id for cookie in metadata.cookies()}
    registered_modes, registered_twice = metadata.modes(), metadata.registered_twice()
    member_rows = {name: row for name, row in indexes.bookies.members.items() if is_accepted(name)}
    storage_by_bookie = _index_storage_by_bookie(indexes.counts)
    return [
        _bookie_row(indexes, name, member_rows.get(name), answer_gaps)
        | {
            "registered": registered_modes.get(name),
            "has_cookie": name in cookies,
            "marked": name in marked_bookies,
        }
        | {
            "page_size": indexes.shapes.page_size_by_bookie.get(name),
            "registered_twice": name in registered_twice,
        }
        | {"storage": storage_by_bookie.get(name)}
        for name in sorted(
            {*member_rows, *cookies, *registered_modes, *indexes.bookies.attribution.bookies, *marked_bookies}
        )
    ]


def start_forecast_rows(
    indexes: Indexes, metadata: ClusterMetadata, conf_path: str | None = None
) -> list[dict[str, Any]]:
    """Return the rows of the table ``starts``, which show whether each bookie could start now.

    ``conf_path`` is the path of the ``--bookie-conf`` file. Returns no rows if it is unknown whether the
    cluster has an instance id.
    """
    instance_id = metadata.source.instance_id
    is_cluster_known = instance_id is not None or metadata.instance_id_missing()
    attribution = indexes.bookies.attribution
    if not is_cluster_known:
        return []
    bookie_conf = (
        None if conf_path is None else parse_bookie_conf(read_properties("--bookie-conf", conf_path))
    )
    return starts(
        attribution.found_directories, metadata.cookies(), instance_id, indexes.replay_refusals(), bookie_conf
    )


def _bookie_row(
    indexes: Indexes, name: str, member_row: Mapping[str, Any] | None, answer_gaps: Mapping[str, str | None]
) -> dict[str, Any]:
    attributed_bookie = indexes.bookies.attribution.bookies.get(name)
    read_state = attributed_bookie.read if attributed_bookie else BookieRead.UNREAD
    sources = indexes.bookies.sources
    no_directory_reason = (
        "no --bookies source contains a directory of this bookie" if sources else "no --bookies was given"
    )
    reason = attributed_bookie.reason if attributed_bookie else no_directory_reason
    if name in answer_gaps:
        reason = answer_gaps[name]
        read_state = BookieRead.READ if reason is None else BookieRead.PARTIAL
    if name in indexes.gap_by_bookie and read_state == BookieRead.READ:
        # Reading the index ended before its end.
        read_state, reason = BookieRead.PARTIAL, indexes.gap_by_bookie[name]
    if name in indexes.old_sources and read_state == BookieRead.READ:
        # An index older than the metadata proves that entries existed, and never that entries are absent.
        read_state, reason = BookieRead.PARTIAL, indexes.old_sources[name]
    tail_state, tail_reason = indexes.tail(name)
    dated_index = indexes.dated_index(name)
    is_of_other_cluster = bool(attributed_bookie and attributed_bookie.foreign_instance)
    if is_of_other_cluster:
        reason = "all of its directories have the instance id of another cluster"
    return {
        "bookie_id": name,
        "named": member_row is not None,
        "ledgers": member_row["ledgers"] if member_row else 0,
        "depending": member_row["depending"] if member_row else 0,
        "replicas": member_row["replicas"] if member_row else 0,
        "found": bool(attributed_bookie and attributed_bookie.has_directory),
        "read": BookieRead.UNREAD if is_of_other_cluster else read_state,
        "reason": reason,
        "absent_directories": list(attributed_bookie.absent_directories)
        if attributed_bookie and reason == attributed_bookie.reason
        else [],
        "index_time": None if dated_index is None else dated_index.time_ms,
        "index_time_basis": None if dated_index is None else dated_index.basis,
        "suspect": bool(attributed_bookie and attributed_bookie.suspect),
        "foreign_instance": is_of_other_cluster,
        "tail": tail_state,
        "tail_reason": tail_reason,
    }


def _index_storage_by_bookie(index_counts: Iterable[IndexCount]) -> dict[str, str]:
    """Return the kind of index storage by bookie.

    A bookie is left out if its rows name more than one kind.

    >>> rest = (0, None, True, True, 1)
    >>> kinds = (("b1", INDEX_FILES), ("b2", ROCKSDB), ("b2", "rpc"), ("b3", INDEX_FILES), ("b3", ROCKSDB))
    >>> _index_storage_by_bookie(IndexCount(bookie, "ok", storage, *rest) for bookie, storage in kinds)
    {'b1': 'idx', 'b2': 'rocksdb'}
    """
    kinds_by_bookie: dict[str, set[str]] = {}
    for index_count in index_counts:
        if index_count.storage in (INDEX_FILES, ROCKSDB):
            kinds_by_bookie.setdefault(index_count.bookie_id, set()).add(index_count.storage)
    return {
        bookie: storage
        for bookie, storage_kinds in kinds_by_bookie.items()
        for storage in storage_kinds
        if len(storage_kinds) == 1
    }
