"""judged: the judgement of the copies of each ledger that has an unequal replica, with one row per ledger.

A replica is unequal if its expected and held entries differ. `auditor.tables.judge_replicas` judges each
ledger. This module passes the ledgers to it in Arrow batches. A row of a batch is a ledger with its few
unequal replicas. So Spark needs no row per replica, and the driver collects no rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from auditor.codecs.availability import coverage
from auditor.codecs.availability.groups import GroupBatch, offsets_of
from auditor.errors import CoverageLimitError
from auditor.model.columns import LEDGER, make_batch, make_schema
from auditor.model.ledger_metadata import LedgerState
from auditor.model.states import GoneState, UnknownCopy
from auditor.sources.bookies.rpc.reads import WITNESS
from auditor.spark import functions as F
from auditor.spark.batches import map_rows
from auditor.spark.types import DataFrame
from auditor.tables import doubts
from auditor.tables.doubts import Doubt
from auditor.tables.judge_replicas import (
    BookieState,
    Groups,
    LedgerFacts,
    Pair,
    classify_replicas,
    groups_of,
)
from auditor.tables.judgement import Judgement
from auditor.tables.ledger_class import lacks_whole_replicas, set_class, set_whole_replica_classes
from auditor.tables.parts import filter_table_part
from auditor.tables.past_end import move_past_end_entries


def judge_batch(
    ledgers: Sequence[tuple[LedgerFacts, Sequence[Pair]]], bookies: Mapping[str, BookieState], grace_ms: int
) -> list[Judgement]:
    """Judge ledgers from their unequal replicas (those whose expected and held entries differ).

    The arguments are those of `auditor.tables.ledger_class.judge`. If the entry sets of a ledger are too
    irregular to compare, its replicas are unknown.
    """
    judgements, whole_replica_judgements = [], []
    for ledger, pairs in ledgers:
        try:
            judgement = classify_replicas(ledger, pairs, bookies, grace_ms)
            if lacks_whole_replicas(ledger, pairs):
                whole_replica_judgements.append((ledger, judgement))
            else:
                set_class(ledger, judgement)
                # Must run last: it moves entries after the end of a closed ledger out of the surplus.
                move_past_end_entries(ledger, bookies, judgement)
        except CoverageLimitError as limit_error:
            judgement = judge_as_unknown(ledger, pairs, limit_error)
        judgements.append(judgement)
    set_whole_replica_classes(whole_replica_judgements)
    return judgements


def count_entries(entry_sets: Sequence[bytes]) -> list[int]:
    """Count the entries of each set from its packed groups, in one pass over all sets.

    >>> count_entries([GroupBatch.from_tuples([[(0, 9, 2, 3)]]).tobytes(), b""])
    [8, 0]
    """
    set_lengths = np.array([len(packed_set) for packed_set in entry_sets], np.int64)
    group_batch = GroupBatch.frombytes(b"".join(entry_sets), offsets_of(set_lengths))
    entry_offsets = offsets_of(group_batch.entries())
    return [
        int(entry_count)
        for entry_count in entry_offsets[group_batch.offsets[1:]] - entry_offsets[group_batch.offsets[:-1]]
    ]


ANSWER_COLUMNS = ("bookie_id", "entry_id", "answer", "reason")
"""Columns of the table ``witness`` that the table ``judged`` includes."""
_ENTRIES_TYPE = pa.list_(
    pa.struct([("bookie_id", pa.string()), ("groups", pa.binary()), ("count", pa.int64())])
)
JUDGED = make_schema(
    ("scope_id", pa.int64(), "BP-35 scope of the ledger; 0 in an unmodified BookKeeper"),
    ("ledger_id", pa.int64(), "the ledger"),
    ("version", pa.int64(), "version of the ledger's metadata in the first scan"),
    ("state", pa.string(), "OPEN, IN_RECOVERY or CLOSED"),
    (
        "mtime",
        pa.int64(),
        "time of the last change to the ledger's metadata (ms since 1970, UTC); null: the store "
        "keeps no times",
    ),
    ("write_quorum", pa.int32(), "write quorum: number of bookies to which the writer sends each entry"),
    (
        "ack_quorum",
        pa.int32(),
        "ack quorum: number of bookies that must confirm an entry before it is acknowledged to the writer",
    ),
    ("last_entry_id", pa.int64(), "id of the ledger's last entry; -1: the ledger is empty or not closed"),
    ("length", pa.int64(), "bytes of the ledger's entries; null: the ledger is not closed"),
    ("m", pa.int32(), "largest number of confirmed missing copies of any single entry"),
    ("mu", pa.int32(), "largest number of missing or unknown copies of any single entry"),
    (
        "class_entries",
        pa.struct([("groups", pa.binary()), ("count", pa.int64())]),
        "entries that determine the ledger's class. They have no copy left, fewer copies than the ack "
        "quorum, or fewer copies than the write quorum. null: too many groups to list",
    ),
    ("missing", _ENTRIES_TYPE, "entries that a bookie should have but lacks, for bookies that were read"),
    (
        "unknown",
        pa.list_(pa.struct([("bookie_id", pa.string()), ("count", pa.int64()), ("why", pa.string())])),
        "bookies whose copies are unknown. The field why has the reason: unread, unreadable, limbo, "
        "not-indexed, misplaced, wrong-directory or entry-log-gone. For bookies that were asked for "
        "entries, it can also be denied, index-incomplete or not-asked",
    ),
    (
        "lagging",
        _ENTRIES_TYPE,
        "entries of the open last segment that an ack quorum of bookies has, but that this bookie "
        "lacks. The bookie is in the ensemble and was read",
    ),
    (
        "stale",
        _ENTRIES_TYPE,
        "entries that a bookie has from segments whose ensembles do not contain the bookie",
    ),
    (
        "surplus",
        _ENTRIES_TYPE,
        "entries that a bookie has beyond the ledger's last entry, or outside its own stripe",
    ),
    (
        "past_end",
        _ENTRIES_TYPE,
        "consecutive entries beyond the ledger's last entry that an ack quorum of bookies has; "
        "the column surplus leaves them out",
    ),
    ("past_end_last", pa.int64(), "the last entry of past_end; null: past_end is empty"),
    (
        "past_end_by_takeover",
        pa.bool_(),
        "whether a takeover by another client explains all changes to the ledger's metadata; null: "
        "past_end is empty",
    ),
    (
        "foreign",
        pa.list_(pa.struct([("bookie_id", pa.string()), ("count", pa.int64()), ("behind_end", pa.int64())])),
        "bookies that have entries of the ledger, but are in none of its ensembles. behind_end is "
        "the number of entries beyond the end of a closed ledger that no takeover explains",
    ),
    (
        "unindexed",
        _ENTRIES_TYPE,
        "entries that a bookie returned although its index lacks them, unless clock differences explain that",
    ),
    (
        "listed",
        _ENTRIES_TYPE,
        "entries that a bookie listed although its index lacks them. Entries that it was asked for, "
        "or that clock differences explain, are left out",
    ),
    ("doubts", pa.list_(pa.string()), "reasons why the result is unconfirmed (suspect)"),
    (
        "lasting_doubts",
        pa.list_(pa.string()),
        "doubts that a newer read of the same version of the ledger cannot settle",
    ),
    (
        "witness",
        pa.list_(
            pa.struct([(column_name, WITNESS.field(column_name).type) for column_name in ANSWER_COLUMNS])
        ),
        "first answers from the bookies that were asked for entries (see table witness)",
    ),
)
LEDGER_COLUMNS = (
    "scope_id", "ledger_id", "version", "state", "mtime", "ensemble_size", "write_quorum", "ack_quorum",
    "last_entry_id", "length", "segments", "changes",
)  # fmt: skip

_COPIED_COLUMNS = tuple(column_name for column_name in LEDGER_COLUMNS if column_name in JUDGED.names)
# Columns named like fields of a judgement: numbers, and sets of entries by bookie.
_NUMBER_COLUMNS = ("m", "mu", "past_end_last", "past_end_by_takeover")
_ENTRY_SET_COLUMNS = ("missing", "lagging", "stale", "surplus", "past_end", "unindexed", "listed")


def judge_ledgers(
    ledgers: DataFrame, differing_replicas: DataFrame, bookies: Mapping[str, BookieState], grace_ms: int
) -> DataFrame:
    """Judge every ledger that has an unequal replica, if its metadata can be judged.

    A replica is unequal if its expected and held entries differ. Spark sends ``bookies``, with one element
    per bookie, to all tasks. ``grace_ms`` is the age in ms below which an index may lack a ledger's last
    entries.
    """
    judgeable_ledgers = ledgers.where("undecidable = false").select(*LEDGER_COLUMNS)
    # A plain dict, because it is pickled into every task.
    state_by_bookie = dict(bookies)
    rows = judgeable_ledgers.join(pairs_by_ledger(differing_replicas), [*LEDGER])
    return map_rows(rows, partial(_judge_rows, bookies=state_by_bookie, grace_ms=grace_ms), JUDGED)


def pairs_by_ledger(differing_replicas: DataFrame) -> DataFrame:
    """Return one row per ledger. ``pairs`` has its rows of ``differing_replicas``, for `make_pair`."""
    pair_struct = F.struct(
        "bookie_id", "expected", "held", "index_state", "answered", "listed", "gone", "gone_state"
    )
    return differing_replicas.groupBy(*LEDGER).agg(F.collect_list(pair_struct).alias("pairs"))


def _judge_rows(
    rows: list[dict[str, Any]], bookies: Mapping[str, BookieState], grace_ms: int
) -> pa.RecordBatch:
    ledgers_and_pairs = [(ledger_facts(row), [make_pair(pair) for pair in row["pairs"]]) for row in rows]
    return make_judged_rows(rows, judge_batch(ledgers_and_pairs, bookies, grace_ms), [[]] * len(rows))


def judge_as_unknown(
    ledger: LedgerFacts, pairs: Sequence[Pair], limit_error: CoverageLimitError
) -> Judgement:
    """Return the judgement of a ledger whose entry sets are too irregular to compare.

    All its replicas are unknown. The reason (a `Doubt`) quotes ``limit_error``.
    """
    unknown_replicas: list[tuple[str, Groups, str]] = [
        (pair.bookie_id, pair.expected_groups, UnknownCopy.UNREADABLE) for pair in pairs
    ]
    return Judgement(
        mu=ledger.write_quorum, unknown=unknown_replicas, doubts={doubts.sets_too_irregular(str(limit_error))}
    )


def ledger_facts(row: Mapping[str, Any]) -> LedgerFacts:
    """Return a ledger's facts from its row in the table ``ledgers``."""
    return LedgerFacts(
        ledger_id=row["ledger_id"],
        is_closed=row["state"] == LedgerState.CLOSED,
        ensemble_size=row["ensemble_size"],
        write_quorum=row["write_quorum"],
        ack_quorum=row["ack_quorum"],
        last_entry_id=row["last_entry_id"],
        mtime=row["mtime"],
        segments=[(segment["first_entry_id"], segment["ensemble"]) for segment in row["segments"]],
        metadata_changes=row["changes"],
    )


