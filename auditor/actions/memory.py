"""Holds (rules that forbid actions) of earlier runs. A run keeps a hold until its reason provably ended.

Each hold names the condition that ends it:

    finding-gone     the run looked for the finding again, and found neither the finding nor a milder form of
                     it (a run that reads less data may report the milder form instead)
    fact-gone        the object was read completely (for a bookie its whole index, for a ledger the metadata),
                     and the fact was not found
    data-elsewhere   the bookie was read completely, and all ledgers on it have all copies on other bookies

Some facts are only visible with an option: entry logs, answers of bookies, and further stores of owners (such
as topics). A later run without this option does not end a hold (`auditor.actions.run_inputs`).

If this run places the same hold again, the hold keeps the time at which a run first placed it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from auditor.checks import ALL_CHECKS, GROUP_BY_ID
from auditor.findings.basis import LOSS_CHECKS
from auditor.findings.table import severity_ranks
from auditor.model.columns import LEDGER
from auditor.model.holds import FactReason, HoldObject, HoldTarget, LiftCondition, bookie_source
from auditor.model.states import FOUND_NOW, BookieRead, Change, LedgerClass, TailRead
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
_NEEDED_DATA_REASONS = (FactReason.LAST_KNOWN_COPY, FactReason.NON_MEMBER_COPY, FactReason.UNINDEXED_BYTES)
"""Reasons of holds that mean that data on a bookie is needed."""


@dataclass(frozen=True)
class ReadFacts:
    """Data that this run read or did not read. It shows whether an earlier hold (ban on actions) has ended.

    Args:
        is_metadata_whole: whether all metadata was read.
        are_registrations_whole: whether all cookies and registrations were read.
        read_bookies: bookies whose index was read to the end, and their journal after its last checkpoint.
        needed_bookies: bookies on which this run places holds because data on them is needed.
        is_anything_missing: whether an entry or the metadata of a ledger is missing, or may be missing.
        unchecked_pairs: pairs (check id, bookie id) of earlier findings that this run did not look for. The
            bookie id is None if the finding is not about a bookie.
        checks_with_findings: checks with findings in this run.
        unchecked_reasons: reasons of holds that this run could not find, because it read less data than the
            earlier run.
        unchecked_carried_reasons: reasons that this run could not find, because it read less data than a run
            before the earlier run. They matter for holds that the earlier run itself took over.
        unread_log_keys: keys of holds on bookies and entry logs with bytes that this run could not read.
        bookies_with_unread_records: bookies with copies of ledgers whose metadata record could not be
            decoded. None if all records could be decoded.
    """

    is_metadata_whole: bool
    are_registrations_whole: bool
    read_bookies: frozenset[str]
    needed_bookies: frozenset[str]
    is_anything_missing: bool
    unchecked_pairs: frozenset[tuple[str, str | None]]
    checks_with_findings: frozenset[str] = frozenset()
    unchecked_reasons: frozenset[str] = frozenset()
    unchecked_carried_reasons: frozenset[str] = frozenset()
    unread_log_keys: frozenset[str] = frozenset()
    bookies_with_unread_records: frozenset[str] | None = None


def unchecked_findings(change_rows: DataFrame) -> DataFrame:
    """Return the check, bookie and ledger of earlier findings that this run could not check again.

    These findings may still exist. The result includes findings that are milder now, because this run may
    have read less. For example, entry-lost becomes below-ack-quorum if a bookie that lacks the entry cannot
    be read. A finding of a check in `LOSS_CHECKS` gives one row for each of these checks.
    """
    current_rank, earlier_rank = severity_ranks(), severity_ranks("known_severity")
    is_milder = (current_rank > earlier_rank) | (
        (current_rank == earlier_rank) & (F.col("missing") < F.col("known_missing"))
    )
    is_unchecked = (F.col("change") == Change.UNCHECKED) | (F.col("change").isin(*FOUND_NOW) & is_milder)
    loss_check_ids = F.array(*map(F.lit, LOSS_CHECKS))
    check_ids = F.when(F.col("id").isin(*LOSS_CHECKS), loss_check_ids).otherwise(F.array("id"))
    return (
        change_rows.where(is_unchecked)
        .select(F.explode(check_ids).alias("id"), "bookie_id", *LEDGER)
        .distinct()
    )


def read_bookies(tables: Tables) -> frozenset[str]:
    """Return the bookies whose index and journal after the last checkpoint were read to the end."""
    complete_tail_states = (TailRead.READ, TailRead.STOPPED)
    read_rows = (
        row
        for row in tables.roster.bookies
        if row["read"] == BookieRead.READ and row["tail"] in complete_tail_states
    )
    return frozenset(row["bookie_id"] for row in read_rows)


def needed_bookies(fact_hold_rows: Collection[Mapping[str, object]]) -> frozenset[str]:
    """Return the bookies that have a hold (a ban) in ``fact_hold_rows`` because their data is needed."""
    return frozenset(str(row["key"]) for row in fact_hold_rows if row["reason"] in _NEEDED_DATA_REASONS)


@asks_tables("over_replicated")
def find_surplus_holders(tables: Tables) -> DataFrame:
    """Return bookies that have a surplus copy of a ledger, if this ledger may lack other copies.

    A copy is surplus if no ensemble of the ledger names the bookie. The data of such a bookie is needed
    even if its copy is not the last one. The only column is bookie_id.
    """
    possibly_unhealthy_ledgers = tables.verdicts.where(
        F.col("potential_class") != LedgerClass.HEALTHY
    ).select(*LEDGER)
    return (
        tables.over_replicated.join(possibly_unhealthy_ledgers, [*LEDGER], "left_semi")
        .select("bookie_id")
        .distinct()
    )


_COOKIE_CHECKS = tuple(
    check.id
    for check in ALL_CHECKS
    if check.holds and GROUP_BY_ID[check.id] == "identity"
    # An unreadable cookie still shows that it exists, and that it is unreadable.
    if check.id not in ("cookie-missing", "cookie-unreadable")
)
"""Checks that compare the contents of cookies. They find nothing if a cookie is unreadable."""


def find_unreadable_cookie_pairs(cookies: Iterable[Mapping[str, Any]]) -> frozenset[tuple[str, str | None]]:
    """Return (check id, bookie id) for each bookie with an unreadable cookie and each of `_COOKIE_CHECKS`.

    These checks find nothing about such a bookie. ``cookies`` are rows of `Roster.all_cookies`.
    """
    damaged_bookies = {row["bookie_id"] for row in cookies if row["damage"] is not None}
    return frozenset(
        (check_id, bookie_id)
        for check_id in _COOKIE_CHECKS
        for bookie_id in damaged_bookies
        if bookie_id is not None
    )


def undecided_ledgers(tables: Tables) -> DataFrame:
    """Return ledgers that have a copy with unknown entries: their key columns, and ``unread_record``.

    ``unread_record`` is true if the metadata record of the ledger could not be decoded, so that all copies
    are unknown.
    """
    unread_ledgers = ledgers_with_unread_record(tables).withColumn("unread_record", F.lit(True))
    is_copy_unknown = F.col("class") != F.col("potential_class")
    unknown_ledgers = tables.verdicts.where(is_copy_unknown).select(
        *LEDGER, F.lit(False).alias("unread_record")
    )
    return (
        unread_ledgers.unionByName(unknown_ledgers)
        .groupBy(*LEDGER)
        .agg(F.max("unread_record").alias("unread_record"))
    )


def ledgers_with_unread_record(tables: Tables) -> DataFrame:
    """Return the key columns of ledgers whose metadata record exists but could not be decoded."""
    is_record_unread = F.col("ledger_id").isNotNull() & F.coalesce("undecidable", F.lit(False))
    return tables.ledgers.where(is_record_unread).select(*LEDGER).distinct()


def add_carried_holds(
    holds: DataFrame,
    earlier_holds: DataFrame | None,
    change_rows: DataFrame,
    read_facts: ReadFacts,
    run_time: int,
    undecided_rows: DataFrame | None = None,
) -> DataFrame:
    """Return holds (bans on actions) of this run, and earlier holds that have not ended, as rows of `HOLDS`.

    Args:
        holds: rows in `auditor.actions.finding_holds.NEW_HOLD_COLUMNS`.
        earlier_holds: the table ``holds`` of the earlier run. None if no earlier run has this table.
        change_rows: the table ``changes`` of this run.
        read_facts: the parts of the cluster that this run read.
        run_time: the time at which the findings of this run were complete, ms.
        undecided_rows: ledgers with an unknown copy in this run (`undecided_ledgers`). None if there are
            none.
    """
    if earlier_holds is None:
        new_holds = holds.withColumn("first_seen", F.lit(run_time).cast("bigint")).withColumn(
            "carried", F.lit(False)
        )
        return new_holds.select(*HOLDS.names)
    earlier_first_seen_times = earlier_holds.select(*_HOLD_KEY, F.col("first_seen").alias("was_first_seen"))
    current_holds = holds.join(earlier_first_seen_times, _HOLD_KEY, "left").withColumns(
        {"first_seen": F.coalesce("was_first_seen", F.lit(run_time)).cast("bigint"), "carried": F.lit(False)}
    )
    unrepeated_holds = earlier_holds.join(holds.select(*_HOLD_KEY), _HOLD_KEY, "left_anti")
    unchecked_ledger_findings = unchecked_findings(change_rows).where("ledger_id is not null")
    unchecked_ledgers = unchecked_ledger_findings.select(
        *LEDGER, F.col("id").alias("reason"), F.lit(True).alias("unseen")
    ).distinct()
    unrepeated_holds = unrepeated_holds.join(unchecked_ledgers, [*LEDGER, "reason"], "left")
    if undecided_rows is None:
        unrepeated_holds = unrepeated_holds.withColumn("unread_record", F.lit(None).cast("boolean"))
    else:
        unrepeated_holds = unrepeated_holds.join(undecided_rows, [*LEDGER], "left")
    unrepeated_holds = unrepeated_holds.where(~_has_hold_ended(read_facts))
    # An acceptance ends if the finding was not looked for again: it may have become worse.
    carried_holds = unrepeated_holds.withColumns({"carried": F.lit(True), "accepted": F.lit(False)})
    return current_holds.select(*HOLDS.names).unionByName(carried_holds.select(*HOLDS.names))


def _has_hold_ended(read_facts: ReadFacts) -> Column:
    is_hold_on_bookie = F.col("object") == HoldObject.BOOKIE
    is_hold_on_ledger = F.col("object") == HoldObject.LEDGER
    is_bookie_read = _is_value_among(read_facts.read_bookies)
    is_finding_gone = (
        F.when(is_hold_on_ledger, F.col("unseen").isNull() & F.lit(read_facts.is_metadata_whole))
        .when(_is_due_to_unread_copy(read_facts), False)
        .otherwise(~_is_finding_unchecked(read_facts))
    )
    rests_on_registrations = F.col("reason").isin(*_REGISTRATION_REASONS)
    # A bookie that was not read may have copies of them too.
    may_have_unread_record = (
        F.lit(False)
        if read_facts.bookies_with_unread_records is None
        else _is_value_among(read_facts.bookies_with_unread_records) | ~is_bookie_read
    )
    is_unindexed_bytes = F.col("reason") == FactReason.UNINDEXED_BYTES
    is_all_data_present = F.lit(read_facts.is_metadata_whole and not read_facts.is_anything_missing)
    is_fact_gone = (
        F.when(is_unindexed_bytes & _is_value_among(read_facts.unread_log_keys), False)
        # As long as a copy is unknown, a registered member may still lack the entries.
        .when(
            (F.col("reason") == FactReason.COPIES_ON_DOWN_BOOKIES) & F.col("unread_record").isNotNull(), False
        )
        .when((F.col("reason") == FactReason.NO_MEMBER_REGISTERED) & F.col("unread_record"), False)
        .when(F.col("reason") == FactReason.UNREAD_DISK, is_bookie_read | is_all_data_present)
        .when(rests_on_registrations & is_hold_on_bookie & may_have_unread_record, False)
        .when(
            rests_on_registrations, F.lit(read_facts.are_registrations_whole and read_facts.is_metadata_whole)
        )
        .when(
            F.col("object") == HoldObject.ENTRY_LOG,
            _is_value_among(read_facts.read_bookies, F.split("key", " ")[0])
            & F.lit(read_facts.is_metadata_whole),
        )
        # A record that could not be decoded may be that of an open ledger, with the bookie in its ensemble.
        .when(
            F.lit(read_facts.bookies_with_unread_records is not None)
            & (F.col("reason") == FactReason.OPEN_LEDGERS),
            False,
        )
        # The metadata decides which copies are the last, and which ledgers are open.
        .when(
            is_hold_on_bookie, is_bookie_read & ~may_have_unread_record & F.lit(read_facts.is_metadata_whole)
        )
        # The data of a bookie stays old until the whole bookie is read again.
        .when(
            F.col("reason") == FactReason.SOURCE_TOO_OLD,
            _is_value_among([bookie_source(bookie_id) for bookie_id in read_facts.read_bookies]),
        )
        .otherwise(F.lit(read_facts.is_metadata_whole))
    )
    is_data_elsewhere = (
        is_bookie_read & ~_is_value_among(read_facts.needed_bookies) & F.lit(read_facts.is_metadata_whole)
    )
    return (
        F.when(_is_reason_unchecked(read_facts), False)
        .when(F.col("lift") == LiftCondition.FINDING_GONE, is_finding_gone)
        .when(F.col("lift") == LiftCondition.FACT_GONE, is_fact_gone)
        .when(F.col("lift") == LiftCondition.DATA_ELSEWHERE, is_data_elsewhere)
        .otherwise(F.lit(False))  # a condition of a later version of the program
    )


_COPY_CHECKS = frozenset(
    check.id
    for check in ALL_CHECKS
    for hold_rule in check.holds
    if hold_rule.target
    in (HoldTarget.BOOKIES_LACKING_ENTRIES, HoldTarget.NON_MEMBER_HOLDERS, HoldTarget.UNEQUAL_COPIES)
)
"""Checks that place holds on bookies because they have, or lack, copies of the ledger of a finding."""


def _is_due_to_unread_copy(read_facts: ReadFacts) -> Column:
    """Return a column that is true for holds (bans on actions) that may be due to an unread copy.

    Such a hold is on a bookie that was not read completely. A check of ledgers' copies placed the hold, and
    this check has findings in this run.
    """
    is_copy_check = _is_value_among(_COPY_CHECKS & read_facts.checks_with_findings, F.col("reason"))
    return (F.col("object") == HoldObject.BOOKIE) & is_copy_check & ~_is_value_among(read_facts.read_bookies)


def _is_reason_unchecked(read_facts: ReadFacts) -> Column:
    """Return a column: whether this run read too few inputs to find the reason of a hold (ban) again."""
    reason_column = F.col("reason")
    is_carried_reason_unchecked = F.col("carried") & _is_value_among(
        read_facts.unchecked_carried_reasons, reason_column
    )
    return _is_value_among(read_facts.unchecked_reasons, reason_column) | is_carried_reason_unchecked


def _is_value_among(listed_values: Collection[str], value_column: Column | None = None) -> Column:
    column_to_test = F.col("key") if value_column is None else value_column
    return column_to_test.isin(*sorted(listed_values)) if listed_values else F.lit(False)


def _is_finding_unchecked(read_facts: ReadFacts) -> Column:
    """Return a column: whether this run did not look again for the findings that placed a hold (a ban)."""
    unchecked_ids = {check_id for check_id, bookie_id in read_facts.unchecked_pairs if bookie_id is None}
    unchecked_check_and_bookie_keys = {
        f"{check_id}\0{bookie_id}"
        for check_id, bookie_id in read_facts.unchecked_pairs
        if bookie_id is not None
    }
    is_unchecked_check_of_bookie = (
        F.concat_ws("\0", "reason", "key").isin(*sorted(unchecked_check_and_bookie_keys))
        if unchecked_check_and_bookie_keys
        else F.lit(False)
    )
    is_unchecked_check = F.col("reason").isin(*sorted(unchecked_ids)) if unchecked_ids else F.lit(False)
    # A source is held for a finding on any bookie.
    check_ids = {check_id for check_id, _ in read_facts.unchecked_pairs}
    is_unchecked_source = F.col("reason").isin(*sorted(check_ids)) if check_ids else F.lit(False)
    return F.when(F.col("object") == HoldObject.SOURCE, is_unchecked_source).otherwise(
        is_unchecked_check_of_bookie | is_unchecked_check
    )
