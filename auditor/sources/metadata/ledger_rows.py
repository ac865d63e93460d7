"""Rows of the table ledgers, made from znodes: metadata, and the entries that each bookie should hold.

This module computes the entries of each bookie, because it has the decoded numbers in arrays. The row of a
ledger has these entries as a list. A later stage turns this list into rows. Every ledger znode becomes a
row. If a znode is damaged, the column ``damage`` has the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from auditor.codecs.availability.groups import Longs, offsets_of
from auditor.codecs.byte_column import ByteColumn, TextColumn
from auditor.codecs.ledger_metadata.batch import decode_batch
from auditor.codecs.ledger_metadata.columns import DIGEST_NAMES, STATE_NAMES, LedgerColumns
from auditor.keys.ledger_tree import ClassifiedPath, LayoutKind, classify, classify_unread_path
from auditor.keys.plain_paths import ledger_ids
from auditor.model.columns import make_batch, make_schema
from auditor.model.states import LISTED, LedgerStatus
from auditor.sources.metadata.ledger_replicas import REPLICA_TYPE, replicas
from auditor.sources.metadata.store import NO_TIME, UNKNOWN_COUNT, ZnodeBatch

SEGMENT_TYPE = pa.struct([("first_entry_id", pa.int64()), ("ensemble", pa.list_(pa.string()))])
BROKEN_RULE_TYPE = pa.struct([("rule", pa.string()), ("reason", pa.string())])

_NUMBER_COLUMNS = ("format", "ensemble_size", "write_quorum", "ack_quorum", "last_entry_id", "length")


def metadata_arrays(columns: LedgerColumns) -> dict[str, pa.Array]:
    """Return the columns that depend only on the metadata's bytes, by name.

    >>> open_ledger = b"BookieMetadataFormatVersion\\t1\\n1\\n1\\n0\\n0\\tbk1:3181\\n"
    >>> arrays = metadata_arrays(decode_batch([open_ledger, b"?"]))
    >>> arrays["state"].to_pylist(), arrays["damage_offset"].to_pylist()
    (['OPEN', None], [None, 0])
    """
    is_unread = columns.format == 0
    return {
        "rules": _rules_array(columns),
        **damage_arrays(columns),
        **{name: pa.array(getattr(columns, name), mask=is_unread) for name in _NUMBER_COLUMNS},
        "state": make_name_column(STATE_NAMES, columns.state),
        "digest_type": make_name_column(DIGEST_NAMES, columns.digest_type),
        "metadata_ctime": pa.array(columns.ctime, mask=~columns.has_ctime),
        "custom_metadata": pa.MapArray.from_arrays(
            _list_offsets(columns.custom_counts),
            make_name_column(columns.key_names, columns.custom_keys),
            columns.custom_values,
        ),
        "segments": _segments_array(columns),
    }


def damage_arrays(columns: LedgerColumns) -> dict[str, pa.Array]:
    """Return the columns ``damage`` and ``damage_offset`` by name.

    ``damage`` has the reason why a record could not be read. ``damage_offset`` has the byte offset of the
    fault.
    """
    rows = len(columns.format)
    if not columns.damage:
        return {"damage": pa.nulls(rows, pa.string()), "damage_offset": pa.nulls(rows, pa.int64())}
    damage_pairs = [columns.damage.get(row, (None, None)) for row in range(rows)]
    return {
        "damage": pa.array([reason for reason, _ in damage_pairs], pa.string()),
        "damage_offset": pa.array([damage_offset for _, damage_offset in damage_pairs], pa.int64()),
    }


def make_name_column(name_values: Sequence[str | None], name_positions: Longs) -> pa.Array:
    """Return a column of names.

    ``name_positions`` has, for each row, the index of the row's name in ``name_values``.

    >>> make_name_column(["ok", None], np.array([0, 1, 0])).to_pylist()
    ['ok', None, 'ok']
    """
    return pa.array(name_values, pa.string()).take(pa.array(name_positions))


def _rules_array(columns: LedgerColumns) -> pa.Array:
    rule_counts = np.zeros(len(columns.format), np.int64)
    for ledger_row, rules in columns.rules.items():
        rule_counts[ledger_row] = len(rules)
    broken_rules = [rule for _, rules in sorted(columns.rules.items()) for rule in rules]
    rule_values = pa.array(
        [{"rule": rule.rule, "reason": rule.reason} for rule in broken_rules], BROKEN_RULE_TYPE
    )
    return pa.ListArray.from_arrays(_list_offsets(rule_counts), rule_values)


def _segments_array(columns: LedgerColumns) -> pa.Array:
    member_names = make_name_column(columns.bookies, columns.members)
    ensembles = pa.ListArray.from_arrays(_list_offsets(columns.member_counts), member_names)
    segments = pa.StructArray.from_arrays(
        [pa.array(columns.segment_firsts), ensembles], fields=list(SEGMENT_TYPE)
    )
    return pa.ListArray.from_arrays(_list_offsets(columns.segment_counts), segments)


def _list_offsets(list_lengths: Longs) -> pa.Array:
    return pa.array(offsets_of(list_lengths).astype(np.int32))


LEDGERS = make_schema(
    (
        "scope_id",
        pa.int64(),
        "BP-35 scope; 0 for every stock ledger; null: any scope is possible, or the row has no ledger",
    ),
    ("ledger_id", pa.int64(), "the ledger; for a misplaced znode, the id that the server would list"),
    ("path", pa.string(), "path of the ledger's znode, or its key in etcd"),
    ("version", pa.int64(), "version of the znode in this scan, or mod revision of the etcd key"),
    (
        "changes",
        pa.int64(),
        "number of changes since the znode was created; null: the store does not count them",
    ),
    ("ctime", pa.int64(), "time when the znode was created, ms; null if the store keeps no times (etcd)"),
    ("mtime", pa.int64(), "time when the znode last changed, ms; null if the store keeps no times (etcd)"),
    (
        "status",
        pa.string(),
        "ok, broken (the metadata breaks a rule), unreadable, misplaced (not a ledger's path) or gap "
        "(not listed)",
    ),
    ("low", pa.int64(), "for misplaced and gap: smallest ledger id that may be there; null: no ledger"),
    ("high", pa.int64(), "for misplaced and gap: largest ledger id that may be there"),
    ("rules", pa.list_(BROKEN_RULE_TYPE), "rules that the metadata breaks"),
    ("undecidable", pa.bool_(), "whether the metadata fails to show which bookie should hold which entries"),
    (
        "damage",
        pa.string(),
        "why the metadata could not be read. For misplaced: the other layout in which a ledger has this "
        "path, if any",
    ),
    ("damage_offset", pa.int64(), "byte of the metadata at which decoding failed"),
    ("format", pa.int32(), "metadata format, 1 to 3"),
    ("state", pa.string(), "OPEN, IN_RECOVERY or CLOSED"),
    ("ensemble_size", pa.int32(), "number of bookies in each ensemble"),
    ("write_quorum", pa.int32(), "write quorum: number of bookies to which the writer sends each entry"),
    (
        "ack_quorum",
        pa.int32(),
        "ack quorum: number of bookies that must confirm an entry before it is acknowledged to the writer",
    ),
    ("last_entry_id", pa.int64(), "last entry of a closed ledger; -1: it has no entry, or is not closed"),
    ("length", pa.int64(), "payload bytes of a closed ledger"),
    (
        "digest_type",
        pa.string(),
        "digest type of entries; null: the metadata does not contain the password and digest type",
    ),
    ("metadata_ctime", pa.int64(), "creation time in the metadata, ms"),
    ("custom_metadata", pa.map_(pa.string(), pa.binary()), "custom metadata of the application"),
    ("segments", pa.list_(SEGMENT_TYPE), "first entry and ensemble of each segment"),
    (
        "replicas",
        pa.list_(REPLICA_TYPE),
        "bookies of all ensembles. groups: entries that the bookie should hold and the audit compares, "
        "as groups of 24 bytes. depends: whether any entry, or the open last segment, needs the bookie",
    ),
    (
        "reused",
        pa.bool_(),
        "true: the row is copied from an earlier scan that read the same version. In a first scan, this is "
        "the scan of the run in --since. In a second scan, this is the first scan",
    ),
)
_SECOND_SCAN_COLUMNS = (
    "scope_id",
    "ledger_id",
    "path",
    "version",
    "mtime",
    "status",
    "low",
    "high",
    "damage",
    "reused",
)
REREAD_LEDGERS = pa.schema([LEDGERS.field(name) for name in _SECOND_SCAN_COLUMNS])
"""Columns of `LEDGERS` that a second scan reads. They are enough to find the ledgers that changed."""

_VALUE_COLUMNS = (
    *("scope_id", "ledger_id", "path", "version", "status", "low", "high", "damage", "format", "state"),
    *("ensemble_size", "write_quorum", "ack_quorum", "last_entry_id", "length", "digest_type"),
    *("metadata_ctime", "custom_metadata", "segments"),
)
LEDGER_VALUES = pa.schema([*(LEDGERS.field(name) for name in _VALUE_COLUMNS), pa.field("value", pa.binary())])
"""Columns for a comparison of two stores: the decoded metadata, and its stored bytes."""

LAYOUT_PATH_TEXT = "a path of layout "
"""Beginning of ``damage`` for a record whose path fits another layout than the store's.