def make_pair(row: Mapping[str, Any]) -> Pair:
    """Convert an element of ``pairs`` (a row of the table ``unequal``, see `pairs_by_ledger`) to a `Pair`."""
    return Pair(
        row["bookie_id"],
        groups_of(row["expected"]),
        groups_of(row["held"]),
        row["index_state"],
        row["answered"],
        listed_groups=groups_of(row["listed"]),
        gone_groups=groups_of(row["gone"]),
        read_twice=row["gone_state"] == GoneState.TWO_READS,
    )


def make_judged_rows(
    rows: list[dict[str, Any]], judgements: list[Judgement], witness_rows: Sequence[list[dict[str, Any]]]
) -> pa.RecordBatch:
    """Return rows of the table ``judged``.

    They are made from ledger rows, their judgements and the bookies' answers (``witness_rows``).
    """
    columns: dict[str, Any] = {
        column_name: [row[column_name] for row in rows] for column_name in _COPIED_COLUMNS
    }
    columns |= {
        column_name: [getattr(judgement, column_name) for judgement in judgements]
        for column_name in _NUMBER_COLUMNS
    }
    columns |= {
        column_name: _count_entry_sets([getattr(judgement, column_name) for judgement in judgements])
        for column_name in _ENTRY_SET_COLUMNS
    }
    columns |= {
        "class_entries": _pack_class_entries(judgements),
        "unknown": _count_unknown_copies(judgements),
        "foreign": [
            [
                {
                    "bookie_id": foreign_copy.bookie_id,
                    "count": coverage.count(foreign_copy.held_groups),
                    "behind_end": foreign_copy.behind_end,
                }
                for foreign_copy in judgement.foreign_copies
            ]
            for judgement in judgements
        ],
        "doubts": [_doubt_texts(judgement.doubts) for judgement in judgements],
        "lasting_doubts": [
            _doubt_texts(doubt for doubt in judgement.doubts if not doubt.is_transient)
            for judgement in judgements
        ],
        "witness": witness_rows,
    }
    return make_batch(JUDGED, len(rows), columns)


