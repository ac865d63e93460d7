"""Rows of the table owners from an application's znodes; damage is a column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from auditor.errors import DecodeError
from auditor.model.columns import schema_of
from auditor.sources.metadata.store import NO_TIME, ZnodeBatch
from auditor.sources.owners.applications import Owner, OwnerNames, Reader, Reference

OWNERS = schema_of(
    ("application", pa.string(), "who keeps the reference: pulsar"),
    ("status", pa.string(), "ok, unreadable (the value), misplaced (no owner's path), gap (not listed)"),
    ("path", pa.string(), "the owner's znode, or its key"),
    ("tenant", pa.string(), "tenant of the topic"),
    ("namespace", pa.string(), "namespace of the topic"),
    ("topic", pa.string(), "local name of the topic, with its partition or segment; the name of a log"),
    ("cursor", pa.string(), "the subscription"),
    (
        "kind",
        pa.string(),
        "data, cursor, schema, compacted, delayed-bucket, log-segment or log-allocation",
    ),
    ("ledger_id", pa.int64(), "the ledger; null: the owner is there and names none, or was not read"),
    ("place", pa.int64(), "its place in the topic's list, from 0"),
    ("list_size", pa.int64(), "ledgers in that list"),
    ("entries", pa.int64(), "entries of a closed ledger, as the owner knows it"),
    ("size", pa.int64(), "bytes of a closed ledger, as the owner knows it"),
    ("timestamp", pa.int64(), "when the ledger was closed, as the owner knows it, ms"),
    ("offload", pa.string(), "incomplete, complete, or deleted (from BookKeeper); null: never offloaded"),
    ("offload_uid", pa.string(), "the UUID in the names of its objects"),
    ("offload_time", pa.int64(), "when the offload was begun or became complete, ms"),
    ("borrowed", pa.bool_(), "another owner has it rightly: a shadow topic's"),
    ("stale", pa.bool_(), "a newer reference may stand in the last entry of the cursor's ledger"),
    ("detail", pa.string(), "the version of a schema, the name of a bucket"),
    ("mark_delete_ledger_id", pa.int64(), "cursor: the ledger up to which all is acknowledged, by its znode"),
    ("mark_delete_entry_id", pa.int64(), "cursor: the last entry of that; -1: none"),
    ("compression", pa.string(), "how the value was compressed; none"),
    ("mzxid", pa.int64(), "the transaction, or revision, of the last change of the value"),
    ("ctime", pa.int64(), "when the znode was made, ms; null where the store keeps no times (etcd)"),
    ("mtime", pa.int64(), "when the znode last changed, ms; null where the store keeps no times (etcd)"),
    ("damage", pa.string(), "why it could not be read"),
    ("damage_offset", pa.int64(), "the byte of the value at which it went wrong"),
)

Row = tuple[Any, ...]
_NOBODY = OwnerNames()
_NOTHING = Reference(None, None)  # type: ignore[arg-type]  # of what could not be read no kind is known


def owner_rows(batch: ZnodeBatch, application: str, reader: Reader, chroot: str) -> pa.RecordBatch:
    """Turn one batch of an application's znodes into rows of `OWNERS`, one per reference.

    ``chroot`` is the path above the application's trees: "" where they lie at the top.
    """
    rows = list(_rows(batch, application, reader, len(chroot) + 1))
    columns: Iterable[Any] = zip(*rows, strict=True) if rows else ([] for _ in OWNERS)
    arrays = [pa.array(column, kind.type) for column, kind in zip(columns, OWNERS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=OWNERS)


def _rows(batch: ZnodeBatch, application: str, reader: Reader, start: int) -> Iterator[Row]:
    numbers = zip(batch.mzxid.tolist(), batch.ctime.tolist(), batch.mtime.tolist(), strict=True)
    for path, data, (mzxid, ctime, mtime) in zip(batch.paths, batch.data, numbers, strict=True):
        end = (mzxid, _time(ctime), _time(mtime))
        try:
            owner = reader(path[start:], bytes(data))
        except DecodeError as error:
            yield _unread(application, "unreadable", path, (*end, str(error), error.offset))
        except ValueError as error:
            if data:  # a znode of another making without a value stands for nothing
                yield _unread(application, "misplaced", path, (*end, str(error), None))
        else:
            if owner is not None:
                for reference in owner.references:
                    yield _row(application, path, owner, reference, (*end, None, None))
    for path, reason in batch.gaps:
        yield _unread(application, "gap", path, (None, None, None, reason, None))


def _row(application: str, path: str, owner: Owner, reference: Reference, end: Row) -> Row:
    position = owner.mark_delete or (None, None)
    return (
        *(application, "ok", path),
        *_names(owner.names),
        *reference,
        *position,
        owner.compression,
        *end,
    )


def _unread(application: str, status: str, path: str, end: Row) -> Row:
    return (
        *(application, status, path),
        *_names(_NOBODY),
        *_NOTHING,
        *(None, None, None),
        *end,
    )


def _names(names: OwnerNames) -> Row:
    return names.tenant, names.namespace, names.topic, names.cursor


def _time(value: int) -> int | None:
    return None if value == NO_TIME else value
