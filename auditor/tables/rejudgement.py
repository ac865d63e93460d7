"""witness: the entries that bookies are asked for, and the judgement of ledgers with the bookies' answers.

If the indexes show that a ledger lacks copies, the audit asks the bookies themselves. The entry that
determines the class of the ledger is requested from every bookie that should have it. Each bookie is also
asked for a sample of the entries that it lacks. If it lacks few entries, the sample has all of them. Then
the ledger is judged again. The number of requests depends only on the number of missing entries. It is
limited before rows of requests are made. Each row of the following list is about one ledger on one bookie:

    the index        the bookie says       result
    ---------------  --------------------  -----------------------------------------------------------------
    lacks the entry  served                The entry is held. The index is no longer trusted here: other
                                           entries that it lacks are unknown unless they were asked for
                                           (index-incomplete). If clocks do not explain it, the bookie gets
                                           a finding.
    lacks the entry  no such entry         The entry is missing now, whatever the age of the index. If that
                                           age was in doubt, other lacking entries are unknown (not-asked),
                                           otherwise they are missing by the index.
    lacks the entry  no such ledger        All entries that the index lacks are missing now.
    lacks the entry  nothing (silent, or   The index shows whether the entry is missing or unknown. A doubt
                     the bound on reads)   says that the bookie did not respond, so that a finding is at
                                           most suspect.
    lacks the entry  refused: it takes no  The same result and doubt as without an answer. There is no doubt
                     reads from us         if the journal was read completely.
    was not read     served                The entry is held. Other entries stay unknown.
    was not read     no such entry/ledger  The entry is missing. Other entries stay unknown.
    lacks an entry   served                The entry is held. If clocks do not explain it, the bookie gets a
    of a listing                           finding.
                     no such entry/ledger  The entry is unknown (denied): listing or answer is wrong.
                     nothing               The entry is held, as the listing proves. The finding is suspect.
    is damaged       served                The entry is held. Other entries stay unknown.
                     no such entry/ledger  The entry stays unknown: the bookie reads its damaged index.
    has the ledger   served                The ledger is not in limbo: this entry and those in the index are
    in limbo                               held. Other entries stay unknown.
                     anything else         All entries are unknown, also those in the index.
    is where the     served                The entry is held. Other entries stay unknown.
    bookie does not  no such entry/ledger  The entry is missing: the bookie does not look at that index.
    look for it
    has the entry    served                The entry is held. Other entries in missing logs are unknown
    in a missing                           (entry-log-gone).
    log              no such entry/ledger, The entry and all others in missing logs are missing.
                     an error of its disk
                     nothing               The entry is missing if two readings agree, or the bookie is
                                           down. Otherwise it is unknown.
    shows the entry  served, or nothing    The entry is held.
    shows the entry  no such entry/ledger  The entry is unknown (denied): index or answer is wrong.

A listing (``rpc:``) counts as an index whose age is always in doubt. A bookie that is not registered cannot
be asked. Only its index and the age of the index decide. A bookie is not asked if all its directories
belong to another cluster. Whatever a bookie answers, two doubts can remain: the ledger is not closed, or a
directory is at the path of another bookie.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from auditor.codecs.availability.coverage import even_sample, most_shared_entry
from auditor.errors import CoverageLimitError
from auditor.model.columns import LEDGER
from auditor.model.states import IndexState, LedgerClass, UnknownCopy
from auditor.spark import functions as F
from auditor.spark.batches import map_rows
from auditor.spark.types import Column, DataFrame
from auditor.tables.doubts import bookie_not_asked
from auditor.tables.judge_replicas import (
    BookieState,
    Groups,
    LedgerFacts,
    Pair,
    groups_of,
)
from auditor.tables.judged import (
    ANSWER_COLUMNS,
    JUDGED,
    LEDGER_COLUMNS,
    judge_as_unknown,
    ledger_facts,
    make_judged_rows,
    make_pair,
    pairs_by_ledger,
)
from auditor.tables.judgement import Judgement
from auditor.tables.ledger_class import judge
from auditor.tables.past_end import move_past_end_entries
from auditor.tables.read_replies import ReadReplies, entry_groups_of, replies_by_bookie
from auditor.tables.verdicts import class_column

MAX_SAMPLED_ENTRIES = 64
"""Largest number of entries of one ledger that a bookie is asked for in the sample of entries it lacks."""
READ_LIMIT_REASON = "the limit on entry reads was reached (--witness-reads)"


def choose_reads(
    ledger: LedgerFacts,
    missing_sets: Sequence[tuple[str, Groups]],
    askable_bookies: Collection[str],
    listed_groups: Sequence[tuple[str, Groups]] = (),
    bookies_with_undecided_replica: Collection[str] = (),
) -> list[tuple[int, str, int]]:
    """Choose the entries of one ledger to request, as tuples (turn, bookie, entry), the most useful first.

    Turn 0 is the entry with the most missing copies. It is requested from its whole write set. Later turns
    are entries that a bookie lacks, or that only the bookie's own listing has.

    Args:
        ledger: Facts about the ledger.
        missing_sets: Missing entries by bookie.
        askable_bookies: Bookies that can be asked.
        listed_groups: By bookie, the entries that its listing has but its index lacks.
        bookies_with_undecided_replica: Bookies whose reply about a single entry decides the whole replica.

    Raises:
        CoverageLimitError: The sets are too irregular.

    >>> import numpy as np
    >>> from auditor.codecs.availability.groups import GROUP
    >>> ledger = LedgerFacts(1, True, 2, 2, 1, 9, 0, [(0, ["a", "b"])])
    >>> choose_reads(ledger, [("a", np.array([(3, 3, 2, 0)], GROUP))], ["a", "b"])
    [(0, 'a', 3), (0, 'b', 3), (1, 'a', 4)]
    """
    worst_entry = most_shared_entry([groups for _, groups in missing_sets])
    rank_by_read = (
        {} if worst_entry is None else {(bookie, worst_entry): 0 for bookie in write_set(ledger, worst_entry)}
    )
    for bookie, groups in (*missing_sets, *listed_groups):
        sampled_entries = [
            entry for entry in even_sample(groups, MAX_SAMPLED_ENTRIES) if entry != worst_entry
        ]
        rank_by_read |= {(bookie, entry): read_rank for read_rank, entry in enumerate(sampled_entries, 1)}
    for bookie in bookies_with_undecided_replica:
        rank_by_read.setdefault((bookie, first_entry(ledger, bookie)), 1)
    return sorted(
        (read_rank, bookie, entry)
        for (bookie, entry), read_rank in rank_by_read.items()
        if bookie in askable_bookies
    )


def write_set(ledger: LedgerFacts, entry: int) -> list[str]:
    """Return the bookies that should have an entry, without duplicates.

    >>> write_set(LedgerFacts(1, True, 3, 2, 1, 9, 0, [(0, ["a", "b", "c"])]), 2)
    ['c', 'a']
    """
    ensemble = next(members for segment_first, members in reversed(ledger.segments) if segment_first <= entry)
    ensemble_indexes = (
        (entry + copy_number) % ledger.ensemble_size for copy_number in range(ledger.write_quorum)
    )
    return list(dict.fromkeys(ensemble[ensemble_index] for ensemble_index in ensemble_indexes))


def first_entry(ledger: LedgerFacts, bookie_id: str) -> int:
    """Return the first entry of the ledger that a bookie should have.

    >>> first_entry(LedgerFacts(1, True, 3, 2, 1, 9, 0, [(0, ["a", "b", "c"])]), "b")
    0
    >>> first_entry(LedgerFacts(1, True, 3, 1, 1, 9, 0, [(0, ["a", "b", "c"])]), "c")
    2
    """
    return next(
        entry
        for segment_first, segment_last in ledger.segment_ranges
        for entry in range(segment_first, min(segment_last + 1, segment_first + ledger.ensemble_size))
        if bookie_id in write_set(ledger, entry)
    )


def judge_again(
    ledger: LedgerFacts,
    pairs: Sequence[Pair],
    answers: Sequence[Mapping[str, Any]],
    askable_bookies: Collection[str],
    bookies: Mapping[str, BookieState],
    grace_ms: int,
) -> Judgement:
    """Judge a ledger from its unequal replicas and the bookies' answers (rows of the table ``witness``).

    A replica is unequal if its expected and held entries differ. ``askable_bookies`` are the bookies that
    could be asked. The replicas of other bookies are judged as in `judge`. Raises `CoverageLimitError` in the
    same cases as `judge`.
    """
    bookie_replies = replies_by_bookie(answers)
    answered_pairs = [
        replace(
            pair, replies=bookie_replies.get(pair.bookie_id, ReadReplies(no_reply_reason=READ_LIMIT_REASON))
        )
        if pair.bookie_id in askable_bookies or pair.bookie_id in bookie_replies
        else pair
        for pair in pairs
    ]
    unequal_bookies = {pair.bookie_id for pair in pairs}
    for bookie_id, replies in bookie_replies.items():
        if bookie_id not in unequal_bookies and len(replies.denied_groups):
            # Its index shows all expected entries, so only the requested entries are judged.
            requested_groups = entry_groups_of(row for row in answers if row["bookie_id"] == bookie_id)
            answered_pairs.append(
                Pair(bookie_id, requested_groups, requested_groups, IndexState.OK, replies=replies)
            )
    return judge(ledger, answered_pairs, bookies, grace_ms)


MAX_ANSWERS_KEPT = 12
"""Largest number of answers in a row of ``judged``. The table ``witness`` has all answers."""

_UNDECIDED_REASONS = (UnknownCopy.LIMBO, UnknownCopy.MISPLACED, UnknownCopy.ENTRY_LOG)
"""Reasons for unknown replicas about which the bookie's own answer tells more than its index."""

