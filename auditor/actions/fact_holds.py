"""Holds (rules that forbid actions) that come from facts in the tables, not from findings.

These facts lead to holds:

    last known bytes      a copy that is, or may be, the only one; a copy on a bookie that is in none of the
                          ledger's ensembles; bytes that no index lists; disks that were not read, if data is
                          missing
    copies that differ    a bookie has entries after a closed ledger's end (differing payloads are findings)
    damaged databases     the bookie fails to start, or loses the data behind the damage when it starts
    unreachable ledgers   no ensemble member is registered, or all copies of an entry are on down bookies
    open ledgers          recovery would fence their writers
    old sources           the data of a bookie is older than the metadata

There are few holds on bookies and sources, so the driver creates them as rows. One Spark query creates the
rows of holds on ledgers (`auditor.actions.unreachable_holds`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditor.actions.finding_holds import NEW_HOLD_COLUMNS
from auditor.model.amounts import plural
from auditor.model.columns import LEDGER
from auditor.model.exposure import BookieExposure
from auditor.model.finding import Severity, Urgency
from auditor.model.holds import (
    DANGEROUS_ACTIONS,
    ERASING_ACTIONS,
    OWNERS_SOURCE,
    ActionKind,
    FactReason,
    HoldObject,
    LiftCondition,
)  # fmt: skip
from auditor.model.states import (
    NOT_RECLAIMABLE,
    BookieRead,
    GcReason,
    GcVerdict,
    IndexState,
    SpaceClass,
)
from auditor.sources.bookies.parts import ROCKSDB
from auditor.spark import functions as F
from auditor.spark.table_queries import asks_tables
from auditor.spark.types import DataFrame
from auditor.tables import Tables

Row = dict[str, Any]

_COPY_REMOVING_KINDS = (ActionKind.DECOMMISSION, ActionKind.DELETE_COOKIE)
"""Kinds of action after which nobody can ever read the copies on a bookie again."""
_READ_STOPPING_KINDS = (ActionKind.STOP, ActionKind.REBUILD_INDEX)
"""Kinds of action during which nobody can read the copies on a bookie.

A hold on a last copy forbids them if other copies were written and are gone. It does not forbid them if the
ledger has a write quorum of 1, because the bookie could otherwise never be restarted.
"""


def _hold_row(
    key: str,
    reason: FactReason,
    forbidden_kinds: Iterable[ActionKind],
    message: str,
    *,
    is_certain: bool = True,
    count: int = 1,
    object_kind: HoldObject = HoldObject.BOOKIE,
) -> Row:
    return dict.fromkeys(NEW_HOLD_COLUMNS) | {
        "object": str(object_kind),
        "key": key,
        "forbids": [str(action_kind) for action_kind in forbidden_kinds],
        "reason": str(reason),
        "certain": is_certain,
        "urgency": str(Urgency.NOT_URGENT),
        "count": count,
        "accepted": False,
        "lift": str(LiftCondition.FACT_GONE),
        "message": message,
    }


def last_copy_rows(bookie_exposures: Sequence[BookieExposure]) -> Iterator[Row]:
    """Yield holds (bans) on bookies that have open ledgers, or an entry's last known or last served copy."""
    for bookie_exposure in bookie_exposures:
        bookie_id = bookie_exposure.bookie_id
        if ledger_count := bookie_exposure.last_known_possible:
            is_certain = bookie_exposure.last_known_ledgers > 0
            ledgers_text = plural(
                bookie_exposure.last_known_ledgers if is_certain else ledger_count, "ledger"
            )
            verb = "has" if is_certain else "may have"
            message = f"{bookie_id} {verb} the last known copy of entries in {ledgers_text}"
            forbidden_kinds = _forbidden_kinds(bookie_exposure.last_known_degraded)
            yield _hold_row(
                bookie_id,
                FactReason.LAST_KNOWN_COPY,
                forbidden_kinds,
                message,
                is_certain=is_certain,
                count=ledger_count,
            )
        if ledger_count := bookie_exposure.last_served_possible:
            is_certain = bookie_exposure.last_served_ledgers > 0
            ledgers_text = plural(
                bookie_exposure.last_served_ledgers if is_certain else ledger_count, "ledger"
            )
            verb = "is" if is_certain else "may be"
            message = f"{bookie_id} {verb} the only registered bookie that has some entries of {ledgers_text}"
            forbidden_kinds = _forbidden_kinds(bookie_exposure.last_served_degraded)
            yield _hold_row(
                bookie_id,
                FactReason.LAST_SERVED_COPY,
                forbidden_kinds,
                message,
                is_certain=is_certain,
                count=ledger_count,
            )
        if ledger_count := bookie_exposure.open_ledgers:
            message = (
                f"{bookie_id} has {plural(ledger_count, 'open ledger')}: recovery would fence their writers"
            )
            forbidden_kinds = (ActionKind.DECOMMISSION, ActionKind.REBUILD_INDEX)
            yield _hold_row(bookie_id, FactReason.OPEN_LEDGERS, forbidden_kinds, message, count=ledger_count)


