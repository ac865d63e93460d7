"""One audit, from sources to report.

    M0       all metadata, with the version of each ledger
    I        every bookie's index; where that is asked for, what bookies say themselves
    join     what should be held and what is, in one form; only unequal pairs go on
    witness  on a live store, the bookies are asked for what seems to be missing
    M1       all metadata again (a saved store: the same scan stands for both)
    check    every check asks its question of the tables
    confirm  what did not stand still between the scans is no more than suspect; what two runs see is sure
    compare  with the run before: new, worse, fixed, or not looked at any more; suppressions
    report   full counts, bounded samples, coverage, verdict

The order matters. A ledger's metadata exists before its first entry is written, and goes before its data
does: so what is on a disk and not in the metadata read afterwards can only have been deleted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from auditor import checks
from auditor.audit.bookie_answers import BookieAnswers, query_bookies
from auditor.audit.changes import check_suppressions, compare_with_previous
from auditor.audit.earlier_run import check_since, find_since
from auditor.audit.identities import land_identities
from auditor.audit.index_scan import BookieScan, Indexes
from auditor.audit.landing import Landing, RunDirectory
from auditor.audit.lock import run_lock
from auditor.audit.metadata_scan import MetadataScan
from auditor.audit.owner_scan import OwnerScan, check_owners
from auditor.audit.resumption import resumption_of, run_identity
from auditor.audit.runs_before import RunsBefore, find_runs_before
from auditor.audit.space_scan import read_entry_logs, space_notes, with_space
from auditor.audit.summary import cluster_of, holes_of, summarise
from auditor.audit.witness import Witness, judge_with_witness
from auditor.findings.confirm import confirm
from auditor.findings.owners import with_owners
from auditor.findings.table import FOUND, found, found_of_bookies, numbered
from auditor.model.options import AuditOptions
from auditor.model.progress import Progress, Silent
from auditor.model.report import Report
from auditor.model.states import BookieRead
from auditor.sources.bookies.places import find_places
from auditor.sources.bookies.source_kinds import split_sources
from auditor.sources.metadata.credentials import credentials_file, read_credentials
from auditor.sources.metadata.stores import recognise
from auditor.sources.metadata.uri import parse_metadata_uri
from auditor.spark.query_plans import partitions, plan_for, settings_kept
from auditor.spark.session import build_session
from auditor.spark.task_errors import run_errors
from auditor.tables import OF_ENTRY_LOGS, ClusterFacts, Roster, Tables
from auditor.tables.answers import merge_answers
from auditor.tables.contents import bookies_in_doubt, contents
from auditor.tables.doubtful_ids import doubtful_ids
from auditor.tables.empty_directories import empty_directories
from auditor.tables.id_generator import UNDRAWN, undrawn
from auditor.tables.judged import judged, unindexed
from auditor.tables.judgement import BookieState
from auditor.tables.marked import of_first_scan, stock
from auditor.tables.moved import moved
from auditor.tables.orphans import holdings, orphans, over_replicated, vanished_ranges
from auditor.tables.registry import BOOKIES, DIRECTORIES
from auditor.tables.stale_marks import STALE_MARKS, stale_marks
from auditor.tables.starts import STARTS
from auditor.tables.unequal import PAIR, answered_ends, expected, unequal
from auditor.tables.verdicts import verdicts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class _Verdict(NamedTuple):
    """What the first scan and the bookies give: the tables unequal and judged, and what they rest on."""

    unequal: DataFrame
    judged: DataFrame
    states: Mapping[str, BookieState]
    witness: Witness


class Audit:
    """Audit a cluster: read its metadata and its bookies' indexes, compare, and say what is wrong.

    ``metadata`` is a metadata URI, ``bookies`` the ``--bookies`` sources, ``out`` the run directory to make.
    Without sources only the metadata is looked at; whatever needs an index is unknown then.

    >>> audit = Audit("dump:///saved/metadata.jsonl", ["/mnt/bookies"], "/runs/today")
    >>> audit.options.samples
    20
    """

    def __init__(
        self,
        metadata: str,
        bookies: Sequence[str] = (),
        out: str = "run",
        options: AuditOptions | None = None,
    ) -> None:
        self.metadata = metadata
        self.bookies = tuple(bookies)
        self.out = out
        self.options = options or AuditOptions()

    def run(self, spark: SparkSession | None = None, progress: Progress | None = None) -> Report:
        """Do all of it and return the report; everything else lies in the run directory.

        Raises:
            UsageError: a source or option that cannot be meant, a run directory that is taken, or another
                run of this cluster that is at work beside it.
            StoreError: the metadata could not be read.
        """
        started = int(time.time() * 1000)
        progress = progress or Silent()
        with (
            self._landing(spark, progress, "audit") as landing,
            closing(MetadataScan(landing, self.metadata, self.options)) as metadata,
        ):
            since = find_since(self.options.since, landing, cluster_of(metadata))
            metadata.begin_with(since)
            metadata.ledgers()
            owners = OwnerScan(landing, metadata, self.options)
            bookies = BookieScan(landing, metadata, self.bookies, self.options, since)
            indexes = bookies.indexes()
            owners.look_into_cursors(bookies, indexes)
            logs = read_entry_logs(landing, bookies, self.options) if self.options.entry_logs else None
            asked = query_bookies(landing, metadata, bookies, indexes, self.options) if bookies.rpc else None
            sizes = (landing.run.size(f"tables/{name}") for name in ("ledgers", "availability", "answers"))
            plan_for(landing.spark, sum(sizes), sum(row["replicas"] for row in bookies.members.values()))
            verdict = self._judge(landing, metadata, bookies, indexes, asked)
            metadata.again()  # M1, after all that bookies were asked
            cluster = cluster_of(metadata)
            before = find_runs_before(landing, cluster, metadata.live, metadata.scan_time)
            tables = self._compare(landing, metadata, bookies, indexes, asked, verdict, before, owners)
            if logs is not None:
                tables = with_space(landing, logs, indexes.rows, tables)
            unsorted = _found(landing, metadata, tables)

            def said() -> DataFrame:
                sure = before.confirmed(landing, unsorted, tables, self.options.grace)
                sure = sure if owners.uri is None else with_owners(sure, tables.ownership)
                return numbered(sure, metadata.instance_id)

            findings = landing.land("findings", said, ".")
            landing.run.remove("tables/checks")
            progress.stage("report")
            holes = holes_of(tables, metadata, _doubtful(landing, metadata))
            now, previous = int(time.time() * 1000), before.previous
            beside = compare_with_previous(
                landing, findings, tables, cluster, previous, any(holes), self.options, now
            )
            report = summarise(
                tables,
                findings,
                metadata,
                bookies,
                asked,
                beside,
                holes,
                self.options,
                started,
                since,
                verdict.witness,
                owners,
                space_notes(logs, tables) if logs is not None else [],
            )
            landing.finish(report)
        return report

    def scan(self, spark: SparkSession | None = None, progress: Progress | None = None) -> dict[str, int]:
        """Read and land metadata only; returns how many rows each table got.

        Raises: as `run`.
        """
        progress = progress or Silent()
        with (
            self._landing(spark, progress, "scan") as landing,
            closing(MetadataScan(landing, self.metadata, self.options)) as metadata,
        ):
            tables = {
                "ledgers": metadata.ledgers(),
                "marks": metadata.marks(),
                "cookies": metadata.cookies(),
                "registrations": metadata.registrations(),
                "cluster": metadata.state(),
            }
            return {name: table.count() for name, table in tables.items()}

    @contextmanager
    def _landing(self, spark: SparkSession | None, progress: Progress, kind: str) -> Iterator[Landing]:
        parse_metadata_uri(self.metadata)  # wrong usage is said before a session costs five seconds
        read_credentials(credentials_file(self.options.credentials))
        check_suppressions(self.options)
        check_since(self.options.since)
        check_owners(self.options)
        recognise(self.metadata)
        # For its errors: what counts is how the directories lie after M0, so that they are looked at again.
        find_places(split_sources(self.bookies).directories)
        run = RunDirectory(self.out)
        identity = run_identity(kind, self.metadata, self.bookies, self.options)
        with run_errors(run.path), run_lock(self.metadata, run.path):
            run.begin(identity)
            resumption = resumption_of(run, self.metadata, self.options)
            progress.stage("spark")
            log = None if "://" in run.path else Path(run.path, "spark.log")
            session = spark or build_session(
                self.options.master, driver_memory=self.options.driver_memory, log=log, keep_classes=True
            )
            with settings_kept(session):
                yield Landing(session, run, progress, resumption.since, resumption.notes)

    def _judge(
        self,
        landing: Landing,
        metadata: MetadataScan,
        bookies: BookieScan,
        indexes: Indexes,
        asked: BookieAnswers | None,
    ) -> _Verdict:
        """Join both sides and judge what differs, with the word of the bookies; needs the first scan only."""
        ledgers, replicas = metadata.ledgers(), indexes.replicas
        states = bookies.states(indexes.rows, asked.bookies if asked else {})
        whole = [name for name in states if bookies.read_whole(name)]
        told = (
            merge_answers(replicas, asked.rows.where("ledger_id is not null"), whole) if asked else replicas
        )
        partly = [name for name, state in states.items() if state.read != BookieRead.READ] if asked else []

        def differing() -> DataFrame:
            found = unequal(expected(ledgers, indexes.tails.beside), told, bookies.foreign)
            if not partly:
                return found
            # A pair that its journal made differ is here already.
            ends = answered_ends(ledgers, told, partly).join(found.select(*PAIR), [*PAIR], "left_anti")
            return found.unionByName(ends)

        pairs = landing.land("unequal", differing)
        by_index = partial(judged, ledgers, pairs, states, round(self.options.grace * 1000))
        answers, witness = judge_with_witness(
            landing, metadata, bookies, pairs, states, by_index, self.options
        )
        return _Verdict(pairs, answers, states, witness)

    def _compare(
        self,
        landing: Landing,
        metadata: MetadataScan,
        bookies: BookieScan,
        indexes: Indexes,
        asked: BookieAnswers | None,
        verdict: _Verdict,
        before: RunsBefore,
        owners: OwnerScan,
    ) -> Tables:
        """All that is known, with the second scan: the tables that checks ask."""
        availability, replicas = indexes.rows, indexes.replicas
        ledgers, again, marks = metadata.ledgers(), metadata.again(), stock(metadata.marks())
        moves = _moved(landing, metadata)
        rows = bookies.bookies(availability, marks, indexes.pages, asked.bookies if asked else {})
        who = landing.rows("bookies", rows, BOOKIES)
        metadata.state()
        pairs, answers = verdict.unequal, verdict.judged
        classes = landing.land("verdicts", lambda: verdicts(ledgers, answers))
        times = {name: bookies.newest(name) for name in verdict.states}
        gone = landing.land(
            "orphans",
            lambda: orphans(
                pairs,
                bookies.dated(replicas),
                ledgers,
                again,
                moves,
                metadata.scan_time,
                times,
                _doubtful(landing, metadata),
            ),
        )
        cluster = ClusterFacts(
            instance_id=metadata.instance_id,
            scan_time=metadata.scan_time,
            live=metadata.live,
            layout=metadata.layout.value,
            two_scans=again is not None,
            has_marks=metadata.marks_listed(),
            instance_id_missing=metadata.instance_id_missing(),
            bare=metadata.bare(),
            bookies_listed=metadata.bookies_listed(),
            orphans_known=before.hour_ago.finished if before.hour_ago else None,
            unclear_bookies=frozenset(metadata.unclear_bookies()),
            has_sources=bool(bookies.sources),
        )
        places = landing.rows("directories", bookies.directories(), DIRECTORIES)

        def explained() -> DataFrame:
            asked = {row["bookie_id"] for row in bookies_in_doubt(pairs).collect()}
            asked |= set(indexes.overlapping)
            return contents(availability, ledgers, pairs, places, who, sorted(asked))

        landing.land("contents", explained)
        metadata.cookies()
        metadata.registrations()
        landing.rows("starts", bookies.starts(), STARTS)
        land_identities(landing, who, ledgers, pairs)
        roster = Roster.read(lambda name: landing.run.read_rows(f"tables/{name}"), cluster)
        marked = of_first_scan(marks.where("kind = 'mark'"), moves)
        locked = marks.where("kind = 'lock'")
        return Tables(
            ledgers=ledgers,
            marks=marked,
            locks=locked,
            bookies=who,
            availability=indexes.by_state,
            unequal=pairs,
            judged=answers,
            verdicts=classes,
            orphans=gone,
            holdings=landing.land("holdings", lambda: holdings(availability, gone, before.orphans(landing))),
            vanished_ranges=landing.land("vanished_ranges", lambda: vanished_ranges(availability, gone)),
            undrawn=_undrawn(landing, metadata, gone),
            over_replicated=over_replicated(answers, ledgers, marked, locked, who),
            unindexed=unindexed(answers, moves),
            stale_marks=_stale_marks(landing, marked, classes, ledgers, who),
            empty_directories=empty_directories(marks),
            ownership=owners.ownership(moves, partial(_doubtful, landing, metadata), before),
            moved=moves,
            roster=roster,
            cluster=roster.cluster,
            known_empty=_known_empty(landing, rows),
        )


def _moved(landing: Landing, metadata: MetadataScan) -> DataFrame | None:
    """What two scans of a live store differ in; None where one scan stands for both."""
    again = metadata.again()
    if again is None:
        return None
    doubtful = _doubtful(landing, metadata)
    return landing.land("moved", lambda: moved(metadata.ledgers(), again, doubtful))


def _doubtful(landing: Landing, metadata: MetadataScan) -> DataFrame:
    """Ids that a scan may have missed."""
    return landing.land(
        "doubtful_ids", lambda: doubtful_ids(metadata.ledgers(), metadata.again(), metadata.cut())
    )


def _undrawn(landing: Landing, metadata: MetadataScan, orphans: DataFrame) -> DataFrame:
    """Orphans beyond the store's id generator; nothing is asked where there is none, or it does not tell."""
    ids = metadata.ids_drawn()
    if not ids or "orphans" in landing.empty:
        return landing.rows("undrawn", [], UNDRAWN)
    return landing.land("undrawn", lambda: undrawn(orphans, metadata.ledgers(), ids))


