"""The join of both sides: what should be held and what is, what that makes of each ledger, and the witness.

It needs the first scan only, and comes before the second, so that a ledger that is deleted while its bookies
are asked is seen to have moved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from auditor.audit.bookie_answers import BookieAnswers
from auditor.audit.bookie_rows import bookie_states
from auditor.audit.few_rows import are_few, land_rows_of
from auditor.audit.index_scan import Indexes
from auditor.audit.landing import Landing
from auditor.audit.metadata_scan import FirstScan
from auditor.audit.witness import Witness, judge_with_witness
from auditor.model.options import AuditOptions
from auditor.model.states import BookieRead
from auditor.spark.query_plans import is_large, partitions_of
from auditor.tables.answers import merge_answers
from auditor.tables.block_join import unequal_here, unequal_in_blocks
from auditor.tables.judge_replicas import BookieState
from auditor.tables.judged import judge_ledgers
from auditor.tables.rows_of_few import OF_LEDGERS
from auditor.tables.unequal import PAIR, answered_ends, expected_groups, unequal

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class SideComparison(NamedTuple):
    """The tables unequal and judged, and what they rest on: how far each bookie was read, and the witness.

    ``ledgers`` and ``indexes`` are those that the unequal pairs are of, where these could be taken from the
    tables' files; else all. ``by_files`` says which of both.
    """

    unequal: DataFrame
    judged: DataFrame
    states: Mapping[str, BookieState]
    witness: Witness
    ledgers: DataFrame
    indexes: Indexes
    by_files: bool


def compare_sides(
    landing: Landing,
    first: FirstScan,
    indexes: Indexes,
    answers: BookieAnswers | None,
    options: AuditOptions,
) -> SideComparison:
    """Join both sides and judge what differs, with the word of the bookies.

    ``answers`` is None where no bookie was asked for what it has.
    """
    size = sum(landing.run.size(f"tables/{name}") for name in ("ledgers", "availability", "answers"))
    replicas = indexes.bookies.replicas
    landing.fit_plans(size, replicas)
    states = bookie_states(indexes, answers.bookies if answers else {})
    whole = answers is None and indexes.whole and landing.run.local
    make: Callable[[], DataFrame | pa.Table] = partial(_unequal, first, indexes, answers, states)
    if whole:
        make = partial(_unequal_in_blocks, landing, indexes, replicas if is_large(size) else None)
    pairs = landing.beside_all("unequal", landing.land("unequal", make))
    ledgers, of_pairs = first.ledgers, indexes
    few = whole and are_few(landing, "unequal")
    if few:
        ledgers, of_pairs = _of_pairs(landing, first, indexes)
    by_index = partial(judge_ledgers, ledgers, pairs, states, round(options.grace * 1000))
    judgement, witness = judge_with_witness(landing, first, indexes.bookies, pairs, states, by_index, options)
    judged = landing.beside_all("judged", judgement)
    return SideComparison(pairs, judged, states, witness, ledgers, of_pairs, few)


def _of_pairs(landing: Landing, first: FirstScan, indexes: Indexes) -> tuple[DataFrame, Indexes]:
    """Of both tables what the pairs are of."""
    ledgers = land_rows_of(landing, "unequal", "ledgers", first.ledgers, OF_LEDGERS)
    return ledgers, indexes.of_rows(land_rows_of(landing, "unequal", "availability", indexes.rows))


def _unequal_in_blocks(landing: Landing, indexes: Indexes, replicas: int | None) -> DataFrame | pa.Table:
    """The same of tables that say all there is to say of each replica in one row.

    Tasks compare so many ``replicas``, None: they are few, and compared here and now.
    """
    ledgers, availability = (
        Path(landing.run.where(f"tables/{name}")) for name in ("ledgers", "availability")
    )
    foreign = indexes.bookies.foreign
    if replicas is None:
        return unequal_here(ledgers, availability, foreign)
    buckets = partitions_of(landing.spark, replicas)
    return unequal_in_blocks(landing.spark, ledgers, availability, foreign, buckets)


def _unequal(
    first: FirstScan, indexes: Indexes, answers: BookieAnswers | None, states: Mapping[str, BookieState]
) -> DataFrame:
    """Every pair of a ledger and a bookie in which expected and held differ."""
    should_hold = expected_groups(first.ledgers, indexes.tails.beside)
    if answers is None:
        return unequal(should_hold, indexes.replicas, indexes.bookies.foreign)
    whole = [name for name in states if indexes.bookies.read_whole(name)]
    held = merge_answers(indexes.replicas, answers.rows.where("ledger_id is not null"), whole)
    pairs = unequal(should_hold, held, indexes.bookies.foreign)
    partly = [name for name, state in states.items() if state.read != BookieRead.READ]
    if not partly:
        return pairs
    # A pair that its journal made differ is here already.
    ends = answered_ends(first.ledgers, held, partly).join(pairs.select(*PAIR), [*PAIR], "left_anti")
    return pairs.unionByName(ends)