def _count_unknown_copies(judgements: Sequence[Judgement]) -> list[list[dict[str, Any]]]:
    """Return, for each ledger, the bookies with unknown entries, the number of entries, and the reason."""
    entry_counts = _count_entry_sets(
        [[(bookie, groups) for bookie, groups, _ in judgement.unknown] for judgement in judgements]
    )
    return [
        [
            {"bookie_id": bookie_count["bookie_id"], "count": bookie_count["count"], "why": unknown_reason}
            for bookie_count, (_, _, unknown_reason) in zip(row, judgement.unknown, strict=True)
        ]
        for row, judgement in zip(entry_counts, judgements, strict=True)
    ]


def _pack_class_entries(judgements: Sequence[Judgement]) -> list[dict[str, Any] | None]:
    packed_groups = [
        None if judgement.class_entries is None else judgement.class_entries.tobytes()
        for judgement in judgements
    ]
    entry_counts = count_entries([packed_set or b"" for packed_set in packed_groups])
    return [
        None if packed_set is None else {"groups": packed_set, "count": count}
        for packed_set, count in zip(packed_groups, entry_counts, strict=True)
    ]


def _doubt_texts(doubts: Iterable[Doubt]) -> list[str]:
    return sorted(doubt.text for doubt in doubts)


def _count_entry_sets(entry_sets: list[list[tuple[str, Groups]]]) -> list[list[dict[str, Any]]]:
    """Return, for each ledger, its entry sets as rows of bookie, groups and number of entries."""
    packed_sets = [groups.tobytes() for ledger_entry_sets in entry_sets for _, groups in ledger_entry_sets]
    # One pass counts all sets of the batch. The counts are then assigned to the sets in the same order.
    counted_sets = iter(zip(packed_sets, count_entries(packed_sets), strict=True))
    rows = []
    for bookie_entry_sets in entry_sets:
        row = []
        for bookie, _ in bookie_entry_sets:
            packed_set, count = next(counted_sets)
            row.append({"bookie_id": bookie, "groups": packed_set, "count": count})
        rows.append(row)
    return rows


def find_unindexed_entries(judged: DataFrame, moved_ledgers: DataFrame | None) -> DataFrame:
    """Find entries that a bookie serves or lists but that its index lacks.

    Ledgers that differ between the two scans are left out. The result has the columns scope_id, ledger_id,
    bookie_id, groups, count (of entries) and served. ``served`` is True if the bookie served the entries,
    and False if it only listed them.
    """

    def explode_entry_sets(column: str, is_served: bool) -> DataFrame:
        return unindexed_ledgers.select(
            *LEDGER, F.explode(column).alias("u"), F.lit(is_served).alias("served")
        )

    unindexed_ledgers = filter_table_part("unindexed", judged)
    rows = explode_entry_sets("unindexed", is_served=True).unionByName(
        explode_entry_sets("listed", is_served=False)
    )
    if moved_ledgers is not None:
        rows = rows.join(moved_ledgers.select(*LEDGER), [*LEDGER], "left_anti")
    return rows.select(*LEDGER, "u.*", "served")
