"""Changes of findings since the previous run, as an audit computes them in Spark.

There may be tens of millions of findings, so they are never collected in one process. Instead, an audit
joins its findings with those of the previous run. `auditor.findings.pairs` compares two finished runs
without Spark. The two modules gather their facts in different ways, but both use the rules of
`auditor.findings.rules`.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import cast

from auditor.checks import CHECK_BY_ID, Basis
from auditor.checks.check import DataKind
from auditor.findings.basis import (
    LOSS_CHECKS,
    UNREADABLE_ID,
    ids_resting_on,
    ids_without_check,
    rests_on_copies,
    rests_on_ensembles,
    rests_on_logs,
    rests_on_marks,
)
from auditor.findings.rules import (
    CHANGE_IF_NOT_COVERED,
    FindingFacts,
    FindingState,
    is_milder,
    is_worse,
    was_covered,
)
from auditor.findings.table import fingerprints, severity_ranks
from auditor.model.columns import LEDGER
from auditor.model.finding import Confidence, Urgency
from auditor.model.states import FOUND_NOW, BookieRead, Change, LedgerClass
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame

_FINDING_COLUMNS = (
    "fingerprint", "id", "urgency", "severity", "confidence", "scope_id", "ledger_id", "bookie_id", "missing",
)  # fmt: skip
_KNOWN_COLUMNS = ("known_severity", "known_missing", "known_confidence")


@dataclass(frozen=True)
class RunCoverage:
    """The facts that this run looked at, and the facts that it could not see.

    Attributes:
        verdicts: the table ``verdicts`` of this run.
        bookies: the table ``bookies`` of this run.
        has_gaps: whether a part of the metadata could not be listed.
        has_unread_bookie: whether a bookie was not read completely.
        has_all_owners: whether all owners of ledgers (such as topics) were read.
        requested_tables: the requested optional tables that findings may depend on (`Basis`).
        skipped_checks: checks that were left out, or that had fewer inputs than in the previous run.
        lost_carried: checks that had fewer inputs than in at least one earlier run. They matter for earlier
            findings that the previous run carried over, because it could not look for them.
        unread_logs: bookies with an entry log that was not read to its end.
        unread_records: bookies with copies of ledgers whose records could not be decoded.
    """

    verdicts: DataFrame
    bookies: DataFrame
    has_gaps: bool
    has_unread_bookie: bool
    has_all_owners: bool = False
    requested_tables: Set[str] = frozenset()
    skipped_checks: Set[str] = frozenset()
    lost_carried: Set[str] = frozenset()
    unread_logs: Set[str] = frozenset()
    unread_records: Set[str] = frozenset()


def findings_with_changes(
    findings: DataFrame,
    earlier_changes: DataFrame | None,
    coverage: RunCoverage,
    instance_id: str | None,
    finished_ms: int,
) -> DataFrame:
    """Return every finding with its change, and the findings of ``earlier_changes`` that are no longer found.

    ``earlier_changes`` is the table ``changes`` of the previous run. If it is None, all findings are new.
    ``finished_ms`` is the end of this run in ms. The result has the columns of the table ``changes``, without
    the columns about suppressions.
    """
    finish_time = F.lit(finished_ms).cast("bigint")
    keyed_findings = _add_fault_key(findings, instance_id)
    if earlier_changes is None:
        return _mark_all_new(keyed_findings, finish_time)
    earlier_findings = _worst_earlier_findings(earlier_changes)
    earlier_state = F.struct("severity", *_KNOWN_COLUMNS, "first_seen", "was_unseen").alias("was")
    joined_rows = keyed_findings.join(earlier_findings.select("trouble", earlier_state), "trouble", "left")
    matched_rows = joined_rows.select(
        "trouble",
        *_FINDING_COLUMNS,
        F.col("was.severity").alias("previous_severity"),
        _change_column().alias("change"),
        # Separate, until it is known whether this run looked at the facts of milder findings.
        *(f"was.{name}" for name in _KNOWN_COLUMNS),
        F.coalesce("was.first_seen", finish_time).alias("first_seen"),
        finish_time.alias("last_seen"),
        "was.was_unseen",
    )
    absent_rows = earlier_findings.join(keyed_findings.select("trouble"), "trouble", "left_anti").select(
        "trouble",
        *_FINDING_COLUMNS,
        F.col("severity").alias("previous_severity"),
        F.lit(Change.FIXED).alias("change"),
        *_KNOWN_COLUMNS,
        "first_seen",
        "last_seen",
        "was_unseen",
    )
    is_milder_now = is_milder(_finding_state(), _finding_state("known_"))
    # Without coverage, a finding is neither better nor fixed. A newly confirmed one is worse, even if milder.
    needs_coverage = (F.col("change") == Change.BETTER) | ((F.col("change") == Change.WORSE) & is_milder_now)
    rows_needing_coverage = _add_coverage(
        matched_rows.where(needs_coverage).unionByName(absent_rows), findings, coverage
    )
    checked_rows = rows_needing_coverage.withColumn(
        "change",
        F.when(F.col("looked"), F.col("change"))
        .when(F.col("change") == Change.BETTER, CHANGE_IF_NOT_COVERED[Change.BETTER])
        .when(F.col("change") == Change.FIXED, CHANGE_IF_NOT_COVERED[Change.FIXED])
        .otherwise(F.col("change")),
    )
    rows = matched_rows.where(~needs_coverage).withColumn("looked", F.lit(True)).unionByName(checked_rows)
    is_milder_unchecked = F.col("change").isin(Change.SAME, Change.WORSE) & is_milder_now & ~F.col("looked")
    is_state_unchecked = (F.col("change") == Change.UNCHECKED) | is_milder_unchecked
    was_confirmed = (F.col("change") == Change.SAME) & (
        F.col("known_confidence") == Confidence.CONFIRMED.value
    )
    return rows.withColumns(
        {
            "known_confidence": F.when(
                (is_state_unchecked & (F.col("change") != Change.WORSE)) | was_confirmed,
                F.col("known_confidence"),
            ).otherwise(F.col("confidence")),
            "known_severity": F.when(is_state_unchecked, F.col("known_severity")).otherwise(
                F.col("severity")
            ),
            "known_missing": F.when(is_state_unchecked, F.col("known_missing")).otherwise(F.col("missing")),
        }
    ).drop("looked", "was_unseen")


def _mark_all_new(keyed_findings: DataFrame, finish_time: Column) -> DataFrame:
    return keyed_findings.select(
        "trouble",
        *_FINDING_COLUMNS,
        F.lit(None).cast("string").alias("previous_severity"),
        F.lit(Change.NEW).alias("change"),
        F.col("severity").alias("known_severity"),
        F.col("missing").alias("known_missing"),
        F.col("confidence").alias("known_confidence"),
        finish_time.alias("first_seen"),
        finish_time.alias("last_seen"),
    )


def rows_of_own_run(changes: DataFrame) -> DataFrame:
    """Return a table ``changes`` without findings that only earlier runs found."""
    return changes.where(F.col("change").isin(*FOUND_NOW))


def _add_fault_key(findings: DataFrame, instance_id: str | None) -> DataFrame:
    is_loss_stage = F.col("id").isin(*LOSS_CHECKS)
    mildest_stage = fingerprints(F.lit(LOSS_CHECKS[0]), instance_id)
    missing_count = F.aggregate(
        "missing.count", F.lit(0).cast("long"), lambda running_total, entry_count: running_total + entry_count
    )
    rows = findings.withColumn("missing", missing_count)
    return rows.withColumn(
        "trouble", F.when(is_loss_stage, mildest_stage).otherwise(F.col("fingerprint"))
    ).select("trouble", *_FINDING_COLUMNS)


def _worst_earlier_findings(earlier_changes: DataFrame) -> DataFrame:
    """Return the worst known finding of each fault at the end of the previous run.

    The key of a fault is the column ``trouble``. Fixed findings are left out.
    """
    rows = earlier_changes.where(F.col("change") != Change.FIXED)
    if "urgency" not in rows.columns:  # a table of an older release
        rows = rows.withColumn("urgency", F.lit(Urgency.NOT_URGENT.value))
    was_unchecked = (F.col("change") == Change.UNCHECKED) | (F.col("known_severity") != F.col("severity"))
    rows = rows.withColumn("was_unseen", was_unchecked)
    columns = (*_FINDING_COLUMNS, *_KNOWN_COLUMNS, "first_seen", "last_seen", "was_unseen")
    worst_row = F.min(F.struct(severity_ranks().alias("rank"), *columns)).alias("worst")
    return rows.groupBy("trouble").agg(worst_row).select("trouble", *(f"worst.{name}" for name in columns))


def _change_column() -> Column:
    current_state, earlier_state = _finding_state(), _finding_state("was.known_")
    return (
        F.when(F.col("was.severity").isNull(), Change.NEW)
        .when(is_worse(current_state, earlier_state), Change.WORSE)
        .when(is_milder(current_state, earlier_state), Change.BETTER)
        .otherwise(Change.SAME)
    )


def _finding_state(column_prefix: str = "") -> FindingState:
    """Return the state of each finding, from the columns whose names begin with ``column_prefix``."""
    is_confirmed = F.col(f"{column_prefix}confidence") == Confidence.CONFIRMED.value
    return FindingState(
        severity_ranks(f"{column_prefix}severity"), F.col(f"{column_prefix}missing"), is_confirmed
    )


def _add_coverage(rows: DataFrame, findings: DataFrame, coverage: RunCoverage) -> DataFrame:
    """Add the column ``looked``: whether this run looked at the facts that the row's finding depends on."""
    read_bookies = coverage.bookies.select("bookie_id", _is_fully_read().alias("whole"))
    ledgers = rows.where("ledger_id is not null").select(*LEDGER).distinct()
    # First select the few ledgers of findings, because verdicts has a row for every ledger.
    verdicts = (
        coverage.verdicts.join(ledgers, [*LEDGER], "left_semi")
        .groupBy(*LEDGER)
        .agg(
            F.min(F.col("class") != LedgerClass.UNDECIDED).alias("judged"),
            F.min(
                (F.col("class") != LedgerClass.UNDECIDED) & (F.col("class") == F.col("potential_class"))
            ).alias("decided"),
        )
    )
    unreadable_indexes = (
        findings.where((F.col("id") == UNREADABLE_ID) & F.col("ledger_id").isNotNull())
        .select(*LEDGER, "bookie_id", F.lit(True).alias("unreadable"))
        .distinct()
    )
    unread_ids = unreadable_indexes.select("bookie_id", F.lit(True).alias("unread_index")).distinct()
    return (
        rows.join(verdicts, [*LEDGER], "left")
        .join(F.broadcast(read_bookies), "bookie_id", "left")
        .join(unreadable_indexes, [*LEDGER, "bookie_id"], "left")
        .join(F.broadcast(unread_ids), "bookie_id", "left")
        .withColumn("looked", _make_covered_column(coverage))
        .drop("judged", "decided", "whole", "unreadable", "unread_index")
    )


