"""The column ``replicas`` of the table ledgers: for each ledger, the entries that each bookie should hold."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.codecs.availability.groups import Longs, offsets_of
from auditor.codecs.availability.striping import Seats, fold_seats
from auditor.codecs.byte_column import binary_array
from auditor.codecs.ledger_metadata.columns import STATE_NAMES, LedgerColumns
from auditor.model.ledger_metadata import LedgerState

REPLICA = pa.struct([("bookie_id", pa.string()), ("groups", pa.binary()), ("depends", pa.bool_())])

_CLOSED = STATE_NAMES.index(LedgerState.CLOSED)


def replicas(columns: LedgerColumns, undecidable: NDArray[np.bool_]) -> pa.ListArray:
    """Return, for each ledger, a list with one element per bookie: the entries that the bookie should hold.

    Args:
        columns: decoded metadata of some ledgers.
        undecidable: mask of the ledgers whose metadata does not show which bookie should hold which entries.

    Returns:
        A list array of `REPLICA`, one list for each ledger, in the order of the bookie ids.
    """
    n_ledgers = len(columns.segment_counts)
    # Members in the order of their ids: a row must not depend on other rows of its batch.
    order = sorted(range(len(columns.bookies)), key=columns.bookies.__getitem__)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    member = rank[columns.members]
    seats_of_segment = columns.member_counts
    ledger_of_segment = np.repeat(np.arange(n_ledgers), columns.segment_counts)
    segment = np.repeat(np.arange(len(seats_of_segment)), seats_of_segment)
    heads = np.cumsum(seats_of_segment) - seats_of_segment
    index = np.arange(len(member)) - heads[segment]
    # Sort the seats of each ledger by bookie, so that those of one bookie are adjacent and in order.
    span = len(order) or 1
    keys = ledger_of_segment[segment] * span + member
    place = np.argsort(keys, kind="stable")
    keys, segment = keys[place], segment[place]
    ledger = ledger_of_segment[segment]
    judged, open_end = _judged_ends(columns, undecidable, ledger_of_segment)
    size = np.maximum(seats_of_segment, 1)[segment]
    folded_seats = fold_seats(
        Seats(
            ledger=ledger,
            member=member[place],
            first=columns.segment_firsts[segment],
            last=judged[segment],
            index=index[place],
            ensemble_size=size,
            # A row that breaks a quorum rule is not judged; its sets are empty with any quorum.
            write_quorum=np.clip(columns.write_quorum[ledger], 1, size),
        )
    )
    depends = np.diff(folded_seats.groups.offsets) > 0
    waiting = open_end[segment]
    if waiting.any():
        depends |= np.isin(folded_seats.ledger * span + folded_seats.member, keys[waiting])
    names = pa.array([columns.bookies[place] for place in order], pa.string())
    values = pa.StructArray.from_arrays(
        [
            names.take(pa.array(folded_seats.member)),
            binary_array(folded_seats.groups.tobytes(), folded_seats.groups.offsets * 24),
            pa.array(depends),
        ],
        fields=list(REPLICA),
    )
    counts = np.bincount(folded_seats.ledger, minlength=n_ledgers)
    return pa.ListArray.from_arrays(offsets_of(counts).astype(np.int32), values)


def _judged_ends(
    columns: LedgerColumns, undecidable: NDArray[np.bool_], ledger_of_segment: Longs
) -> tuple[Longs, NDArray[np.bool_]]:
    """Return the last judged entry of each segment, and whether the segment is the open end of its ledger.

    An entry is judged if it was surely acknowledged, so that its copies must exist. In a closed ledger, all
    entries are judged: a segment ends before the next one, and never after the ledger's last entry (several
    segments may begin after it). In other ledgers, a writer may still be sending entries: all of the last
    segment, and the last write quorum of entries before it. These are not judged. A writer begins a segment
    at the entry after the last acknowledged one (`LedgerHandle.ensembleChangeLoop`). So every later segment
    proves that the entries before it were acknowledged, however short the segments are.
    """
    first = columns.segment_firsts
    last_entry = columns.last_entry_id[ledger_of_segment]
    closed = (columns.state == _CLOSED)[ledger_of_segment]
    quorum = columns.write_quorum[ledger_of_segment]
    unjudged = undecidable[ledger_of_segment]
    is_last = np.ones(len(first), bool)
    is_last[:-1] = ledger_of_segment[1:] != ledger_of_segment[:-1]
    before_next = np.append(first[1:], 0) - 1
    closed_end = np.where(is_last, last_entry, np.minimum(before_next, last_entry))
    # For every segment, the first entry of its ledger's last segment. A ledger may have no segment.
    last_begins = first[is_last][np.cumsum(is_last) - is_last]
    history_end = np.minimum(before_next, last_begins - 1 - quorum)
    open_segment_end = np.where(is_last, first - 1, np.maximum(history_end, first - 1))
    ends = np.where(closed, closed_end, open_segment_end)
    return np.where(unjudged, first - 1, ends), is_last & ~closed & ~unjudged