def _stale_marks(landing: Landing, marks: DataFrame, *tables: DataFrame) -> DataFrame:
    """Marks of whole ledgers; nothing is asked where there is no mark at all."""
    if "marks" in landing.empty:
        return landing.rows("stale_marks", [], STALE_MARKS)
    return landing.land("stale_marks", lambda: stale_marks(marks, *tables))


def _known_empty(landing: Landing, bookies: list[dict[str, Any]]) -> frozenset[str]:
    """The tables that no check needs to be asked of; ``bookies`` are the rows of that table."""
    empty = {*landing.empty, *OF_ENTRY_LOGS}  # until they were read
    if "judged" in empty:
        empty |= {"over_replicated", "unindexed"}  # which are made of it
    if "marks" in empty:
        empty |= {"locks", "empty_directories"}  # likewise
    if not any(row["named"] and not row["registered"] for row in bookies):
        empty.add("unregistered")
    return frozenset(empty)


def _found(landing: Landing, metadata: MetadataScan, tables: Tables) -> DataFrame:
    """What all checks say; landed before it is sorted, for a sort looks at its input twice.

    Each group of checks lands by itself: whenever a part of a query ends, Spark plans all the rest of it
    anew, and for one query of all checks that takes longer than the checks.
    """
    moves = _moved(landing, metadata)

    def of(group: str) -> DataFrame:
        rows = confirm(found([check for check in checks.OF_TABLES if check.group == group], tables), moves)
        return rows.coalesce(partitions(landing.spark))  # each check has tasks of its own, most of them idle

    concerned = {check.group for check in checks.OF_TABLES if check.asks not in tables.known_empty}
    groups = [group for group in checks.GROUPS if group in concerned]
    said = [landing.land(group, partial(of, group), "tables/checks") for group in groups]
    rows = found_of_bookies(checks.OF_BOOKIES, tables.roster)
    said.append(landing.rows("roster", rows, FOUND, "tables/checks"))
    return reduce(lambda some, more: some.unionByName(more), said)