_CLASSES_WORST_FIRST = (LedgerClass.ENTRY_LOST, LedgerClass.BELOW_ACK_QUORUM, LedgerClass.BELOW_WRITE_QUORUM)
_READ_SCHEMA = pa.schema(
    [
        ("scope_id", pa.int64()),
        ("ledger_id", pa.int64()),
        ("entry_id", pa.int64()),
        ("bookie_id", pa.string()),
        ("turn", pa.int32()),
        ("rank", pa.int32()),
    ]
)


def find_askable_ledgers(judged_ledgers: DataFrame, askable_bookies: Sequence[str]) -> DataFrame:
    """Return the rows of ``judged_ledgers`` that the answer of a bookie in ``askable_bookies`` may change."""
    listed_groups = F.exists(
        "listed", lambda entry_set_row: entry_set_row["bookie_id"].isin(list(askable_bookies))
    )
    return judged_ledgers.where(
        _has_askable_bookie(askable_bookies)
        | listed_groups
        | (F.size(_undecided_copies(askable_bookies)) > 0)
    )


def select_reads(
    ledgers: DataFrame, judged_ledgers: DataFrame, askable_bookies: Sequence[str], max_reads: int
) -> DataFrame:
    """Return at most ``max_reads`` reads to request: scope_id, ledger_id, entry_id, bookie_id, place.

    ``place`` is the position of a read among the reads of its bookie. The worst entries of all ledgers come
    before all samples, and the worst ledgers come first. No bookie gets more than half of ``max_reads``,
    but every bookie may get one read.
    """
    askable_ids = frozenset(askable_bookies)
    ranked_candidates = find_askable_ledgers(judged_ledgers, askable_bookies).withColumn(
        "rank", _class_rank()
    )
    judged_columns = ("missing", "listed", _undecided_copies(askable_bookies).alias("undecided"), "rank")
    chosen_ledgers = (
        ranked_candidates.orderBy("rank", *LEDGER).limit(max_reads).select(*LEDGER, *judged_columns)
    )
    judgeable_ledgers = ledgers.where("undecidable = false").select(*LEDGER_COLUMNS)

    def make_read_rows(rows: list[dict[str, Any]]) -> pa.RecordBatch:
        read_rows = [read_row for row in rows for read_row in _ledger_read_rows(row, askable_ids)]
        return pa.RecordBatch.from_pylist(read_rows, schema=_READ_SCHEMA)

    ledger_reads = map_rows(
        judgeable_ledgers.join(F.broadcast(chosen_ledgers), [*LEDGER]), make_read_rows, _READ_SCHEMA
    )
    request_order = ["turn", "rank", *LEDGER, "bookie_id", "entry_id"]
    bookie_rank = F.row_number().over(F.Window.partitionBy("bookie_id").orderBy(*request_order))
    return (
        ledger_reads.orderBy(*request_order)
        .limit(max_reads)
        .withColumn("place", bookie_rank)
        .where(F.col("place") <= max(1, max_reads // 2))
        .select(*LEDGER, "entry_id", "bookie_id", "place")
    )


def rejudge(
    ledgers: DataFrame,
    differing_replicas: DataFrame,
    judged_ledgers: DataFrame,
    read_answers: DataFrame,
    bookies: Mapping[str, BookieState],
    askable_bookies: Sequence[str],
    grace_ms: int,
) -> DataFrame:
    """Return the table ``judged`` after the bookies' answers: rows of `auditor.tables.judged.JUDGED`.

    Ledgers without an answer keep their row. If a bookie that lacks an entry could have been asked, such a
    row gets a doubt. A doubt is a reason why the missing copies are only suspected.
    """
    answers_by_ledger = read_answers.groupBy(*LEDGER).agg(
        F.collect_list(F.struct(*ANSWER_COLUMNS)).alias("said")
    )
    answered_replicas = differing_replicas.join(
        F.broadcast(answers_by_ledger.select(*LEDGER)), [*LEDGER], "left_semi"
    )
    judgeable_ledgers = ledgers.where("undecidable = false").select(*LEDGER_COLUMNS)
    askable_ids, state_by_bookie = frozenset(askable_bookies), dict(bookies)
    answered_ledgers = judgeable_ledgers.join(F.broadcast(answers_by_ledger), [*LEDGER]).join(
        pairs_by_ledger(answered_replicas), [*LEDGER]
    )
    answered_rows = map_rows(
        answered_ledgers,
        partial(_judge_again, askable_bookies=askable_ids, bookies=state_by_bookie, grace_ms=grace_ms),
        JUDGED,
    )
    unanswered_rows = judged_ledgers.join(
        F.broadcast(answers_by_ledger.select(*LEDGER)), [*LEDGER], "left_anti"
    )
    # A transient doubt, because a later run may ask.
    read_limit_doubt = F.array_union("doubts", F.array(F.lit(bookie_not_asked(READ_LIMIT_REASON).text)))
    updated_doubts = F.when(_has_askable_bookie(askable_bookies), read_limit_doubt).otherwise(F.col("doubts"))
    unanswered_pairs = unanswered_rows.withColumn("doubts", updated_doubts).select(*JUDGED.names)
    return unanswered_pairs.unionByName(answered_rows)


def _ledger_read_rows(row: Mapping[str, Any], askable_bookies: frozenset[str]) -> Iterable[dict[str, Any]]:
    missing_sets, listed_groups = (
        [(entry_set_row["bookie_id"], groups_of(entry_set_row["groups"])) for entry_set_row in row[set_name]]
        for set_name in ("missing", "listed")
    )
    try:
        chosen_entries = choose_reads(
            ledger_facts(row), missing_sets, askable_bookies, listed_groups, row["undecided"]
        )
    except CoverageLimitError:
        return  # too irregular to choose entries: no reads, and the row has the doubt
    ledger_columns = {column: row[column] for column in (*LEDGER, "rank")}
    for read_rank, bookie_id, entry in chosen_entries:
        yield {**ledger_columns, "entry_id": entry, "bookie_id": bookie_id, "turn": read_rank}


def _judge_again(
    rows: list[dict[str, Any]],
    askable_bookies: frozenset[str],
    bookies: Mapping[str, BookieState],
    grace_ms: int,
) -> pa.RecordBatch:
    answers = []
    for row in rows:
        ledger, pairs = ledger_facts(row), [make_pair(pair_row) for pair_row in row["pairs"]]
        try:
            answer = judge_again(ledger, pairs, row["said"], askable_bookies, bookies, grace_ms)
            move_past_end_entries(ledger, bookies, answer)
            answers.append(answer)
        except CoverageLimitError as limit:
            answers.append(judge_as_unknown(ledger, pairs, limit))
    return make_judged_rows(rows, answers, [_limit_answers(row["said"]) for row in rows])


def _limit_answers(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return at most `MAX_ANSWERS_KEPT` answers, grouped by entry.

    Entries with the most answers come first. The worst entry is among them, because its whole write set was
    asked.
    """
    answer_counts = Counter(answer["entry_id"] for answer in answers)
    request_order = sorted(
        answers,
        key=lambda answer: (-answer_counts[answer["entry_id"]], answer["entry_id"], answer["bookie_id"]),
    )
    return request_order[:MAX_ANSWERS_KEPT]


def _has_askable_bookie(askable_bookies: Sequence[str]) -> Column:
    return F.exists("missing", lambda entry_set_row: entry_set_row["bookie_id"].isin(list(askable_bookies)))


def _undecided_copies(askable_bookies: Sequence[str]) -> Column:
    """Return the askable bookies whose reply about a single entry decides the whole replica."""
    undecided_copies = F.filter(
        "unknown",
        lambda entry_set_row: (
            entry_set_row["bookie_id"].isin(list(askable_bookies))
            & entry_set_row["why"].isin(*_UNDECIDED_REASONS)
        ),
    )
    return F.transform(undecided_copies, lambda entry_set_row: entry_set_row["bookie_id"])


def _class_rank() -> Column:
    """Return the rank of a ledger's class. The worst class has rank 1.

    Ledgers that lack nothing have the last rank.
    """
    class_rank = F.array_position(
        F.array(*(F.lit(class_name) for class_name in _CLASSES_WORST_FIRST)), class_column("m")
    ).cast("int")
    return F.when(class_rank > 0, class_rank).otherwise(len(_CLASSES_WORST_FIRST) + 1)
