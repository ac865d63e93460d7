"""Changes of findings since the run before: in Spark in an audit, and without Spark between finished runs.

Findings may be tens of millions, so no code collects them. An audit joins its findings with those of the run
before. Two finished runs are compared from their tables changes, with pyarrow and numpy. To match a finding,
three numbers of it are kept in memory (`Marks`). All other columns are read again, batch by batch, and only
for changed findings. `auditor.findings.basis` decides whether a finding is fixed or unseen.
"""

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.checks import BY_ID, Basis
from auditor.checks.check import Way
from auditor.findings.arrays import among, find, fingerprint_numbers, to_codes, to_flags, whole
from auditor.findings.basis import (
    STAGES,
    UNREADABLE,
    Batches,
    covers,
    ids_resting_on,
    ids_without_check,
    of_checks,
    of_copies,
    of_ensembles,
    of_logs,
    of_marks,
    subjects,
)
from auditor.findings.table import fingerprints, ranks
from auditor.model.columns import LEDGER
from auditor.model.finding import Confidence, Severity, Urgency
from auditor.model.states import FOUND, BookieRead, Change, LedgerClass
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables.changes import CHANGED

_SUBJECT = (
    "fingerprint", "id", "urgency", "severity", "confidence", "scope_id", "ledger_id", "bookie_id", "missing",
)  # fmt: skip
_KNOWN_COLUMNS = ("known_severity", "known_missing", "known_confidence")


@dataclass(frozen=True)
class RunCoverage:
    """The facts that this run looked at: its tables verdicts and bookies, and the following.

    ``holes`` is True if its listings of metadata had holes, ``some_unread`` if some bookie was not read
    completely, ``owners`` if all owners were read. ``asked_tables`` are the optional tables of a `Basis` that
    were requested. ``not_run`` are checks that were left out, or saw less than in the run before.
    ``lost_carried`` are checks that saw less than in any run before; this matters for findings that the run
    before carried on unseen. ``unread_logs`` are bookies with an entry log that was not read to its end.
    ``unread_records`` are bookies with copies of ledgers whose records could not be decoded.
    """

    verdicts: DataFrame
    bookies: DataFrame
    holes: bool
    some_unread: bool
    owners: bool = False
    asked_tables: Set[str] = frozenset()
    not_run: Set[str] = frozenset()
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
    """Return every finding with its change, and findings of ``earlier_changes`` that are not found any more.

    ``earlier_changes`` is the table changes of the run before; None if there is none, so that all findings
    are new. ``finished_ms`` is the end of this run, ms. Columns: those of changes, but no suppression.
    """
    finish_time = F.lit(finished_ms).cast("bigint")
    trouble_rows = _trouble_rows(findings, instance_id)
    if earlier_changes is None:
        return _make_all_new(trouble_rows, finish_time)
    earlier_findings = _earlier_findings(earlier_changes)
    earlier_state = F.struct("severity", *_KNOWN_COLUMNS, "first_seen", "was_unseen").alias("was")
    joined_rows = trouble_rows.join(earlier_findings.select("trouble", earlier_state), "trouble", "left")
    matched_rows = joined_rows.select(
        "trouble",
        *_SUBJECT,
        F.col("was.severity").alias("previous_severity"),
        _change_column().alias("change"),
        # Kept apart until it is clear that what is better is not only less looked at.
        *(f"was.{name}" for name in _KNOWN_COLUMNS),
        F.coalesce("was.first_seen", finish_time).alias("first_seen"),
        finish_time.alias("last_seen"),
        "was.was_unseen",
    )
    absent_rows = earlier_findings.join(trouble_rows.select("trouble"), "trouble", "left_anti").select(
        "trouble",
        *_SUBJECT,
        F.col("severity").alias("previous_severity"),
        F.lit(Change.FIXED).alias("change"),
        *_KNOWN_COLUMNS,
        "first_seen",
        "last_seen",
        "was_unseen",
    )
    # Better or gone because less was looked at is neither. Confirmed by now is worse, and may be milder.
    is_claim = (F.col("change") == Change.BETTER) | ((F.col("change") == Change.WORSE) & _is_milder())
    claims = _with_coverage(matched_rows.where(is_claim).unionByName(absent_rows), findings, coverage)
    checked_rows = claims.withColumn(
        "change",
        F.when(F.col("looked"), F.col("change"))
        .when(F.col("change") == Change.BETTER, Change.SAME)
        .when(F.col("change") == Change.WORSE, Change.WORSE)
        .otherwise(Change.UNSEEN),
    )
    rows = matched_rows.where(~is_claim).withColumn("looked", F.lit(True)).unionByName(checked_rows)
    is_milder_unseen = F.col("change").isin(Change.SAME, Change.WORSE) & _is_milder() & ~F.col("looked")
    is_doubted = (F.col("change") == Change.UNSEEN) | is_milder_unseen
    was_sure = (F.col("change") == Change.SAME) & (F.col("known_confidence") == Confidence.CONFIRMED.value)
    return rows.withColumns(
        {
            "known_confidence": F.when(
                (is_doubted & (F.col("change") != Change.WORSE)) | was_sure, F.col("known_confidence")
            ).otherwise(F.col("confidence")),
            "known_severity": F.when(is_doubted, F.col("known_severity")).otherwise(F.col("severity")),
            "known_missing": F.when(is_doubted, F.col("known_missing")).otherwise(F.col("missing")),
        }
    ).drop("looked", "was_unseen")


