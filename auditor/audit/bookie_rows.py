"""The rows of the tables ``bookies`` and ``starts``, and the part of each bookie's data that was read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from auditor.audit.index_scan import Indexes
from auditor.audit.placement_scan import read_properties
from auditor.model.bookie_conf import configured_bookie
from auditor.model.bookie_id import is_accepted
from auditor.model.states import BookieRead, TailRead
from auditor.sources.bookies.parts import IDX, ROCKSDB
from auditor.spark import functions as F
from auditor.spark.types import DataFrame
from auditor.tables.index_counts import IndexCount
from auditor.tables.judge_replicas import BookieState
from auditor.tables.starts import starts

if TYPE_CHECKING:
    from auditor.audit.metadata import ClusterMetadata


def bookie_states(indexes: Indexes, answer_gaps: Mapping[str, str | None]) -> dict[str, BookieState]:
    """Return, for each bookie that holds or should hold an entry, how much of its data was read.

    The keys of ``answer_gaps`` are the bookies to which the audit sent requests for all entries. A value is
    the reason why the bookie's list of entries is incomplete, or None if the list is complete.
    """
    bookies = indexes.bookies
    names = sorted({*filter(is_accepted, bookies.members), *bookies.attribution.bookies})
    rows = (_row(indexes, name, None, answer_gaps) for name in names)
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
    indexes: Indexes, metadata: ClusterMetadata, marks: DataFrame, answer_gaps: Mapping[str, str | None]
) -> list[dict[str, Any]]:
    """Return the table ``bookies``: a row for each known id. `bookie_states` explains ``answer_gaps``."""
    # As many as bookies were ever lost.
    ids = marks.where("kind = 'mark'").select(F.explode("replicas").alias("bookie_id")).distinct()
    marked = {row["bookie_id"] for row in ids.collect()}
    cookies = {cookie.bookie_id for cookie in metadata.cookies()}
    modes, registered_twice = metadata.modes(), metadata.registered_twice()
    members = {name: row for name, row in indexes.bookies.members.items() if is_accepted(name)}
    storage = _storage(indexes.counts)
    return [
        _row(indexes, name, members.get(name), answer_gaps)
        | {"registered": modes.get(name), "has_cookie": name in cookies, "marked": name in marked}
        | {"page_size": indexes.shapes.pages.get(name), "registered_twice": name in registered_twice}
        | {"storage": storage.get(name)}
        for name in sorted({*members, *cookies, *modes, *indexes.bookies.attribution.bookies, *marked})
    ]


def start_rows(
    indexes: Indexes, metadata: ClusterMetadata, conf_path: str | None = None
) -> list[dict[str, Any]]:
    """Return the rows of the table ``starts``: whether each bookie would start now.

    ``conf_path`` is the file of ``--bookie-conf``.
    """
    instance_id = metadata.source.instance_id
    is_cluster_known = instance_id is not None or metadata.instance_id_missing()
    attribution = indexes.bookies.attribution
    if not is_cluster_known:
        return []
    conf = None if conf_path is None else configured_bookie(read_properties("--bookie-conf", conf_path))
    return starts(
        attribution.found_directories, metadata.cookies(), instance_id, indexes.refused_replays(), conf
    )


def _row(
    indexes: Indexes, name: str, member: Mapping[str, Any] | None, answer_gaps: Mapping[str, str | None]
) -> dict[str, Any]:
    attributed = indexes.bookies.attribution.bookies.get(name)
    read = attributed.read if attributed else BookieRead.UNREAD
    sources = indexes.bookies.sources
    no_place_reason = (
        "no --bookies source has a directory of this bookie" if sources else "no --bookies was given"
    )
    reason = attributed.reason if attributed else no_place_reason
    if name in answer_gaps:
        reason = answer_gaps[name]
        read = BookieRead.READ if reason is None else BookieRead.PARTIAL
    if name in indexes.gaps and read == BookieRead.READ:
        # An index that broke off while it was read was not read completely.
        read, reason = BookieRead.PARTIAL, indexes.gaps[name]
    if name in indexes.old and read == BookieRead.READ:
        # An old index proves what was there, and not what is absent.
        read, reason = BookieRead.PARTIAL, indexes.old[name]
    tail, tail_reason = indexes.tail(name)
    dated_index = indexes.date_bookie(name)
    is_foreign = bool(attributed and attributed.foreign_instance)
    if is_foreign:
        reason = "all of its directories carry another cluster's instance id"
    return {
        "bookie_id": name,
        "named": member is not None,
        "ledgers": member["ledgers"] if member else 0,
        "depending": member["depending"] if member else 0,
        "replicas": member["replicas"] if member else 0,
        "found": bool(attributed and attributed.has_directory),
        "read": BookieRead.UNREAD if is_foreign else read,
        "reason": reason,
        "absent_directories": list(attributed.absent_directories)
        if attributed and reason == attributed.reason
        else [],
        "index_time": None if dated_index is None else dated_index.time_ms,
        "index_time_basis": None if dated_index is None else dated_index.basis,
        "suspect": bool(attributed and attributed.suspect),
        "foreign_instance": is_foreign,
        "tail": tail,
        "tail_reason": tail_reason,
    }


def _storage(counts: Iterable[IndexCount]) -> dict[str, str]:
    """Return the index storage of each bookie. Bookies whose rows have more than one kind are left out.

    >>> rest = (0, None, True, True, 1)
    >>> kinds = (("b1", IDX), ("b2", ROCKSDB), ("b2", "rpc"), ("b3", IDX), ("b3", ROCKSDB))
    >>> _storage(IndexCount(bookie, "ok", storage, *rest) for bookie, storage in kinds)
    {'b1': 'idx', 'b2': 'rocksdb'}
    """
    kinds: dict[str, set[str]] = {}
    for count in counts:
        if count.storage in (IDX, ROCKSDB):
            kinds.setdefault(count.bookie_id, set()).add(count.storage)
    return {
        bookie: storage for bookie, storages in kinds.items() for storage in storages if len(storages) == 1
    }
