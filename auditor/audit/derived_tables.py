"""The tables that checks query, made from both scans, the indexes and the comparison.

Each table is written once. If a table is empty in most clusters, it is computed only when it can have rows.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from auditor.audit.bookie_rows import bookie_rows, start_forecast_rows
from auditor.audit.bookie_settings import read_resolver_flag
from auditor.audit.changes import RunsBefore
from auditor.audit.comparison import BookieAnswers, CopyComparison
from auditor.audit.index_scan import Indexes
from auditor.audit.metadata import ClusterMetadata, ScanDifference, write_registry
from auditor.audit.owner_scan import named_ledgers
from auditor.audit.placement_scan import Placement, write_locations
from auditor.audit.repair_scan import QueueTables, with_repair_state, write_reachability
from auditor.audit.source_age import find_foreign_sources
from auditor.audit.space_scan import find_recent_ids
from auditor.audit.table_cache import SCRATCH_DIRECTORY, TableCache, semi_join_scratch
from auditor.model.bookie_alias import alias_edges, find_identities
from auditor.model.check_settings import CheckSettings
from auditor.model.columns import REPLICA
from auditor.spark.batches import arrow_frame
from auditor.spark.table_queries import aggregate_tables, asks_tables, inherit_empty, names_without_rows
from auditor.spark.types import DataFrame
from auditor.tables import ClusterFacts, Roster, Tables
from auditor.tables.cluster_state import UNISSUED_IDS, find_unissued_ids
from auditor.tables.contents import LargeTables, contents, find_bookies_to_compare, find_incomplete_replicas
from auditor.tables.id_generators import ID_GENERATORS, id_generators
from auditor.tables.identities import (
    IDENTITIES,
    IDENTITY_EDGES,
    collect_facts,
    compare_contents,
    count_shared_ledgers,
    edge_rows,
    facts_by_id,
    identity_rows,
)
from auditor.tables.index_counts import COUNT_SCHEMA
from auditor.tables.judged import find_unindexed_entries
from auditor.tables.marks import (
    STALE_MARKS,
    add_scope_to_marks,
    find_empty_directories,
    marks_of_first_scan,
    stale_marks,
)
from auditor.tables.orphans import (
    VANISHED_RANGES,
    RecentIds,
    count_holdings,
    find_over_replicated,
    find_vanished_ranges,
    orphans,
)
from auditor.tables.ownership import OWNERSHIP
from auditor.tables.parts import build_part_queries, find_empty_parts
from auditor.tables.registry import BOOKIES, DIRECTORIES
from auditor.tables.rows_of_ledgers import QUERIED_LEDGER_COLUMNS
from auditor.tables.run_tables import OPTIONAL_TABLES, TABLES
from auditor.tables.starts import STARTS
from auditor.tables.verdicts import verdicts, verdicts_of_judged


def write_identities(cache: TableCache, bookies: DataFrame, ledgers: DataFrame, unequal: DataFrame) -> None:
    """Write the tables ``identities`` and ``identity_edges``, which say which ids belong to the same bookie.

    The driver reads the tables bookies, registrations, cookies and directories, which have a few rows per
    bookie. If an id has disappeared, it also reads which bookies have ledgers in common.
    """
    names = ("bookies", "registrations", "cookies", "directories")
    rows = collect_facts(*(cache.run.read(f"tables/{name}").to_pylist() for name in names))
    ids = facts_by_id(rows)
    # Most clusters have no bookie id that disappeared. Then no ledger is queried.
    has_vanished_ids = any(row["named"] and not row["registered"] and not row["found"] for row in rows)
    shared_rows = count_shared_ledgers(ledgers, unequal, bookies).collect() if has_vanished_ids else []
    identity_edges = alias_edges(ids, compare_contents([row.asDict() for row in shared_rows], rows))
    cache.write_rows("identities", identity_rows(rows, find_identities(ids, identity_edges)), IDENTITIES)
    cache.write_rows("identity_edges", edge_rows(identity_edges), IDENTITY_EDGES)


def derive_tables(
    cache: TableCache,
    metadata: ClusterMetadata,
    difference: ScanDifference,
    indexes: Indexes,
    answers: BookieAnswers | None,
    comparison: CopyComparison,
    ownership: DataFrame | None,
    earlier_runs: RunsBefore,
    placement: Placement,
    settings: CheckSettings,
) -> Tables:
    """Write the tables that checks query, and return them. Tables of entry logs are added later.

    Args:
        cache: The writer of the run's tables.
        metadata: The metadata from both scans.
        difference: The differences between the scans.
        indexes: The data read from bookies.
        answers: The bookies' own listings of entries, or None if no bookie was asked.
        comparison: The replicas that differ from the metadata, and the state of their ledgers.
        ownership: The table ``ownership`` of ledgers' owners (such as topics), or None if none were read.
        earlier_runs: The earlier runs of the cluster.
        placement: The placement policy and the locations of bookies.
        settings: The constants of the checks.
    """
    ledgers, mark_rows = metadata.first.ledgers, add_scope_to_marks(metadata.second.marks)
    write_registry(metadata)
    rows = bookie_rows(indexes, metadata, mark_rows, answers.bookies if answers else {})
    bookies = cache.write_rows("bookies", rows, BOOKIES)
    write_locations(cache, placement, rows, metadata.registration_rows(), metadata.source.options)
    verdict_rows = _write_verdicts(cache, comparison.judged_ledgers)
    count_table = pa.Table.from_pylist([count._asdict() for count in indexes.counts], COUNT_SCHEMA)
    counts = arrow_frame(cache.spark, count_table)
    second_marks = metadata.second.marks
    ledger_marks = inherit_empty(
        marks_of_first_scan(mark_rows.where("kind = 'mark'"), difference.moved_ids), second_marks
    )
    ledgers_of_marks = semi_join_scratch(cache, "marks", "ledgers", ledgers, QUERIED_LEDGER_COLUMNS)
    verdicts_of_marks = semi_join_scratch(cache, "marks", "verdicts", verdict_rows)

    @asks_tables("marks")
    def make_rows(_: TableCache) -> DataFrame:
        return stale_marks(ledger_marks, verdicts_of_marks, ledgers_of_marks, bookies)

    _write_contents(cache, ledgers, indexes, comparison, bookies, counts)
    cache.write_rows(
        "starts", start_forecast_rows(indexes, metadata, metadata.source.options.bookie_conf), STARTS
    )
    write_identities(cache, bookies, ledgers, comparison.unequal_replicas)
    cluster = _cluster_facts(metadata, difference, indexes, earlier_runs, placement, settings)
    roster = Roster.read(lambda name: cache.run.read(f"tables/{name}").to_pylist(), cluster)
    orphan_frames = _write_orphans(
        cache, metadata, difference, indexes, comparison, earlier_runs, counts, ownership, settings
    )
    stale_mark_rows = cache.write_query("stale_marks", STALE_MARKS, make_rows, cache)
    locks = inherit_empty(mark_rows.where("kind = 'lock'"), second_marks)
    reachability = write_reachability(cache, roster)
    queue_tables = QueueTables(ledgers, ledger_marks, locks, reachability)
    roster = with_repair_state(cache, metadata, roster, queue_tables, earlier_runs.previous.run)
    over_replicated = find_over_replicated(comparison.judged_ledgers, ledgers, ledger_marks, locks, bookies)
    frames = {
        "ledgers": ledgers,
        "marks": ledger_marks,
        "locks": locks,
        "bookies": bookies,
        "availability": indexes.rows_by_state,
        "unequal": comparison.unequal_replicas,
        "judged": comparison.judged_ledgers,
        "verdicts": verdict_rows,
        "reachability": reachability,
        **orphan_frames._asdict(),
        "over_replicated": over_replicated,
        "unindexed": find_unindexed_entries(comparison.judged_ledgers, difference.moved_ids),
        "stale_marks": stale_mark_rows,
        "empty_directories": inherit_empty(find_empty_directories(mark_rows), second_marks),
        "ownership": arrow_frame(cache.spark, OWNERSHIP.empty_table()) if ownership is None else ownership,
    }
    tables = Tables(
        frames,
        ledgers_of_marks,
        moved_ledgers=difference.moved_ids,
        roster=roster,
        cluster=roster.cluster,
        empty_table_names=_tables_without_rows(cache, frames, rows),
    )
    has_gaps = bool(metadata.gaps()) or cache.count("doubtful_ids") > 0
    return _with_part_counts(tables, has_gaps or cache.count("orphans") > 0)


PARTS_NEEDING_DISKS = frozenset(
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
"""Parts of tables whose rows may need data from an unread disk. If all are empty, no disk is needed."""


def _with_part_counts(tables: Tables, needs_disks: bool) -> Tables:
    """Return ``tables`` with ``copies_complete``, and the names of empty row sets (`auditor.tables.parts`).

    ``copies_complete`` is True if the cluster needs no copy from an unread disk. ``needs_disks`` is True if
    metadata was not read, the scan may have missed ledger ids, or bookies have ledgers without metadata.
    """
    count_queries = build_part_queries(tables.frames)
    parts_without_rows = find_empty_parts(count_queries, aggregate_tables(count_queries))
    cluster = tables.cluster
    is_layout_certain = cluster.layout_known and cluster.bookies_listed and cluster.wrong_tree_reason is None
    cluster = replace(
        cluster,
        copies_complete=is_layout_certain and not needs_disks and parts_without_rows >= PARTS_NEEDING_DISKS,
    )
    return replace(
        tables,
        empty_table_names=tables.empty_table_names | parts_without_rows,
        cluster=cluster,
        roster=replace(tables.roster, cluster=cluster),
    )


def with_declared_tables(cache: TableCache, tables: Tables) -> Tables:
    """Return ``tables`` with the additional tables that `TABLES` declares, if their inputs exist."""
    for table in TABLES.values():
        if table.make_rows is not None and tables.frames.keys() >= {*table.sources}:
            make_table = partial(table.make_rows, *(tables.frames[name] for name in table.sources))
            tables = tables.add(**{table.name: cache.write_table(table.name, make_table)})
    return tables


def _write_verdicts(cache: TableCache, judged: DataFrame) -> DataFrame:
    verdicts_path = f"{SCRATCH_DIRECTORY}/verdicts_of_judged"
    cache.write_table("verdicts_of_judged", lambda: verdicts_of_judged(judged), f"tables/{SCRATCH_DIRECTORY}")
    table_files = (cache.files(name) for name in ("ledgers", "judged", verdicts_path))
    return cache.write_table("verdicts", lambda: verdicts(cache.spark, *table_files))


class OrphanTables(NamedTuple):
    """The table ``orphans`` (ledgers without metadata), tables made from it, and the id generators' table."""

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
    comparison: CopyComparison,
    earlier_runs: RunsBefore,
    counts: DataFrame,
    ownership: DataFrame | None,
    settings: CheckSettings,
) -> OrphanTables:
    def find_orphans() -> DataFrame:
        return orphans(
            comparison.unequal_replicas,
            # Copies of a ledger that was deleted between the scans may be complete, and have no unequal row.
            (comparison.indexes if difference.moved_ids is None else indexes).dated_replicas(),
            comparison.ledgers,
            metadata.second.ledgers,
            difference.moved_ids,
            metadata.source.scan_time,
            {
                name: indexes.newest_file_time(name)
                for name in indexes.database_bookies
                if name in comparison.states
            },
            difference.doubtful_ids,
            metadata.first.ledgers,
        )

    orphan_rows = cache.write_table("orphans", find_orphans)
    orphan_count = cache.run.count("tables/orphans")
    has_many_orphans = orphan_count >= settings.vanished_ledgers
    needs_proof = orphan_count >= _min_orphans_for_proof(settings)
    recent_ids = find_recent_ids(metadata, earlier_runs) if needs_proof else RecentIds()
    owned_ledgers = named_ledgers(ownership) if ownership is not None and orphan_count else None
    orphan_count_rows = cache.write_table(
        "holdings",
        lambda: count_holdings(counts, orphan_rows, earlier_runs.orphans(cache), recent_ids, owned_ledgers),
    )
    vanished_rows = cache.write_or_empty(
        has_many_orphans,
        "vanished_ranges",
        VANISHED_RANGES,
        lambda: find_vanished_ranges(indexes.rows, orphan_rows, recent_ids, settings),
    )
    id_ranges = metadata.issued_id_ranges()
    unissued_ids = cache.write_or_empty(
        bool(id_ranges) and orphan_count > 0, "undrawn", UNISSUED_IDS,
        lambda: find_unissued_ids(orphan_rows, metadata.first.ledgers, id_ranges),
    )  # fmt: skip
    source = metadata.source
    generator_rows = cache.write_or_empty(
        bool(id_ranges), "id_generators", ID_GENERATORS,
        lambda: id_generators(
            metadata.first.ledgers, unissued_ids, id_ranges, source.layout, metadata.second.nodes.scan_time
        ),
    )  # fmt: skip
    return OrphanTables(orphan_rows, orphan_count_rows, vanished_rows, unissued_ids, generator_rows)