def _make_all_new(trouble_rows: DataFrame, finish_time: Column) -> DataFrame:
    return trouble_rows.select(
        "trouble",
        *_SUBJECT,
        F.lit(None).cast("string").alias("previous_severity"),
        F.lit(Change.NEW).alias("change"),
        F.col("severity").alias("known_severity"),
        F.col("missing").alias("known_missing"),
        F.col("confidence").alias("known_confidence"),
        finish_time.alias("first_seen"),
        finish_time.alias("last_seen"),
    )


def still_found(changes: DataFrame) -> DataFrame:
    """Return the rows of a table changes that the run of this table found itself."""
    return changes.where(F.col("change").isin(*FOUND))


def _trouble_rows(findings: DataFrame, instance_id: str | None) -> DataFrame:
    is_staged = F.col("id").isin(*STAGES)
    lowest_stage = fingerprints(F.lit(STAGES[0]), instance_id)
    missing_count = F.aggregate("missing.count", F.lit(0).cast("long"), lambda total, count: total + count)
    rows = findings.withColumn("missing", missing_count)
    return rows.withColumn("trouble", F.when(is_staged, lowest_stage).otherwise(F.col("fingerprint"))).select(
        "trouble", *_SUBJECT
    )


def _earlier_findings(earlier_changes: DataFrame) -> DataFrame:
    """Return the findings that the run before knew at its end, one row per trouble: the worst of several."""
    rows = earlier_changes.where(F.col("change") != Change.FIXED)
    if "urgency" not in rows.columns:  # an older run's
        rows = rows.withColumn("urgency", F.lit(Urgency.REST.value))
    was_unseen = (F.col("change") == Change.UNSEEN) | (F.col("known_severity") != F.col("severity"))
    rows = rows.withColumn("was_unseen", was_unseen)
    columns = (*_SUBJECT, *_KNOWN_COLUMNS, "first_seen", "last_seen", "was_unseen")
    worst_row = F.min(F.struct(ranks().alias("rank"), *columns)).alias("worst")
    return rows.groupBy("trouble").agg(worst_row).select("trouble", *(f"worst.{name}" for name in columns))


def _change_column() -> Column:
    rank, earlier_rank = ranks(), ranks("was.known_severity")
    lacks_more = F.col("missing") > F.col("was.known_missing")
    confirmed_word = Confidence.CONFIRMED.value
    # Nobody was woken for a suspect: one that is confirmed by now is worse, and would be if it got milder.
    confirmed = (F.col("confidence") == confirmed_word) & (F.col("was.known_confidence") != confirmed_word)
    return (
        F.when(F.col("was.severity").isNull(), Change.NEW)
        .when((rank < earlier_rank) | ((rank == earlier_rank) & lacks_more) | confirmed, Change.WORSE)
        .when(_is_milder("was."), Change.BETTER)
        .otherwise(Change.SAME)
    )


def _is_milder(prefix: str = "") -> Column:
    """Return whether a finding is milder than the known one: in severity, or else in missing entries."""
    rank, known_rank = ranks(), ranks(f"{prefix}known_severity")
    return (rank > known_rank) | ((rank == known_rank) & (F.col("missing") < F.col(f"{prefix}known_missing")))


def _with_coverage(rows: DataFrame, findings: DataFrame, coverage: RunCoverage) -> DataFrame:
    """Add the column ``looked``: whether this run looked at the facts on which each row's finding rests."""
    read_bookies = coverage.bookies.select("bookie_id", _is_whole().alias("whole"))
    ledgers = rows.where("ledger_id is not null").select(*LEDGER).distinct()
    # First cut down to the few ledgers in question: verdicts has a row for each of the cluster.
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
        findings.where((F.col("id") == UNREADABLE) & F.col("ledger_id").isNotNull())
        .select(*LEDGER, "bookie_id", F.lit(True).alias("unreadable"))
        .distinct()
    )
    unread_ids = unreadable_indexes.select("bookie_id", F.lit(True).alias("unread_index")).distinct()
    return (
        rows.join(verdicts, [*LEDGER], "left")
        .join(F.broadcast(read_bookies), "bookie_id", "left")
        .join(unreadable_indexes, [*LEDGER, "bookie_id"], "left")
        .join(F.broadcast(unread_ids), "bookie_id", "left")
        .withColumn("looked", _was_covered(coverage))
        .drop("judged", "decided", "whole", "unreadable", "unread_index")
    )