def _forbidden_kinds(degraded_count: int) -> tuple[ActionKind, ...]:
    return (*_COPY_REMOVING_KINDS, *_READ_STOPPING_KINDS) if degraded_count else _COPY_REMOVING_KINDS


def unread_disk_rows(tables: Tables, is_data_missing: bool) -> Iterator[Row]:
    """Yield holds (bans on erasing) for incompletely read bookies. Yield nothing if no data is missing."""
    if not is_data_missing:
        return
    for bookie in tables.roster.bookies:
        if bookie["read"] != BookieRead.READ:
            bookie_id = bookie["bookie_id"]
            message = f"{bookie_id} was not read completely, and may have entries that are missing elsewhere"
            yield _hold_row(bookie_id, FactReason.UNREAD_DISK, ERASING_ACTIONS, message, is_certain=False)


def unlocated_ledgers(findings: DataFrame, tables: Tables) -> DataFrame:
    """Return ledgers that an owner (e.g. a topic) references, but that no metadata and no index contains."""
    dangling_owner_findings = findings.where(
        (F.col("id") == "owner-dangling") & (F.col("severity") == Severity.ERROR)
    )
    return dangling_owner_findings.select(*LEDGER).distinct().join(tables.orphans, [*LEDGER], "left_anti")


def unread_log_rows(tables: Tables, unlocated_count: int, unread_logs: Collection[str]) -> Iterator[Row]:
    """Yield holds (bans on erasing) for bookies whose unread entry logs may contain missing ledgers.

    ``unlocated_count`` is the number of missing ledgers (`unlocated_ledgers`). ``unread_logs`` has the
    bookies with an unreadable log. If the run did not read entry logs at all, the logs of every bookie are
    unread.
    """
    if not unlocated_count:
        return
    for bookie in tables.roster.bookies:
        is_log_unread = "entry_logs" not in tables.frames or bookie["bookie_id"] in unread_logs
        if is_log_unread and bookie["read"] == BookieRead.READ:  # all others: `unread_disk_rows`
            bookie_id = bookie["bookie_id"]
            ledgers_text = plural(unlocated_count, "ledger")
            message = (
                f"entry logs of {bookie_id}: not all were read (--entry-logs); they may have {ledgers_text} "
                "that an owner refers to, but no index lists"
            )
            yield _hold_row(
                bookie_id,
                FactReason.UNREAD_DISK,
                ERASING_ACTIONS,
                message,
                is_certain=False,
                count=unlocated_count,
            )


@asks_tables("unreadable_indexes")
def find_damaged_databases(tables: Tables) -> DataFrame:
    """Return the bookies with a damaged RocksDB database.

    Columns: bookie_id, damage (the first damaged file and its fault).
    """
    is_damaged = (F.col("state") == IndexState.DAMAGED) & (F.col("storage") == ROCKSDB)
    damage_column = F.min(F.concat_ws(": ", "path", "reason")).alias("damage")
    return tables.availability.where(is_damaged).groupBy("bookie_id").agg(damage_column)


