"""The column ``replicas`` of the table ledgers: for each ledger, the entries that each bookie should hold."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.codecs.availability.groups import Longs, offsets_of
from auditor.codecs.availability.striping import EnsemblePositions, fold_positions
from auditor.codecs.byte_column import binary_array
from auditor.codecs.ledger_metadata.columns import STATE_NAMES, LedgerColumns
from auditor.model.ledger_metadata import LedgerState

REPLICA = pa.struct([("bookie_id", pa.string()), ("groups", pa.binary()), ("depends", pa.bool_())])

_CLOSED = STATE_NAMES.index(LedgerState.CLOSED)


def replicas(columns: LedgerColumns, is_undecidable: NDArray[np.bool_]) -> pa.ListArray:
    """Return, for each ledger, a list with one element per bookie: the entries that the bookie should hold.

    Args:
        columns: decoded metadata of some ledgers.
        is_undecidable: mask of ledgers whose metadata does not show which bookie should hold which entries.

    Returns:
        A list array of `REPLICA`, one list for each ledger, in the order of the bookie ids.
    """
    n_ledgers = len(columns.segment_counts)
    # Members in the order of their ids: a row must not depend on other rows of its batch.
    sorted_members = sorted(range(len(columns.bookies)), key=columns.bookies.__getitem__)
    name_order = np.empty(len(sorted_members), np.int64)
    name_order[sorted_members] = np.arange(len(sorted_members))
    member = name_order[columns.members]
    seats_of_segment = columns.member_counts
    ledger_of_segment = np.repeat(np.arange(n_ledgers), columns.segment_counts)
    segment = np.repeat(np.arange(len(seats_of_segment)), seats_of_segment)
    first_seats = np.cumsum(seats_of_segment) - seats_of_segment
    position_in_segment = np.arange(len(member)) - first_seats[segment]
    # Sort the seats of each ledger by bookie, so that those of one bookie are adjacent and in order.
    key_factor = len(sorted_members) or 1
    keys = ledger_of_segment[segment] * key_factor + member
    seat_order = np.argsort(keys, kind="stable")
    keys, segment = keys[seat_order], segment[seat_order]
    ledger = ledger_of_segment[segment]
    last_judged_entry, has_open_end = _segment_ends(columns, is_undecidable, ledger_of_segment)
    size = np.maximum(seats_of_segment, 1)[segment]
    replica_groups = fold_positions(
        EnsemblePositions(
            ledger=ledger,
            member=member[seat_order],
            first=columns.segment_firsts[segment],
            last=last_judged_entry[segment],
            index=position_in_segment[seat_order],
            ensemble_size=size,
            # A row that breaks a quorum rule is not judged; its sets are empty with any quorum.
            write_quorum=np.clip(columns.write_quorum[ledger], 1, size),
        )
    )
    depends_on_open_end = np.diff(replica_groups.groups.offsets) > 0
    is_in_open_segment = has_open_end[segment]
    if is_in_open_segment.any():
        depends_on_open_end |= np.isin(
            replica_groups.ledger * key_factor + replica_groups.member, keys[is_in_open_segment]
        )
    names = pa.array([columns.bookies[member_number] for member_number in sorted_members], pa.string())
    values = pa.StructArray.from_arrays(
        [
            names.take(pa.array(replica_groups.member)),
            binary_array(replica_groups.groups.tobytes(), replica_groups.groups.offsets * 24),
            pa.array(depends_on_open_end),
        ],
        fields=list(REPLICA),
    )
    counts = np.bincount(replica_groups.ledger, minlength=n_ledgers)
    return pa.ListArray.from_arrays(offsets_of(counts).astype(np.int32), values)


def _segment_ends(
    columns: LedgerColumns, is_undecidable: NDArray[np.bool_], ledger_of_segment: Longs
) -> tuple[Longs, NDArray[np.bool_]]:
    """Return the last judged entry of each segment, and whether a writer may still add to the segment.

    An entry is judged if it was certainly acknowledged, so that its copies must exist. In a closed ledger,
    all entries are judged. A segment ends before the next one, and never after the ledger's last entry,
    although several segments may begin after that entry. In other ledgers, a writer may still be sending
    entries. So the entries of the last segment are not judged, nor the last write quorum of entries before
    it. A writer begins a segment at the entry after the last acknowledged one
    (`LedgerHandle.ensembleChangeLoop`). So every later segment proves that the entries before it were
    acknowledged, however short the segments are.
    """
    first_entries = columns.segment_firsts
    last_entry = columns.last_entry_id[ledger_of_segment]
    is_closed = (columns.state == _CLOSED)[ledger_of_segment]
    quorum = columns.write_quorum[ledger_of_segment]
    is_undecidable_segment = is_undecidable[ledger_of_segment]
    is_last_segment = np.ones(len(first_entries), bool)
    is_last_segment[:-1] = ledger_of_segment[1:] != ledger_of_segment[:-1]
    last_entry_of_segment = np.append(first_entries[1:], 0) - 1
    closed_segment_end = np.where(is_last_segment, last_entry, np.minimum(last_entry_of_segment, last_entry))
    # For every segment, the first entry of its ledger's last segment. A ledger may have no segment.
    last_segment_starts = first_entries[is_last_segment][np.cumsum(is_last_segment) - is_last_segment]
    last_decided_entry = np.minimum(last_entry_of_segment, last_segment_starts - 1 - quorum)
    open_segment_end = np.where(
        is_last_segment, first_entries - 1, np.maximum(last_decided_entry, first_entries - 1)
    )
    ends = np.where(is_closed, closed_segment_end, open_segment_end)
    return np.where(
        is_undecidable_segment, first_entries - 1, ends
    ), is_last_segment & ~is_closed & ~is_undecidable_segment
