"""What an audit knows of each bookie in the end: how far it was read, and the rows of the table bookies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from auditor.audit.index_scan import Indexes
from auditor.audit.metadata import ClusterMetadata
from auditor.model.bookie_id import is_accepted
from auditor.model.states import BookieRead
from auditor.sources.bookies.parts import IDX, ROCKSDB
from auditor.spark import functions as F
from auditor.spark.types import DataFrame
from auditor.tables.index_counts import IndexCount
from auditor.tables.judge_replicas import BookieState
from auditor.tables.starts import starts


def bookie_states(indexes: Indexes, asked: Mapping[str, str | None]) -> dict[str, BookieState]:
    """How far each bookie that holds or should hold something was read.

    ``asked`` are the bookies that were asked for everything, over the wire, and why one could not answer
    whole.
    """
    bookies = indexes.bookies
    names = sorted({*filter(is_accepted, bookies.members), *bookies.attribution.bookies})
    rows = (_row(indexes, name, None, asked) for name in names)
    return {
        row["bookie_id"]: BookieState(row["read"], row["suspect"], row["index_time"], row["foreign_instance"])
        for row in rows
    }


def bookie_rows(
    indexes: Indexes, metadata: ClusterMetadata, marks: DataFrame, asked: Mapping[str, str | None]
) -> list[dict[str, Any]]:
    """Rows of the table bookies: every id that anything names; ``asked`` as for `bookie_states`."""
    marked = _bookies_of_marks(marks)
    cookies = {cookie.bookie_id for cookie in metadata.cookies()}
    modes, twice = metadata.modes(), metadata.registered_twice()
    members = {name: row for name, row in indexes.bookies.members.items() if is_accepted(name)}
    storage = _storage(indexes.counts)
    return [
        _row(indexes, name, members.get(name), asked)
        | {"registered": modes.get(name), "has_cookie": name in cookies, "marked": name in marked}
        | {"page_size": indexes.shapes.pages.get(name), "registered_twice": name in twice}
        | {"storage": storage.get(name)}
        for name in sorted({*members, *cookies, *modes, *indexes.bookies.attribution.bookies, *marked})
    ]


def start_rows(indexes: Indexes, metadata: ClusterMetadata) -> list[dict[str, Any]]:
    """Rows of the table starts: what each bookie would say if it were started now."""
    instance_id = metadata.source.instance_id
    known = instance_id is not None or metadata.instance_id_missing()
    attribution = indexes.bookies.attribution
    replays = indexes.refused_replays()
    return starts(attribution.found, metadata.cookies(), instance_id, replays) if known else []


def _row(
    indexes: Indexes, name: str, member: Mapping[str, Any] | None, asked: Mapping[str, str | None]
) -> dict[str, Any]:
    attributed = indexes.bookies.attribution.bookies.get(name)
    read = attributed.read if attributed else BookieRead.UNREAD
    sources = indexes.bookies.sources
    nowhere = "no --bookies source has a place for it" if sources else "no --bookies was given"
    reason = attributed.reason if attributed else nowhere
    if name in asked:
        reason = asked[name]
        read = BookieRead.READ if reason is None else BookieRead.PARTIAL
    if name in indexes.gaps and read == BookieRead.READ:
        # An index that broke off while it was read was not read completely.
        read, reason = BookieRead.PARTIAL, indexes.gaps[name]
    tail, tail_reason = indexes.tail(name)
    foreign = bool(attributed and attributed.foreign_instance)
    if foreign:
        reason = "all of its directories carry another cluster's instance id"
    return {
        "bookie_id": name,
        "named": member is not None,
        "ledgers": member["ledgers"] if member else 0,
        "depending": member["depending"] if member else 0,
        "replicas": member["replicas"] if member else 0,
        "found": bool(attributed and attributed.found),
        "read": BookieRead.UNREAD if foreign else read,
        "reason": reason,
        "absent_directories": list(attributed.absent_directories)
        if attributed and reason == attributed.reason
        else [],
        "index_time": indexes.index_time(name),
        "suspect": bool(attributed and attributed.suspect),
        "foreign_instance": foreign,
        "tail": tail,
        "tail_reason": tail_reason,
    }


def _storage(counts: Iterable[IndexCount]) -> dict[str, str]:
    """How the index of each bookie is kept that has rows of one kind alone.

    >>> rest = (0, None, True, True, 1)
    >>> kinds = (("b1", IDX), ("b2", ROCKSDB), ("b2", "rpc"), ("b3", IDX), ("b3", ROCKSDB))
    >>> _storage(IndexCount(bookie, "ok", storage, *rest) for bookie, storage in kinds)
    {'b1': 'idx', 'b2': 'rocksdb'}
    """
    kinds: dict[str, set[str]] = {}
    for each in counts:
        if each.storage in (IDX, ROCKSDB):
            kinds.setdefault(each.bookie_id, set()).add(each.storage)
    return {bookie: kind for bookie, found in kinds.items() for kind in found if len(found) == 1}


def _bookies_of_marks(marks: DataFrame) -> set[str]:
    """The ids that marks name: as many as bookies were ever lost."""
    rows = marks.where("kind = 'mark'").select(F.explode("replicas").alias("bookie_id")).distinct().collect()
    return {row["bookie_id"] for row in rows}
