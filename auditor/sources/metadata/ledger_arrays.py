"""What the metadata of a batch of ledgers says, as columns of the table ledgers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from auditor.codecs.availability.groups import Longs, offsets_of
from auditor.codecs.ledger_metadata.columns import DIGEST_NAMES, STATE_NAMES, LedgerColumns

SEGMENT = pa.struct([("first_entry_id", pa.int64()), ("ensemble", pa.list_(pa.string()))])
RULE = pa.struct([("rule", pa.string()), ("reason", pa.string())])

_NUMBERS = ("format", "ensemble_size", "write_quorum", "ack_quorum", "last_entry_id", "length")


def metadata_arrays(columns: LedgerColumns) -> dict[str, pa.Array]:
    """The columns that follow from the bytes of the metadata alone, by their names.

    >>> from auditor.codecs.ledger_metadata.batch import decode_batch
    >>> open_ledger = b"BookieMetadataFormatVersion\\t1\\n1\\n1\\n0\\n0\\tbk1:3181\\n"
    >>> arrays = metadata_arrays(decode_batch([open_ledger, b"?"]))
    >>> arrays["state"].to_pylist(), arrays["damage_offset"].to_pylist()
    (['OPEN', None], [None, 0])
    """
    unread = columns.format == 0
    return {
        "rules": _rules(columns),
        **damage_arrays(columns),
        **{name: pa.array(getattr(columns, name), mask=unread) for name in _NUMBERS},
        "state": name_column(STATE_NAMES, columns.state),
        "digest_type": name_column(DIGEST_NAMES, columns.digest_type),
        "metadata_ctime": pa.array(columns.ctime, mask=~columns.has_ctime),
        "custom_metadata": _custom(columns),
        "segments": _segments(columns),
    }


def damage_arrays(columns: LedgerColumns) -> dict[str, pa.Array]:
    """The columns that say what could not be read, and where it went wrong."""
    rows = len(columns.format)
    if not columns.damage:
        return {"damage": pa.nulls(rows, pa.string()), "damage_offset": pa.nulls(rows, pa.int64())}
    said = [columns.damage.get(row, (None, None)) for row in range(rows)]
    return {
        "damage": pa.array([reason for reason, _ in said], pa.string()),
        "damage_offset": pa.array([offset for _, offset in said], pa.int64()),
    }


def name_column(names: Sequence[str | None], places: Longs) -> pa.Array:
    """A column of names, each given by its place.

    >>> name_column(["ok", None], np.array([0, 1, 0])).to_pylist()
    ['ok', None, 'ok']
    """
    return pa.array(names, pa.string()).take(pa.array(places))


def _rules(columns: LedgerColumns) -> pa.Array:
    counts = np.zeros(len(columns.format), np.int64)
    for row, rules in columns.rules.items():
        counts[row] = len(rules)
    broken = [rule for _, rules in sorted(columns.rules.items()) for rule in rules]
    values = pa.array([{"rule": rule.rule, "reason": rule.reason} for rule in broken], RULE)
    return pa.ListArray.from_arrays(_offsets(counts), values)


def _custom(columns: LedgerColumns) -> pa.Array:
    keys = name_column(columns.key_names, columns.custom_keys)
    return pa.MapArray.from_arrays(_offsets(columns.custom_counts), keys, columns.custom_values)


def _segments(columns: LedgerColumns) -> pa.Array:
    members = name_column(columns.bookies, columns.members)
    ensembles = pa.ListArray.from_arrays(_offsets(columns.member_counts), members)
    segments = pa.StructArray.from_arrays([pa.array(columns.segment_firsts), ensembles], fields=list(SEGMENT))
    return pa.ListArray.from_arrays(_offsets(columns.segment_counts), segments)


def _offsets(counts: Longs) -> pa.Array:
    return pa.array(offsets_of(counts).astype(np.int32))
