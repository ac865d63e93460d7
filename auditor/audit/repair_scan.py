"""State of AutoRecovery: its processes, the ledgers that wait for it, and the ledgers that can be read now.

The state is that of the time of the metadata scans. A table is queried only if it can have relevant rows.
If all bookies are registered and there are no under-replication marks, no table is queried.
"""

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from auditor.audit.metadata import ClusterMetadata
from auditor.audit.table_cache import TableCache
from auditor.model.history import RunSummary
from auditor.model.ledger_metadata import LedgerState
from auditor.model.repair import DAY_MS, RepairState
from auditor.model.states import DECODED, Reach
from auditor.simulate.reachability import reachability_rows
from auditor.spark import functions as F
from auditor.spark.batches import from_files
from auditor.spark.table_queries import aggregate_tables, inherit_empty
from auditor.spark.types import DataFrame
from auditor.tables import Roster
from auditor.tables.cluster_state import autorecovery_facts
from auditor.tables.reachability import REACHABILITY

_MAX_CLOSED_AGE_MS = 7 * DAY_MS
"""Largest age of a closed ledger that shows which ensemble sizes are in use, in ms.

Open ledgers always count.
"""


def write_reachability(cache: TableCache, roster: Roster) -> DataFrame:
    """Write the table of ledgers that registered bookies cannot fully serve.

    The table is empty unless at least one bookie is certainly down.
    """
    down_bookies = [row["bookie_id"] for row in roster.unregistered if row["depending"]]
    bookies = sorted(row["bookie_id"] for row in roster.bookies)
    reachability_reader = partial(
        reachability_rows, run=cache.run.path, bookies=bookies, down_bookies=frozenset(down_bookies)
    )
    return cache.write_or_empty(
        bool(down_bookies) and _knows_registrations(roster),
        "reachability",
        REACHABILITY,
        lambda: from_files(cache.spark, REACHABILITY, cache.files("ledgers"), reachability_reader),
    )


def _knows_registrations(roster: Roster) -> bool:
    """Return whether a missing registration proves that a bookie is down.

    It proves nothing if a dump or snapshot was saved after all sessions had ended. Such a file has no
    ephemeral znodes at all.
    """
    return roster.cluster.live or any(row["registered"] is not None for row in roster.bookies)


class QueueTables(NamedTuple):
    """The tables for counting the ledgers that wait for re-replication.

    ``marks`` has the under-replication marks, except marks of ledgers created after the first scan.
    """

    ledgers: DataFrame
    marks: DataFrame
    locks: DataFrame
    reachability: DataFrame


def with_repair_state(
    cache: TableCache,
    metadata: ClusterMetadata,
    roster: Roster,
    tables: QueueTables,
    previous_run: RunSummary | None,
) -> Roster:
    """Return ``roster`` (bookies) with AutoRecovery's state, and the number of ledgers that wait for it.

    The state includes the number of under-replication marks made since ``previous_run``, which is None if
    there is no such run.
    """
    cluster, bookies = roster.cluster, roster.bookies
    knows_registrations = _knows_registrations(roster)
    down_bookies = (
        sorted(row["bookie_id"] for row in roster.unregistered if row["depending"])
        if knows_registrations
        else []
    )
    registered_modes = [row["registered"] for row in bookies if row["registered"] is not None]
    writable_count = sum(registered_mode != "readonly" for registered_mode in registered_modes)
    # With at least as many writable bookies as ensembles name, every ensemble size in use can be placed.
    needs_ensemble_sizes = knows_registrations and writable_count < sum(bool(row["named"]) for row in bookies)
    queries = _make_queries(tables, down_bookies, previous_run.scan_time if previous_run else None)
    if needs_ensemble_sizes:
        queries["ensembles"] = _ensemble_size_query(tables.ledgers, cluster.scan_time)
    repair_state = RepairState(
        **_autorecovery_facts(metadata, roster, knows_registrations),
        registered=len(registered_modes),
        writable=writable_count,
        knows_registrations=knows_registrations,
        down=tuple(down_bookies),
        **_repair_counts(aggregate_tables(queries)),
    )
    return replace(roster, cluster=replace(cluster, repair=repair_state))