def _make_covered_column(coverage: RunCoverage) -> Column:
    def has_check_id(check_ids: Iterable[str]) -> Column:
        return F.col("id").isin(*check_ids)

    def is_among(names: Set[str]) -> Column:
        # A finding without a bookie may be about any bookie.
        return F.coalesce(F.col("bookie_id").isin(*sorted(names)), F.lit(True)) if names else F.lit(False)

    data_kinds: tuple[DataKind, ...] = ("records", "copies", "owners")
    flags_by_kind = {
        data_kind: has_check_id(ids_resting_on(*(basis for basis in Basis if basis.data_kind == data_kind)))
        for data_kind in data_kinds
    }
    flags_by_kind["disks"] = ~(flags_by_kind["records"] | flags_by_kind["copies"] | flags_by_kind["owners"])
    unread_bases = [
        basis for basis in Basis if basis.table is not None and basis.table not in coverage.requested_tables
    ]
    unchecked_checks = [*ids_resting_on(*unread_bases), *ids_without_check(coverage.skipped_checks)]
    is_carried_over = F.col("was_unseen") & has_check_id(ids_without_check(coverage.lost_carried))
    facts = FindingFacts(
        flags_by_kind=flags_by_kind,
        has_ledger=F.col("ledger_id").isNotNull(),
        is_listed_ledger=F.col("judged").isNotNull(),
        is_judged_ledger=F.coalesce("judged", F.lit(False)),
        is_decided_ledger=F.coalesce("decided", F.lit(False)),
        has_bookie=F.col("bookie_id").isNotNull(),
        is_known_bookie=F.col("whole").isNotNull(),
        is_read_bookie=F.coalesce("whole", F.lit(False)),
        is_index_unreadable=F.col("unreadable").isNotNull(),
        rests_on_marks=has_check_id(filter(rests_on_marks, CHECK_BY_ID)),
        is_unchecked=has_check_id(unchecked_checks) | is_carried_over,
        unread_data_flags=(
            (has_check_id(filter(rests_on_copies, CHECK_BY_ID)), F.col("unread_index").isNotNull()),
            (has_check_id(filter(rests_on_logs, CHECK_BY_ID)), is_among(coverage.unread_logs)),
            (has_check_id(filter(rests_on_ensembles, CHECK_BY_ID)), is_among(coverage.unread_records)),
        ),
        has_all_metadata=F.lit(not coverage.has_gaps),
        has_all_bookies=F.lit(not coverage.has_unread_bookie),
        has_all_owners=F.lit(coverage.has_all_owners),
    )
    return cast(Column, was_covered(facts))


def _is_fully_read() -> Column:
    """Return whether a bookie's directories were found and fully read. Answers of the bookie do not count."""
    return F.col("found") & (F.col("read") == BookieRead.READ)
