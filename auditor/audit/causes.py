"""Causes of a run's findings: claimed of what its checks say of bookies, then counted over all findings."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.checks import place_of_check
from auditor.findings.causes import COPIES, PROVING, Claim, find_claims, uneven_directories
from auditor.model.finding import Confidence
from auditor.model.run_facts import CauseCount, CauseEvidence, FindingCause
from auditor.spark import functions as F
from auditor.spark.types import DataFrame
from auditor.tables import Tables


def claim_causes(findings: DataFrame, tables: Tables) -> list[Claim]:
    """The causes that findings about bookies prove; what is collected is bounded by bookies.

    ``findings`` are all of the run, before they have their columns ``cause`` and ``fingerprint``.
    """
    proving = findings.where(F.col("id").isin(*PROVING)).select("id", "bookie_id", "confidence", "evidence")
    rows = [row.asDict() for row in proving.collect()]
    return find_claims(rows, tables.roster, _lacking(findings, tables))


def _lacking(findings: DataFrame, tables: Tables) -> dict[str, dict[int, int]]:
    """In how many findings about copies each bookie surely lacks entries, by the place of the ledger."""
    if tables.known_empty.issuperset(id.replace("-", "_") for id in COPIES):
        return {}
    of_copies = findings.where(F.col("id").isin(*COPIES) & (F.col("confidence") != Confidence.SUSPECT))
    uneven = uneven_directories(tables.roster)
    numbers = [F.lit(part) for name, places in uneven.items() for part in (name, len(places))]
    number = F.create_map(*numbers)[F.col("bookie_id")] if numbers else F.lit(None)
    place = F.pmod("ledger_id", F.coalesce(number, F.lit(1)))
    bookies = of_copies.withColumn("bookie_id", F.explode(F.col("missing.bookie_id")))
    found: dict[str, dict[int, int]] = {}
    for row in bookies.groupBy("bookie_id", place.alias("place")).count().collect():
        found.setdefault(row["bookie_id"], {})[row["place"]] = row["count"]
    return found


def count_causes(findings: DataFrame, claims: Sequence[Claim]) -> list[FindingCause]:
    """What follows from each cause, the most urgent first; a cause of nothing is none."""
    if not claims:
        return []
    counted = findings.where("cause is not null").groupBy("cause", "urgency", "severity", "id").count()
    of: dict[int, list[CauseCount]] = {}
    for row in counted.collect():
        count = CauseCount(id=row["id"], urgency=row["urgency"], severity=row["severity"], count=row["count"])
        of.setdefault(row["cause"], []).append(count)
    causes = [_cause(number, claims[number - 1], counts) for number, counts in of.items()]
    return sorted(causes, key=lambda cause: (_place(cause["findings"][0]), -cause["count"], cause["number"]))


def _cause(number: int, claim: Claim, counts: list[CauseCount]) -> FindingCause:
    return FindingCause(
        number=number,
        kind=claim.kind,
        bookies=list(claim.bookies),
        sentence=claim.sentence,
        count=sum(each["count"] for each in counts),
        findings=sorted(counts, key=_place),
        evidence=[CauseEvidence(id=id, bookie_id=bookie) for id, bookie in claim.evidence],
    )


def _place(of: CauseCount) -> tuple[int, int, int, str]:
    return place_of_check(of["urgency"], of["severity"], of["id"])