def damaged_database_rows(database_rows: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """Yield holds (bans on starting) for the bookies in ``database_rows`` (`find_damaged_databases`).

    RocksDB cannot open a database if its MANIFEST or a table is missing, or if a table is truncated. The
    bookie then fails to start. If a write-ahead log is damaged, RocksDB drops the records behind the
    damage, and the bookie starts without them.
    """
    for row in database_rows:
        bookie_id = row["bookie_id"]
        message = (
            f"{bookie_id} has a damaged index; a start would fail, or lose more of the index: {row['damage']}"
        )
        yield _hold_row(bookie_id, FactReason.INDEX_DAMAGED, (ActionKind.START,), message)


_POSSIBLY_LAST_REASONS = (
    GcReason.LAST_COPY,
    GcReason.OTHER_ID,
    GcReason.MEMBERS_UNKNOWN,
    GcReason.BEHIND_END,
)


@asks_tables("gc_foresight")
def count_foreign_copies(tables: Tables) -> DataFrame:
    """Count, for each bookie outside a ledger's ensembles, the ledgers whose last copy it may have.

    Columns: bookie_id, count (number of ledgers), certain (number of ledgers for which the run proved this),
    first (the lowest ledger id).
    """
    deletable_copy_rows = tables.gc_foresight.where(F.col("reason").isin(*_POSSIBLY_LAST_REASONS))
    is_wrong_deletion = F.col("verdict") == GcVerdict.WRONG
    return deletable_copy_rows.groupBy("bookie_id").agg(
        F.count("*").alias("count"),
        F.count_if(is_wrong_deletion).alias("certain"),
        F.min("ledger_id").alias("first"),
    )


def foreign_copy_rows(bookie_count_rows: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """Yield holds (bans on actions) on bookies outside a ledger's ensembles that may have its last copy.

    ``bookie_count_rows`` are rows of `count_foreign_copies`.
    """
    for row in bookie_count_rows:
        is_certain = row["certain"] > 0
        verb = "has" if is_certain else "may have"
        message = (
            f"{row['bookie_id']} {verb} the last copy of entries in {plural(row['count'], 'ledger')} "
            f"whose ensembles do not name the bookie, such as ledger {row['first']}"
        )
        yield _hold_row(
            row["bookie_id"],
            FactReason.NON_MEMBER_COPY,
            (*ERASING_ACTIONS, ActionKind.REBUILD_INDEX),
            message,
            is_certain=is_certain,
            count=row["count"],
        )


@asks_tables("past_end")
def count_past_end_copies(tables: Tables) -> DataFrame:
    """Count, for each bookie_id, the ledgers whose copy on the bookie continues after the ledger's end.

    The further entries are harmless if a second writer took over the ledger and closed it. The first writer
    then got no acknowledgement for them. Ledgers with such a takeover are not counted.
    """
    ledgers_without_takeover = tables.judged.where("not coalesce(past_end_by_takeover, false)")
    copy_rows = ledgers_without_takeover.select(F.explode("past_end.bookie_id").alias("bookie_id"))
    return copy_rows.groupBy("bookie_id").count()


def past_end_rows(bookie_count_rows: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """Yield holds (bans on actions) on bookies with entries after the last entry of a ledger.

    ``bookie_count_rows`` are rows of `count_past_end_copies`.
    """
    for row in bookie_count_rows:
        ledgers_text = plural(row["count"], "ledger")
        message = f"{row['bookie_id']} has entries beyond the last entry of {ledgers_text}"
        forbidden_kinds = (ActionKind.DECOMMISSION, ActionKind.DELETE_COOKIE)
        yield _hold_row(
            row["bookie_id"], FactReason.COPIES_DIFFER, forbidden_kinds, message, count=row["count"]
        )


@asks_tables("space")
def unindexed_bytes(tables: Tables) -> DataFrame:
    """Count, by bookie_id and log_id, the bytes in entry logs that no index lists and that may be needed.

    The run must have read entry logs. Further columns are bytes, ledgers (number of ledgers) and certain. If
    a log is newer than the index, the next flush may add its bytes to the index. ``certain`` is False if
    this applies to all these bytes of a log, else True. The log that the bookie is writing to is left out,
    because garbage collection does not delete it.
    """
    disk_space_rows = tables.space.where(F.col("bookie_id").isNotNull())
    unindexed_rows = disk_space_rows.where(F.col("class").isin(*NOT_RECLAIMABLE)).withColumn(
        "certain", F.lit(True)
    )
    if "log_entries" in tables.frames:
        unindexed_logs = tables.log_entries.where("groups is null or entries > 0").select("path", *LEDGER)
        is_young_log = (F.col("class") == SpaceClass.NOT_YET_MAPPED) & ~F.col("current")
        rows_of_young_logs = disk_space_rows.where(is_young_log).join(
            unindexed_logs, ["path", *LEDGER], "left_semi"
        )
        unindexed_rows = unindexed_rows.unionByName(rows_of_young_logs.withColumn("certain", F.lit(False)))
    ledger_count = F.count_distinct("scope_id", "ledger_id").alias("ledgers")
    is_certain = F.max("certain").alias("certain")
    return unindexed_rows.groupBy("bookie_id", "log_id").agg(
        F.sum("bytes").alias("bytes"), ledger_count, is_certain
    )


def unindexed_byte_rows(log_rows: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """Yield holds (bans on actions) on entry logs with bytes that no index lists, and on their bookies.

    ``log_rows`` are rows of `unindexed_bytes`.
    """
    are_logs_certain_by_bookie: dict[str, list[bool]] = {}
    for entry_log in log_rows:
        bookie_id, log_number, is_certain = entry_log["bookie_id"], entry_log["log_id"], entry_log["certain"]
        ledgers_text = plural(entry_log["ledgers"], "ledger")
        verb, not_yet_text = ("has", "") if is_certain else ("may have", " yet")
        message = (
            f"entry log {log_number} of {bookie_id} {verb} bytes of {ledgers_text} that the bookie's index "
            f"does not list{not_yet_text}"
        )
        forbidden_kinds = (ActionKind.COLLECT, ActionKind.COMPACT)
        yield _hold_row(
            f"{bookie_id} {log_number}", FactReason.UNINDEXED_BYTES, forbidden_kinds, message,
            is_certain=is_certain, count=entry_log["ledgers"], object_kind=HoldObject.ENTRY_LOG,
        )  # fmt: skip
        are_logs_certain_by_bookie.setdefault(bookie_id, []).append(is_certain)
    for bookie_id, are_logs_certain in are_logs_certain_by_bookie.items():
        is_certain = any(are_logs_certain)
        verb, not_yet_text = ("has", "") if is_certain else ("may have", " yet")
        entry_logs_text = plural(len(are_logs_certain), "entry log")
        message = (
            f"{bookie_id} {verb} needed bytes in {entry_logs_text} that the bookie's index does not "
            f"list{not_yet_text}"
        )
        yield _hold_row(
            bookie_id,
            FactReason.UNINDEXED_BYTES,
            ERASING_ACTIONS,
            message,
            is_certain=is_certain,
            count=len(are_logs_certain),
        )


def unread_owner_rows(were_owners_read: bool) -> Iterator[Row]:
    """Yield a hold (ban) on the source of owners (e.g. topics) if no owner store was read, else nothing."""
    if not were_owners_read:
        message = "no owner store was read, so it is unknown which ledgers are in use"
        forbidden_kinds = (ActionKind.DELETE_LEDGER,)
        yield _hold_row(
            OWNERS_SOURCE,
            FactReason.OWNERS_NOT_READ,
            forbidden_kinds,
            message,
            is_certain=False,
            object_kind=HoldObject.SOURCE,
        )


@dataclass(frozen=True)
class OutdatedSource:
    """A source whose data is older than the metadata: its key, and the text of the ban on actions (hold)."""

    key: str
    message: str


def rows_of_outdated_sources(sources: Iterable[OutdatedSource]) -> Iterator[Row]:
    """Yield holds (bans on actions) on sources that are older than the metadata.

    The holds forbid every dangerous action and every stop.
    """
    for source in sources:
        forbidden_kinds = [
            action_kind
            for action_kind in ActionKind
            if action_kind in DANGEROUS_ACTIONS or action_kind is ActionKind.STOP
        ]
        yield _hold_row(
            source.key,
            FactReason.SOURCE_TOO_OLD,
            forbidden_kinds,
            source.message,
            object_kind=HoldObject.SOURCE,
        )
