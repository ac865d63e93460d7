"""The holds of a run. A hold forbids actions on an object of the cluster.

Holds come from findings, from facts about bookies, logs and sources, and from the previous run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any, NamedTuple

import pyarrow as pa

from auditor.actions.action_list import LEDGER_ACTIONS, ActionList, PermittedLedgers, build_action_list
from auditor.actions.fact_holds import (
    OutdatedSource,
    count_foreign_copies,
    count_past_end_copies,
    damaged_database_rows,
    find_damaged_databases,
    foreign_copy_rows,
    last_copy_rows,
    past_end_rows,
    rows_of_outdated_sources,
    unindexed_byte_rows,
    unindexed_bytes,
    unlocated_ledgers,
    unread_disk_rows,
    unread_log_rows,
    unread_owner_rows,
)
from auditor.actions.finding_holds import NEW_HOLD_COLUMNS, holds_of_findings, union_frames
from auditor.actions.gate import HoldBook, UnfinishedRun
from auditor.actions.memory import (
    ReadFacts,
    add_carried_holds,
    find_surplus_holders,
    find_unreadable_cookie_pairs,
    needed_bookies,
    read_bookies,
    unchecked_findings,
    undecided_ledgers,
)
from auditor.actions.unreachable_holds import unreachable_ledgers
from auditor.audit.changes import RunChanges, RunsBefore
from auditor.audit.table_cache import TableCache
from auditor.audit.unread_parts import (
    bookies_with_unread_index,
    bookies_with_unread_logs,
    holders_of_unread_records,
    keys_of_unread_log_holds,
    unchecked_answer_pairs,
    unchecked_forecast_pairs,
)
from auditor.checks.check import URGENCIES_THAT_FORBID_ACTIONS
from auditor.checks.configuration import kinds_without_holds
from auditor.model.action_facts import HoldFacts
from auditor.model.columns import LEDGER
from auditor.model.holds import HOLDS_TABLE_PATH, HoldObject, bookie_source
from auditor.model.run_facts import DONE_FILE
from auditor.model.states import WRITABLE_MODES, LedgerClass
from auditor.runs.directory import RunDirectory
from auditor.runs.reader import RunReader
from auditor.simulate.exposure import find_exposures, find_joint_holders
from auditor.spark import functions as F
from auditor.spark.batches import arrow_frame
from auditor.spark.table_queries import TableQuery, collect_query
from auditor.spark.types import DataFrame
from auditor.tables import Tables
from auditor.tables.holds import HOLDS

_NEW_HOLD_SCHEMA = pa.schema([HOLDS.field(name) for name in NEW_HOLD_COLUMNS])


class RunScope(NamedTuple):
    """The extent and age of a run's data.

    ``is_metadata_whole`` is True if all metadata was read and the scan cannot have missed a ledger id.
    ``were_owners_read`` is True if a store of ledgers' owners (such as topics) was read. ``oldest_data_time``
    and ``newest_data_time`` are the times of the oldest and newest data of the run, in ms.
    ``checks_without_input`` are the checks whose input is incomplete. Holds (rules that forbid actions) that
    follow from findings of these checks may be missing.
    """

    is_metadata_whole: bool
    were_owners_read: bool
    oldest_data_time: int
    newest_data_time: int
    checks_without_input: tuple[str, ...] = ()


def write_holds(
    cache: TableCache,
    findings: DataFrame,
    changes: RunChanges,
    tables: Tables,
    earlier_runs: RunsBefore,
    run_scope: RunScope,
) -> tuple[HoldFacts, ActionList]:
    """Write the table ``holds`` (bans on actions). Return its counts, and the ordered list of actions.

    Args:
        cache: The writer of the run's tables. It has written ``findings`` and ``changes``.
        findings: The table ``findings``.
        changes: The changes of findings since the previous run, and the suppressed findings.
        tables: The tables that checks query.
        earlier_runs: The earlier runs. Holds of the previous run are carried over.
        run_scope: The extent and age of the run's data.
    """
    finding_counts: Counter[str] = Counter()
    for count in changes.counts_of_this_run():
        finding_counts[count.id] += count.findings
    is_anything_missing = _is_anything_missing(finding_counts, tables, run_scope.checks_without_input)
    run = earlier_runs.previous.run
    earlier_holds = None
    if run is not None and RunDirectory(run.path).exists(f"{HOLDS_TABLE_PATH}/{DONE_FILE}"):
        earlier_holds = cache.spark.read.parquet(f"{run.path}/{HOLDS_TABLE_PATH}")
    # If a check of the earlier run lacked input, that run does not prove that a hold is new.
    lacks_input = run is not None and bool(RunReader(run.path).report.run.checks_with_missing_holds)

    def derive_holds() -> DataFrame:
        has_dangling = bool(finding_counts["owner-dangling"])
        unlocated_count = unlocated_ledgers(findings, tables).count() if has_dangling else 0
        fact_hold_rows = _make_fact_hold_rows(
            cache, tables, is_anything_missing, run_scope.were_owners_read, unlocated_count
        )
        frames = [arrow_frame(cache.spark, pa.Table.from_pylist(fact_hold_rows, _NEW_HOLD_SCHEMA))]
        frames += holds_of_findings(findings, changes.changes, tables, finding_counts)
        if (unreachable_ledger_holds := unreachable_ledgers(tables)) is not None:
            frames.append(unreachable_ledger_holds)
        unread_records = None if earlier_holds is None else holders_of_unread_records(tables)
        unchecked_pairs = find_unreadable_cookie_pairs(tables.roster.all_cookies)
        if earlier_holds is not None:
            unchecked_pairs |= unchecked_answer_pairs(tables, earlier_holds)
            unchecked_pairs |= unchecked_forecast_pairs(tables, unread_records or ())
            unchecked = unchecked_findings(changes.changes).select("id", "bookie_id").distinct()
            unchecked_pairs |= {(row["id"], row["bookie_id"]) for row in unchecked.collect()}
        surplus_holder_rows = [] if earlier_holds is None else collect_query(find_surplus_holders, tables)
        bookies_at_risk = frozenset(row["bookie_id"] for row in surplus_holder_rows)
        read_facts = ReadFacts(
            is_metadata_whole=run_scope.is_metadata_whole,
            are_registrations_whole=tables.cluster.bookies_listed,
            read_bookies=read_bookies(tables) - bookies_with_unread_index(tables),
            needed_bookies=needed_bookies(fact_hold_rows) | bookies_at_risk,
            is_anything_missing=is_anything_missing,
            unchecked_pairs=frozenset(unchecked_pairs),
            checks_with_findings=frozenset(id for id, count in finding_counts.items() if count),
            unchecked_reasons=changes.lost_inputs,
            unchecked_carried_reasons=changes.lost_carried,
            bookies_with_unread_records=unread_records,
            unread_log_keys=frozenset()
            if earlier_holds is None
            else keys_of_unread_log_holds(tables, earlier_holds),
        )
        undecided_rows = None if earlier_holds is None else undecided_ledgers(tables)
        new_holds, finish_ms = union_frames(frames), changes.finish_ms
        rows = add_carried_holds(
            new_holds, earlier_holds, changes.changes, read_facts, finish_ms, undecided_rows
        )
        return rows.orderBy("object", "key", "reason")

    holds = cache.write_table("holds", derive_holds)
    is_urgent = F.col("urgency").isin(*map(str, URGENCIES_THAT_FORBID_ACTIONS)) & ~F.col("accepted")
    [row] = holds.agg(F.count("*"), F.count_if(is_urgent), F.count_if("carried")).collect()
    is_usable = not lacks_input and not earlier_runs.has_later_run(changes.finish_ms)
    earlier_name = run.name if run is not None and earlier_holds is not None and is_usable else None
    hold_facts = HoldFacts(total=row[0], urgent=row[1], carried=row[2], earlier_run=earlier_name)
    return hold_facts, _list_actions(cache, findings, changes, hold_facts, run_scope, tables)


def _make_fact_hold_rows(
    cache: TableCache, tables: Tables, is_anything_missing: bool, owners_read: bool, unlocated_count: int
) -> list[dict[str, Any]]:
    """Return the holds (rules that forbid actions) that follow from facts about bookies, logs and sources.

    The list is short, because each object has at most a few holds.
    """

    def collect_rows(query: TableQuery[Tables]) -> list[Any]:
        ordered_query = TableQuery[Tables](
            query.asks, lambda asked_tables: query(asked_tables).orderBy("bookie_id")
        )
        return [row.asDict() for row in collect_query(ordered_query, tables)]

    bookie_exposures = find_exposures(cache.run, tables.cluster.bookies_listed)
    outdated_sources = [
        OutdatedSource(bookie_source(name), f"{name}: {reason}")
        for name, reason in sorted(tables.cluster.unproved_bookies.items())
    ]
    return [
        *last_copy_rows(bookie_exposures),
        *unread_disk_rows(tables, is_anything_missing),
        *unread_log_rows(
            tables, unlocated_count, bookies_with_unread_logs(tables) if unlocated_count else ()
        ),
        *damaged_database_rows(collect_rows(find_damaged_databases)),
        *foreign_copy_rows(collect_rows(count_foreign_copies)),
        *past_end_rows(collect_rows(count_past_end_copies)),
        *unindexed_byte_rows(collect_rows(unindexed_bytes)),
        *rows_of_outdated_sources(outdated_sources),
        *unread_owner_rows(owners_read),
    ]


def permitted_ledgers(
    findings: DataFrame, changes: RunChanges, holds: DataFrame
) -> dict[str, PermittedLedgers]:
    """Return, by check id, the number of ledgers with a permitted action, and the first of these ledgers.

    The action that a check proposes for a ledger is permitted if no hold (a rule) on the ledger forbids it.

    Args:
        findings: The table ``findings``.
        changes: The changes and suppressions of findings. Suppressed findings need no action.
        holds: The table ``holds``.
    """
    check_ids = {count.id for count in changes.counts_of_this_run()}
    actions = [(id, action_kind) for id, action_kind in LEDGER_ACTIONS if id in check_ids]
    if not actions:
        return {}
    kind_by_check_items = [
        F.lit(id_or_action_kind)
        for id, action_kind in actions
        for id_or_action_kind in (id, str(action_kind))
    ]
    rows = findings.where(F.col("id").isin(*(id for id, _ in actions)) & F.col("ledger_id").isNotNull())
    suppressed_findings = changes.changes.where("suppression is not null").select("fingerprint")
    rows = rows.join(suppressed_findings, "fingerprint", "left_anti").withColumn(
        "kind", F.create_map(*kind_by_check_items)[F.col("id")]
    )
    forbidden_actions = holds.where(F.col("object") == HoldObject.LEDGER)
    forbidden_actions = forbidden_actions.select(*LEDGER, F.explode("forbids").alias("kind")).distinct()
    permitted_rows = rows.join(forbidden_actions, [*LEDGER, "kind"], "left_anti")
    first_ledger = F.min(F.struct(*LEDGER)).alias("first")
    permitted_count_rows = (
        permitted_rows.groupBy("id").agg(F.count("*").alias("count"), first_ledger).collect()
    )
    return {row["id"]: PermittedLedgers(row["count"], *row["first"]) for row in permitted_count_rows}


def _list_actions(
    cache: TableCache,
    findings: DataFrame,
    changes: RunChanges,
    hold_facts: HoldFacts,
    run_scope: RunScope,
    tables: Tables,
) -> ActionList:
    """Return the ordered list of the run's actions. The table ``holds`` (bans on actions) must exist."""
    action_hold_book = HoldBook(
        cache.run.batches,
        has_holds_table=True,
        oldest_data_time=run_scope.oldest_data_time,
        newest_data_time=run_scope.newest_data_time,
        has_earlier_run=hold_facts["earlier_run"] is not None,
        are_logs_read="entry_logs" in tables.frames,
        current_time=changes.finish_ms,
        checks_without_holds=kinds_without_holds(run_scope.checks_without_input),
    )
    permitted_by_check = permitted_ledgers(findings, changes, cache.frames["holds"])
    are_bookies_listed = tables.cluster.bookies_listed
    return build_action_list(
        UnfinishedRun(action_hold_book),
        changes.counts_of_this_run(),
        permitted_by_check,
        _writable_bookies(tables),
        lambda bookies: find_joint_holders(cache.run, are_bookies_listed, bookies),
    )


def _writable_bookies(tables: Tables) -> frozenset[str] | None:
    """Return the bookies that accept writes, or None if registrations are missing or incomplete."""
    modes_by_bookie = {row["bookie_id"]: row["registered"] for row in tables.roster.bookies}
    if not tables.cluster.bookies_listed or not any(modes_by_bookie.values()):
        return None
    return frozenset(
        name for name, registered_mode in modes_by_bookie.items() if registered_mode in WRITABLE_MODES
    )


def _is_anything_missing(
    finding_counts: Counter[str], tables: Tables, checks_without_input: Collection[str]
) -> bool:
    """Return whether an entry, or the metadata of a ledger with an owner, is missing or may be missing.

    An owner is an object of an application, such as a topic. If owner-dangling is one of the
    ``checks_without_input``, metadata of such a ledger may be missing.
    """
    if (
        "owner-dangling" in checks_without_input
        or finding_counts["entry-lost"]
        or finding_counts["owner-dangling"]
    ):
        return True
    return not tables.verdicts.where(F.col("potential_class") == LedgerClass.ENTRY_LOST).isEmpty()