def _was_covered(coverage: RunCoverage) -> Column:
    has_no_holes, is_listed = F.lit(not coverage.holes), F.col("judged").isNotNull()
    is_on_marks = F.col("id").isin(*(id for id in BY_ID if of_marks(id)))
    is_deleted = ~is_listed & has_no_holes
    ledger = F.when(F.col("ledger_id").isNull(), True).otherwise(F.coalesce("judged", has_no_holes))
    disks = (
        F.when(F.col("bookie_id").isNull(), F.lit(not coverage.some_unread))
        .when(F.col("whole").isNull(), has_no_holes)
        .otherwise(F.col("whole"))
    )
    # Where a bookie's ledgers are counted, all their copies are looked at only with all bookies.
    is_copy_count_known = has_no_holes & F.lit(not coverage.some_unread)
    is_decided = F.coalesce("decided", F.lit(False)) | is_deleted
    rules: dict[Way, Column] = {
        "records": is_listed | has_no_holes,
        "copies": F.when(F.col("ledger_id").isNull(), is_copy_count_known).otherwise(is_decided),
        "disks": disks & ledger & F.col("unreadable").isNull(),
        "owners": has_no_holes & F.lit(coverage.owners),
    }
    unasked = [
        basis for basis in Basis if basis.table is not None and basis.table not in coverage.asked_tables
    ]
    unseen_checks = [*ids_resting_on(*unasked), *ids_without_check(coverage.not_run)]
    is_carried = F.col("was_unseen") & F.col("id").isin(*ids_without_check(coverage.lost_carried))
    answer = F.when((is_on_marks & ~has_no_holes) | F.col("id").isin(*unseen_checks) | is_carried, False)
    answer = answer.when(
        F.col("id").isin(*filter(of_copies, BY_ID)) & F.col("unread_index").isNotNull(), False
    )
    for is_shown, names in ((of_logs, coverage.unread_logs), (of_ensembles, coverage.unread_records)):
        if names:
            is_unread = F.coalesce(F.col("bookie_id").isin(*sorted(names)), F.lit(True))
            answer = answer.when(F.col("id").isin(*filter(is_shown, BY_ID)) & is_unread, False)
    for way in ("records", "copies", "owners"):
        check_ids = ids_resting_on(*(basis for basis in Basis if basis.way == way))
        answer = answer.when(F.col("id").isin(*check_ids), rules[way])
    return answer.otherwise(rules["disks"])


def _is_whole() -> Column:
    """Return whether a bookie's directories were found and read to the end; answers alone do not count."""
    return F.col("found") & (F.col("read") == BookieRead.READ)


KINDS = (Change.NEW, Change.WORSE, Change.BETTER, Change.FIXED, Change.UNSEEN, Change.SAME)
_NEW, _WORSE, _BETTER, _FIXED, _UNSEEN, _SAME = range(len(KINDS))
_RANKS = {str(severity): severity.rank for severity in Severity}
CONFIDENCES = [str(confidence) for confidence in Confidence]
_CONFIDENCE_CODES = {confidence: position for position, confidence in enumerate(CONFIDENCES)}
_CONFIRMED = _CONFIDENCE_CODES[Confidence.CONFIRMED]


@dataclass(frozen=True)
class Marks:
    """The findings that one run knows, as arrays in the order of its table changes: 18 bytes each, and rows.

    ``trouble`` is the number by which findings of two runs are matched. ``rank`` is that of the severity, 0
    the worst. ``confidence`` is a position in `CONFIDENCES`. ``row`` is the position in the table. ``unseen``
    is True if the run did not see the finding, or did not see it in its known severity.
    """

    trouble: NDArray[np.uint64]
    rank: NDArray[np.int8]
    missing: NDArray[np.int64]
    confidence: NDArray[np.int8]
    row: NDArray[np.int64]
    unseen: NDArray[np.bool_]


@dataclass(frozen=True)
class FindingPairs:
    """Each finding of the new run with its change and its match in the old run; old findings without match.

    ``pair`` are positions in the old `Marks`, -1 for none. ``gone_rows`` are the positions, in the old
    `Marks`, of findings without a match, ascending.
    """

    old: Marks
    new: Marks
    pair: NDArray[np.int64]
    change: NDArray[np.int8]
    gone_rows: NDArray[np.int64]
    gone_change: NDArray[np.int8]

    def counts(self) -> dict[str, int]:
        """Return the number of findings by change."""
        change_counts = np.bincount(self.change, minlength=len(KINDS)) + np.bincount(
            self.gone_change, minlength=len(KINDS)
        )
        return {kind: int(count) for kind, count in zip(KINDS, change_counts, strict=True)}


