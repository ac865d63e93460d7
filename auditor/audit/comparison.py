"""Comparison of the metadata with the indexes and answers of bookies, and the state of each ledger.

The comparison uses the first metadata scan, and runs before the second scan. If a ledger is deleted while
bookies are asked, the second scan therefore shows the deletion.

With ``--bookies rpc:``, the audit first asks bookies for lists of their entries. A bookie without a readable
directory or collection is asked about every ledger that may have entries on it. The other bookies are asked
only about ledgers where their index differs from the metadata. Their answers include entries that are not yet
written to the index. No bookie is asked which ledgers it has: the protocol has no such request.

Witness reads (requests for single entries) come last. On a live cluster, the audit asks bookies for entries
before it reports them as lost. `auditor.tables.rejudgement` chooses the reads and applies the answers. The
table ``witness`` has every answer. Three cases lead to a read: (1) a copy is missing; (2) a ledger is in
limbo (its bookie does not know its entries) or misplaced; (3) an answer lists more entries than the disk has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from auditor.audit.bookie_rows import bookie_states
from auditor.audit.bookies import ClusterBookies
from auditor.audit.index_scan import Indexes, gap_reasons
from auditor.audit.metadata_scan import FirstScan
from auditor.audit.table_cache import SCRATCH_DIRECTORY, TableCache, semi_join_scratch
from auditor.model.amounts import and_more, plural
from auditor.model.columns import REPLICA
from auditor.model.options import AuditOptions
from auditor.model.run_facts import DONE_FILE, Remark, RemarkKind, remark
from auditor.model.states import BookieRead, WitnessAnswer
from auditor.sources.bookies.rpc import reads
from auditor.sources.bookies.rpc.connection import find_endpoints, possible_replicas
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
from auditor.tables.registry import find_registered_modes, registrations
from auditor.tables.rejudgement import find_askable_ledgers, rejudge, select_reads
from auditor.tables.replica_blocks import Evidence
from auditor.tables.rows_of_ledgers import QUERIED_LEDGER_COLUMNS
from auditor.tables.unequal import BookieTrust, SourceFiles, find_unequal

MAX_BOOKIES_NAMED = 5
"""Largest number of bookies that did not answer, or refused reads, that a report names."""


@dataclass(frozen=True)
class Witness:
    """The witness reads: requests to bookies for entries that seem to be missing.

    ``rows`` is the table ``witness``, or None if no bookie was asked. ``read_limit`` is the largest number of
    reads (``--witness-reads``).
    """

    rows: DataFrame | None
    read_limit: int

    def summary(self) -> tuple[int, list[Remark]]:
        """Return the number of reads sent, and remarks for the report about the reads."""
        if self.rows is None:
            return 0, []
        has_no_answer, is_refusal = (
            F.col("answer") == answer_kind for answer_kind in (WitnessAnswer.UNKNOWN, WitnessAnswer.REFUSED)
        )
        # An error of the bookie's disk is an answer: it cannot read the entry.
        has_no_answer &= ~F.coalesce(F.col("reason").endswith(READ_ERROR_TEXT), F.lit(False))
        counts_by_bookie = (
            self.rows.groupBy("bookie_id")
            .agg(
                F.count("*").alias("entries"),
                F.sum("requests").alias("requests"),
                F.count_if(has_no_answer).alias("unknown"),
                F.count_if(is_refusal).alias("refused"),
                F.min(F.when(has_no_answer | is_refusal, F.col("reason"))).alias("reason"),
            )
            .orderBy("bookie_id")
            .collect()
        )
        remarks = []
        bookies_at_limit = [
            row["bookie_id"] for row in counts_by_bookie if row["entries"] >= max(1, self.read_limit // 2)
        ]
        if bookies_at_limit or sum(row["entries"] for row in counts_by_bookie) >= self.read_limit:
            text = "--witness-reads: limit reached; findings about unread entries stay suspect"
            remarks.append(remark(RemarkKind.ENTRY_READ_LIMIT, text))
        unanswered_rows = [row for row in counts_by_bookie if row["unknown"]]
        if unanswered_rows:
            entry_text = plural(sum(row["unknown"] for row in unanswered_rows), "entry")
            text = (
                f"no answer from {plural(len(unanswered_rows), 'bookie')} about {entry_text}: findings about "
                "these entries stay suspect"
            )
            bookie_texts = [
                f"{row['bookie_id']} ({row['unknown']:,}: {row['reason']})"
                for row in unanswered_rows[:MAX_BOOKIES_NAMED]
            ]
            remarks.append(
                remark(
                    RemarkKind.ENTRY_READS_UNANSWERED,
                    text,
                    *bookie_texts,
                    *and_more(len(unanswered_rows) - MAX_BOOKIES_NAMED),
                )
            )
        refusing_rows = [row for row in counts_by_bookie if row["refused"]]
        if refusing_rows:
            bookies_text = plural(len(refusing_rows), "bookie")
            text = f"{bookies_text} refused reads: their entries are known only from index and journal"
            refusals = [f"{row['bookie_id']} ({row['reason']})" for row in refusing_rows[:MAX_BOOKIES_NAMED]]
            remarks.append(
                remark(
                    RemarkKind.ENTRY_READS_UNANSWERED,
                    text,
                    *refusals,
                    *and_more(len(refusing_rows) - MAX_BOOKIES_NAMED),
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


class UnequalReplicas(NamedTuple):
    """Replicas whose expected and present entries differ (table ``unequal``), and the states of bookies.

    A replica is a ledger on a bookie. ``ledgers`` and ``indexes`` have at least these replicas' ledgers.
    """

    unequal_replicas: DataFrame
    states: Mapping[str, BookieState]
    ledgers: DataFrame
    indexes: Indexes


class CopyComparison(NamedTuple):
    """The tables ``unequal`` and ``judged``, the witness reads, and how much of each bookie was read.

    Witness reads request single entries. ``ledgers`` and ``indexes`` have all ledgers in ``unequal`` or more.
    """

    unequal_replicas: DataFrame
    judged_ledgers: DataFrame
    states: Mapping[str, BookieState]
    witness: Witness
    ledgers: DataFrame
    indexes: Indexes


def judge_by_index(
    cache: TableCache, first: FirstScan, pairs: UnequalReplicas, options: AuditOptions
) -> DataFrame:
    """Judge the replicas whose expected and present entries differ, by the indexes alone.

    If no bookie can be asked about missing entries, the result is the table ``judged``. Otherwise it is the
    table ``judged_by_index``, which `judge_with_witness` replaces with ``judged``.
    """

    def judge() -> DataFrame:
        grace_ms = round(options.grace * 1000)
        return judge_ledgers(pairs.ledgers, pairs.unequal_replicas, pairs.states, grace_ms)

    is_final_judgement = not _find_askable_bookies(first, pairs.indexes.bookies, options)
    if is_final_judgement or cache.run.exists(f"tables/judged/{DONE_FILE}"):
        return cache.write_table("judged", judge)
    return cache.write_table("judged_by_index", judge)


def judge_with_witness(
    cache: TableCache,
    first: FirstScan,
    pairs: UnequalReplicas,
    judged_by_index: DataFrame,
    options: AuditOptions,
) -> CopyComparison:
    """Ask bookies for entries that seem to be missing, and write the table ``judged``.

    If bookies are asked, their answers are written to the table ``witness``.
    """
    judged_rows, witness = _judge_with_reads(cache, first, pairs, judged_by_index, options)
    judged = cache.broadcast("judged", judged_rows)
    return CopyComparison(pairs.unequal_replicas, judged, pairs.states, witness, pairs.ledgers, pairs.indexes)


def _judge_with_reads(
    cache: TableCache,
    first_scan: FirstScan,
    pairs: UnequalReplicas,
    judged_by_index: DataFrame,
    options: AuditOptions,
) -> tuple[DataFrame, Witness]:
    """Ask bookies for entries that seem missing. Return the table ``judged``, and the reads sent."""
    if cache.run.exists(f"tables/judged/{DONE_FILE}"):
        has_witness_table = cache.run.exists(f"tables/witness/{DONE_FILE}")
        rows = cache.spark.read.parquet(cache.spark_path("tables/witness")) if has_witness_table else None
        return cache.write_table("judged", lambda: judged_by_index), Witness(rows, options.witness_reads)
    ledgers, states = first_scan.ledgers, pairs.states
    askable_bookies = _find_askable_bookies(first_scan, pairs.indexes.bookies, options)
    rows = None
    if not cache.count("judged_by_index"):
        cache.run.remove("tables/judged_by_index")
        return cache.write_rows("judged", [], JUDGED), Witness(rows, options.witness_reads)
    if not find_askable_ledgers(judged_by_index, askable_bookies).isEmpty():
        bookie_endpoints = find_endpoints(registrations(first_scan.nodes), askable_bookies)
        rows = cache.write_table(
            "witness",
            lambda: reads.ask_for_entries(
                select_reads(ledgers, judged_by_index, askable_bookies, options.witness_reads),
                bookie_endpoints,
                rpc_limits(options),
            ),
        )
    grace_ms = round(options.grace * 1000)
    readable_bookies = (
        askable_bookies if rows is None else bookies_taking_reads(rows, states, askable_bookies)
    )
    judgements = cache.write_table(
        "judged",
        lambda: (
            judged_by_index
            if rows is None
            else rejudge(
                ledgers, pairs.unequal_replicas, judged_by_index, rows, states, readable_bookies, grace_ms
            )
        ),
    )
    cache.run.remove("tables/judged_by_index")
    return judgements, Witness(rows, options.witness_reads)


def _find_askable_bookies(first_scan: FirstScan, bookies: ClusterBookies, options: AuditOptions) -> list[str]:
    """Return the bookies that can be asked for entries.

    These bookies are registered in a live store, are in an ensemble, and belong to this cluster. The list
    is empty with ``--witness no``. It is also empty in an audit of metadata alone, where no copy counts as
    missing.
    """
    if options.witness != "yes" or not first_scan.source.live or not bookies.sources:
        return []
    return sorted((bookies.registered_modes.keys() & bookies.members.keys()) - set(bookies.foreign_bookies))


@dataclass(frozen=True)
class BookieAnswers:
    """The table ``answers``, and the bookies that were asked for all their entries.

    ``bookies`` has, for each of these bookies, the reason why its list of entries is incomplete. The reason
    is None if the list is complete.
    """

    rows: DataFrame
    bookies: Mapping[str, str | None]


def query_bookies(
    cache: TableCache, first: FirstScan, indexes: Indexes, options: AuditOptions
) -> BookieAnswers | None:
    """Ask registered bookies in ensembles to list their entries. Return None if no source is ``rpc:``.

    ``indexes`` has the entries that were found in files. An answer shows the bookie's entries at the time of
    the answer, including those in its write cache.
    """
    bookies, ledgers = indexes.bookies, first.ledgers
    if not bookies.has_rpc_source:
        return None
    registration_rows = registrations(first.nodes)
    registered_members = sorted(find_registered_modes(registration_rows).keys() & bookies.members.keys())
    unindexed_bookies = [name for name in registered_members if bookies.has_no_index(name)]
    bookies_with_source = [
        name
        for name in registered_members
        if name not in unindexed_bookies and name not in bookies.foreign_bookies
    ]
    # A bookie with RocksDB indexes has DbLedgerStorage, which never answers.
    listing_bookies = [name for name in bookies_with_source if name not in indexes.database_bookies]

    def answers() -> DataFrame:
        replicas = possible_replicas(ledgers.where("undecidable = false"), unindexed_bookies)
        if listing_bookies:
            unequal_rows = _find_unequal_rows(cache, indexes, BookieTrust(frozenset(bookies.foreign_bookies)))
            rows_to_ask_again = cache.execution.frame(unequal_rows).where(
                F.col("bookie_id").isin(listing_bookies)
            )
            replicas = replicas.unionByName(rows_to_ask_again.select(*REPLICA))
        return rpc_availability(
            replicas,
            find_endpoints(registration_rows, [*unindexed_bookies, *bookies_with_source]),
            rpc_limits(options),
        )

    rows = cache.write_table("answers", answers)
    gap_reason_by_bookie = gap_reasons(rows)
    return BookieAnswers(rows, {name: gap_reason_by_bookie.get(name) for name in unindexed_bookies})


def compare_replicas(
    cache: TableCache, first: FirstScan, indexes: Indexes, answers: BookieAnswers | None, has_gone: bool
) -> UnequalReplicas:
    """Compare the metadata with the entries on bookies. Write the differences to the table ``unequal``.

    ``answers`` is None if no bookie was asked for a list of its entries. ``has_gone`` is whether the table
    ``gone_entries`` (entries in missing entry logs) has rows.
    """
    states = bookie_states(indexes, answers.bookies if answers else {})
    if has_gone:
        states = _mark_stopped_bookies(states, first)
    bookie_trust = BookieTrust(
        frozenset(indexes.bookies.foreign_bookies),
        frozenset(
            name
            for name in states
            if indexes.bookies.is_read_completely(name) and name not in indexes.old_sources
        ),
        frozenset(name for name, state in states.items() if state.read_state != BookieRead.READ),
    )
    cache.adapt_planning(("ledgers", "availability", "answers"), indexes.bookies.replica_count)
    find_rows = partial(_find_unequal_rows, cache, indexes, bookie_trust, answers is not None, has_gone)
    unequal = cache.broadcast("unequal", cache.write_table("unequal", find_rows))
    ledgers = semi_join_scratch(cache, "unequal", "ledgers", first.ledgers, QUERIED_LEDGER_COLUMNS)
    rows = semi_join_scratch(cache, "unequal", "availability", indexes.rows)
    return UnequalReplicas(unequal, states, ledgers, indexes.with_rows(rows))


def _mark_stopped_bookies(states: Mapping[str, BookieState], first_scan: FirstScan) -> dict[str, BookieState]:
    """Return ``states`` with unregistered bookies as stopped, or as given if a saved store registers none."""
    running_bookies = find_registered_modes(registrations(first_scan.nodes))
    if not running_bookies and not first_scan.source.live:
        return dict(states)
    return {name: replace(state, is_stopped=name not in running_bookies) for name, state in states.items()}


def _find_unequal_rows(
    cache: TableCache,
    indexes: Indexes,
    bookie_trust: BookieTrust,
    has_answers: bool = False,
    has_missing_logs: bool = False,
) -> Rows:
    """Return the replicas whose expected entries differ from the entries that the bookie has."""
    journal_tails, overlapping_bookies = indexes.journal_tails, frozenset(indexes.overlapping_bookies)
    table_files = cache.files
    evidence_files = [
        SourceFiles(
            Evidence.EXPECTED,
            table_files("ledgers"),
            partial(expected_replicas, include_all_members=journal_tails.rows is not None),
        ),
        SourceFiles(
            Evidence.INDEX,
            table_files("availability"),
            partial(
                index_replicas,
                page_size_by_bookie=indexes.shapes.page_size_of_cut_files,
                excluded_bookies=overlapping_bookies,
            ),
        ),
    ]
    if indexes.combined_pieces is not None:
        combined_rows = indexes.combined_pieces
        cache.write_table("pieces", lambda: combined_rows, f"tables/{SCRATCH_DIRECTORY}")
        evidence_files.append(
            SourceFiles(Evidence.INDEX, table_files(f"{SCRATCH_DIRECTORY}/pieces"), index_replicas)
        )
    if has_answers:
        evidence_files.append(SourceFiles(Evidence.ANSWER, table_files("answers"), index_replicas))
    if journal_tails.rows is not None:
        tail_reader = partial(tail_replicas, excluded_bookies=journal_tails.mismatched_bookies)
        evidence_files.append(SourceFiles(Evidence.TAIL, table_files("journal_tails"), tail_reader))
    if has_missing_logs:
        evidence_files.append(SourceFiles(Evidence.MISSING_LOGS, table_files("gone_entries"), gone_replicas))
    return find_unequal(cache.execution, evidence_files, bookie_trust, indexes.bookies.replica_count)


def bookies_taking_reads(
    witness: DataFrame, bookies: Mapping[str, BookieState], askable_bookies: Sequence[str]
) -> list[str]:
    """Return those of ``askable_bookies`` whose copies are judged with answers to reads of single entries.

    If a bookie refuses reads and its journal was read completely, it is left out. Its copies are then judged
    by its index and journal. The function runs a Spark query.
    """
    refusals = witness.where(F.col("answer") == WitnessAnswer.REFUSED).select("bookie_id").distinct()
    refusing_ids = {row["bookie_id"] for row in refusals.collect()}
    unreadable_bookies = {name for name, state in bookies.items() if state.journal_read} & refusing_ids
    return [name for name in askable_bookies if name not in unreadable_bookies]
