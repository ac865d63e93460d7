"""Questions for the bookies of ledgers that lack copies, and these ledgers judged again with the answers.

The rules are `auditor.tables.testimony`; this module carries ledgers to them in Arrow batches. Nothing here
grows with the cluster but by what is missing in it, and that is bounded before it is exploded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from auditor.errors import CoverageLimitError
from auditor.model.columns import LEDGER
from auditor.model.states import LedgerClass, UnknownCopy
from auditor.spark import functions as F
from auditor.spark.batches import map_batches
from auditor.spark.types import Column, DataFrame
from auditor.tables.doubts import unasked
from auditor.tables.judge_replicas import BookieState, groups_of
from auditor.tables.judged import (
    JUDGED,
    LEDGER_COLUMNS,
    SAID,
    facts_of,
    irregular_judgement,
    pair_of,
    pairs_by_ledger,
    rows_of,
)
from auditor.tables.testimony import BOUND, judge_again, questions
from auditor.tables.verdicts import class_of

ANSWERS_KEPT = 12
"""So many answers a ledger's judgement keeps; the table witness has all."""

_UNDECIDED = (UnknownCopy.LIMBO, UnknownCopy.MISPLACED)
"""Why a replica is unknown of which the bookie's own word says more than its index."""

_WORST_FIRST = (LedgerClass.ENTRY_LOST, LedgerClass.BELOW_ACK_QUORUM, LedgerClass.BELOW_WRITE_QUORUM)
_QUESTIONS = pa.schema(
    [
        ("scope_id", pa.int64()),
        ("ledger_id", pa.int64()),
        ("entry_id", pa.int64()),
        ("bookie_id", pa.string()),
        ("turn", pa.int32()),
        ("rank", pa.int32()),
    ]
)


def candidates(judged: DataFrame, askable: Sequence[str]) -> DataFrame:
    """The rows of ``judged`` that a witness may change: a bookie whose word matters can be asked."""
    listed = F.exists("listed", lambda part: part["bookie_id"].isin(list(askable)))
    return judged.where(_reachable(askable) | listed | (F.size(_undecided(askable)) > 0))


def requests(ledgers: DataFrame, judged: DataFrame, askable: Sequence[str], reads: int) -> DataFrame:
    """What to ask of which bookie: scope_id, ledger_id, entry_id, bookie_id, place; ``reads`` rows or fewer.

    The worst entry of each ledger comes before all samples, and the worst ledgers come first; no bookie gets
    more than half of all reads, or one.
    """
    from pyspark.sql import Window
    from pyspark.sql.pandas.types import from_arrow_schema

    names = frozenset(askable)
    worst = candidates(judged, askable).withColumn("rank", _rank())
    columns = ("missing", "listed", _undecided(askable).alias("undecided"), "rank")
    chosen = worst.orderBy("rank", *LEDGER).limit(reads).select(*LEDGER, *columns)
    facts = ledgers.where("undecidable = false").select(*LEDGER_COLUMNS)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [asked for row in batch.to_pylist() for asked in _questions(row, names)]
            yield pa.RecordBatch.from_pylist(rows, schema=_QUESTIONS)

    wanted = facts.join(F.broadcast(chosen), [*LEDGER])
    asked = map_batches(wanted, work, from_arrow_schema(_QUESTIONS))
    order = ["turn", "rank", *LEDGER, "bookie_id", "entry_id"]
    place = F.row_number().over(Window.partitionBy("bookie_id").orderBy(*order))
    return (
        asked.orderBy(*order)
        .limit(reads)
        .withColumn("place", place)
        .where(F.col("place") <= max(1, reads // 2))
        .select(*LEDGER, "entry_id", "bookie_id", "place")
    )


def rejudge(
    ledgers: DataFrame,
    unequal: DataFrame,
    judged: DataFrame,
    witness: DataFrame,
    bookies: Mapping[str, BookieState],
    askable: Sequence[str],
    grace_ms: int,
) -> DataFrame:
    """The table judged, with the answers of the bookies: rows of `auditor.tables.judged.JUDGED`.

    Ledgers that lack copies and were not asked about keep their row; where a bookie that lacks something
    could have been asked, that is a doubt.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    said = witness.groupBy(*LEDGER).agg(F.collect_list(F.struct(*SAID)).alias("said"))
    pairs = unequal.join(F.broadcast(said.select(*LEDGER)), [*LEDGER], "left_semi")
    facts = ledgers.where("undecidable = false").select(*LEDGER_COLUMNS)
    names, states = frozenset(askable), dict(bookies)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _again(batch.to_pylist(), names, states, grace_ms)

    again = facts.join(F.broadcast(said), [*LEDGER]).join(pairs_by_ledger(pairs), [*LEDGER])
    heard = map_batches(again, work, from_arrow_schema(JUDGED))
    others = judged.join(F.broadcast(said.select(*LEDGER)), [*LEDGER], "left_anti")
    # A later run may ask: it is not one of the lasting doubts.
    doubt = F.array_union("doubts", F.array(F.lit(unasked(BOUND).text)))
    doubts = F.when(_reachable(askable), doubt).otherwise(F.col("doubts"))
    unheard = others.withColumn("doubts", doubts).select(*JUDGED.names)
    return unheard.unionByName(heard)


def _questions(row: Mapping[str, Any], askable: frozenset[str]) -> Iterable[dict[str, Any]]:
    missing, listed = (
        [(part["bookie_id"], groups_of(part["groups"])) for part in row[name]]
        for name in ("missing", "listed")
    )
    try:
        asked = questions(facts_of(row), missing, askable, listed, row["undecided"])
    except CoverageLimitError:
        return  # too irregular to choose: not asked about, and the row says so
    for turn, bookie_id, entry in asked:
        yield {
            "scope_id": row["scope_id"],
            "ledger_id": row["ledger_id"],
            "entry_id": entry,
            "bookie_id": bookie_id,
            "turn": turn,
            "rank": row["rank"],
        }


def _again(
    rows: list[dict[str, Any]], askable: frozenset[str], bookies: Mapping[str, BookieState], grace_ms: int
) -> pa.RecordBatch:
    answers = []
    for row in rows:
        ledger, pairs = facts_of(row), [pair_of(pair) for pair in row["pairs"]]
        try:
            answers.append(judge_again(ledger, pairs, row["said"], askable, bookies, grace_ms))
        except CoverageLimitError as limit:
            answers.append(irregular_judgement(ledger, pairs, limit))
    return rows_of(rows, answers, [_first_answers(row["said"]) for row in rows])


def _first_answers(said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first answers, one entry after the other: what most bookies were asked for is the worst entry."""
    asked = Counter(one["entry_id"] for one in said)
    order = sorted(said, key=lambda one: (-asked[one["entry_id"]], one["entry_id"], one["bookie_id"]))
    return order[:ANSWERS_KEPT]


def _reachable(askable: Sequence[str]) -> Column:
    return F.exists("missing", lambda part: part["bookie_id"].isin(list(askable)))


def _undecided(askable: Sequence[str]) -> Column:
    """The bookies of which one answer decides a replica."""
    wanted = F.filter(
        "unknown", lambda part: part["bookie_id"].isin(list(askable)) & part["why"].isin(*_UNDECIDED)
    )
    return F.transform(wanted, lambda part: part["bookie_id"])


def _rank() -> Column:
    """The worst class first, and what lacks nothing last."""
    place = F.array_position(F.array(*(F.lit(name) for name in _WORST_FIRST)), class_of("m")).cast("int")
    return F.when(place > 0, place).otherwise(len(_WORST_FIRST) + 1)
