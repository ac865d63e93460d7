"""Known gaps: what of a run's undecided part somebody has accepted, by entries of the suppressions file.

A bookie that never comes back, or an index that stays damaged, leaves the same replicas undecided every
night. Once the finding that says so is suppressed, with a reason and a last day, those replicas are accepted:
they stay undecided, and the report keeps saying so, but they do not make the exit code 3.
"""

from __future__ import annotations

from auditor.audit.changes import RunChanges
from auditor.checks import ALL
from auditor.model.columns import LEDGER
from auditor.model.run_facts import AcceptedGaps
from auditor.model.states import LedgerClass
from auditor.spark import functions as F
from auditor.spark.types import DataFrame
from auditor.tables import Tables

UNREAD = "bookie-unread"

EXPLAINING = frozenset(
    {
        UNREAD,
        "replication-undecided",
        "index-unreadable",
        "ledger-not-indexed",
        "ledgers-in-limbo",
        "ledgers-in-wrong-directory",
    }
    | {check.id for check in ALL if check.group == "metadata"}
)
"""The checks that say why something is undecided: a suppression of any other accepts no gap."""

NOTHING_ACCEPTED: AcceptedGaps = {"bookies": [], "ledgers": 0, "replicas": 0}


def find_accepted_gaps(compared: RunChanges, tables: Tables) -> AcceptedGaps:
    """What suppressed findings explain of the bookies, ledgers and replicas that are not decided.

    A finding about a ledger explains that ledger (on its bookie, where it names one); one about a bookie
    alone all that is unknown there. A ledger is accepted where each of its unknown copies is.
    """
    if not any(each.id in EXPLAINING and each.suppression is not None for each in compared.counts):
        return NOTHING_ACCEPTED
    known = compared.changes.where(F.col("suppression").isNotNull() & F.col("id").isin(*EXPLAINING))
    rows = known.where("ledger_id is null and bookie_id is not null").select("id", "bookie_id").collect()
    bookies = sorted({row["bookie_id"] for row in rows})
    about = known.where("ledger_id is not null").select(*LEDGER, F.col("bookie_id").alias("on")).distinct()
    copies = _copies(tables.judged, bookies, about)
    undecided = tables.verdicts.where(
        f"class <> potential_class or class = '{LedgerClass.UNDECIDED}'"
    ).select(*LEDGER, (F.col("class") == LedgerClass.UNDECIDED).alias("unjudged"))
    whole = copies.groupBy(*LEDGER).agg(F.min("accepted").alias("accepted"))
    named = about.select(*LEDGER).distinct().withColumn("named", F.lit(True))
    [ledgers] = (
        undecided.join(whole, [*LEDGER], "left")
        .join(named, [*LEDGER], "left")
        .agg(F.count_if(F.when(F.col("unjudged"), F.col("named")).otherwise(F.col("accepted"))))
        .collect()
    )
    [replicas] = copies.agg(F.count_if("accepted")).collect()
    unread = sorted({row["bookie_id"] for row in rows if row["id"] == UNREAD})
    return {"bookies": unread, "ledgers": ledgers[0], "replicas": replicas[0]}


def _copies(judged: DataFrame, bookies: list[str], about: DataFrame) -> DataFrame:
    """Every replica of which something is unknown, and whether that is accepted."""
    unknown = judged.select(*LEDGER, F.explode("unknown").alias("copy"))
    each = unknown.select(*LEDGER, F.col("copy.bookie_id").alias("bookie_id"))
    on_ledgers = about.groupBy(*LEDGER).agg(
        F.max(F.col("on").isNull()).alias("anywhere"), F.collect_set("on").alias("places")
    )
    joined = each.join(on_ledgers, [*LEDGER], "left")
    accepted = F.col("bookie_id").isin(*bookies) if bookies else F.lit(False)
    named = F.col("anywhere") | F.array_contains("places", F.col("bookie_id"))
    return joined.select(*LEDGER, (accepted | F.coalesce(named, F.lit(False))).alias("accepted"))