The name of that layout follows.
"""

MAX_ENTRY = 1 << 50
"""Largest entry id to accept: a million entries per second for thirty years.

The computation of expected entries fails for ids of eight times this number or more.
"""

# With these broken rules it is still clear which bookies should hold which entries.
_HARMLESS_RULES = {"segment-gap"}

_STATUS_OK, _STATUS_RULE_BROKEN, _STATUS_UNREADABLE = range(3)
_STATUS_NAMES = LISTED


def ledger_rows(
    batch: ZnodeBatch, root: str, layout: LayoutKind, schema: pa.Schema = LEDGERS
) -> pa.RecordBatch:
    """Turn a batch of znodes of the ledger tree into rows of ``schema``.

    Directories give no row. Damaged, misplaced and unreadable znodes do give a row. With the schema
    `REREAD_LEDGERS`, rows cost less than half as much as with `LEDGERS`.
    """
    root_prefix = f"{root}/" if root != "/" else root
    root_length = len(root_prefix)
    paths = TextColumn.from_values(batch.paths)
    ids = ledger_ids(layout, paths, len(root_prefix.encode()))
    paths_by_row = {
        row: classify(layout, paths[row][root_length:]) for row in np.flatnonzero(ids < 0).tolist()
    }
    scope_ids = np.zeros(len(ids), np.int64)
    for row, classified_path in paths_by_row.items():
        if classified_path.kind == "ledger":
            ids[row], scope_ids[row] = classified_path.ledger_id or 0, classified_path.scope_id or 0
    misplaced_rows = [row for row, parsed_path in paths_by_row.items() if parsed_path.kind == "malformed"]
    is_ledger = np.ones(len(ids), bool)
    is_ledger[[row for row, path_class in paths_by_row.items() if path_class.kind != "ledger"]] = False
    ledgers = np.flatnonzero(is_ledger)
    ledger_columns = _decode_rows(batch, paths, ledgers, ids, scope_ids, schema)
    rows = [make_batch(schema, len(ledgers), ledger_columns)]
    if misplaced_rows:
        rows.append(
            make_batch(
                schema, len(misplaced_rows), _misplaced_rows(batch, paths, misplaced_rows, paths_by_row)
            )
        )
    if batch.gaps:
        rows.append(make_batch(schema, len(batch.gaps), _gap_columns(batch, root_length, layout)))
    return rows[0] if len(rows) == 1 else pa.concat_batches(rows)


def _decode_rows(
    batch: ZnodeBatch, paths: TextColumn, positions: Longs, ids: Longs, scope_ids: Longs, schema: pa.Schema
) -> dict[str, Any]:
    columns = decode_batch(ByteColumn.from_values(batch.data).take_rows(positions))
    _mark_oversized_ledgers(columns)
    row_status = np.full(len(positions), _STATUS_OK)
    row_status[list(columns.rules)] = _STATUS_RULE_BROKEN
    row_status[list(columns.damage)] = _STATUS_UNREADABLE
    column_arrays: dict[str, Any] = {
        "scope_id": scope_ids[positions],
        "ledger_id": ids[positions],
        # The path of a ledger is always ASCII.
        "path": paths.octets.take_rows(positions).arrow().cast(pa.string()),
        **_znode_columns(batch, positions),
        "status": make_name_column(_STATUS_NAMES, row_status),
        **damage_arrays(columns),
    }
    if "value" in schema.names:
        return column_arrays | {
            **metadata_arrays(columns),
            "value": ByteColumn.from_values(batch.data).take_rows(positions).arrow(),
        }
    if "replicas" not in schema.names:
        return column_arrays
    is_undecidable = row_status == _STATUS_UNREADABLE
    for row, rules in columns.rules.items():
        is_undecidable[row] |= any(rule.rule not in _HARMLESS_RULES for rule in rules)
    return column_arrays | {
        "undecidable": is_undecidable,
        **metadata_arrays(columns),
        "replicas": replicas(columns, is_undecidable),
    }


def _mark_oversized_ledgers(columns: LedgerColumns) -> None:
    """Record in ``columns`` that ledgers with entries beyond `MAX_ENTRY` are damaged.

    No writer can have written so many entries. The size of a BP-34 group is an int32, so a long run of
    entries is cut into several groups. One such ledger would need more groups than a batch may have.
    """
    ledger_of_segment = np.repeat(np.arange(len(columns.segment_counts)), columns.segment_counts)
    rows_past_limit = ledger_of_segment[columns.segment_firsts > MAX_ENTRY]
    for row in {*rows_past_limit.tolist(), *np.flatnonzero(columns.last_entry_id > MAX_ENTRY).tolist()}:
        columns.damage[row] = (f"entries beyond {MAX_ENTRY}", 0)


def _znode_columns(batch: ZnodeBatch, positions: Longs) -> dict[str, Any]:
    """Return the columns that come from the store's record: version, number of changes, and times.

    The columns have only the znodes of ``batch`` at ``positions``.
    """
    changes = (batch.version if batch.changes is None else batch.changes)[positions]
    return {
        "version": batch.version[positions],
        "changes": pa.array(changes, mask=changes == UNKNOWN_COUNT),
        "ctime": _nullable_time_array(batch.ctime[positions]),
        "mtime": _nullable_time_array(batch.mtime[positions]),
    }


def _nullable_time_array(times_ms: Longs) -> pa.Array:
    return pa.array(times_ms, mask=times_ms == NO_TIME)


def _misplaced_rows(
    batch: ZnodeBatch, paths: TextColumn, rows: list[int], classified_paths: Mapping[int, ClassifiedPath]
) -> dict[str, Any]:
    return {
        "scope_id": [_scope_of(classified_paths[row]) for row in rows],
        "ledger_id": [classified_paths[row].ledger_id for row in rows],
        "path": [paths[row] for row in rows],
        **_znode_columns(batch, np.array(rows, np.int64)),
        "status": LedgerStatus.MISPLACED,
        "low": [classified_paths[row].low for row in rows],
        "high": [classified_paths[row].high for row in rows],
        "undecidable": True,
        # The other layout that keeps a ledger at this path; null without one.
        "damage": [
            layout and f"{LAYOUT_PATH_TEXT}{layout}"
            for layout in (classified_paths[row].layout for row in rows)
        ],
    }


def _scope_of(classified_path: ClassifiedPath) -> int | None:
    """Return the scope (the upper 64 bits) of the ledger ids that belong to a path.

    Return None if no ledger id belongs to the path, or if any scope is possible.
    """
    return (
        None
        if classified_path.low is None and classified_path.ledger_id is None
        else classified_path.scope_id
    )


def _gap_columns(batch: ZnodeBatch, root_length: int, layout: LayoutKind) -> dict[str, Any]:
    gap_paths = [classify_unread_path(layout, path[root_length:]) for path, _ in batch.gaps]
    return {
        "scope_id": [_scope_of(classified_path) for classified_path in gap_paths],
        "path": [path for path, _ in batch.gaps],
        "status": LedgerStatus.GAP,
        # Null if this layout has no ledgers at or below the path.
        "low": [classified_path.low for classified_path in gap_paths],
        "high": [classified_path.high for classified_path in gap_paths],
        "undecidable": True,
        "damage": [reason for _, reason in batch.gaps],
    }
