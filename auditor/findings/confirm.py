"""How sure a finding is, once the second scan of a live store, and the run before, have been read.

A finding about a ledger is confirmed only if the ledger stood at one version in both scans. A ledger that
changed in between may have been closed, repaired or moved while the bookies were read; one that was deleted
in between has nothing left to lose, and what bookies still hold of it is a matter for garbage collection.
Findings about a bookie that count ledgers count those that
moved apart from the others, for themselves.
One that the second scan may only have missed was not seen to go: what was found of it stays, in doubt.

Two runs confirm what one leaves suspect, where time heals every doubt that the finding has: a suspect of a
live store is confirmed if the run before found it too, and

    version    the ledger stands where it stood then: a closed ledger gets no entries without a new version;
    missing    each bookie that lacks entries lacked exactly these then;
    index      what is known of each of these bookies is newer than that run, by more than the grace period:
               whatever was written to the ledger was written before that run saw it, and an index that is
               newer shows it. The ledger's own time plays no part, so that this holds where the store keeps
               none (a live etcd), or by a clock that is wrong;
    doubts     none is left that a newer look cannot answer (`auditor.tables.doubts`).

A finding that the run before confirmed counts like one that it suspected. In a row of runs that saw the same
the first one counts: its time is carried on in the evidence, ``earlier_run``. What moved between the two
scans of this run stays suspect. Of saved metadata nobody knows the moment: there clocks decide alone.
"""

from __future__ import annotations

from typing import NamedTuple

from auditor.checks.finding_rows import utc
from auditor.model.columns import LEDGER
from auditor.model.finding import Confidence
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables.scans import unsettled_ledgers

OF_DELETED = ("orphan-ledger-deleting",)
"""Checks that speak of ledgers which were deleted between the scans."""


def confirm(findings: DataFrame, moved: DataFrame | None) -> DataFrame:
    """Withdraw findings of ledgers that were deleted between the scans; doubt those of changed ones.

    ``moved`` is what two scans of a live store differ in (`auditor.tables.scans`), None where one scan stands
    for both.
    """
    if moved is None:
        return findings
    concerned = ~F.col("id").isin(*OF_DELETED)
    rows = findings.join(unsettled_ledgers(moved), [*LEDGER], "left")
    kept = rows.where(~(concerned & F.coalesce("deleted", F.lit(False))))
    changed = concerned & F.col("deleted").isNotNull()
    doubted = changed & (F.col("confidence") == Confidence.CONFIRMED.value)
    confidence = F.when(doubted, Confidence.SUSPECT.value).otherwise(F.col("confidence"))
    return kept.withColumn("confidence", confidence).drop("deleted")


_SUBJECT = ["id", *LEDGER, "version"]
_RUN = "name string, finished bigint"


class EarlierFindings(NamedTuple):
    """The findings of the run before, and that run's name and end, ms."""

    rows: DataFrame
    name: str
    finished: int


def healing_suspects(findings: DataFrame) -> DataFrame:
    """The suspects among the findings of which time heals every doubt."""
    return findings.where(_healing())


def confirm_by_two_runs(
    findings: DataFrame, earlier: EarlierFindings, moved: DataFrame, bookies: DataFrame, grace_ms: int
) -> DataFrame:
    """``findings``, with those confirmed that two runs have seen; all others stay as they are.

    ``moved`` is what two scans of this run differ in (`auditor.tables.scans`), ``bookies`` its table of that
    name, which says how new each index is.
    """
    suspects = _with_version(healing_suspects(findings))
    then = _with_version(earlier.rows.where("ledger_id is not null and bookie_id is null"))
    own = F.struct(F.lit(earlier.name).alias("name"), F.lit(earlier.finished).alias("finished"))
    first = F.coalesce(F.from_json(F.get_json_object("evidence", "$.earlier_run"), _RUN), own)
    then = then.where(F.col("confidence") != Confidence.UNKNOWN.value).select(
        *_SUBJECT, F.col("missing").alias("was_missing"), first.alias("first")
    )
    changed = unsettled_ledgers(moved).select(*LEDGER, F.lit(True).alias("changed"))
    times = bookies.where("index_time is not null").agg(
        F.map_from_entries(F.collect_list(F.struct("bookie_id", "index_time"))).alias("times")
    )
    met = suspects.join(then, _SUBJECT, "left").join(changed, [*LEDGER], "left").crossJoin(F.broadcast(times))
    seen = F.col("first").isNotNull() & F.col("changed").isNull() & _lacked_then()
    judged = _with_earlier_run(
        met, F.coalesce(seen, F.lit(False)), F.coalesce(_newer(grace_ms), F.lit(False))
    )
    return findings.where(~_healing()).unionByName(judged.select(*findings.columns))


def _healing() -> Column:
    lasting = F.get_json_object("evidence", "$.lasting_doubts")
    some = F.get_json_object("evidence", "$.doubts") != "[]"
    suspect = F.col("confidence") == Confidence.SUSPECT.value
    return F.coalesce(suspect & some & (lasting == "[]"), F.lit(False))


def _with_version(findings: DataFrame) -> DataFrame:
    """With the ``version`` of the ledger in the first scan; null, which equals none, where it is not said."""
    return findings.withColumn("version", F.get_json_object("evidence", "$.metadata_version"))


def _lacked_then() -> Column:
    def same(now: Column) -> Column:
        return F.exists(
            "was_missing", lambda was: (was.bookie_id == now.bookie_id) & (was.groups == now.groups)
        )

    return F.forall("missing", same)


def _newer(grace_ms: int) -> Column:
    after = F.col("first.finished") + grace_ms
    return F.forall("missing", lambda now: F.try_element_at("times", now.bookie_id) > after)


def _with_earlier_run(rows: DataFrame, seen: Column, newer: Column) -> DataFrame:
    """The rows with what an earlier run's look changes: evidence where it is the same, and how sure it is."""
    run = F.to_json("first")
    carried = F.concat(
        F.expr("left(evidence, length(evidence) - 1)"), F.lit(',"earlier_run":'), run, F.lit("}")
    )
    words = F.concat(
        "message",
        F.lit("; seen by the run of "),
        utc(F.col("first.finished")),
        F.lit(" at the same version, with an older index"),
    )
    sure = seen & newer
    return rows.withColumns(
        {
            "evidence": F.when(seen, carried).otherwise(F.col("evidence")),
            "message": F.when(sure, words).otherwise(F.col("message")),
            "confidence": F.when(sure, Confidence.CONFIRMED.value).otherwise(F.col("confidence")),
        }
    )
