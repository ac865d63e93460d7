"""The tables that checks query, made from both scans, the indexes and the comparison.

Each table is written once. A table that is empty in most clusters is computed only if it can have rows.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from auditor.audit.bookie_rows import bookie_rows, start_rows
from auditor.audit.bookie_settings import read_resolver_flag
from auditor.audit.changes import RunsBefore
from auditor.audit.comparison import BookieAnswers, SideComparison
from auditor.audit.index_scan import Indexes
from auditor.audit.metadata import ClusterMetadata, ScanDifference, write_registry
from auditor.audit.owner_scan import named_ledgers
from auditor.audit.placement_scan import Placement, write_locations
from auditor.audit.repair_scan import QueueTables, with_repair_state, write_reachability
from auditor.audit.source_age import find_foreign_sources
from auditor.audit.space_scan import listed_lately
from auditor.audit.table_cache import SCRATCH, TableCache, semi_join_scratch
from auditor.model.bookie_alias import alias_edges, identities
from auditor.model.check_settings import CheckSettings
from auditor.model.columns import REPLICA
from auditor.spark.batches import arrow_frame
from auditor.spark.table_queries import aggregate_many, asks_tables, derive, names_without_rows
from auditor.spark.types import DataFrame
from auditor.tables import ClusterFacts, Roster, Tables
from auditor.tables.cluster_state import UNDRAWN, find_undrawn
from auditor.tables.contents import LargeTables, bookies_in_doubt, contents, lacking_replicas
from auditor.tables.id_generators import ID_GENERATORS, id_generators
from auditor.tables.identities import (
    EDGES,
    IDENTITIES,
    compare_contents,
    edge_rows,
    facts,
    facts_by_id,
    identity_rows,
    shared_contents,
)
from auditor.tables.index_counts import COUNTS
from auditor.tables.judged import find_unindexed
from auditor.tables.marks import (
    STALE_MARKS,
    empty_directories,
    marks_of_first_scan,
    marks_with_scope,
    stale_marks,
)
from auditor.tables.orphans import (
    VANISHED_RANGES,
    RecentIds,
    find_over_replicated,
    holdings,
    orphans,
    vanished_ranges,
)
from auditor.tables.ownership import OWNERSHIP
from auditor.tables.parts import empty_parts, part_count_queries
from auditor.tables.registry import BOOKIES, DIRECTORIES
from auditor.tables.rows_of_ledgers import COLUMNS_OF_LEDGERS
from auditor.tables.run_tables import OPTIONAL_TABLES, TABLES
from auditor.tables.starts import STARTS
from auditor.tables.verdicts import verdicts, verdicts_of_judged


def write_identities(cache: TableCache, bookies: DataFrame, ledgers: DataFrame, unequal: DataFrame) -> None:
    """Write the tables ``identities`` and ``identity_edges``: the bookie ids that belong to one bookie.

    The driver reads the tables bookies, registrations, cookies and directories back, because they have only a
    few rows per bookie. It also collects the pairs of bookies that share ledgers, which are equally few.
    """
    names = ("bookies", "registrations", "cookies", "directories")
    rows = facts(*(cache.run.read(f"tables/{name}").to_pylist() for name in names))
    ids = facts_by_id(rows)
    # Most clusters have no id that is gone, and then no ledger needs to be asked.
    has_vanished = any(row["named"] and not row["registered"] and not row["found"] for row in rows)
    shared_rows = shared_contents(ledgers, unequal, bookies).collect() if has_vanished else []
    edges = alias_edges(ids, compare_contents([row.asDict() for row in shared_rows], rows))
    cache.write_rows("identities", identity_rows(rows, identities(ids, edges)), IDENTITIES)
    cache.write_rows("identity_edges", edge_rows(edges), EDGES)


def derive_tables(
    cache: TableCache,
    metadata: ClusterMetadata,
    difference: ScanDifference,
    indexes: Indexes,
    answers: BookieAnswers | None,
    comparison: SideComparison,
    ownership: DataFrame | None,
    before: RunsBefore,
    placement: Placement,
    settings: CheckSettings,
) -> Tables:
    """Write the tables that checks query, and return them. Tables of entry logs are added later.

    Args:
        cache: The writer of the run.
        metadata: Both scans.
        difference: The differences between the scans.
        indexes: The data read from bookies.
        answers: The bookies' own listings. None if no bookie was asked.
        comparison: The unequal pairs and their judgement.
        ownership: The table ``ownership``. None if there are no owners.
        before: The earlier runs of the cluster.
        placement: The placement policy and the locations of bookies.
        settings: The constants of the checks.
    """
    ledgers, marks = metadata.first.ledgers, marks_with_scope(metadata.second.marks)
    write_registry(metadata)
    rows = bookie_rows(indexes, metadata, marks, answers.bookies if answers else {})
    bookies = cache.write_rows("bookies", rows, BOOKIES)
    write_locations(cache, placement, rows, metadata.registration_rows(), metadata.source.options)
    classes = _write_verdicts(cache, comparison.judged)
    count_table = pa.Table.from_pylist([count._asdict() for count in indexes.counts], COUNTS)
    counts = arrow_frame(cache.spark, count_table)
    all_marks = metadata.second.marks
    first_scan_marks = derive(marks_of_first_scan(marks.where("kind = 'mark'"), difference.moved), all_marks)
    ledgers_of_marks = semi_join_scratch(cache, "marks", "ledgers", ledgers, COLUMNS_OF_LEDGERS)
    classes_of_marks = semi_join_scratch(cache, "marks", "verdicts", classes)

    @asks_tables("marks")
    def stale_rows(_: TableCache) -> DataFrame:
        return stale_marks(first_scan_marks, classes_of_marks, ledgers_of_marks, bookies)

    def write_facts_of_bookies() -> Roster:
        _write_contents(cache, ledgers, indexes, comparison, bookies, counts)
        cache.write_rows("starts", start_rows(indexes, metadata, metadata.source.options.bookie_conf), STARTS)
        write_identities(cache, bookies, ledgers, comparison.unequal)
        cluster = _cluster_facts(metadata, difference, indexes, before, placement, settings)
        return Roster.read(lambda name: cache.run.read(f"tables/{name}").to_pylist(), cluster)

    made_of = (cache, metadata, difference, indexes, comparison, before, counts, ownership)
    roster, orphan_frames, stale_ones = cache.execution.run_concurrently(
        [
            write_facts_of_bookies,
            partial(_write_orphans, *made_of, settings),
            partial(cache.write_query, "stale_marks", STALE_MARKS, stale_rows, cache),
        ]
    )
    locked = derive(marks.where("kind = 'lock'"), all_marks)
    reachability = write_reachability(cache, roster)
    queues = QueueTables(ledgers, first_scan_marks, locked, reachability)
    roster = with_repair_state(cache, metadata, roster, queues, before.previous.run)
    over_replicated = find_over_replicated(comparison.judged, ledgers, first_scan_marks, locked, bookies)
    frames = {
        "ledgers": ledgers,
        "marks": first_scan_marks,
        "locks": locked,
        "bookies": bookies,
        "availability": indexes.by_state,
        "unequal": comparison.unequal,
        "judged": comparison.judged,
        "verdicts": classes,
        "reachability": reachability,
        **orphan_frames._asdict(),
        "over_replicated": over_replicated,
        "unindexed": find_unindexed(comparison.judged, difference.moved),
        "stale_marks": stale_ones,
        "empty_directories": derive(empty_directories(marks), all_marks),
        "ownership": arrow_frame(cache.spark, OWNERSHIP.empty_table()) if ownership is None else ownership,
    }
    tables = Tables(
        frames,
        ledgers_of_marks,
        moved=difference.moved,
        roster=roster,
        cluster=roster.cluster,
        known_empty=_tables_without_rows(cache, frames, rows),
    )
    has_gaps = bool(metadata.gaps()) or cache.count("doubtful_ids") > 0
    return _with_part_counts(tables, has_gaps or cache.count("orphans") > 0)


IN_NEED = frozenset(
    {
        "entry_lost",
        "below_ack_quorum",
        "below_write_quorum",
        "undecided",
        "unreadable_ledgers",
        "misplaced_ledgers",
        "broken_ledgers",
    }
)
"""Table parts with rows that may need data from an unread disk. If all are empty, no disk is needed."""


def _with_part_counts(tables: Tables, needs_disks: bool) -> Tables:
    """Return ``tables`` with the set of empty parts, and with ``copies_complete`` set.

    ``copies_complete`` is whether no copy on an unread disk is needed. ``needs_disks`` is whether some
    metadata could not be read, leaves ledger ids in doubt, or lacks a ledger that a bookie has.
    """
    questions = part_count_queries(tables.frames)
    parts_without_rows = empty_parts(questions, aggregate_many(questions))
    cluster = tables.cluster
    is_layout_certain = cluster.layout_known and cluster.bookies_listed and cluster.tree_elsewhere is None
    cluster = replace(
        cluster, copies_complete=is_layout_certain and not needs_disks and parts_without_rows >= IN_NEED
    )
    return replace(
        tables,
        known_empty=tables.known_empty | parts_without_rows,
        cluster=cluster,
        roster=replace(tables.roster, cluster=cluster),
    )


def with_declared(cache: TableCache, tables: Tables) -> Tables:
    """Return ``tables`` with each further table of `TABLES` whose declared inputs exist."""
    for table in TABLES.values():
        if table.make_rows is not None and tables.frames.keys() >= {*table.sources}:
            make_table = partial(table.make_rows, *(tables.frames[name] for name in table.sources))
            tables = tables.add(**{table.name: cache.write_table(table.name, make_table)})
    return tables


def _write_verdicts(cache: TableCache, judged: DataFrame) -> DataFrame:
    of_judged = f"{SCRATCH}/verdicts_of_judged"
    cache.write_table("verdicts_of_judged", lambda: verdicts_of_judged(judged), f"tables/{SCRATCH}")
    files = (cache.files(name) for name in ("ledgers", "judged", of_judged))
    return cache.write_table("verdicts", lambda: verdicts(cache.spark, *files))


class OrphanTables(NamedTuple):
    """The table ``orphans``, the tables made from it, and the table of the id generators."""

    orphans: DataFrame
    holdings: DataFrame
    vanished_ranges: DataFrame
    undrawn: DataFrame
    id_generators: DataFrame


def _write_orphans(
    cache: TableCache,
    metadata: ClusterMetadata,
    difference: ScanDifference,
    indexes: Indexes,
    comparison: SideComparison,
    before: RunsBefore,
    counts: DataFrame,
    ownership: DataFrame | None,
    settings: CheckSettings,
) -> OrphanTables:
    def found() -> DataFrame:
        return orphans(
            comparison.unequal,
            # A ledger that was deleted between the scans has healthy copies too.
            (comparison.indexes if difference.moved is None else indexes).dated_replicas(),
            comparison.ledgers,
            metadata.second.ledgers,
            difference.moved,
            metadata.source.scan_time,
            {name: indexes.newest(name) for name in indexes.in_databases if name in comparison.states},
            difference.doubtful_ids,
            metadata.first.ledgers,
        )

    orphan_rows = cache.write_table("orphans", found)
    number = cache.run.count("tables/orphans")
    has_many_orphans = number >= settings.vanished_ledgers
    recent_listing = listed_lately(metadata, before) if number >= _fewest_orphans(settings) else RecentIds()
    owned = named_ledgers(ownership) if ownership is not None and number else None
    holding_rows = cache.write_table(
        "holdings", lambda: holdings(counts, orphan_rows, before.orphans(cache), recent_listing, owned)
    )
    vanished_rows = cache.write_or_empty(
        has_many_orphans,
        "vanished_ranges",
        VANISHED_RANGES,
        lambda: vanished_ranges(indexes.rows, orphan_rows, recent_listing, settings),
    )
    ids = metadata.ids_drawn()
    undrawn = cache.write_or_empty(
        bool(ids) and number > 0, "undrawn", UNDRAWN,
        lambda: find_undrawn(orphan_rows, metadata.first.ledgers, ids),
    )  # fmt: skip
    source = metadata.source
    generators = cache.write_or_empty(
        bool(ids), "id_generators", ID_GENERATORS,
        lambda: id_generators(
            metadata.first.ledgers, undrawn, ids, source.layout, metadata.second.nodes.scan_time
        ),
    )  # fmt: skip
    return OrphanTables(orphan_rows, holding_rows, vanished_rows, undrawn, generators)


def _fewest_orphans(settings: CheckSettings) -> int:
    """Return the smallest number of orphans for which a check needs the recently listed ledgers as proof."""
    default = CheckSettings().least_unexplained  # for the proof of the metadata's scope
    return min(settings.least_unexplained, settings.least_orphans, settings.vanished_ledgers, default)


def _write_contents(
    cache: TableCache,
    ledgers: DataFrame,
    indexes: Indexes,
    comparison: SideComparison,
    bookies: DataFrame,
    counts: DataFrame,
) -> None:
    """Write the table ``contents``: the bookie to which the content of each directory seems to belong.

    Only bookies whose data differs from the metadata are compared with other bookies.
    """
    rows = [asdict(directory) for directory in indexes.bookies.attribution.directories]
    directories = cache.write_rows("directories", rows, DIRECTORIES)

    def table() -> DataFrame:
        # An entry log that is not there says nothing of whose index it is.
        pairs = comparison.unequal.where("gone is null")
        lost_replicas = comparison.unequal.where("gone is not null").select(*REPLICA)
        lacking = lacking_replicas(comparison.judged, bookies).join(lost_replicas, [*REPLICA], "left_anti")
        doubted_bookies = {row["bookie_id"] for row in bookies_in_doubt(pairs, lacking).collect()}
        bookie_ids = sorted(doubted_bookies | set(indexes.overlapping))
        large_tables = LargeTables(
            comparison.ledgers, comparison.indexes.rows, counts, *_by_directories(rows)
        )
        return contents(indexes.rows, ledgers, pairs, lacking, directories, bookies, bookie_ids, large_tables)

    cache.write_table("contents", table)


def _by_directories(directories: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Return the bookies with exactly one possible index directory, and those with none or several."""
    number = Counter(row["owner"] for row in directories if row["role"] != "journal")
    owners = sorted(name for name in {row["owner"] for row in directories} if name is not None)
    owners_with_one = [name for name in owners if number[name] == 1]
    return owners_with_one, [name for name in owners if number[name] != 1]


