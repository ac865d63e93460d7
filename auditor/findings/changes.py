"""The table changes: this run's findings joined with those of the run before, in Spark.

Findings may be tens of millions, so nothing is collected; `auditor.findings.compare` says the same of two
finished runs without Spark. What makes a finding fixed or unseen is decided in `auditor.findings.basis`.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from auditor.checks import BY_ID, Basis
from auditor.checks.check import Way
from auditor.findings.basis import STAGES, UNREADABLE, ids_resting_on, of_marks
from auditor.findings.table import fingerprints, ranks
from auditor.model.columns import LEDGER
from auditor.model.finding import Confidence, Urgency
from auditor.model.states import FOUND, BookieRead, Change, LedgerClass
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame

_SUBJECT = (
    "fingerprint", "id", "urgency", "severity", "confidence", "scope_id", "ledger_id", "bookie_id", "missing",
)  # fmt: skip
_KNOWN = ("known_severity", "known_missing", "known_confidence")


@dataclass(frozen=True)
class RunCoverage:
    """What this run looked at: its tables verdicts and bookies; whether its listings had holes, whether some
    bookie was unread, whether all owners were read; the tables of a `Basis` that it was asked for."""

    verdicts: DataFrame
    bookies: DataFrame
    holes: bool
    some_unread: bool
    owners: bool = False
    asked: Set[str] = frozenset()


def findings_with_changes(
    findings: DataFrame, before: DataFrame | None, looked: RunCoverage, instance_id: str | None, finished: int
) -> DataFrame:
    """Every finding with its change, and the rows of ``before`` that are found no more.

    ``before`` is the table changes of the run before; None where there is none, so that all is new.
    ``finished`` is the end of this run, ms. The columns are those of the table but for its suppressions.
    """
    moment = F.lit(finished).cast("bigint")
    now = _troubles(findings, instance_id)
    if before is None:
        return _all_new(now, moment)
    known = _earlier_findings(before)
    was = F.struct("severity", *_KNOWN, "first_seen").alias("was")
    met = now.join(known.select("trouble", was), "trouble", "left")
    found = met.select(
        "trouble",
        *_SUBJECT,
        F.col("was.severity").alias("previous_severity"),
        _change().alias("change"),
        # Kept apart until it is clear that what is better is not only less looked at.
        *(f"was.{name}" for name in _KNOWN),
        F.coalesce("was.first_seen", moment).alias("first_seen"),
        moment.alias("last_seen"),
    )
    gone = known.join(now.select("trouble"), "trouble", "left_anti").select(
        "trouble",
        *_SUBJECT,
        F.col("severity").alias("previous_severity"),
        F.lit(Change.FIXED).alias("change"),
        *_KNOWN,
        "first_seen",
        "last_seen",
    )
    # Better or gone because less was looked at is neither.
    claimed = _with_coverage(
        found.where(F.col("change") == Change.BETTER).unionByName(gone), findings, looked
    )
    honest = claimed.withColumn(
        "change",
        F.when(F.col("looked"), F.col("change"))
        .when(F.col("change") == Change.BETTER, Change.SAME)
        .otherwise(Change.UNSEEN),
    ).drop("looked")
    rows = found.where(F.col("change") != Change.BETTER).unionByName(honest)
    doubted = (F.col("change") == Change.UNSEEN) | ((F.col("change") == Change.SAME) & _milder())
    sure = (F.col("change") == Change.SAME) & (F.col("known_confidence") == Confidence.CONFIRMED.value)
    return rows.withColumns(
        {
            "known_confidence": F.when(doubted | sure, F.col("known_confidence")).otherwise(
                F.col("confidence")
            ),
            "known_severity": F.when(doubted, F.col("known_severity")).otherwise(F.col("severity")),
            "known_missing": F.when(doubted, F.col("known_missing")).otherwise(F.col("missing")),
        }
    )


def _all_new(now: DataFrame, moment: Column) -> DataFrame:
    return now.select(
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
    """The rows of a table changes that its own run found."""
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
    """What the run before left known, one row a trouble; of several the worst."""
    rows = before.where(F.col("change") != Change.FIXED)
    if "urgency" not in rows.columns:  # an older run's
        rows = rows.withColumn("urgency", F.lit(Urgency.REST.value))
    columns = (*_SUBJECT, *_KNOWN, "first_seen", "last_seen")
    worst = F.min(F.struct(ranks().alias("rank"), *columns)).alias("worst")
    return rows.groupBy("trouble").agg(worst).select("trouble", *(f"worst.{name}" for name in columns))


def _change() -> Column:
    rank, was = ranks(), ranks("was.known_severity")
    more = F.col("missing") > F.col("was.known_missing")
    sure = Confidence.CONFIRMED.value
    # Nobody was woken for a suspect: one that is confirmed by now is worse, and would be if it got milder.
    confirmed = (F.col("confidence") == sure) & (F.col("was.known_confidence") != sure)
    return (
        F.when(F.col("was.severity").isNull(), Change.NEW)
        .when((rank < was) | ((rank == was) & more) | confirmed, Change.WORSE)
        .when(_milder("was."), Change.BETTER)
        .otherwise(Change.SAME)
    )


def _milder(was: str = "") -> Column:
    """Whether a finding is less bad than what was known; of a lower rank it may lack more entries."""
    rank, known = ranks(), ranks(f"{was}known_severity")
    return (rank > known) | ((rank == known) & (F.col("missing") < F.col(f"{was}known_missing")))


def _with_coverage(rows: DataFrame, findings: DataFrame, looked: RunCoverage) -> DataFrame:
    """``rows`` with the column ``looked``: whether what each rests on was looked at in this run."""
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
    return (
        rows.join(verdicts, [*LEDGER], "left")
        .join(F.broadcast(whole), "bookie_id", "left")
        .join(unreadable, [*LEDGER, "bookie_id"], "left")
        .withColumn("looked", _was_looked_at(looked))
        .drop("judged", "decided", "whole", "unreadable")
    )


def _was_looked_at(looked: RunCoverage) -> Column:
    no_holes, listed = F.lit(not looked.holes), F.col("judged").isNotNull()
    marked = F.col("id").isin(*(id for id in BY_ID if of_marks(id)))
    gone = ~listed & no_holes
    ledger = F.when(F.col("ledger_id").isNull(), True).otherwise(F.coalesce("judged", no_holes))
    disks = (
        F.when(F.col("bookie_id").isNull(), F.lit(not looked.some_unread))
        .when(F.col("whole").isNull(), no_holes)
        .otherwise(F.col("whole"))
    )
    # Where a bookie's ledgers are counted, all their copies are looked at only with all bookies.
    counted = no_holes & F.lit(not looked.some_unread)
    decided = F.coalesce("decided", F.lit(False)) | gone
    rules: dict[Way, Column] = {
        "records": listed | no_holes,
        "copies": F.when(F.col("ledger_id").isNull(), counted).otherwise(decided),
        "disks": disks & ledger & F.col("unreadable").isNull(),
        "owners": no_holes & F.lit(looked.owners),
    }
    unasked = [each for each in Basis if each.table is not None and each.table not in looked.asked]
    answer = F.when((marked & ~no_holes) | F.col("id").isin(*ids_resting_on(*unasked)), False)
    for way in ("records", "copies", "owners"):
        resting = ids_resting_on(*(each for each in Basis if each.way == way))
        answer = answer.when(F.col("id").isin(*resting), rules[way])
    return answer.otherwise(rules["disks"])


def _whole() -> Column:
    """Whether a bookie's directories were found and read to the end; its own answers are less than that."""
    return F.col("found") & (F.col("read") == BookieRead.READ)
