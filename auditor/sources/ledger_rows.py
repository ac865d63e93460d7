"""Rows of the table ledgers from znodes: decoded metadata, and beside it what each bookie should hold.

The expected entries are made here, where the numbers already lie in arrays, and travel with their ledger: a
later stage only has to unfold them. Damage is a column: every znode of the ledger tree becomes a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.codecs.expected import Seats, expected
from auditor.codecs.ledger_columns import LedgerColumns, decode_batch
from auditor.keys.ledger_tree import MAX_LEDGER_ID, MIN_LEDGER_ID, LayoutKind, Place, classify
from auditor.keys.plain_paths import ledger_ids
from auditor.sources.columns import commented
from auditor.sources.store import NO_TIME, ZnodeBatch

_REPLICA = pa.struct([("bookie_id", pa.string()), ("groups", pa.binary()), ("depends", pa.bool_())])
_SEGMENT = pa.struct([("first_entry_id", pa.int64()), ("ensemble", pa.list_(pa.string()))])
_RULE = pa.struct([("rule", pa.string()), ("reason", pa.string())])

LEDGERS = commented(
    ("scope_id", pa.int64(), "BP-35 scope; 0 for every stock ledger; null where it could be any"),
    ("ledger_id", pa.int64(), "the ledger; of a misplaced znode the id that the server would list"),
    ("path", pa.string(), "its znode, or its key in etcd"),
    ("version", pa.int64(), "its version in this scan: the znode's, or etcd's mod revision"),
    ("ctime", pa.int64(), "when the znode was made, ms; null where the store keeps no times (etcd)"),
    ("mtime", pa.int64(), "when the znode last changed, ms; null where the store keeps no times (etcd)"),
    (
        "status",
        pa.string(),
        "ok, broken (a rule), unreadable, misplaced (no ledger's path), gap (not listed)",
    ),
    ("low", pa.int64(), "misplaced, gap: the least id it could stand for"),
    ("high", pa.int64(), "misplaced, gap: the greatest id it could stand for"),
    ("rules", pa.list_(_RULE), "rules that the metadata breaks"),
    ("undecidable", pa.bool_(), "the metadata does not say who should hold what"),
    ("damage", pa.string(), "why it could not be read"),
    ("damage_offset", pa.int64(), "the byte at which it went wrong"),
    ("format", pa.int32(), "metadata format, 1 to 3"),
    ("state", pa.string(), "OPEN, IN_RECOVERY or CLOSED"),
    ("ensemble_size", pa.int32(), "bookies in each ensemble"),
    ("write_quorum", pa.int32(), "copies asked for"),
    ("ack_quorum", pa.int32(), "copies acknowledged to the writer"),
    (
        "last_entry_id",
        pa.int64(),
        "last entry of a closed ledger; -1 if it has none, or is not closed",
    ),
    ("length", pa.int64(), "payload bytes of a closed ledger"),
    ("digest_type", pa.string(), "how entries are checked; null where no password is kept"),
    ("metadata_ctime", pa.int64(), "creation time that the metadata keeps, ms"),
    ("custom_metadata", pa.map_(pa.string(), pa.binary()), "what the application attached"),
    ("segments", pa.list_(_SEGMENT), "first entry and ensemble of each segment"),
    (
        "replicas",
        pa.list_(_REPLICA),
        "every member of any ensemble; groups: the judged entries it should hold, 24 bytes a group; "
        "depends: a segment with entries, or the open end, needs it",
    ),
)
AGAIN = ("scope_id", "ledger_id", "path", "version", "mtime", "status", "low", "high", "damage")
"""What a second scan keeps of each row: enough to see what stood still."""

MAX_ENTRY = 1 << 50
"""Thirty years of a million entries a second; what the fold refuses begins at eight times this."""

# Such a ledger still says plainly who should hold what.
_HARMLESS_RULES = {"segment-gap"}


def ledger_rows(batch: ZnodeBatch, root: str, layout: LayoutKind) -> pa.RecordBatch:
    """Turn one batch of the ledger tree into rows of `LEDGERS`; inner znodes leave none, damaged ones do."""
    start = len(root) + 1 if root != "/" else 1
    ids = ledger_ids(layout, batch.paths, start)
    odd = {row: classify(layout, batch.paths[row][start:]) for row in np.flatnonzero(ids < 0).tolist()}
    scopes = np.zeros(len(ids), np.int64)
    for row, place in odd.items():
        if place.kind == "ledger":
            ids[row], scopes[row] = place.ledger_id or 0, place.scope_id or 0
    strays = [row for row, place in odd.items() if place.kind == "malformed"]
    is_ledger = np.ones(len(ids), bool)
    is_ledger[[row for row, place in odd.items() if place.kind != "ledger"]] = False
    good = _decoded(batch, np.flatnonzero(is_ledger), ids, scopes)
    return pa.concat_batches([good, _misplaced(batch, strays, odd), _gaps(batch, start, layout)])


def _decoded(
    batch: ZnodeBatch, at: NDArray[np.int64], ids: NDArray[np.int64], scopes: NDArray[np.int64]
) -> pa.RecordBatch:
    rows = at.tolist()
    columns = decode_batch([batch.data[row] for row in rows])
    _refuse_endless(columns)
    undecidable = np.array(
        [
            damage is not None or any(rule.rule not in _HARMLESS_RULES for rule in rules)
            for damage, rules in zip(columns.damage, columns.rules, strict=True)
        ],
        bool,
    )
    status = [
        "unreadable" if damage is not None else "broken" if rules else "ok"
        for damage, rules in zip(columns.damage, columns.rules, strict=True)
    ]
    arrays: dict[str, Any] = {
        "scope_id": scopes[at],
        "ledger_id": ids[at],
        **_identity(batch, rows),
        "status": status,
        "rules": [[{"rule": rule.rule, "reason": rule.reason} for rule in rules] for rules in columns.rules],
        "undecidable": undecidable,
        "damage": [damage[0] if damage else None for damage in columns.damage],
        "damage_offset": [damage[1] if damage else None for damage in columns.damage],
        "format": columns.format,
        "state": columns.state,
        "ensemble_size": columns.ensemble_size,
        "write_quorum": columns.write_quorum,
        "ack_quorum": columns.ack_quorum,
        "last_entry_id": columns.last_entry_id,
        "length": columns.length,
        "digest_type": columns.digest_type,
        "metadata_ctime": columns.ctime,
        "custom_metadata": _custom(columns),
        "segments": _segments(columns),
        "replicas": _replicas(columns, undecidable),
    }
    return _batch(arrays, len(rows))


def _refuse_endless(columns: LedgerColumns) -> None:
    """Call a ledger damaged that ends beyond what can be compared: no writer ever got there.

    One such run would have to be cut into more int32 pieces than a batch may have.
    """
    owner = np.repeat(np.arange(len(columns.segment_counts)), columns.segment_counts)
    starts = np.array(columns.segment_firsts, np.int64)
    ends = _numbers(columns.last_entry_id)
    for row in {*owner[starts > MAX_ENTRY].tolist(), *np.flatnonzero(ends > MAX_ENTRY).tolist()}:
        columns.damage[row] = (f"entries beyond {MAX_ENTRY}", 0)


def _custom(columns: LedgerColumns) -> pa.Array:
    keys, values = pa.array(columns.custom_keys, pa.string()), pa.array(columns.custom_values, pa.binary())
    return pa.MapArray.from_arrays(_offsets(columns.custom_counts), keys, values)


def _segments(columns: LedgerColumns) -> pa.Array:
    members = pa.array(columns.members, pa.string())
    ensembles = pa.ListArray.from_arrays(_offsets(columns.member_counts), members)
    firsts = pa.array(columns.segment_firsts, pa.int64())
    segments = pa.StructArray.from_arrays([firsts, ensembles], fields=list(_SEGMENT))
    return pa.ListArray.from_arrays(_offsets(columns.segment_counts), segments)


def _replicas(columns: LedgerColumns, undecidable: NDArray[np.bool_]) -> pa.Array:
    """One entry for every bookie of every ledger, with the entries it should hold."""
    n_ledgers = len(columns.segment_counts)
    codes = pa.array(columns.members, pa.string()).dictionary_encode()
    # Codes in the order of the ids: a row must not depend on what else is in its batch.
    order = np.asarray(pc.sort_indices(codes.dictionary)).astype(np.int64)
    names = codes.dictionary.take(pa.array(order))
    member = np.argsort(order)[np.asarray(codes.indices).astype(np.int64)]
    seats_of_segment = np.asarray(columns.member_counts, np.int64)
    ledger_of_segment = np.repeat(np.arange(n_ledgers), np.asarray(columns.segment_counts, np.int64))
    segment_of_seat = np.repeat(np.arange(len(seats_of_segment)), seats_of_segment)
    ledger = ledger_of_segment[segment_of_seat]
    first = np.asarray(columns.segment_firsts, np.int64)
    judged, open_end = _judged_ends(columns, undecidable, ledger_of_segment, first)
    heads = np.cumsum(seats_of_segment) - seats_of_segment
    quorum = _numbers(columns.write_quorum)[ledger]
    replicas = expected(
        Seats(
            ledger=ledger,
            member=member,
            first=first[segment_of_seat],
            last=judged[segment_of_seat],
            index=np.arange(len(member)) - heads[segment_of_seat],
            ensemble_size=np.maximum(seats_of_segment[segment_of_seat], 1),
            # A row that breaks a quorum rule is not judged; its sets are empty whatever stands here.
            write_quorum=np.clip(quorum, 1, np.maximum(seats_of_segment[segment_of_seat], 1)),
        )
    )
    span = len(names) or 1
    waiting = np.unique((ledger * span + member)[open_end[segment_of_seat]])
    depends = (np.diff(replicas.groups.offsets) > 0) | np.isin(
        replicas.ledger * span + replicas.member, waiting
    )
    values = pa.StructArray.from_arrays(
        [
            names.take(pa.array(replicas.member)),
            binary(replicas.groups.tobytes(), replicas.groups.offsets * 24),
            pa.array(depends),
        ],
        fields=list(_REPLICA),
    )
    counts = np.bincount(replicas.ledger, minlength=n_ledgers)
    return pa.ListArray.from_arrays(_offsets(counts), values)


def _judged_ends(
    columns: LedgerColumns,
    undecidable: NDArray[np.bool_],
    ledger_of_segment: NDArray[np.int64],
    first: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The last judged entry of each segment, and whether the segment is the open end of its ledger.

    Closed: the entry before the next segment, and never past the last entry (several segments may begin
    after it). Others: what a writer may still be sending is left out, a write quorum of entries before the
    next segment and all of the last one.
    """
    last_entry = _numbers(columns.last_entry_id)[ledger_of_segment]
    closed = np.array([state == "CLOSED" for state in columns.state], bool)[ledger_of_segment]
    quorum = _numbers(columns.write_quorum)[ledger_of_segment]
    unjudged = undecidable[ledger_of_segment]
    is_last = np.ones(len(first), bool)
    is_last[:-1] = ledger_of_segment[1:] != ledger_of_segment[:-1]
    before_next = np.append(first[1:], 0) - 1
    closed_end = np.where(is_last, last_entry, np.minimum(before_next, last_entry))
    open_segment_end = np.where(is_last, first - 1, before_next - quorum)
    ends = np.where(closed, closed_end, open_segment_end)
    return np.where(unjudged, first - 1, ends), is_last & ~closed & ~unjudged


