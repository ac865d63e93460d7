"""Comparison of the metadata with the indexes and answers of bookies, and the state of each ledger.

The comparison needs only the first scan, and runs before the second one. If a ledger is deleted while
bookies are asked, the second scan therefore shows the deletion.

With ``--bookies rpc:``, the audit first asks bookies for lists of their entries. A bookie without a readable
directory or collection is asked about every ledger that may have entries on it. The other bookies are asked
only about ledgers where their index differs from the metadata. Their answers include entries that are not yet
written to the index. No bookie is asked which ledgers it has: the protocol has no such request.

Witness reads come last. On a live cluster, the audit asks bookies for entries before it reports the entries
as lost. `auditor.tables.rejudgement` chooses the reads and applies the answers. The table ``witness`` has
every answer. The audit asks a bookie only in three cases: a copy is missing, a ledger is in limbo or
misplaced, or an answer lists more entries than the bookie's disk has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from auditor.audit.bookie_rows import bookie_states
from auditor.audit.bookies import ClusterBookies
from auditor.audit.index_scan import Indexes, gap_reasons
from auditor.audit.metadata_scan import FirstScan
from auditor.audit.table_cache import SCRATCH, TableCache, semi_join_scratch
from auditor.model.amounts import and_more, plural
from auditor.model.columns import REPLICA
from auditor.model.options import AuditOptions
from auditor.model.run_facts import WHOLE, Remark, RemarkKind, remark
from auditor.model.states import BookieRead, WitnessAnswer
from auditor.sources.bookies.rpc import reads
from auditor.sources.bookies.rpc.connection import endpoints, every_replica
from auditor.sources.bookies.rpc.listings import rpc_availability
from auditor.sources.metadata.credentials import credentials_file
from auditor.sources.metadata.store import StoreOptions
from auditor.spark import functions as F
from auditor.spark.batches import Rows
from auditor.spark.types import DataFrame
from auditor.tables.accounts import expected_replicas, gone_replicas, index_replicas, tail_replicas
from auditor.tables.judge_replicas import BookieState
from auditor.tables.judged import JUDGED, judge_ledgers
from auditor.tables.read_replies import READ_ERROR_TEXT
from auditor.tables.registry import registered_modes, registrations
from auditor.tables.rejudgement import candidates, rejudge, select_reads
from auditor.tables.replica_blocks import Account
from auditor.tables.rows_of_ledgers import COLUMNS_OF_LEDGERS
from auditor.tables.unequal import AccountFiles, BookieTrust, find_unequal

BOOKIES_NAMED = 5
"""Largest number of bookies without an answer that a report names."""


@dataclass(frozen=True)
class Witness:
    """The witness reads: ``rows`` is the table ``witness``, or None if no bookie was asked.

    ``reads`` is the limit on the number of reads (``--witness-reads``).
    """

    rows: DataFrame | None
    reads: int

    def summary(self) -> tuple[int, list[Remark]]:
        """Return the number of reads sent, and remarks for the report about the reads."""
        if self.rows is None:
            return 0, []
        unknown, refused = (
            F.col("answer") == kind for kind in (WitnessAnswer.UNKNOWN, WitnessAnswer.REFUSED)
        )
        # An error of the bookie's disk is an answer: it cannot read the entry.
        unknown &= ~F.coalesce(F.col("reason").endswith(READ_ERROR_TEXT), F.lit(False))
        counts_by_bookie = (
            self.rows.groupBy("bookie_id")
            .agg(
                F.count("*").alias("entries"),
                F.sum("requests").alias("requests"),
                F.count_if(unknown).alias("unknown"),
                F.count_if(refused).alias("refused"),
                F.min(F.when(unknown | refused, F.col("reason"))).alias("reason"),
            )
            .orderBy("bookie_id")
            .collect()
        )
        remarks = []
        refusing_bookies = [
            row["bookie_id"] for row in counts_by_bookie if row["entries"] >= max(1, self.reads // 2)
        ]
        if refusing_bookies or sum(row["entries"] for row in counts_by_bookie) >= self.reads:
            text = "--witness-reads: the limit was reached; entries that were not read stay suspect"
            remarks.append(remark(RemarkKind.WITNESS_BOUND, text))
        silent_rows = [row for row in counts_by_bookie if row["unknown"]]
        if silent_rows:
            entries = plural(sum(row["unknown"] for row in silent_rows), "entry")
            text = (
                f"no answer from {plural(len(silent_rows), 'bookie')} about {entries}: these entries "
                "stay suspect"
            )
            examples = [
                f"{row['bookie_id']} ({row['unknown']:,}: {row['reason']})"
                for row in silent_rows[:BOOKIES_NAMED]
            ]
            remarks.append(
                remark(
                    RemarkKind.WITNESS_SILENT, text, *examples, *and_more(len(silent_rows) - BOOKIES_NAMED)
                )
            )
        refusing_rows = [row for row in counts_by_bookie if row["refused"]]
        if refusing_rows:
            text = (
                f"{plural(len(refusing_rows), 'bookie')} refused reads: only index and journal show which "
                "entries they have"
            )
            examples = [f"{row['bookie_id']} ({row['reason']})" for row in refusing_rows[:BOOKIES_NAMED]]
            remarks.append(
                remark(
                    RemarkKind.WITNESS_SILENT, text, *examples, *and_more(len(refusing_rows) - BOOKIES_NAMED)
                )
            )
        return sum(row["requests"] for row in counts_by_bookie), remarks


def rpc_limits(options: AuditOptions) -> StoreOptions:
    """Return the rate and concurrency limits for requests to one bookie."""
    return StoreOptions(
        rate_limit=options.bookie_rate_limit,
        in_flight=options.bookie_in_flight,
        timeout_s=options.timeout,
        credentials=credentials_file(options.credentials),
    )


class UnequalPairs(NamedTuple):
    """The table ``unequal`` of replicas whose expected and present entries differ, and the bookies' states.

    ``ledgers`` and ``indexes`` have at least the rows for the ledgers of these replicas.
    """

    unequal: DataFrame
    states: Mapping[str, BookieState]
    ledgers: DataFrame
    indexes: Indexes


class SideComparison(NamedTuple):
    """The tables unequal and judged, the witness reads, and how much of each bookie was read.

    ``ledgers`` and ``indexes`` have at least the rows for the ledgers of the unequal pairs.
    """

    unequal: DataFrame
    judged: DataFrame
    states: Mapping[str, BookieState]
    witness: Witness
    ledgers: DataFrame
    indexes: Indexes


def judge_by_index(
    cache: TableCache, first: FirstScan, pairs: UnequalPairs, options: AuditOptions
) -> DataFrame:
    """Judge the unequal pairs by the indexes alone.

    The result is the table ``judged`` if no bookie can be asked about missing entries. Otherwise it is the
    table ``judged_by_index``, which `judge_with_witness` replaces.
    """

    def judge() -> DataFrame:
        grace_ms = round(options.grace * 1000)
        return judge_ledgers(pairs.ledgers, pairs.unequal, pairs.states, grace_ms)

    is_final = not _askable(first, pairs.indexes.bookies, options)
    if is_final or cache.run.exists(f"tables/judged/{WHOLE}"):
        return cache.write_table("judged", judge)
    return cache.write_table("judged_by_index", judge)


def judge_with_witness(
    cache: TableCache,
    first: FirstScan,
    pairs: UnequalPairs,
    judged_by_index: DataFrame,
    options: AuditOptions,
) -> SideComparison:
    """Ask bookies for entries that seem to be missing, and write the table ``judged``.

    If bookies are asked, their answers are the table ``witness``.
    """
    judgement, witness = _judge_again(cache, first, pairs, judged_by_index, options)
    judged = cache.broadcast("judged", judgement)
    return SideComparison(pairs.unequal, judged, pairs.states, witness, pairs.ledgers, pairs.indexes)


def _judge_again(
    cache: TableCache, first: FirstScan, pairs: UnequalPairs, by_indexes: DataFrame, options: AuditOptions
) -> tuple[DataFrame, Witness]:
    """Return the table judged, and the witness reads whose answers are in the table."""
    if cache.run.exists(f"tables/judged/{WHOLE}"):
        has_witness = cache.run.exists(f"tables/witness/{WHOLE}")
        rows = cache.spark.read.parquet(cache.where("tables/witness")) if has_witness else None
        return cache.write_table("judged", lambda: by_indexes), Witness(rows, options.witness_reads)
    ledgers, states = first.ledgers, pairs.states
    askable_bookies = _askable(first, pairs.indexes.bookies, options)
    rows = None
    if not cache.count("judged_by_index"):
        cache.run.remove("tables/judged_by_index")
        return cache.write_rows("judged", [], JUDGED), Witness(rows, options.witness_reads)
    if not candidates(by_indexes, askable_bookies).isEmpty():
        where = endpoints(registrations(first.nodes), askable_bookies)
        rows = cache.write_table(
            "witness",
            lambda: reads.witness(
                select_reads(ledgers, by_indexes, askable_bookies, options.witness_reads),
                where,
                rpc_limits(options),
            ),
        )
    grace_ms = round(options.grace * 1000)
    taking_reads = askable_bookies if rows is None else bookies_taking_reads(rows, states, askable_bookies)
    judged = cache.write_table(
        "judged",
        lambda: (
            by_indexes
            if rows is None
            else rejudge(ledgers, pairs.unequal, by_indexes, rows, states, taking_reads, grace_ms)
        ),
    )
    cache.run.remove("tables/judged_by_index")
    return judged, Witness(rows, options.witness_reads)


def _askable(first: FirstScan, bookies: ClusterBookies, options: AuditOptions) -> list[str]:
    """Return the bookies that can be asked: registered in a live store, in an ensemble, of this cluster.

    The list is empty with ``--witness no``. It is also empty in an audit of metadata alone, because no copy
    counts as missing if no index was read.
    """
    if options.witness != "yes" or not first.source.live or not bookies.sources:
        return []
    return sorted((bookies.registered.keys() & bookies.members.keys()) - set(bookies.foreign))


@dataclass(frozen=True)
class BookieAnswers:
    """The table ``answers``, and the bookies that were asked for all their entries.

    ``bookies`` maps each of these bookies to the reason why its list of entries is incomplete, or to None.
    """

    rows: DataFrame
    bookies: Mapping[str, str | None]


def query_bookies(
    cache: TableCache, first: FirstScan, indexes: Indexes, options: AuditOptions
) -> BookieAnswers | None:
    """Ask the registered bookies in ensembles for their listings. Return None if no source is ``rpc:``.

    ``indexes`` has the entries that files show. An answer shows the state of the bookie at the time of the
    answer, including the entries in the bookie's write cache.
    """
    bookies, ledgers = indexes.bookies, first.ledgers
    if not bookies.rpc:
        return None
    registered = registrations(first.nodes)
    registered_members = sorted(registered_modes(registered).keys() & bookies.members.keys())
    unseen_bookies = [name for name in registered_members if bookies.unseen(name)]
    with_source = [
        name for name in registered_members if name not in unseen_bookies and name not in bookies.foreign
    ]
    # A bookie with RocksDB indexes has DbLedgerStorage, which never answers.
    can_list = [name for name in with_source if name not in indexes.in_databases]

    def answers() -> DataFrame:
        pairs = every_replica(ledgers.where("undecidable = false"), unseen_bookies)
        if can_list:
            unequal_rows = _compare(cache, indexes, BookieTrust(frozenset(bookies.foreign)))
            asked_again_rows = cache.execution.frame(unequal_rows).where(F.col("bookie_id").isin(can_list))
            pairs = pairs.unionByName(asked_again_rows.select(*REPLICA))
        return rpc_availability(
            pairs, endpoints(registered, [*unseen_bookies, *with_source]), rpc_limits(options)
        )

    rows = cache.write_table("answers", answers)
    gap_reason_by_bookie = gap_reasons(rows)
    return BookieAnswers(rows, {name: gap_reason_by_bookie.get(name) for name in unseen_bookies})


def compare_sides(
    cache: TableCache, first: FirstScan, indexes: Indexes, answers: BookieAnswers | None, has_gone: bool
) -> UnequalPairs:
    """Compare metadata and bookies, and write the table ``unequal``.

    ``answers`` is None if no bookie was asked for a list of its entries. ``has_gone`` is whether the table
    ``gone_entries`` has rows.
    """
    states = bookie_states(indexes, answers.bookies if answers else {})
    if has_gone:
        states = _with_stopped(states, first)
    words = BookieTrust(
        frozenset(indexes.bookies.foreign),
        frozenset(name for name in states if indexes.bookies.read_whole(name) and name not in indexes.old),
        frozenset(name for name, state in states.items() if state.read_state != BookieRead.READ),
    )
    cache.plan_for(("ledgers", "availability", "answers"), indexes.bookies.replicas)
    compare = partial(_compare, cache, indexes, words, answers is not None, has_gone)
    unequal = cache.broadcast("unequal", cache.write_table("unequal", compare))
    ledgers = semi_join_scratch(cache, "unequal", "ledgers", first.ledgers, COLUMNS_OF_LEDGERS)
    rows = semi_join_scratch(cache, "unequal", "availability", indexes.rows)
    return UnequalPairs(unequal, states, ledgers, indexes.of_rows(rows))


def _with_stopped(states: Mapping[str, BookieState], first: FirstScan) -> dict[str, BookieState]:
    """Return the states with ``stopped`` set for unregistered bookies, if the store shows registrations."""
    running_bookies = registered_modes(registrations(first.nodes))
    if not running_bookies and not first.source.live:
        return dict(states)
    return {name: replace(state, is_stopped=name not in running_bookies) for name, state in states.items()}


def _compare(
    cache: TableCache,
    indexes: Indexes,
    words: BookieTrust,
    with_answers: bool = False,
    has_gone: bool = False,
) -> Rows:
    """Return the pairs of ledger and bookie whose expected entries differ from the present entries."""
    tails, overlapping = indexes.tails, frozenset(indexes.overlapping)
    table = cache.files
    accounts = [
        AccountFiles(
            Account.EXPECTED,
            table("ledgers"),
            partial(expected_replicas, include_all_members=tails.rows is not None),
        ),
        AccountFiles(
            Account.INDEX,
            table("availability"),
            partial(
                index_replicas,
                page_size_by_bookie=indexes.shapes.page_size_of_cut_files,
                excluded_bookies=overlapping,
            ),
        ),
    ]
    if indexes.pieces is not None:
        pieces = indexes.pieces
        cache.write_table("pieces", lambda: pieces, f"tables/{SCRATCH}")
        accounts.append(AccountFiles(Account.INDEX, table(f"{SCRATCH}/pieces"), index_replicas))
    if with_answers:
        accounts.append(AccountFiles(Account.ANSWER, table("answers"), index_replicas))
    if tails.rows is not None:
        read = partial(tail_replicas, excluded_bookies=tails.elsewhere)
        accounts.append(AccountFiles(Account.TAIL, table("journal_tails"), read))
    if has_gone:
        accounts.append(AccountFiles(Account.MISSING_LOGS, table("gone_entries"), gone_replicas))
    return find_unequal(cache.execution, accounts, words, indexes.bookies.replicas)


def bookies_taking_reads(
    witness: DataFrame, bookies: Mapping[str, BookieState], askable_bookies: Sequence[str]
) -> list[str]:
    """Return the askable bookies that do not refuse reads, or whose journals were not fully read.

    The copies on all other bookies are judged without witness reads. Runs a query.
    """
    refusals = witness.where(F.col("answer") == WitnessAnswer.REFUSED).select("bookie_id").distinct()
    refusing_ids = {row["bookie_id"] for row in refusals.collect()}
    settled_bookies = {name for name, state in bookies.items() if state.journal_read} & refusing_ids
    return [name for name in askable_bookies if name not in settled_bookies]
