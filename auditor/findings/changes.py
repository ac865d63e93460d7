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
    findings: DataFrame, before: DataFrame | None, looked: RunCoverage, instance_id: str | None, finished: int
) -> DataFrame:
    """Return every finding with its change, and the findings of ``before`` that are not found any more.

    ``before`` is the table changes of the run before; None if there is none, so that all findings are new.
    ``finished`` is the end of this run, ms. The columns are those of the table changes without suppressions.
    """
    moment = F.lit(finished).cast("bigint")
    troubles = _troubles(findings, instance_id)
    if before is None:
        return _all_new(troubles, moment)
    earlier = _earlier_findings(before)
    was = F.struct("severity", *_KNOWN_COLUMNS, "first_seen", "was_unseen").alias("was")
    met = troubles.join(earlier.select("trouble", was), "trouble", "left")
    matches = met.select(
        "trouble",
        *_SUBJECT,
        F.col("was.severity").alias("previous_severity"),
        _change().alias("change"),
        # Kept apart until it is clear that what is better is not only less looked at.
        *(f"was.{name}" for name in _KNOWN_COLUMNS),
        F.coalesce("was.first_seen", moment).alias("first_seen"),
        moment.alias("last_seen"),
        "was.was_unseen",
    )
    absent_rows = earlier.join(troubles.select("trouble"), "trouble", "left_anti").select(
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
    is_claim = (F.col("change") == Change.BETTER) | ((F.col("change") == Change.WORSE) & _milder())
    claimed = _with_coverage(matches.where(is_claim).unionByName(absent_rows), findings, looked)
    honest = claimed.withColumn(
        "change",
        F.when(F.col("looked"), F.col("change"))
        .when(F.col("change") == Change.BETTER, Change.SAME)
        .when(F.col("change") == Change.WORSE, Change.WORSE)
        .otherwise(Change.UNSEEN),
    )
    rows = matches.where(~is_claim).withColumn("looked", F.lit(True)).unionByName(honest)
    is_milder_unseen = F.col("change").isin(Change.SAME, Change.WORSE) & _milder() & ~F.col("looked")
    doubted = (F.col("change") == Change.UNSEEN) | is_milder_unseen
    sure = (F.col("change") == Change.SAME) & (F.col("known_confidence") == Confidence.CONFIRMED.value)
    return rows.withColumns(
        {
            "known_confidence": F.when(
                (doubted & (F.col("change") != Change.WORSE)) | sure, F.col("known_confidence")
            ).otherwise(F.col("confidence")),
            "known_severity": F.when(doubted, F.col("known_severity")).otherwise(F.col("severity")),
            "known_missing": F.when(doubted, F.col("known_missing")).otherwise(F.col("missing")),
        }
    ).drop("looked", "was_unseen")


def _all_new(troubles: DataFrame, moment: Column) -> DataFrame:
    return troubles.select(
        "trouble",
        *_SUBJECT,
        F.lit(None).cast("string").alias("previous_severity"),
        F.lit(Change.NEW).alias("change"),
        F.col("severity").alias("known_severity"),
        F.col("missing").alias("known_missing"),
        F.col("confidence").alias("known_confidence"),
        moment.alias("first_seen"),
        moment.alias("last_seen"),
    )


def still_found(changes: DataFrame) -> DataFrame:
    """Return the rows of a table changes that the run of this table found itself."""
    return changes.where(F.col("change").isin(*FOUND))


def _troubles(findings: DataFrame, instance_id: str | None) -> DataFrame:
    staged = F.col("id").isin(*STAGES)
    mildest = fingerprints(F.lit(STAGES[0]), instance_id)
    absent = F.aggregate("missing.count", F.lit(0).cast("long"), lambda total, count: total + count)
    narrow = findings.withColumn("missing", absent)
    return narrow.withColumn("trouble", F.when(staged, mildest).otherwise(F.col("fingerprint"))).select(
        "trouble", *_SUBJECT
    )


def _earlier_findings(before: DataFrame) -> DataFrame:
    """Return the findings that the run before knew at its end, one row per trouble: the worst of several."""
    rows = before.where(F.col("change") != Change.FIXED)
    if "urgency" not in rows.columns:  # an older run's
        rows = rows.withColumn("urgency", F.lit(Urgency.REST.value))
    was_unseen = (F.col("change") == Change.UNSEEN) | (F.col("known_severity") != F.col("severity"))
    rows = rows.withColumn("was_unseen", was_unseen)
    columns = (*_SUBJECT, *_KNOWN_COLUMNS, "first_seen", "last_seen", "was_unseen")
    worst = F.min(F.struct(ranks().alias("rank"), *columns)).alias("worst")
    return rows.groupBy("trouble").agg(worst).select("trouble", *(f"worst.{name}" for name in columns))


def _change() -> Column:
    rank, was = ranks(), ranks("was.known_severity")
    lacks_more = F.col("missing") > F.col("was.known_missing")
    sure = Confidence.CONFIRMED.value
    # Nobody was woken for a suspect: one that is confirmed by now is worse, and would be if it got milder.
    confirmed = (F.col("confidence") == sure) & (F.col("was.known_confidence") != sure)
    return (
        F.when(F.col("was.severity").isNull(), Change.NEW)
        .when((rank < was) | ((rank == was) & lacks_more) | confirmed, Change.WORSE)
        .when(_milder("was."), Change.BETTER)
        .otherwise(Change.SAME)
    )


def _milder(was: str = "") -> Column:
    """Return whether a finding is milder than the known one: in severity, or else in missing entries."""
    rank, known_rank = ranks(), ranks(f"{was}known_severity")
    return (rank > known_rank) | ((rank == known_rank) & (F.col("missing") < F.col(f"{was}known_missing")))


def _with_coverage(rows: DataFrame, findings: DataFrame, looked: RunCoverage) -> DataFrame:
    """Add the column ``looked``: whether this run looked at the facts on which each row's finding rests."""
    whole = looked.bookies.select("bookie_id", _whole().alias("whole"))
    ledgers = rows.where("ledger_id is not null").select(*LEDGER).distinct()
    # First cut down to the few ledgers in question: verdicts has a row for each of the cluster.
    verdicts = (
        looked.verdicts.join(ledgers, [*LEDGER], "left_semi")
        .groupBy(*LEDGER)
        .agg(
            F.min(F.col("class") != LedgerClass.UNDECIDED).alias("judged"),
            F.min(
                (F.col("class") != LedgerClass.UNDECIDED) & (F.col("class") == F.col("potential_class"))
            ).alias("decided"),
        )
    )
    unreadable = (
        findings.where((F.col("id") == UNREADABLE) & F.col("ledger_id").isNotNull())
        .select(*LEDGER, "bookie_id", F.lit(True).alias("unreadable"))
        .distinct()
    )
    unread_index = unreadable.select("bookie_id", F.lit(True).alias("unread_index")).distinct()
    return (
        rows.join(verdicts, [*LEDGER], "left")
        .join(F.broadcast(whole), "bookie_id", "left")
        .join(unreadable, [*LEDGER, "bookie_id"], "left")
        .join(F.broadcast(unread_index), "bookie_id", "left")
        .withColumn("looked", _was_looked_at(looked))
        .drop("judged", "decided", "whole", "unreadable", "unread_index")
    )


def _was_looked_at(looked: RunCoverage) -> Column:
    no_holes, listed = F.lit(not looked.holes), F.col("judged").isNotNull()
    marked = F.col("id").isin(*(id for id in BY_ID if of_marks(id)))
    is_deleted = ~listed & no_holes
    ledger = F.when(F.col("ledger_id").isNull(), True).otherwise(F.coalesce("judged", no_holes))
    disks = (
        F.when(F.col("bookie_id").isNull(), F.lit(not looked.some_unread))
        .when(F.col("whole").isNull(), no_holes)
        .otherwise(F.col("whole"))
    )
    # Where a bookie's ledgers are counted, all their copies are looked at only with all bookies.
    counted = no_holes & F.lit(not looked.some_unread)
    decided = F.coalesce("decided", F.lit(False)) | is_deleted
    rules: dict[Way, Column] = {
        "records": listed | no_holes,
        "copies": F.when(F.col("ledger_id").isNull(), counted).otherwise(decided),
        "disks": disks & ledger & F.col("unreadable").isNull(),
        "owners": no_holes & F.lit(looked.owners),
    }
    unasked = [basis for basis in Basis if basis.table is not None and basis.table not in looked.asked_tables]
    unseen = [*ids_resting_on(*unasked), *ids_without_check(looked.not_run)]
    carried = F.col("was_unseen") & F.col("id").isin(*ids_without_check(looked.lost_carried))
    answer = F.when((marked & ~no_holes) | F.col("id").isin(*unseen) | carried, False)
    answer = answer.when(
        F.col("id").isin(*filter(of_copies, BY_ID)) & F.col("unread_index").isNotNull(), False
    )
    for is_shown, names in ((of_logs, looked.unread_logs), (of_ensembles, looked.unread_records)):
        if names:
            is_unread = F.coalesce(F.col("bookie_id").isin(*sorted(names)), F.lit(True))
            answer = answer.when(F.col("id").isin(*filter(is_shown, BY_ID)) & is_unread, False)
    for way in ("records", "copies", "owners"):
        resting = ids_resting_on(*(basis for basis in Basis if basis.way == way))
        answer = answer.when(F.col("id").isin(*resting), rules[way])
    return answer.otherwise(rules["disks"])


def _whole() -> Column:
    """Return whether a bookie's directories were found and read to the end; answers alone do not count."""
    return F.col("found") & (F.col("read") == BookieRead.READ)


KINDS = (Change.NEW, Change.WORSE, Change.BETTER, Change.FIXED, Change.UNSEEN, Change.SAME)
_NEW, _WORSE, _BETTER, _FIXED, _UNSEEN, _SAME = range(len(KINDS))
_RANKS = {str(severity): severity.rank for severity in Severity}
CONFIDENCES = [str(confidence) for confidence in Confidence]
_SURE = {confidence: place for place, confidence in enumerate(CONFIDENCES)}
_CONFIRMED = _SURE[Confidence.CONFIRMED]


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
        total = np.bincount(self.change, minlength=len(KINDS)) + np.bincount(
            self.gone_change, minlength=len(KINDS)
        )
        return {kind: int(count) for kind, count in zip(KINDS, total, strict=True)}


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
                to_codes(batch[confidence], _SURE)[rows],
                rows + start,
                among(batch["change"], [Change.UNSEEN])[rows]
                | to_flags(pc.not_equal(batch["severity"], batch["known_severity"]))[rows],
            )
        )
        start += batch.num_rows
    kinds = (np.uint64, np.int8, np.int64, np.int8, np.int64, np.bool_)
    columns = zip(*parts, strict=True) if parts else ([] for _ in kinds)
    trouble, rank, absent, sure, row, unseen = (
        np.concatenate([np.empty(0, kind), *column]) for kind, column in zip(kinds, columns, strict=True)
    )
    return Marks(trouble, rank, absent, sure, row, unseen)


