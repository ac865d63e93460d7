"""Memory of holds: a run carries on a hold of the earlier run until it has seen the lifting condition.

    finding-gone     the table changes has no `unseen` finding of the check for this object, and none that is
                     milder only because less was read
    fact-gone        the object was read completely: for a bookie its whole index, for a ledger the metadata
    data-elsewhere   the bookie was read completely, and every ledger on it has all its copies elsewhere

Some facts are only seen with an option (entry logs, answers of bookies, further stores of owners). They are
not gone because a later run lacked the option (`auditor.actions.run_inputs`).

A hold that this run finds again keeps the time at which it was first seen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from auditor.checks import ALL, GROUP_OF
from auditor.findings.basis import TROUBLE_STAGES
from auditor.findings.table import severity_ranks
from auditor.model.columns import LEDGER
from auditor.model.holds import FactReason, HoldObject, HoldTarget, Lift, bookie_source
from auditor.model.states import FOUND, BookieRead, Change, LedgerClass, TailRead
from auditor.spark import functions as F
from auditor.spark.table_queries import asks_tables
from auditor.spark.types import Column, DataFrame
from auditor.tables import Tables
from auditor.tables.holds import HOLDS

_HOLD_KEY = ["object", "key", "reason"]
_REGISTRATION_REASONS = (
    FactReason.LAST_SERVED_COPY,
    FactReason.NO_MEMBER_REGISTERED,
    FactReason.COPIES_ON_DOWN_BOOKIES,
)
"""Reasons of holds that rest on the registrations of bookies."""
_NEEDED_DATA_REASONS = (FactReason.LAST_KNOWN_COPY, FactReason.FOREIGN_COPY, FactReason.UNINDEXED_BYTES)
"""Reasons of holds that show that data on a bookie is needed."""


@dataclass(frozen=True)
class Seen:
    """Parts of the cluster that this run read, as far as lifting a hold depends on them.

    Args:
        metadata_whole: no part of the metadata was left out.
        registrations_whole: all cookies and registrations were read.
        bookies_read: bookies whose index and journal tail were read to the end.
        needed: bookies on which this run places holds because data on them is needed.
        anything_missing: an entry or the metadata of a ledger is missing, or may be.
        unseen: pairs of check and bookie id (None: no bookie) of findings that were not looked for again.
        found: checks with findings in this run.
        lost_reasons: reasons of holds that the earlier run could see and that this run could not.
        lost_carried: reasons of holds that some run before the earlier one could see and this run could not;
            they concern holds that the earlier run carried on.
        unread_logs: bookies and entry logs, by the keys of holds, with bytes that this run could not read.
        unread_records: bookies with copies of ledgers whose records could not be decoded; None: all could.
    """

    metadata_whole: bool
    registrations_whole: bool
    bookies_read: frozenset[str]
    needed: frozenset[str]
    anything_missing: bool
    unseen: frozenset[tuple[str, str | None]]
    found: frozenset[str] = frozenset()
    lost_reasons: frozenset[str] = frozenset()
    lost_carried: frozenset[str] = frozenset()
    unread_logs: frozenset[str] = frozenset()
    unread_records: frozenset[str] | None = None


def unseen_findings(changes: DataFrame) -> DataFrame:
    """Return check, bookie and ledger of earlier findings that this run was not able to find.

    A finding may turn into a milder stage of the same trouble only because less was read. Example: entry-lost
    becomes below-ack-quorum if a bookie that lacks the entry cannot be read. The result then has one row for
    each stage.
    """
    rank, known_rank = severity_ranks(), severity_ranks("known_severity")
    is_milder = (rank > known_rank) | ((rank == known_rank) & (F.col("missing") < F.col("known_missing")))
    is_unseen = (F.col("change") == Change.UNSEEN) | (F.col("change").isin(*FOUND) & is_milder)
    stage_ids = F.array(*map(F.lit, TROUBLE_STAGES))
    ids = F.when(F.col("id").isin(*TROUBLE_STAGES), stage_ids).otherwise(F.array("id"))
    return changes.where(is_unseen).select(F.explode(ids).alias("id"), "bookie_id", *LEDGER).distinct()


def read_bookies(tables: Tables) -> frozenset[str]:
    """Return the bookies whose index and journal tail were read to the end."""
    complete_tails = (TailRead.READ, TailRead.STOPPED)
    rows = (
        row
        for row in tables.roster.bookies
        if row["read"] == BookieRead.READ and row["tail"] in complete_tails
    )
    return frozenset(row["bookie_id"] for row in rows)


def needed_bookies(fact_rows: Collection[Mapping[str, object]]) -> frozenset[str]:
    """Return the bookies with holds that show that their data is needed; ``fact_rows`` are rows of holds."""
    return frozenset(str(row["key"]) for row in fact_rows if row["reason"] in _NEEDED_DATA_REASONS)


@asks_tables("over_replicated")
def holders_of_weak_ledgers(tables: Tables) -> DataFrame:
    """Return the bookies with a copy that no ensemble names, of a ledger that may lack other copies.

    The only column is bookie_id. The data of these bookies is needed even if it is not the last copy.
    """
    weak_ledgers = tables.verdicts.where(F.col("potential_class") != LedgerClass.HEALTHY).select(*LEDGER)
    return tables.over_replicated.join(weak_ledgers, [*LEDGER], "left_semi").select("bookie_id").distinct()


_COOKIE_CHECKS = tuple(
    check.id
    for check in ALL
    if check.holds and GROUP_OF[check.id] == "identity"
    # An unreadable cookie still shows that it exists, and that it is unreadable.
    if check.id not in ("cookie-missing", "cookie-unreadable")
)
"""Checks that compare the contents of cookies, and so find nothing if a cookie is unreadable."""


def doubted_by_cookies(cookies: Iterable[Mapping[str, Any]]) -> frozenset[tuple[str, str | None]]:
    """Return each pair of a check of `_COOKIE_CHECKS` and a bookie with an unreadable cookie.

    ``cookies`` are rows of `Roster.every_cookie`.
    """
    damaged_bookies = {row["bookie_id"] for row in cookies if row["damage"] is not None}
    return frozenset(
        (id, bookie) for id in _COOKIE_CHECKS for bookie in damaged_bookies if bookie is not None
    )


def undecided_ledgers(tables: Tables) -> DataFrame:
    """Return the ledgers with an unknown copy, in the key columns and ``unread_record``.

    ``unread_record`` is true if all copies of a ledger are unknown, because its record could not be decoded.
    """
    unread_ledgers = ledgers_with_unread_record(tables).withColumn("unread_record", F.lit(True))
    is_unknown = F.col("class") != F.col("potential_class")
    unknown_ledgers = tables.verdicts.where(is_unknown).select(*LEDGER, F.lit(False).alias("unread_record"))
    return (
        unread_ledgers.unionByName(unknown_ledgers)
        .groupBy(*LEDGER)
        .agg(F.max("unread_record").alias("unread_record"))
    )


def ledgers_with_unread_record(tables: Tables) -> DataFrame:
    """Return the key columns of ledgers whose record exists and could not be decoded."""
    is_unread = F.col("ledger_id").isNotNull() & F.coalesce("undecidable", F.lit(False))
    return tables.ledgers.where(is_unread).select(*LEDGER).distinct()


def with_memory(
    holds: DataFrame,
    earlier_holds: DataFrame | None,
    changes: DataFrame,
    seen_data: Seen,
    now: int,
    undecided: DataFrame | None = None,
) -> DataFrame:
    """Return this run's holds and the earlier run's holds that nothing has lifted, in the columns of `HOLDS`.

    Args:
        holds: rows in `auditor.actions.finding_holds.NEW_COLUMNS`.
        earlier_holds: the table holds of the earlier run; None if no earlier run has one.
        changes: the table changes of this run.
        seen_data: the parts of the cluster that this run read.
        now: the time at which the findings of this run were complete, ms.
        undecided: ledgers with an unknown copy in this run (`undecided_ledgers`); None: none.
    """
    if earlier_holds is None:
        rows = holds.withColumn("first_seen", F.lit(now).cast("bigint")).withColumn("carried", F.lit(False))
        return rows.select(*HOLDS.names)
    earlier_times = earlier_holds.select(*_HOLD_KEY, F.col("first_seen").alias("was_first_seen"))
    repeated_holds = holds.join(earlier_times, _HOLD_KEY, "left").withColumns(
        {"first_seen": F.coalesce("was_first_seen", F.lit(now)).cast("bigint"), "carried": F.lit(False)}
    )
    unrepeated_holds = earlier_holds.join(holds.select(*_HOLD_KEY), _HOLD_KEY, "left_anti")
    ledger_findings = unseen_findings(changes).where("ledger_id is not null")
    unseen_ledgers = ledger_findings.select(
        *LEDGER, F.col("id").alias("reason"), F.lit(True).alias("unseen")
    ).distinct()
    unrepeated_holds = unrepeated_holds.join(unseen_ledgers, [*LEDGER, "reason"], "left")
    if undecided is None:
        unrepeated_holds = unrepeated_holds.withColumn("unread_record", F.lit(None).cast("boolean"))
    else:
        unrepeated_holds = unrepeated_holds.join(undecided, [*LEDGER], "left")
    unrepeated_holds = unrepeated_holds.where(~_is_lifted(seen_data))
    # An acceptance ends if the finding was not looked for again: it may have become worse.
    carried_holds = unrepeated_holds.withColumns({"carried": F.lit(True), "accepted": F.lit(False)})
    return repeated_holds.select(*HOLDS.names).unionByName(carried_holds.select(*HOLDS.names))


def _is_lifted(seen_data: Seen) -> Column:
    is_bookie = F.col("object") == HoldObject.BOOKIE
    is_ledger = F.col("object") == HoldObject.LEDGER
    is_bookie_read = _is_among(seen_data.bookies_read)
    is_finding_gone = (
        F.when(is_ledger, F.col("unseen").isNull() & F.lit(seen_data.metadata_whole))
        .when(_is_of_unread_copy(seen_data), False)
        .otherwise(~_is_finding_unseen(seen_data))
    )
    is_on_registrations = F.col("reason").isin(*_REGISTRATION_REASONS)
    # A bookie that was not read may have copies of them too.
    may_have_unread_record = (
        F.lit(False)
        if seen_data.unread_records is None
        else _is_among(seen_data.unread_records) | ~is_bookie_read
    )
    is_on_bytes = F.col("reason") == FactReason.UNINDEXED_BYTES
    is_on_unread_disk = F.col("reason") == FactReason.UNREAD_DISK
    is_nothing_missing = F.lit(seen_data.metadata_whole and not seen_data.anything_missing)
    is_fact_gone = (
        F.when(is_on_bytes & _is_among(seen_data.unread_logs), False)
        # As long as a copy is unknown, a registered member may still lack the entries.
        .when(
            (F.col("reason") == FactReason.COPIES_ON_DOWN_BOOKIES) & F.col("unread_record").isNotNull(), False
        )
        .when((F.col("reason") == FactReason.NO_MEMBER_REGISTERED) & F.col("unread_record"), False)
        .when(is_on_unread_disk, is_bookie_read | is_nothing_missing)
        .when(is_on_registrations & is_bookie & may_have_unread_record, False)
        .when(is_on_registrations, F.lit(seen_data.registrations_whole and seen_data.metadata_whole))
        .when(
            F.col("object") == HoldObject.ENTRY_LOG,
            _is_among(seen_data.bookies_read, F.split("key", " ")[0]) & F.lit(seen_data.metadata_whole),
        )
        # A record that could not be decoded may be that of an open ledger, with the bookie in its ensemble.
        .when(
            F.lit(seen_data.unread_records is not None) & (F.col("reason") == FactReason.OPEN_LEDGERS), False
        )
        # The metadata decides which copies are the last, and which ledgers are open.
        .when(is_bookie, is_bookie_read & ~may_have_unread_record & F.lit(seen_data.metadata_whole))
        # The data of a bookie stays old until the whole bookie is read again.
        .when(
            F.col("reason") == FactReason.SOURCE_TOO_OLD,
            _is_among([bookie_source(name) for name in seen_data.bookies_read]),
        )
        .otherwise(F.lit(seen_data.metadata_whole))
    )
    is_data_elsewhere = is_bookie_read & ~_is_among(seen_data.needed) & F.lit(seen_data.metadata_whole)
    return (
        F.when(_is_lost(seen_data), False)
        .when(F.col("lift") == Lift.FINDING_GONE, is_finding_gone)
        .when(F.col("lift") == Lift.FACT_GONE, is_fact_gone)
        .when(F.col("lift") == Lift.DATA_ELSEWHERE, is_data_elsewhere)
        .otherwise(F.lit(False))  # a condition of a later version of the program
    )


_COPY_CHECKS = frozenset(
    check.id
    for check in ALL
    for rule in check.holds
    if rule.target in (HoldTarget.LACKING, HoldTarget.HOLDERS, HoldTarget.COPIES)
)
"""Checks that place holds on bookies because of their copies of a finding's ledger, present or lacking."""