def _autorecovery_facts(
    metadata: ClusterMetadata, roster: Roster, knows_registrations: bool
) -> dict[str, Any]:
    """Return the fields of `RepairState` about AutoRecovery's votes and settings.

    The result is empty if the run did not read them.
    """
    cluster = roster.cluster
    if not (knows_registrations and cluster.has_marks and cluster.bookies_listed):
        return {}
    scanned_znodes = (metadata.first.nodes, metadata.second.nodes)
    # An AutoRecovery process without a bookie votes with an id that has no cookie. Such an id is not down.
    down_bookies = {
        row["bookie_id"] for row in roster.certain_bookies if row["has_cookie"] and not row["registered"]
    }
    return autorecovery_facts(scanned_znodes, cluster.scan_time, down_bookies)


_Queries = dict[str, tuple[DataFrame, list[str]]]


def _make_queries(
    tables: QueueTables, down_bookies: Collection[str], previous_scan_time: int | None
) -> _Queries:
    """Return the queries for `RepairState`, by name: waiting ledgers, their locks, and readable ledgers."""
    new_mark_sql = (
        "0" if previous_scan_time is None else f"count_if(coalesce(ctime, mtime) > {previous_scan_time})"
    )
    marked_ledgers = inherit_empty(tables.marks.where("not misplaced"), tables.marks)
    queries: _Queries = {
        "queue": (marked_ledgers, ["count(*)", "min(coalesce(ctime, mtime))", new_mark_sql]),
        "locks": (tables.locks, ["count(*)"]),
        "reach": (
            tables.reachability,
            [f"count_if(reach = '{reachability_state}')" for reachability_state in Reach],
        ),
    }
    if down_bookies:
        queries |= _queries_for_waiting_ledgers(tables.ledgers, marked_ledgers, down_bookies)
    return queries


def _queries_for_waiting_ledgers(
    ledgers: DataFrame, marked_ledgers: DataFrame, down_bookies: Collection[str]
) -> _Queries:
    """Return two count queries: ledgers that depend on a down bookie, and other under-replicated ledgers."""
    down_ids = F.array(*map(F.lit, sorted(down_bookies)))
    is_on_down_bookie = F.exists(
        "replicas", lambda replica: replica["depends"] & F.array_contains(down_ids, replica["bookie_id"])
    )
    ledger_columns = ["scope_id", "ledger_id"]
    ledgers_on_down_bookies = (
        ledgers.where(F.col("status").isin(*DECODED)).where(is_on_down_bookie).select(*ledger_columns)
    )
    # Marks are few compared with ledgers, so the marks are filtered, and their number is added.
    marked_ids = marked_ledgers.where("ledger_id is not null").select(*ledger_columns)
    marked_ledgers_on_live_bookies = inherit_empty(
        marked_ids.join(ledgers_on_down_bookies, ledger_columns, "left_anti"), marked_ledgers
    )
    return {
        "depending": (ledgers_on_down_bookies, ["count(*)"]),
        "marked_only": (marked_ledgers_on_live_bookies, ["count(*)"]),
    }


def _ensemble_size_query(ledgers: DataFrame, scan_time: int) -> tuple[DataFrame, list[str]]:
    ledgers_with_ensemble_size = ledgers.where(
        F.col("status").isin(*DECODED) & ~F.col("undecidable") & (F.col("ensemble_size") > 0)
    )
    size_in_use_sql = f"(state != '{LedgerState.CLOSED}' OR ctime > {scan_time - _MAX_CLOSED_AGE_MS})"
    return ledgers_with_ensemble_size, [
        f"coalesce(min(CASE WHEN {size_in_use_sql} THEN ensemble_size END), min(ensemble_size))",
        f"coalesce(max(CASE WHEN {size_in_use_sql} THEN ensemble_size END), max(ensemble_size))",
    ]


def _repair_counts(counts: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    queued_count, oldest_mark_time, new_mark_count = counts["queue"]
    [count_on_down_bookies] = counts.get("depending", (0,))
    [marked_count_on_live_bookies] = counts.get(
        "marked_only", (queued_count if not count_on_down_bookies else 0,)
    )
    smallest_ensemble, largest_ensemble = counts.get("ensembles", (0, 0))
    unavailable_count, unrecoverable_count, single_copy_count = counts["reach"]
    return {
        "queued": queued_count,
        "oldest": oldest_mark_time or None,
        "queued_since": new_mark_count,
        "locked": counts["locks"][0],
        "depending": count_on_down_bookies,
        "waiting": count_on_down_bookies + marked_count_on_live_bookies,
        "smallest_ensemble": smallest_ensemble,
        "largest_ensemble": largest_ensemble,
        "unavailable": unavailable_count,
        "unrecoverable": unrecoverable_count,
        "single_copy": single_copy_count,
    }
