"""judged: one row for every ledger with an unequal replica, with the judgement of its copies.

`auditor.tables.judge_replicas` judges each ledger. This module passes the ledgers to it in Arrow batches, one
row per ledger with its few unequal pairs. So no rows are exploded or collected.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from auditor.codecs.availability import coverage
from auditor.codecs.availability.groups import GroupBatch, offsets_of
from auditor.errors import CoverageLimitError
from auditor.model.columns import LEDGER, rows_of_columns, schema_of
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
from auditor.tables.ledger_class import lacks_whole_replicas, set_class, set_classes_of_whole
from auditor.tables.parts import filter_part
from auditor.tables.past_end import separate_past_end


def judge_many(
    ledgers: Sequence[tuple[LedgerFacts, Sequence[Pair]]], bookies: Mapping[str, BookieState], grace_ms: int
) -> list[Judgement]:
    """Judge ledgers, each with its unequal replicas.

    Arguments are those of `auditor.tables.ledger_class.judge`. A ledger whose sets are too irregular has
    unknown replicas.
    """
    answers, whole_numbers = [], []
    for ledger, pairs in ledgers:
        try:
            answer = classify_replicas(ledger, pairs, bookies, grace_ms)
            if lacks_whole_replicas(ledger, pairs):
                whole_numbers.append((ledger, answer))
            else:
                set_class(ledger, answer)
                # After the judgement: entries behind the end of a closed ledger are no ordinary surplus.
                separate_past_end(ledger, bookies, answer)
        except CoverageLimitError as limit_error:
            answer = irregular_judgement(ledger, pairs, limit_error)
        answers.append(answer)
    set_classes_of_whole(whole_numbers)
    return answers


def counts(group_sets: Sequence[bytes]) -> list[int]:
    """Count the entries of each set from its packed groups, in one pass over all sets.

    >>> counts([GroupBatch.from_tuples([[(0, 9, 2, 3)]]).tobytes(), b""])
    [8, 0]
    """
    lengths = np.array([len(value) for value in group_sets], np.int64)
    batch = GroupBatch.frombytes(b"".join(group_sets), offsets_of(lengths))
    entry_offsets = offsets_of(batch.entries())
    return [
        int(entry_count)
        for entry_count in entry_offsets[batch.offsets[1:]] - entry_offsets[batch.offsets[:-1]]
    ]


ANSWER_COLUMNS = ("bookie_id", "entry_id", "answer", "reason")
"""Columns of the table ``witness`` that the table ``judged`` includes."""
_ENTRIES_TYPE = pa.list_(
    pa.struct([("bookie_id", pa.string()), ("groups", pa.binary()), ("count", pa.int64())])
)
JUDGED = schema_of(
    ("scope_id", pa.int64(), "BP-35 scope; 0 for every stock ledger"),
    ("ledger_id", pa.int64(), "the ledger"),
    ("version", pa.int64(), "version of the ledger's metadata in the first scan"),
    ("state", pa.string(), "OPEN, IN_RECOVERY or CLOSED"),
    ("mtime", pa.int64(), "time when the ledger's metadata last changed, ms; null: the store keeps no times"),
    ("write_quorum", pa.int32(), "copies that a write is sent to"),
    ("ack_quorum", pa.int32(), "copies needed for an acknowledgement to the writer"),
    ("last_entry_id", pa.int64(), "last entry of the ledger; -1: the ledger is empty or not closed"),
    ("length", pa.int64(), "bytes of the ledger's entries; null: the ledger is not closed"),
    ("m", pa.int32(), "largest number of confirmed missing copies of one entry"),
    ("mu", pa.int32(), "largest number of missing or unknown copies of one entry"),
    (
        "class_entries",
        pa.struct([("groups", pa.binary()), ("count", pa.int64())]),
        "the entries that decide the ledger's class: entries with no copy left, fewer than "
        "the ack quorum, or fewer than the write quorum; null: too many groups to list",
    ),
    ("missing", _ENTRIES_TYPE, "entries that a bookie should have and lacks, although it was read"),
    (
        "unknown",
        pa.list_(pa.struct([("bookie_id", pa.string()), ("count", pa.int64()), ("why", pa.string())])),
        "bookies whose copies are unknown; why: unread, unreadable, limbo, not-indexed, "
        "misplaced, wrong-directory, entry-log-gone; for bookies that were asked also: "
        "denied, index-incomplete, not-asked",
    ),
    (
        "lagging",
        _ENTRIES_TYPE,
        "entries of the open last segment that an ack quorum has and another read bookie of "
        "its ensemble lacks",
    ),
    (
        "stale",
        _ENTRIES_TYPE,
        "entries that a bookie has of segments whose ensembles do not contain the bookie",
    ),
    (
        "surplus",
        _ENTRIES_TYPE,
        "entries that a bookie has beyond the last entry, or outside of the bookie's stripe",
    ),
    (
        "past_end",
        _ENTRIES_TYPE,
        "consecutive entries beyond the last entry that an ack quorum of bookies has; not in surplus",
    ),
    ("past_end_last", pa.int64(), "the last entry of past_end; null: past_end is empty"),
    (
        "past_end_by_takeover",
        pa.bool_(),
        "whether a takeover explains all changes of the ledger's metadata; null: past_end is empty",
    ),
    (
        "foreign",
        pa.list_(pa.struct([("bookie_id", pa.string()), ("count", pa.int64()), ("behind_end", pa.int64())])),
        "bookies that have entries of the ledger and are in none of its ensembles; "
        "behind_end: entries beyond the end of a closed ledger that no takeover explains",
    ),
    (
        "unindexed",
        _ENTRIES_TYPE,
        "entries that a bookie returned although its index lacks them, if clocks do not explain that",
    ),
    (
        "listed",
        _ENTRIES_TYPE,
        "entries that a bookie listed although its index lacks them; without entries that "
        "were asked for, or that clocks explain",
    ),
    ("doubts", pa.list_(pa.string()), "reasons why the result is only suspect"),
    (
        "lasting_doubts",
        pa.list_(pa.string()),
        "those of doubts that a newer read of the same version cannot settle",
    ),
    (
        "witness",
        pa.list_(pa.struct([(name, WITNESS.field(name).type) for name in ANSWER_COLUMNS])),
        "first answers of the bookies that were asked for entries",
    ),
)
LEDGER_COLUMNS = (
    "scope_id", "ledger_id", "version", "state", "mtime", "ensemble_size", "write_quorum", "ack_quorum",
    "last_entry_id", "length", "segments", "changes",
)  # fmt: skip

_COPIED_COLUMNS = tuple(name for name in LEDGER_COLUMNS if name in JUDGED.names)
# Columns that are fields of a judgement by the same names: as they are, and as sets of entries of bookies.
_NUMBER_COLUMNS = ("m", "mu", "past_end_last", "past_end_by_takeover")
_ENTRY_SET_COLUMNS = ("missing", "lagging", "stale", "surplus", "past_end", "unindexed", "listed")


def judge_ledgers(
    ledgers: DataFrame, unequal: DataFrame, bookies: Mapping[str, BookieState], grace_ms: int
) -> DataFrame:
    """Judge every ledger that has an unequal pair and whose metadata can be judged.

    Spark sends all of ``bookies`` to the tasks. It has one element per bookie.
    """
    judgeable_ledgers = ledgers.where("undecidable = false").select(*LEDGER_COLUMNS)
    # A plain dict, whatever mapping it was: it is pickled into every task.
    states = dict(bookies)
    rows = judgeable_ledgers.join(pairs_by_ledger(unequal), [*LEDGER])
    return map_rows(rows, partial(_answers, bookies=states, grace_ms=grace_ms), JUDGED)


def pairs_by_ledger(unequal: DataFrame) -> DataFrame:
    """Return one row per ledger with its few unequal ``pairs``, in the form that `pair_of` reads."""
    pair = F.struct(
        "bookie_id", "expected", "held", "index_state", "answered", "listed", "gone", "gone_state"
    )
    return unequal.groupBy(*LEDGER).agg(F.collect_list(pair).alias("pairs"))


def _answers(rows: list[dict[str, Any]], bookies: Mapping[str, BookieState], grace_ms: int) -> pa.RecordBatch:
    ledgers = [(facts_of(row), [pair_of(pair) for pair in row["pairs"]]) for row in rows]
    return rows_of(rows, judge_many(ledgers, bookies, grace_ms), [[]] * len(rows))


def irregular_judgement(
    ledger: LedgerFacts, pairs: Sequence[Pair], limit_error: CoverageLimitError
) -> Judgement:
    """Return the judgement of a ledger whose sets are too irregular to compare: its replicas are unknown."""
    unknown: list[tuple[str, Groups, str]] = [
        (pair.bookie_id, pair.expected, UnknownCopy.UNREADABLE) for pair in pairs
    ]
    return Judgement(
        mu=ledger.write_quorum, unknown=unknown, doubts={doubts.sets_too_irregular(str(limit_error))}
    )


def facts_of(row: Mapping[str, Any]) -> LedgerFacts:
    """Return a ledger's facts from its row of the table ledgers."""
    return LedgerFacts(
        ledger_id=row["ledger_id"],
        closed=row["state"] == LedgerState.CLOSED,
        ensemble_size=row["ensemble_size"],
        write_quorum=row["write_quorum"],
        ack_quorum=row["ack_quorum"],
        last_entry_id=row["last_entry_id"],
        mtime=row["mtime"],
        segments=[(segment["first_entry_id"], segment["ensemble"]) for segment in row["segments"]],
        changes=row["changes"],
    )