def _cluster_facts(
    metadata: ClusterMetadata,
    difference: ScanDifference,
    indexes: Indexes,
    before: RunsBefore,
    placement: Placement,
    settings: CheckSettings,
) -> ClusterFacts:
    source = metadata.source
    return ClusterFacts(
        instance_id=source.instance_id,
        scan_time=source.scan_time,
        live=source.live,
        layout=source.layout.value,
        two_scans=metadata.second.ledgers is not None,
        has_marks=metadata.second.marks_listed,
        keeps_marks=source.store.keeps_marks,
        instance_id_missing=metadata.instance_id_missing(),
        bare=metadata.bare(),
        lists_no_ledger=not metadata.source.cache.count("ledgers") and metadata.is_used(),
        bookies_listed=metadata.bookies_listed(),
        orphans_known=before.hour_ago.finished if before.hour_ago else None,
        unclear_bookies=frozenset(metadata.unclear_bookies()),
        has_sources=bool(indexes.bookies.sources),
        tree_elsewhere=difference.tree_elsewhere,
        unproved_bookies={**find_foreign_sources(metadata.first, indexes.bookies), **indexes.old},
        layout_known=metadata.layout_known(difference.tree_elsewhere),
        placement=placement.settings_in_use,
        placement_differences=placement.differences,
        settings=settings,
        resolves_ids=read_resolver_flag(source.options.bookie_conf),
    )


def _tables_without_rows(
    cache: TableCache, frames: Mapping[str, DataFrame], bookies: list[dict[str, Any]]
) -> frozenset[str]:
    """Return the names of tables and properties without rows. ``bookies`` is the table bookies."""
    unread_tables = OPTIONAL_TABLES - cache.frames.keys()
    empty = {*cache.known_empty, *names_without_rows(frames), *unread_tables}
    if not any(row["named"] and not row["registered"] for row in bookies):
        empty.add("unregistered")
    return frozenset(empty)
