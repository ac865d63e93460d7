"""State of AutoRecovery: its processes, the waiting ledgers, and the ledgers that can be read now.

The state is that of the metadata scans. A table is queried only if it can contain an answer. A cluster with
all bookies registered and no under-replication marks therefore costs no query here.
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
from auditor.spark.table_queries import aggregate_many, derive
from auditor.spark.types import DataFrame
from auditor.tables import Roster
from auditor.tables.cluster_state import autorecovery_facts
from auditor.tables.reachability import REACHABILITY

_RECENT_MS = 7 * DAY_MS
"""Largest age of a closed ledger that shows which ensemble sizes are in use, in ms.

Open ledgers always count.
"""


def write_reachability(cache: TableCache, roster: Roster) -> DataFrame:
    """Write the ledgers that registered bookies cannot fully serve. Empty if no bookie is proved down."""
    down_bookies = [row["bookie_id"] for row in roster.unregistered if row["depending"]]
    bookies = sorted(row["bookie_id"] for row in roster.bookies)
    read = partial(
        reachability_rows, run=cache.run.path, bookies=bookies, down_bookies=frozenset(down_bookies)
    )
    return cache.write_or_empty(
        bool(down_bookies) and _knows_registrations(roster),
        "reachability",
        REACHABILITY,
        lambda: from_files(cache.spark, REACHABILITY, cache.files("ledgers"), read),
    )


def _knows_registrations(roster: Roster) -> bool:
    """Return whether a missing registration proves that a bookie is down.

    A dump or snapshot that was saved after all sessions had ended has no ephemeral znodes at all.
    """
    return roster.cluster.live or any(row["registered"] is not None for row in roster.bookies)


class QueueTables(NamedTuple):
    """Tables to count ledgers that wait for re-replication. ``marks`` are those of the first scan."""

    ledgers: DataFrame
    marks: DataFrame
    locks: DataFrame
    reachability: DataFrame


def with_repair_state(
    cache: TableCache,
    metadata: ClusterMetadata,
    roster: Roster,
    tables: QueueTables,
    previous: RunSummary | None,
) -> Roster:
    """Return the roster with the state of AutoRecovery, and the number of ledgers that wait for it.

    ``previous`` is the run before. Marks made since that run are counted. None if there is no earlier run.
    """
    cluster, bookies = roster.cluster, roster.bookies
    knows_registrations = _knows_registrations(roster)
    down_bookies = (
        sorted(row["bookie_id"] for row in roster.unregistered if row["depending"])
        if knows_registrations
        else []
    )
    registered = [row["registered"] for row in bookies if row["registered"] is not None]
    writable = sum(mode != "readonly" for mode in registered)
    # A cluster with as many writable bookies as ensembles name can place any ensemble that it has placed.
    asks_sizes = knows_registrations and writable < sum(bool(row["named"]) for row in bookies)
    questions = _questions(tables, down_bookies, previous.scan_time if previous else None)
    if asks_sizes:
        questions["ensembles"] = _ensemble_question(tables.ledgers, cluster.scan_time)
    state = RepairState(
        **_autorecovery(metadata, roster, knows_registrations),
        registered=len(registered),
        writable=writable,
        knows_registrations=knows_registrations,
        down=tuple(down_bookies),
        **_numbers(aggregate_many(questions)),
    )
    return replace(roster, cluster=replace(cluster, repair=state))


def _autorecovery(metadata: ClusterMetadata, roster: Roster, knows_registrations: bool) -> dict[str, Any]:
    """Return the fields of `RepairState` about AutoRecovery's votes and settings.

    The result is empty if the run did not read them.
    """
    cluster = roster.cluster
    if not (knows_registrations and cluster.has_marks and cluster.bookies_listed):
        return {}
    scans = (metadata.first.nodes, metadata.second.nodes)
    # A vote of an id without a cookie is that of an AutoRecovery process without a bookie.
    down_bookies = {
        row["bookie_id"] for row in roster.clear_bookies if row["has_cookie"] and not row["registered"]
    }
    return autorecovery_facts(scans, cluster.scan_time, down_bookies)


_Questions = dict[str, tuple[DataFrame, list[str]]]


def _questions(tables: QueueTables, down_bookies: Collection[str], previous_scan: int | None) -> _Questions:
    """Return the queries for the numbers of `RepairState`, by name."""
    later_count_sql = "0" if previous_scan is None else f"count_if(coalesce(ctime, mtime) > {previous_scan})"
    marked_ledgers = derive(tables.marks.where("not misplaced"), tables.marks)
    questions: _Questions = {
        "queue": (marked_ledgers, ["count(*)", "min(coalesce(ctime, mtime))", later_count_sql]),
        "locks": (tables.locks, ["count(*)"]),
        "reach": (tables.reachability, [f"count_if(reach = '{reach_class}')" for reach_class in Reach]),
    }
    if down_bookies:
        questions |= _waiting_questions(tables.ledgers, marked_ledgers, down_bookies)
    return questions


def _waiting_questions(
    ledgers: DataFrame, marked_ledgers: DataFrame, down_bookies: Collection[str]
) -> _Questions:
    """Return queries for ledgers that depend on a down bookie, and for further ledgers with a mark."""
    ids = F.array(*map(F.lit, sorted(down_bookies)))
    copies_on_down_bookies = F.exists(
        "replicas", lambda copy: copy["depends"] & F.array_contains(ids, copy["bookie_id"])
    )
    keys = ["scope_id", "ledger_id"]
    depending_ledgers = (
        ledgers.where(F.col("status").isin(*DECODED)).where(copies_on_down_bookies).select(*keys)
    )
    # Marks are few beside ledgers: those of other ledgers are what has to be added.
    marked_ids = marked_ledgers.where("ledger_id is not null").select(*keys)
    marked_only = derive(marked_ids.join(depending_ledgers, keys, "left_anti"), marked_ledgers)
    return {"depending": (depending_ledgers, ["count(*)"]), "marked_only": (marked_only, ["count(*)"])}


def _ensemble_question(ledgers: DataFrame, scan_time: int) -> tuple[DataFrame, list[str]]:
    sized_ledgers = ledgers.where(
        F.col("status").isin(*DECODED) & ~F.col("undecidable") & (F.col("ensemble_size") > 0)
    )
    in_use = f"(state != '{LedgerState.CLOSED}' OR ctime > {scan_time - _RECENT_MS})"
    return sized_ledgers, [
        f"coalesce(min(CASE WHEN {in_use} THEN ensemble_size END), min(ensemble_size))",
        f"coalesce(max(CASE WHEN {in_use} THEN ensemble_size END), max(ensemble_size))",
    ]


def _numbers(counts: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    queued_count, oldest, queued_since = counts["queue"]
    [depending_count] = counts.get("depending", (0,))
    [marked_only] = counts.get("marked_only", (queued_count if not depending_count else 0,))
    smallest, largest = counts.get("ensembles", (0, 0))
    unavailable, unrecoverable, single_copy = counts["reach"]
    return {
        "queued": queued_count,
        "oldest": oldest or None,
        "queued_since": queued_since,
        "locked": counts["locks"][0],
        "depending": depending_count,
        "waiting": depending_count + marked_only,
        "smallest_ensemble": smallest,
        "largest_ensemble": largest,
        "unavailable": unavailable,
        "unrecoverable": unrecoverable,
        "single_copy": single_copy,
    }