def pair_of(row: Mapping[str, Any]) -> Pair:
    """Return a pair from its row of the table unequal."""
    return Pair(
        row["bookie_id"],
        groups_of(row["expected"]),
        groups_of(row["held"]),
        row["index_state"],
        row["answered"],
        listed=groups_of(row["listed"]),
        gone=groups_of(row["gone"]),
        gone_agreed=row["gone_state"] == GoneState.AGREED,
    )


def rows_of(
    rows: list[dict[str, Any]], answers: list[Judgement], witness_rows: Sequence[list[dict[str, Any]]]
) -> pa.RecordBatch:
    """Return rows of the table judged from rows of ledgers, their judgements, and the bookies' answers."""
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in _COPIED_COLUMNS}
    columns |= {name: [getattr(answer, name) for answer in answers] for name in _NUMBER_COLUMNS}
    columns |= {name: _entries([getattr(answer, name) for answer in answers]) for name in _ENTRY_SET_COLUMNS}
    columns |= {
        "class_entries": _class_entries(answers),
        "unknown": _unknown_copies(answers),
        "foreign": [
            [
                {
                    "bookie_id": foreign_copy.bookie_id,
                    "count": coverage.count(foreign_copy.held),
                    "behind_end": foreign_copy.behind_end,
                }
                for foreign_copy in answer.foreign
            ]
            for answer in answers
        ],
        "doubts": [_doubt_texts(answer.doubts) for answer in answers],
        "lasting_doubts": [
            _doubt_texts(doubt for doubt in answer.doubts if not doubt.is_transient) for answer in answers
        ],
        "witness": witness_rows,
    }
    return rows_of_columns(JUDGED, len(rows), columns)