def _identity(batch: ZnodeBatch, rows: list[int]) -> dict[str, Any]:
    """What the store says of each row, whatever its path and its data are."""
    at = np.array(rows, np.int64)
    return {
        "path": [batch.paths[row] for row in rows],
        "version": batch.version[at],
        "ctime": _times(batch.ctime[at]),
        "mtime": _times(batch.mtime[at]),
    }


def _times(values: NDArray[np.int64]) -> pa.Array:
    return pa.array(values, mask=values == NO_TIME)


def _misplaced(batch: ZnodeBatch, rows: list[int], places: Mapping[int, Place]) -> pa.RecordBatch:
    return _batch(
        {
            "scope_id": [places[row].scope_id for row in rows],
            "ledger_id": [places[row].ledger_id for row in rows],
            **_identity(batch, rows),
            "status": ["misplaced"] * len(rows),
            "low": [places[row].low for row in rows],
            "high": [places[row].high for row in rows],
            "undecidable": [True] * len(rows),
        },
        len(rows),
    )


def _gaps(batch: ZnodeBatch, start: int, layout: LayoutKind) -> pa.RecordBatch:
    spans = [classify(layout, path[start:]) for path, _ in batch.gaps]
    return _batch(
        {
            # A gap that is no ledger's place can hide ledgers of any scope.
            "scope_id": [place.scope_id if place.low is not None else None for place in spans],
            "path": [path for path, _ in batch.gaps],
            "status": ["gap"] * len(spans),
            # Of what is no place of this layout nothing is known: it could be any ledger.
            "low": [place.low if place.low is not None else MIN_LEDGER_ID for place in spans],
            "high": [place.high if place.high is not None else MAX_LEDGER_ID for place in spans],
            "undecidable": [True] * len(spans),
            "damage": [reason for _, reason in batch.gaps],
        },
        len(spans),
    )


def _batch(arrays: dict[str, Any], rows: int) -> pa.RecordBatch:
    """A batch of `LEDGERS`; a column that is not given is null."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array(arrays[field.name], field.type) if field.name in arrays else pa.nulls(rows, field.type)
            for field in LEDGERS
        ],
        schema=LEDGERS,
    )


def binary(data: bytes, byte_offsets: NDArray[np.int64]) -> pa.Array:
    """An Arrow binary column over bytes that lie one value after another.

    >>> binary(b"abc", np.array([0, 1, 1, 3])).to_pylist()
    [b'a', b'', b'bc']
    """
    offsets = pa.py_buffer(byte_offsets.astype(np.int32).tobytes())
    return pa.Array.from_buffers(pa.binary(), len(byte_offsets) - 1, [None, offsets, pa.py_buffer(data)])


def _numbers(values: Sequence[int | None]) -> NDArray[np.int64]:
    """An array of them; a damaged row has no segment that would ask for its number."""
    return np.array([0 if value is None else value for value in values], np.int64)


def _offsets(counts: Sequence[int] | NDArray[np.int64]) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(np.asarray(counts, np.int64))]).astype(np.int32))
