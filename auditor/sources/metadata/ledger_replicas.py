"""The column ``replicas`` of the table ledgers: the entries of a ledger that each bookie should hold."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.codecs.availability.groups import Longs, offsets_of
from auditor.codecs.availability.striping import EnsemblePositions, fold_ensemble_positions
from auditor.codecs.byte_column import binary_array
from auditor.codecs.ledger_metadata.columns import STATE_NAMES, LedgerColumns
from auditor.model.ledger_metadata import LedgerState

REPLICA_TYPE = pa.struct([("bookie_id", pa.string()), ("groups", pa.binary()), ("depends", pa.bool_())])

_CLOSED_STATE_INDEX = STATE_NAMES.index(LedgerState.CLOSED)


def replicas(columns: LedgerColumns, is_undecidable: NDArray[np.bool_]) -> pa.ListArray:
    """Return the bookies of each ledger, and the entries that each of these bookies should hold.

    Args:
        columns: decoded metadata of some ledgers.
        is_undecidable: mask of the ledgers whose metadata does not show which bookie should hold which
            entries.

    Returns:
        A list array of `REPLICA_TYPE` with one list for each ledger. A list has one element for each
            bookie, in the order of the bookie ids. The element has the bookie's id and its entries.
    """
    ledger_count = len(columns.segment_counts)
    # Members in the order of their ids: a row must not depend on other rows of its batch.
    sorted_bookies = sorted(range(len(columns.bookies)), key=columns.bookies.__getitem__)
    rank_by_bookie = np.empty(len(sorted_bookies), np.int64)
    rank_by_bookie[sorted_bookies] = np.arange(len(sorted_bookies))
    member_ranks = rank_by_bookie[columns.members]
    ensemble_sizes = columns.member_counts
    ledger_of_segment = np.repeat(np.arange(ledger_count), columns.segment_counts)
    segment = np.repeat(np.arange(len(ensemble_sizes)), ensemble_sizes)
    first_positions = np.cumsum(ensemble_sizes) - ensemble_sizes
    position_in_segment = np.arange(len(member_ranks)) - first_positions[segment]
    # Sort the seats of each ledger by bookie, so that those of one bookie are adjacent and in order.
    ledger_key_factor = len(sorted_bookies) or 1
    sort_keys = ledger_of_segment[segment] * ledger_key_factor + member_ranks
    member_order = np.argsort(sort_keys, kind="stable")
    sort_keys, segment = sort_keys[member_order], segment[member_order]
    ledger = ledger_of_segment[segment]
    last_judged_entry, has_open_end = _segment_ends(columns, is_undecidable, ledger_of_segment)
    ensemble_size = np.maximum(ensemble_sizes, 1)[segment]
    replica_groups = fold_ensemble_positions(
        EnsemblePositions(
            ledger=ledger,
            member=member_ranks[member_order],
            first=columns.segment_firsts[segment],
            last=last_judged_entry[segment],
            index=position_in_segment[member_order],
            ensemble_size=ensemble_size,
            # A row that breaks a quorum rule is not judged; its sets are empty with any quorum.
            write_quorum=np.clip(columns.write_quorum[ledger], 1, ensemble_size),
        )
    )
    depends_on_open_end = np.diff(replica_groups.groups.offsets) > 0
    is_in_open_segment = has_open_end[segment]
    if is_in_open_segment.any():
        depends_on_open_end |= np.isin(
            replica_groups.ledger * ledger_key_factor + replica_groups.member, sort_keys[is_in_open_segment]
        )
    bookie_names = pa.array([columns.bookies[bookie_number] for bookie_number in sorted_bookies], pa.string())
    replica_values = pa.StructArray.from_arrays(
        [
            bookie_names.take(pa.array(replica_groups.member)),
            binary_array(replica_groups.groups.tobytes(), replica_groups.groups.offsets * 24),
            pa.array(depends_on_open_end),
        ],
        fields=list(REPLICA_TYPE),
    )
    replica_counts = np.bincount(replica_groups.ledger, minlength=ledger_count)
    return pa.ListArray.from_arrays(offsets_of(replica_counts).astype(np.int32), replica_values)


def _segment_ends(
    columns: LedgerColumns, is_undecidable: NDArray[np.bool_], ledger_of_segment: Longs
) -> tuple[Longs, NDArray[np.bool_]]:
    """Return the last judged entry of each segment, and a mask of the segments that may still grow.

    An entry is judged if it was certainly acknowledged, so that its copies must exist. A segment may still
    grow if a writer may still add entries to it.

    In a closed ledger, all entries are judged. A segment ends before the next segment begins, and not after
    the last entry of the ledger. (Several segments may begin after that entry.)

    In any other ledger, a writer may still be sending entries. So the entries of the last segment are not
    judged. The entries directly before that segment, as many as the write quorum, are not judged either.
    A writer begins a segment at the entry after the last acknowledged entry
    (`LedgerHandle.ensembleChangeLoop`). So every later segment proves that the entries before it were
    acknowledged, however short the segments are.
    """
    first_entries = columns.segment_firsts
    last_entry = columns.last_entry_id[ledger_of_segment]
    is_closed = (columns.state == _CLOSED_STATE_INDEX)[ledger_of_segment]
    write_quorum = columns.write_quorum[ledger_of_segment]
    is_undecidable_segment = is_undecidable[ledger_of_segment]
    is_last_segment = np.ones(len(first_entries), bool)
    is_last_segment[:-1] = ledger_of_segment[1:] != ledger_of_segment[:-1]
    last_entry_of_segment = np.append(first_entries[1:], 0) - 1
    closed_segment_end = np.where(is_last_segment, last_entry, np.minimum(last_entry_of_segment, last_entry))
    # For every segment, the first entry of its ledger's last segment. A ledger may have no segment.
    last_segment_starts = first_entries[is_last_segment][np.cumsum(is_last_segment) - is_last_segment]
    last_decided_entry = np.minimum(last_entry_of_segment, last_segment_starts - 1 - write_quorum)
    open_segment_end = np.where(
        is_last_segment, first_entries - 1, np.maximum(last_decided_entry, first_entries - 1)
    )
    segment_ends = np.where(is_closed, closed_segment_end, open_segment_end)
    return np.where(
        is_undecidable_segment, first_entries - 1, segment_ends
    ), is_last_segment & ~is_closed & ~is_undecidable_segment