def marks(batches: Batches, changes: Sequence[str], prefix: str = "") -> Marks:
    """Read the findings of a run with one of these ``changes``: severity, missing entries and confidence.

    ``prefix`` begins the names of these columns: "" for the values that the run found, "known_" for the
    values that it knew at its end.

    Raises `RunError` if no audit can have written the table.
    """
    parts: list[tuple[Any, ...]] = []
    start = 0
    severity, missing, confidence = (f"{prefix}{name}" for name in ("severity", "missing", "confidence"))
    names = dict.fromkeys(["trouble", "change", severity, missing, confidence, "severity", "known_severity"])
    for batch in batches(CHANGED, [*names]):
        rows = np.flatnonzero(among(batch["change"], changes))
        parts.append(
            (
                fingerprint_numbers(batch["trouble"])[rows],
                to_codes(batch[severity], _RANKS)[rows],
                whole(batch[missing])[rows],
                to_codes(batch[confidence], _CONFIDENCE_CODES)[rows],
                rows + start,
                among(batch["change"], [Change.UNSEEN])[rows]
                | to_flags(pc.not_equal(batch["severity"], batch["known_severity"]))[rows],
            )
        )
        start += batch.num_rows
    kinds = (np.uint64, np.int8, np.int64, np.int8, np.int64, np.bool_)
    columns = zip(*parts, strict=True) if parts else ([] for _ in kinds)
    trouble_numbers, rank, missing_count, confidence_codes, row, is_unseen = (
        np.concatenate([np.empty(0, kind), *column]) for kind, column in zip(kinds, columns, strict=True)
    )
    return Marks(trouble_numbers, rank, missing_count, confidence_codes, row, is_unseen)


def pair_findings(
    earlier_batches: Batches,
    current_batches: Batches,
    has_holes: bool,
    skipped_checks: Collection[str] = (),
    lost_carried: Collection[str] = (),
) -> FindingPairs:
    """Compare the findings of two runs; ``has_holes`` is True if the new run's metadata had holes.

    ``skipped_checks`` are the checks that the new run left out, or that saw less in it than in the old one.
    ``lost_carried`` are the checks that saw less in it than in any run before.

    Findings that the old run carried on unseen take part in their last known form.
    """
    earlier_marks = marks(earlier_batches, (*FOUND, Change.UNSEEN), "known_")
    current_marks = marks(current_batches, FOUND)
    order = np.argsort(earlier_marks.trouble, kind="stable")
    pairs = find(earlier_marks.trouble[order], current_marks.trouble)
    is_paired = pairs >= 0
    pairs[is_paired] = order[pairs[is_paired]]
    change = np.full(len(current_marks.trouble), _NEW, np.int8)
    change[is_paired] = _compare_marks(earlier_marks, current_marks, pairs, is_paired)
    gone_rows = np.flatnonzero(find(np.sort(current_marks.trouble), earlier_marks.trouble) < 0)

    better_rows = np.flatnonzero(change == _BETTER)
    # Better or gone because less was looked at is neither.
    findings = subjects(current_batches, current_marks.row[better_rows])
    is_hidden = earlier_marks.unseen[pairs[better_rows]] & of_checks(findings, lost_carried)
    change[better_rows[~covers(current_batches, has_holes, findings, skipped_checks) | is_hidden]] = _SAME
    findings = subjects(earlier_batches, earlier_marks.row[gone_rows])
    is_hidden = earlier_marks.unseen[gone_rows] & of_checks(findings, lost_carried)
    is_fixed = covers(current_batches, has_holes, findings, skipped_checks) & ~is_hidden
    gone_change = np.where(is_fixed, _FIXED, _UNSEEN).astype(np.int8)
    return FindingPairs(earlier_marks, current_marks, pairs, change, gone_rows, gone_change)


def _compare_marks(
    earlier_marks: Marks, current_marks: Marks, pairs: NDArray[np.int64], is_paired: NDArray[np.bool_]
) -> NDArray[np.int8]:
    rank, earlier_rank = current_marks.rank[is_paired], earlier_marks.rank[pairs[is_paired]]
    missing, earlier_missing = current_marks.missing[is_paired], earlier_marks.missing[pairs[is_paired]]
    is_confirmed = (current_marks.confidence[is_paired] == _CONFIRMED) & (
        earlier_marks.confidence[pairs[is_paired]] != _CONFIRMED
    )
    is_worse = (rank < earlier_rank) | ((rank == earlier_rank) & (missing > earlier_missing)) | is_confirmed
    is_better = (rank > earlier_rank) | ((rank == earlier_rank) & (missing < earlier_missing))
    return np.select([is_worse, is_better], [_WORSE, _BETTER], _SAME).astype(np.int8)