def _is_of_unread_copy(seen_data: Seen) -> Column:
    """Return whether a hold is on a bookie for its copy of a ledger, and this run did not read the bookie.

    Holds of checks without findings in this run are left out.
    """
    is_on_copies = _is_among(_COPY_CHECKS & seen_data.found, F.col("reason"))
    return (F.col("object") == HoldObject.BOOKIE) & is_on_copies & ~_is_among(seen_data.bookies_read)


def _is_lost(seen_data: Seen) -> Column:
    """Return whether this run could not see the reason of a hold, because it had fewer inputs."""
    reason = F.col("reason")
    is_lost_carried = F.col("carried") & _is_among(seen_data.lost_carried, reason)
    return _is_among(seen_data.lost_reasons, reason) | is_lost_carried


def _is_among(names: Collection[str], column: Column | None = None) -> Column:
    tested_column = F.col("key") if column is None else column
    return tested_column.isin(*sorted(names)) if names else F.lit(False)


def _is_finding_unseen(seen_data: Seen) -> Column:
    """Return whether this run did not look again for the finding behind a hold, on its bookie or on any."""
    unseen_checks = {id for id, bookie in seen_data.unseen if bookie is None}
    unseen_pairs = {f"{id}\0{bookie}" for id, bookie in seen_data.unseen if bookie is not None}
    is_unseen_pair = (
        F.concat_ws("\0", "reason", "key").isin(*sorted(unseen_pairs)) if unseen_pairs else F.lit(False)
    )
    is_unseen_check = F.col("reason").isin(*sorted(unseen_checks)) if unseen_checks else F.lit(False)
    # A source is held for a finding on any bookie.
    ids = {id for id, _ in seen_data.unseen}
    is_unseen_source = F.col("reason").isin(*sorted(ids)) if ids else F.lit(False)
    return F.when(F.col("object") == HoldObject.SOURCE, is_unseen_source).otherwise(
        is_unseen_pair | is_unseen_check
    )