def _unknown_copies(answers: Sequence[Judgement]) -> list[list[dict[str, Any]]]:
    """Return each bookie's number of unknown entries, and the reason. No table has the groups of these."""
    entries = _entries([[(bookie, groups) for bookie, groups, _ in answer.unknown] for answer in answers])
    return [
        [
            {"bookie_id": entry["bookie_id"], "count": entry["count"], "why": why}
            for entry, (_, _, why) in zip(row, answer.unknown, strict=True)
        ]
        for row, answer in zip(entries, answers, strict=True)
    ]


def _class_entries(answers: Sequence[Judgement]) -> list[dict[str, Any] | None]:
    packed_groups = [
        None if answer.class_entries is None else answer.class_entries.tobytes() for answer in answers
    ]
    entry_counts = counts([value or b"" for value in packed_groups])
    return [
        None if value is None else {"groups": value, "count": count}
        for value, count in zip(packed_groups, entry_counts, strict=True)
    ]


def _doubt_texts(doubts: Iterable[Doubt]) -> list[str]:
    return sorted(doubt.text for doubt in doubts)


def _entries(group_sets: list[list[tuple[str, Groups]]]) -> list[list[dict[str, Any]]]:
    """Return each ledger's sets as rows, with their numbers of entries."""
    values = [groups.tobytes() for ledger_sets in group_sets for _, groups in ledger_sets]
    # One pass counts all sets of the batch; they are dealt out again in the order in which they were put in.
    counted_values = iter(zip(values, counts(values), strict=True))
    rows = []
    for bookie_sets in group_sets:
        row = []
        for bookie, _ in bookie_sets:
            value, count = next(counted_values)
            row.append({"bookie_id": bookie, "groups": value, "count": count})
        rows.append(row)
    return rows


def find_unindexed(judged: DataFrame, moved: DataFrame | None) -> DataFrame:
    """Find entries that a bookie serves or lists and its index lacks.

    Ledgers that the two scans show differently are left out. Returns scope_id, ledger_id, bookie_id, groups,
    count, and whether they are served.
    """

    def explode_entry_sets(column: str, is_served: bool) -> DataFrame:
        return unindexed_ledgers.select(
            *LEDGER, F.explode(column).alias("u"), F.lit(is_served).alias("served")
        )

    unindexed_ledgers = filter_part("unindexed", judged)
    rows = explode_entry_sets("unindexed", is_served=True).unionByName(
        explode_entry_sets("listed", is_served=False)
    )
    if moved is not None:
        rows = rows.join(moved.select(*LEDGER), [*LEDGER], "left_anti")
    return rows.select(*LEDGER, "u.*", "served")