def _min_orphans_for_proof(settings: CheckSettings) -> int:
    """Return the least number of orphans for which any check asks whether metadata listed them recently."""
    default_minimum = CheckSettings().least_unexplained  # for the proof of the metadata's scope
    return min(settings.least_unexplained, settings.least_orphans, settings.vanished_ledgers, default_minimum)


def _write_contents(
    cache: TableCache,
    ledgers: DataFrame,
    indexes: Indexes,
    comparison: CopyComparison,
    bookies: DataFrame,
    counts: DataFrame,
) -> None:
    """Write the table ``contents``: for each directory, the bookie to which its content seems to belong.

    Only bookies whose data differs from the metadata are compared with other bookies.
    """
    rows = [asdict(directory) for directory in indexes.bookies.attribution.directories]
    directories = cache.write_rows("directories", rows, DIRECTORIES)

    def make_rows() -> DataFrame:
        # A missing entry log does not show to which bookie an index belongs.
        pairs = comparison.unequal_replicas.where("gone is null")
        replicas_with_lost_entries = comparison.unequal_replicas.where("gone is not null").select(*REPLICA)
        incomplete_replicas = find_incomplete_replicas(comparison.judged_ledgers, bookies).join(
            replicas_with_lost_entries, [*REPLICA], "left_anti"
        )
        bookies_to_compare = {
            row["bookie_id"] for row in find_bookies_to_compare(pairs, incomplete_replicas).collect()
        }
        bookie_ids = sorted(bookies_to_compare | set(indexes.overlapping_bookies))
        large_tables = LargeTables(
            comparison.ledgers, comparison.indexes.rows, counts, *_split_by_directory_count(rows)
        )
        return contents(
            indexes.rows, ledgers, pairs, incomplete_replicas, directories, bookies, bookie_ids, large_tables
        )

    cache.write_table("contents", make_rows)