def pair_findings(
    old: Batches,
    new: Batches,
    holes: bool,
    not_run: Collection[str] = (),
    lost_carried: Collection[str] = (),
) -> FindingPairs:
    """Compare the findings of two runs; ``holes`` is True if the new run's listings of metadata had holes.

    ``not_run`` are the checks that the new run left out, or that saw less in it than in the old one.
    ``lost_carried`` are the checks that saw less in it than in any run before.

    Findings that the old run carried on unseen take part in their last known form.
    """
    before = marks(old, (*FOUND, Change.UNSEEN), "known_")
    after = marks(new, FOUND)
    order = np.argsort(before.trouble, kind="stable")
    pair = find(before.trouble[order], after.trouble)
    met = pair >= 0
    pair[met] = order[pair[met]]
    change = np.full(len(after.trouble), _NEW, np.int8)
    change[met] = _compare_marks(before, after, pair, met)
    gone_rows = np.flatnonzero(find(np.sort(after.trouble), before.trouble) < 0)

    better = np.flatnonzero(change == _BETTER)
    # Better or gone because less was looked at is neither.
    findings = subjects(new, after.row[better])
    hidden = before.unseen[pair[better]] & of_checks(findings, lost_carried)
    change[better[~covers(new, holes, findings, not_run) | hidden]] = _SAME
    findings = subjects(old, before.row[gone_rows])
    hidden = before.unseen[gone_rows] & of_checks(findings, lost_carried)
    fixed = covers(new, holes, findings, not_run) & ~hidden
    gone_change = np.where(fixed, _FIXED, _UNSEEN).astype(np.int8)
    return FindingPairs(before, after, pair, change, gone_rows, gone_change)


def _compare_marks(
    before: Marks, after: Marks, pair: NDArray[np.int64], met: NDArray[np.bool_]
) -> NDArray[np.int8]:
    rank, was = after.rank[met], before.rank[pair[met]]
    missing, had = after.missing[met], before.missing[pair[met]]
    confirmed = (after.confidence[met] == _CONFIRMED) & (before.confidence[pair[met]] != _CONFIRMED)
    worse = (rank < was) | ((rank == was) & (missing > had)) | confirmed
    better = (rank > was) | ((rank == was) & (missing < had))
    return np.select([worse, better], [_WORSE, _BETTER], _SAME).astype(np.int8)