def _split_by_directory_count(directories: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Return two lists of bookies, by the number of directories that may have an index.

    The first list has the bookies with exactly one such directory, the second those with none or several.
    """
    directory_counts = Counter(row["owner"] for row in directories if row["role"] != "journal")
    owners = sorted(name for name in {row["owner"] for row in directories} if name is not None)
    single_directory_bookies = [name for name in owners if directory_counts[name] == 1]
    return single_directory_bookies, [name for name in owners if directory_counts[name] != 1]


def _cluster_facts(
    metadata: ClusterMetadata,
    difference: ScanDifference,
    indexes: Indexes,
    earlier_runs: RunsBefore,
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
        looks_unused=metadata.lacks_layout_and_generator(),
        lists_no_ledger=not metadata.source.cache.count("ledgers") and metadata.is_in_use(),
        bookies_listed=metadata.bookies_listed(),
        earlier_orphans_time=earlier_runs.run_hour_ago.finished if earlier_runs.run_hour_ago else None,
        unclear_bookies=frozenset(metadata.unclear_bookies()),
        has_sources=bool(indexes.bookies.sources),
        wrong_tree_reason=difference.wrong_tree_reason,
        unproved_bookies={**find_foreign_sources(metadata.first, indexes.bookies), **indexes.old_sources},
        layout_known=metadata.is_layout_known(difference.wrong_tree_reason),
        placement=placement.settings_in_use,
        placement_differences=placement.differences,
        settings=settings,
        resolves_ids=read_resolver_flag(source.options.bookie_conf),
    )


def _tables_without_rows(
    cache: TableCache, frames: Mapping[str, DataFrame], bookies: list[dict[str, Any]]
) -> frozenset[str]:
    """Return the names of tables without rows, and of lists about bookies (`Roster`) without rows.

    ``bookies`` are the rows of the table ``bookies``.
    """
    unread_tables = OPTIONAL_TABLES - cache.frames.keys()
    empty_names = {*cache.empty_table_names, *names_without_rows(frames), *unread_tables}
    if not any(row["named"] and not row["registered"] for row in bookies):
        empty_names.add("unregistered")
    return frozenset(empty_names)
